"""Work that waits: everyone gets their own answer, batches keep their budget, what is accepted is answered; jobs."""

import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stelmo.errors import ConfigError
from stelmo.serve import answers
from stelmo.serve.queues import Batcher, Full, Jobs, error_of

requests_ = st.lists(st.lists(st.lists(st.text(max_size=2), max_size=4), max_size=3), max_size=12)


def lengths(sentences):
    return [np.array([len(words), sum(map(len, words))]) for words in sentences]


class Held:
    """Computes only while the door is open, and keeps what came together."""

    def __init__(self):
        self.door, self.inside, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, sentences):
        self.batches.append(sentences)
        self.inside.set()
        assert self.door.wait(60)
        return lengths(sentences)


@pytest.fixture
def held():
    """With its first request under way, so that all others wait."""
    model = Held()
    batcher = Batcher(model, batch_tokens=10, queue_tokens=20)
    batcher.layers([["first"]])
    assert model.inside.wait(60)
    yield model, batcher
    model.door.set()
    batcher.close()


@given(requests_, st.integers(1, 30))
def test_everyone_gets_his_own_answer_and_no_batch_is_over_its_budget(requests, budget):
    done = []
    batcher = Batcher(lengths, budget, queue_tokens=10_000, done=done.append)
    answers = [batcher.layers(sentences) for sentences in requests]
    batcher.close()
    for sentences, answer in zip(requests, answers, strict=True):
        assert np.array_equal(answer.result(0), lengths(sentences))
    assert sum(batch.requests for batch in done) == len(requests)
    assert sum(batch.tokens for batch in done) == sum(len(words) + 2 for request in requests for words in request)
    assert all(batch.tokens <= budget or batch.requests == 1 for batch in done)


def test_what_waits_is_computed_together(held):
    model, batcher = held
    answers = [batcher.layers([["a"]]), batcher.layers([["b"], ["c", "d"]])]
    model.door.set()
    assert [len(answer.result(60)) for answer in answers] == [1, 2]
    assert model.batches == [[["first"]], [["a"], ["b"], ["c", "d"]]]


def test_a_full_queue_takes_no_more_until_something_left_it(held):
    model, batcher = held
    accepted = [batcher.layers([["word"] * 8]), batcher.layers([["word"] * 8])]
    with pytest.raises(Full):
        batcher.layers([["word"]])
    assert batcher.waiting == 20
    model.door.set()
    assert all(answer.result(60) for answer in accepted)
    assert batcher.layers([["word"]]).result(60)


def test_an_empty_queue_takes_a_request_larger_than_itself():
    batcher = Batcher(lengths, batch_tokens=1, queue_tokens=1)
    assert batcher.layers([["word"] * 50]).result(60)[0][0] == 50
    batcher.close()


def test_a_call_has_the_model_for_itself(held):
    model, batcher = held
    batcher.layers([["a"]])
    call = batcher.call(lambda: len(model.batches), 1)
    last = batcher.layers([["b"]])
    model.door.set()
    last.result(60)
    assert call.result() == 2
    assert model.batches == [[["first"]], [["a"]], [["b"]]]


def test_who_stopped_waiting_is_not_computed(held):
    model, batcher = held
    gone, there = batcher.layers([["gone"]]), batcher.layers([["there"]])
    assert gone.cancel()
    model.door.set()
    there.result(60)
    assert model.batches == [[["first"]], [["there"]]]
    with pytest.raises(CancelledError):
        gone.result()


def test_a_failure_reaches_those_who_wait_and_the_next_batch_is_computed():
    def failing(sentences):
        if ["bad"] in sentences:
            raise MemoryError("no room")
        return lengths(sentences)

    batcher = Batcher(failing, batch_tokens=1, queue_tokens=100)
    bad, good = batcher.layers([["bad"]]), batcher.layers([["good"]])
    with pytest.raises(MemoryError, match="no room"):
        bad.result(60)
    assert good.result(60)
    batcher.close()


def test_closing_finishes_what_was_accepted_and_takes_nothing_more(held):
    model, batcher = held
    accepted = batcher.layers([["a"]])
    closing = threading.Thread(target=batcher.close)
    closing.start()
    model.door.set()
    closing.join(60)
    assert len(accepted.result(0)) == 1
    with pytest.raises(Full):
        batcher.layers([["late"]])


def test_a_batch_waits_a_little_for_more():
    model = Held()
    model.door.set()
    batcher = Batcher(model, batch_tokens=6, queue_tokens=100, wait=60)
    answers = [batcher.layers([["a"]]), batcher.layers([["b"]])]  # 6 tokens with their markers: nobody waits longer
    assert [len(answer.result(60)) for answer in answers] == [1, 1]
    assert model.batches == [[["a"], ["b"]]]
    batcher.close()


def test_the_wait_is_estimated_from_the_queue_and_the_recent_speed(held):
    model, batcher = held  # 3 tokens are being computed
    batcher._seconds_per_token = 0.5
    batcher.layers([["word"] * 8])
    batcher.layers([["word"] * 8])
    assert batcher.wait_seconds == 0.5 * (3 + 20)
    with pytest.raises(Full) as full:
        batcher.layers([["word"]])
    assert full.value.seconds == 11.5
    model.door.set()


def test_the_speed_is_that_of_recent_batches():
    batcher = Batcher(lengths, batch_tokens=1, queue_tokens=100)
    assert batcher.wait_seconds == 0
    batcher.layers([["word"]]).result(60)
    batcher.close()
    assert batcher._seconds_per_token > 0
    assert batcher.wait_seconds == 0


@pytest.mark.parametrize(("seconds", "header"), [(0.0, "1"), (1.2, "2"), (11.5, "12"), (1e9, "60")])
def test_retry_after_is_the_estimate_in_whole_seconds(seconds, header):
    assert answers.busy(seconds).headers["retry-after"] == header


@pytest.fixture
def jobs():
    jobs = Jobs(2)
    yield jobs
    jobs.close()


class HalfDone:
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
    work = HalfDone()
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

    held = HalfDone()
    jobs.start(held)
    name = jobs.start(work)
    held.go.set()
    jobs.get(name).result.result(60)
    assert seen == [0.4, 0.4, 1.0]


def test_a_cancelled_job_stops_at_its_next_step_and_is_forgotten(jobs):
    work = HalfDone()
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
    first, second = HalfDone(), HalfDone()
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
    work = HalfDone()
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
