"""Progress callbacks and requests to stop: what every kind of long work calls and checks."""

import os
import signal

import pytest

from stelmo.progress import NoProgress, ProgressCallback, stop_requested


def work(progress: ProgressCallback[int]) -> int:
    progress.message("starting")
    for done in (1, 2):
        progress.update(done)
    return done


class Recorder:
    def __init__(self) -> None:
        self.reports: list[int] = []
        self.messages: list[str] = []

    def update(self, report: int) -> None:
        self.reports.append(report)

    def message(self, text: str) -> None:
        self.messages.append(text)


def test_a_callback_receives_reports_and_messages_in_order():
    recorder = Recorder()
    work(recorder)
    assert (recorder.messages, recorder.reports) == (["starting"], [1, 2])


def test_work_that_reports_to_nobody_is_done_all_the_same():
    assert work(NoProgress()) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_a_question(number):
    usual = signal.getsignal(number)
    with stop_requested() as asked:
        assert not asked()
        os.kill(os.getpid(), number)
        assert asked()
        assert signal.getsignal(number) == usual
    assert signal.getsignal(number) == usual


def test_a_second_interrupt_ends_the_block():
    with pytest.raises(KeyboardInterrupt), stop_requested():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
