"""Signals between steps: the first asks, the second has its usual effect."""

import os
import signal

import pytest

from stelmo.interrupts import stop_asked


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_a_question(number):
    usual = signal.getsignal(number)
    with stop_asked() as asked:
        assert not asked()
        os.kill(os.getpid(), number)
        assert asked()
        assert signal.getsignal(number) == usual
    assert signal.getsignal(number) == usual


def test_a_second_interrupt_ends_the_block():
    with pytest.raises(KeyboardInterrupt), stop_asked():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
