"""One thread for every test process: several with several threads each, on few cores, wait for one another.

No test is timed, so Hypothesis may take as long as a busy machine does.

A shell ignores Ctrl-C for what it starts in the background, and children inherit that: tests that interrupt would wait.
"""

import signal

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _pictures_are_empty_files(request, monkeypatch):
    """Drawing takes longer than training a tiny model: only tests marked `pictures`, which look at one, draw it."""
    if "pictures" not in request.keywords:
        monkeypatch.setattr("stelmo.plots._write", _write_nothing)


def _write_nothing(path, draw, size):
    from stelmo import plots  # here, as below
    from stelmo.store import atomic

    plots.refuse(path)
    with atomic.new_file(path, overwrite=True) as draft:
        draft.touch()


@pytest.fixture
def model():
    """A small model with random weights, a vocabulary, a softmax and a warm state; new for every test."""
    import tiny  # here: tests that measure what an import costs start without it

    return tiny.model()
