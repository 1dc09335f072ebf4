"""Progress callbacks: what every kind of long work calls, and a callback that ignores it."""

from stelmo.progress import NoProgress, ProgressCallback


def work(progress: ProgressCallback[int]) -> None:
    progress.message("starting")
    for done in (1, 2):
        progress.update(done)


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


def test_work_runs_without_anybody_watching():
    work(NoProgress())
