"""The queue before the model: everyone gets his own answer, batches keep their budget, what is accepted is answered."""

import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stelmo.serve import problems
from stelmo.serve.batching import Batcher, Full

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
    assert problems.busy(seconds).headers["retry-after"] == header
