"""A model → requests/s, latency and resilience of the service on loopback. Run: serve.py [MODEL [N]]

Clients, in a process of their own, ask /v1/embed for one sentence a time, N requests one after the other, as npy.
Services with and without batching run in turn, several times each; "ratio" compares the medians of the two, "scaling"
those of a service with its own rate for one client. The second table has the slowest answer of /health during attacks.
"""

import json
import random
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from multiprocessing import get_context

import stelmo
from stelmo.settings import ServeSettings

CLIENTS, ROUNDS = (1, 4, 16), 3  # clients at once, times that each service is measured
FLOOD = 32  # clients of a service that takes on 8 requests
ATTACK = 5.0  # seconds of each attack
HEADERS = {"Content-Type": "application/json", "Accept": "application/x-npy"}
BATCHED = ServeSettings()
ALONE = ServeSettings(batch_tokens=1, batch_wait=0)


def bodies(seed: int) -> Iterator[bytes]:
    """Sentences of about 20 words, common words common."""
    chance = random.Random(seed)
    while True:
        words = [f"word{int(5000 ** chance.random())}" for _ in range(chance.randint(5, 35))]
        yield json.dumps({"sentences": [words], "layer": "top"}).encode()


@contextmanager
def served(model: stelmo.Model, settings: ServeSettings) -> Iterator[int]:
    """The port of a running service."""
    from stelmo.serve import service  # here: the process of the clients needs no torch
    from stelmo.serve.app import app

    with service.listen("127.0.0.1", 0) as listening:
        server = service.server(app(model, settings), listening, lambda address: None, settings)
        thread = threading.Thread(target=server.run, args=[[listening]])
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


def client(port: int, seed: int, requests: int) -> list[tuple[int, float]]:
    """Status and seconds of each request."""
    found, connection = [], HTTPConnection("127.0.0.1", port)
    for _, body in zip(range(requests), bodies(seed), strict=False):
        start = time.perf_counter()
        connection.request("POST", "/v1/embed", body, HEADERS)
        answer = connection.getresponse()
        answer.read()
        found.append((answer.status, time.perf_counter() - start))
    connection.close()
    return found


def load(port: int, clients: int, requests: int) -> tuple[float, list[tuple[int, float]]]:
    """Requests a second, and each one's status and seconds."""
    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(lambda seed: client(port, seed, requests), range(clients)))
    answers = [answer for part in found for answer in part]
    return len(answers) / (time.perf_counter() - start), answers


def compare(model: stelmo.Model, other: Executor, clients: int, requests: int, single: dict[str, float]) -> None:
    """Interleaved, since machines are noisy. `single` has the rates of one client; the first call fills it."""
    rates: dict[str, list[float]] = {"one by one": [], "batched": []}
    seconds: dict[str, list[float]] = {name: [] for name in rates}
    for _ in range(ROUNDS):
        for name, settings in (("one by one", ALONE), ("batched", BATCHED)):
            with served(model, settings) as port:
                rate, answers = other.submit(load, port, clients, requests).result()
            assert {status for status, _ in answers} == {200}
            rates[name].append(rate)
            seconds[name] += [taken for _, taken in answers]
    slow = statistics.median(rates["one by one"])
    for name, found in rates.items():
        rate, taken = statistics.median(found), statistics.quantiles(seconds[name], n=100)
        scaling = rate / single.setdefault(name, rate)
        figures = (
            f"{rate:,.1f} | {taken[49] * 1000:,.0f} ms | {taken[98] * 1000:,.0f} ms | {rate / slow:.2f} | {scaling:.2f}"
        )
        print(f"| {clients} | {name} | {figures} |", flush=True)


def health(port: int, until: float) -> list[float]:
    """Seconds of each answer of /health until the time, each on a connection of its own."""
    found = []
    while time.time() < until:
        start, connection = time.perf_counter(), HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        found.append(time.perf_counter() - start)
        time.sleep(0.02)
    return found


def tokenizing(port: int, text: str, until: float) -> Counter[str]:
    """Statuses of /v1/tokenize, asked for one text again and again."""
    statuses = Counter[str]()
    while time.time() < until:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v1/tokenize", json.dumps({"text": text}), HEADERS)
        statuses[str(connection.getresponse().status)] += 1
        connection.close()
    return statuses


def stalling(port: int, start: bytes, until: float) -> Counter[str]:
    """A connection that sends the start of a request and then nothing."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as open_:
        open_.sendall(start)
        time.sleep(max(0.0, until - time.time()))
    return Counter({"stalled": 1})


def flooding(port: int, seed: int, until: float) -> Counter[str]:
    statuses = Counter[str]()
    while time.time() < until:
        statuses.update(str(status) for status, _ in client(port, seed, 1))
    return statuses


def attack(port: int, kind: str) -> tuple[list[float], Counter[str]]:
    """Seconds of the answers of /health while the attack lasts, and how its requests ended."""
    until = time.time() + ATTACK
    body = (
        b"POST /v1/embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    )
    attackers: dict[str, list[Callable[[], Counter[str]]]] = {
        "none": [],
        "worst text": [partial(tokenizing, port, '?"' * 150_000, until)] * 3,
        "slow bodies": [partial(stalling, port, body, until)] * 64,
        "slow headers": [partial(stalling, port, b"GET /health HTTP/1.1\r\nHost: loc", until)] * 64,
        "overload": [partial(flooding, port, seed, until) for seed in range(FLOOD)],
    }
    with ThreadPoolExecutor(len(attackers[kind]) + 1) as pool:
        asked = pool.submit(health, port, until)
        ended = [pool.submit(attacker) for attacker in attackers[kind]]
        return asked.result(), sum((one.result() for one in ended), Counter[str]())


def main(name: str | None = None, requests: str = "40") -> None:
    model = stelmo.load(name)
    print(f"{requests} requests of each client, median of {ROUNDS} rounds; scaling: against 1 client")
    print("| clients | service | requests/s | p50 | p99 | ratio | scaling |\n|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        single: dict[str, float] = {}
        for clients in CLIENTS:
            compare(model, other, clients, int(requests), single)
        print(
            f"\n| attack of {ATTACK:g} s | /health, p50 | /health, slowest | attackers' requests |\n|---|---|---|---|"
        )
        for kind in ("none", "worst text", "slow bodies", "slow headers", "overload"):
            with served(model, ServeSettings(requests=8)) as port:
                seconds, ended = other.submit(attack, port, kind).result()
            middle, slowest = statistics.median(seconds) * 1000, max(seconds) * 1000
            print(f"| {kind} | {middle:,.0f} ms | {slowest:,.0f} ms | {dict(ended)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
