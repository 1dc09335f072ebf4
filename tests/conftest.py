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


@pytest.fixture
def model():
    """A small model with random weights, a vocabulary, a softmax and a warm state; new for every test."""
    import tiny  # here: tests that measure what an import costs start without it

    return tiny.model()
