"""Long work: its progress, its end, its cancelling; and no more of it than there is room for."""

import threading

import pytest

from stelmo.errors import ConfigError
from stelmo.serve.batching import Full
from stelmo.serve.jobs import Jobs, error_of


@pytest.fixture
def jobs():
    jobs = Jobs(2)
    yield jobs
    jobs.close()


class Held:
    """Work that is half done until it is let go on."""

    def __init__(self):
        self.half, self.go = threading.Event(), threading.Event()

    def __call__(self, advance):
        advance(0.5)
        self.half.set()
        assert self.go.wait(60)
        advance(1.0)
        return "done"


def test_a_job_tells_its_progress_and_keeps_its_result(jobs):
    work = Held()
    job = jobs.get(jobs.start(work))
    assert work.half.wait(60)
    assert (job.progress, job.result.done()) == (0.5, False)
    work.go.set()
    assert job.result.result(60) == "done"
    assert error_of(job) is None


def test_progress_never_goes_back_nor_beyond_the_end(jobs):
    seen = []

    def work(advance):
        for share in (0.4, 0.2, 7.0):
            advance(share)
            seen.append(jobs.get(name).progress)

    held = Held()
    jobs.start(held)
    name = jobs.start(work)
    held.go.set()
    jobs.get(name).result.result(60)
    assert seen == [0.4, 0.4, 1.0]


def test_a_cancelled_job_stops_at_its_next_step_and_is_forgotten(jobs):
    work = Held()
    name = jobs.start(work)
    job = jobs.get(name)
    assert work.half.wait(60)
    assert jobs.cancel(name)
    work.go.set()
    assert job.result.exception(60) is not None
    assert error_of(job) == "cancelled"
    assert jobs.get(name) is None
    assert not jobs.cancel(name)


def test_a_job_cancelled_before_its_turn_never_starts(jobs):
    first, second = Held(), Held()
    jobs.start(first)
    waiting = jobs.start(second)
    job = jobs.get(waiting)
    jobs.cancel(waiting)
    first.go.set()
    assert error_of(job) == "cancelled"
    assert not second.half.is_set()


def test_a_mistake_of_the_user_is_one_sentence(jobs):
    def work(advance):
        raise ConfigError("UMAP is not installed")

    job = jobs.get(jobs.start(work))
    job.result.exception(60)
    assert error_of(job) == "UMAP is not installed"


def test_a_bug_stays_a_bug(jobs):
    job = jobs.get(jobs.start(lambda advance: 1 / 0))
    job.result.exception(60)
    with pytest.raises(ZeroDivisionError):
        error_of(job)


def test_there_is_room_for_so_many_and_finished_ones_make_room(jobs):
    work = Held()
    first, second = jobs.start(work), jobs.start(work)
    with pytest.raises(Full):
        jobs.start(work)
    work.go.set()
    jobs.get(second).result.result(60)
    third = jobs.start(work)
    assert jobs.get(first) is None
    assert jobs.get(second) is not None
    assert jobs.get(third).result.result(60) == "done"


def test_names_cannot_be_guessed(jobs):
    names = {jobs.start(lambda advance: None) for _ in range(1)} | {Jobs(1).start(lambda advance: None)}
    assert len(names) == 2
    assert all(len(name) >= 20 for name in names)
