"""Servers for tests: the application with a tiny model, in this process or on loopback; and a model that waits."""

import threading
from contextlib import contextmanager

import tiny
from starlette.testclient import TestClient

from stelmo.serve import service
from stelmo.serve.app import app
from stelmo.settings import ServeSettings

BANK = ["the", "bank", "of", "the", "river", "."]
LOAN = ["a", "bank", "."]
PROBLEM = ["type", "title", "status", "detail", "message"]  # the fields of a refusal


@contextmanager
def asked(model=None, *, raising=True, index=None, tasks=None, hosts=("localhost",), **options):
    """A client of a service; the options are limits, or arguments of the application."""
    limits = {name: options.pop(name) for name in list(options) if name in ServeSettings.model_fields}
    made = app(model or tiny.model(), ServeSettings(**limits), index, tasks, name="tiny", hosts=hosts, **options)
    with TestClient(made, base_url="http://localhost", raise_server_exceptions=raising) as client:
        yield client


@contextmanager
def served(made, settings=None):
    """A running server: its address, and the server itself."""
    ready, addresses = threading.Event(), []

    def started(address):
        addresses.append(address)
        ready.set()

    with service.listen("127.0.0.1", 0) as listening:
        server = service.server(made, listening, started, settings)
        thread = threading.Thread(target=server.run, args=[[listening]])
        thread.start()
        assert ready.wait(60)
        yield addresses[0], server
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def wait_for(condition):
    pause = threading.Event()
    for _ in range(6000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("the condition never became true")


class Slow:
    """A model that computes only after `go` is set; `busy` is set when it is called."""

    def __init__(self, model=None):
        self._model = model or tiny.model()
        self.busy, self.go = threading.Event(), threading.Event()

    def layers(self, sentences):
        self.busy.set()
        assert self.go.wait(60)
        return self._model.layers(sentences)

    def __getattr__(self, name):
        return getattr(self._model, name)
