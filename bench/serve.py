"""A model → requests/s and latency of the service on loopback, with and without batching. Run: serve.py [MODEL [N]]

Clients, in a process of their own, ask /v1/embed for one sentence a time, N requests one after the other, as npy. Both
services run in turn, several times each; a ratio is of the medians. The last line floods a service with a short queue.
"""

import json
import random
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing import get_context

import uvicorn

import stelmo
from stelmo.settings import ServeSettings

CLIENTS, ROUNDS = 32, 3  # clients at once, times that each service is measured
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
    from stelmo.serve.app import app  # here: the process of the clients needs no torch

    config = uvicorn.Config(app(model, settings), port=0, log_level="error", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
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


def compare(model: stelmo.Model, other: Executor, clients: int, requests: int) -> None:
    """Interleaved, since machines are noisy."""
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
        figures = f"{rate:,.0f} | {taken[49] * 1000:,.0f} ms | {taken[98] * 1000:,.0f} ms | {rate / slow:.2f}"
        print(f"| {clients} | {name} | {figures} |", flush=True)


def flood(model: stelmo.Model, other: Executor, requests: int) -> None:
    """More clients than the service takes on: some are sent away, all are answered."""
    settings = ServeSettings(requests=8)
    with served(model, settings) as port:
        _, answers = other.submit(load, port, CLIENTS, requests).result()
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/health")
        health = connection.getresponse().status
        connection.close()
    counts = Counter(status for status, _ in answers)
    print(f"\n{CLIENTS} clients at a service of {settings.requests} requests: {dict(counts)}; then /health: {health}")


def main(name: str | None = None, requests: str = "40") -> None:
    model = stelmo.load(name)
    print("| clients | service | requests/s | p50 | p99 | ratio |\n|---|---|---|---|---|---|")
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        for clients in (1, CLIENTS):
            compare(model, other, clients, int(requests))
        flood(model, other, int(requests))


if __name__ == "__main__":
    main(*sys.argv[1:])
