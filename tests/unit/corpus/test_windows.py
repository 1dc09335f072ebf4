"""Streams: what a row reads, whoever reads it and however often it is interrupted."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.corpus.windows import BEGIN, END, Sentences, Streams, held_out, key_of, shuffled, whole
from stelmo.errors import DataError

quick = settings(max_examples=30, deadline=None)
lengths = st.lists(st.integers(1, 9), min_size=1, max_size=30)


def sentences_of(sizes, shards=1):
    """Sentences whose words are all different, so that a word says where it comes from; in so many shards."""
    pieces, word = [], 2
    for part in np.array_split(np.array(sizes, np.int64), shards):
        pieces.append((np.arange(word, word + part.sum(), dtype=np.uint32), np.cumsum(part)))
        word += part.sum()
    return Sentences(pieces)


def read(streams, windows, steps):
    """All windows of a stream, end to end: inputs and targets (2, time, rows)."""
    read = [streams.next(steps) for _ in range(windows)]
    return tuple(np.concatenate([window[part] for window in read], 1) for part in (0, 1))


def split(row, begin):
    """The whole sentences of a row of inputs; the last one may be cut, and is left out."""
    starts = np.flatnonzero(row == begin)
    return [row[start + 1 : end].tolist() for start, end in pairwise(starts)]


@quick
@given(lengths, st.integers(1, 4))
def test_a_sentence_is_the_same_whatever_shard_holds_it(sizes, shards):
    whole, parts = sentences_of(sizes), sentences_of(sizes, shards)
    assert len(parts) == len(sizes)
    assert parts.tokens == sum(sizes)
    for number in range(len(sizes)):
        assert parts[number].tolist() == whole[number].tolist()


@quick
@given(lengths, st.integers(1, 4), st.integers(0, 30), st.integers(0, 30))
def test_a_part_has_consecutive_sentences_numbered_from_0(sizes, shards, first, count):
    whole = sentences_of(sizes, shards)
    expected = [whole[number].tolist() for number in range(len(sizes))][first : first + count]
    part = whole.part(first, count)
    assert [part[number].tolist() for number in range(len(part))] == expected
    assert part.tokens == sum(map(len, expected))


def test_there_is_no_sentence_past_the_end():
    with pytest.raises(IndexError):
        sentences_of([2, 3])[2]


@quick
@given(st.integers(1, 300), st.integers(0, 5), st.integers(0, 2**62))
def test_every_epoch_is_a_permutation(count, epoch, seed):
    order = shuffled(np.arange(count), np.full(count, epoch), count, seed)
    assert sorted(order.tolist()) == list(range(count))


def test_epochs_and_seeds_are_shuffled_differently():
    places, zeros = np.arange(100), np.zeros(100, np.int64)
    orders = [shuffled(places, zeros + epoch, 100, seed).tolist() for epoch in (0, 1) for seed in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert places.tolist() not in orders


def test_a_shuffle_keeps_no_trace_of_the_order():
    """Neighbours before are as far from each other behind it as any two are: a third of the whole on average."""
    order = shuffled(np.arange(10_000), np.zeros(10_000, np.int64), 10_000, 0)
    assert abs(np.abs(np.diff(order)).mean() / 10_000 - 1 / 3) < 0.02
    assert abs(np.corrcoef(np.arange(10_000), order)[0, 1]) < 0.05


def test_keys_depend_on_every_part():
    numbers = np.arange(50)
    keys = np.concatenate([key_of(seed, file, numbers) for seed in (0, 1) for file in (0, 1)])
    assert len(np.unique(keys)) == 200


@quick
@given(lengths, st.integers(1, 5), st.integers(1, 7), st.integers(0, 3), st.integers(1, 3))
def test_the_rows_read_every_sentence_of_an_epoch_once(sizes, rows, steps, seed, shards):
    rows = min(rows, len(sizes))
    sentences = sentences_of(sizes, shards)
    longest = 2 * (sum(sizes) + len(sizes)) // steps + 2
    inputs_2TB, _ = read(Streams(sentences, rows=range(rows), of=rows, seed=seed), longest, steps)
    first_epoch = []
    for row in range(rows):
        share = len(range(row, len(sizes), rows))
        first_epoch += split(inputs_2TB[0, :, row], BEGIN)[:share]
    assert sorted(first_epoch) == [sentences[number].tolist() for number in range(len(sizes))]


@quick
@given(lengths, st.integers(2, 6), st.integers(1, 7), st.data())
def test_several_processes_read_the_rows_of_one(sizes, rows, steps, data):
    rows = min(rows, len(sizes))
    cut = data.draw(st.integers(0, rows - 1))
    sentences = sentences_of(sizes)
    whole = read(Streams(sentences, rows=range(rows), of=rows, seed=1), 6, steps)
    for part in (range(cut), range(cut, rows)):
        if part:
            mine = read(Streams(sentences, rows=part, of=rows, seed=1), 6, steps)
            np.testing.assert_array_equal(mine, [array[:, :, part.start : part.stop] for array in whole])


@quick
@given(lengths, st.integers(1, 4), st.integers(1, 7), st.integers(0, 8), st.integers(1, 9))
def test_a_stream_goes_on_from_its_position(sizes, rows, steps, windows, other_steps):
    rows = min(rows, len(sizes))
    sentences = sentences_of(sizes)
    stream = Streams(sentences, rows=range(rows), of=rows, seed=2)
    for _ in range(windows):
        stream.next(steps)
    resumed = Streams(sentences, rows=range(rows), of=rows, seed=2, position=stream.position)
    np.testing.assert_array_equal(read(resumed, 5, other_steps), read(stream, 5, other_steps))
    np.testing.assert_array_equal(resumed.position, stream.position)


@quick
@given(lengths, st.integers(1, 7), st.integers(1, 7))
def test_how_a_stream_is_cut_into_windows_changes_nothing(sizes, steps, other_steps):
    sentences = sentences_of(sizes)
    one = read(Streams(sentences, rows=range(1), of=1, seed=0), other_steps, steps)
    two = read(Streams(sentences, rows=range(1), of=1, seed=0), steps, other_steps)
    np.testing.assert_array_equal(one, two)


@quick
@given(lengths, st.integers(1, 7))
def test_targets_are_the_inputs_one_step_on(sizes, steps):
    inputs, targets = read(Streams(sentences_of(sizes), rows=range(1), of=1, seed=0), 12, steps)
    for direction, (begin, end) in enumerate(((BEGIN, END), (END, BEGIN))):
        following = np.where(inputs[direction, 1:] == begin, end, inputs[direction, 1:])
        np.testing.assert_array_equal(targets[direction, :-1], following)


@quick
@given(lengths, st.integers(1, 7))
def test_backward_reads_the_same_sentences_from_their_ends(sizes, steps):
    inputs, _ = read(Streams(sentences_of(sizes), rows=range(1), of=1, seed=0), 12, steps)
    forward, backward = split(inputs[0, :, 0], BEGIN), split(inputs[1, :, 0], END)
    assert forward == [sentence[::-1] for sentence in backward]


def test_epochs_count_whole_sentences():
    stream = Streams(sentences_of([3] * 8), rows=range(2), of=2, seed=0)
    read(stream, 1, 8)
    assert stream.epochs == 0.5
    read(stream, 3, 8)
    assert stream.epochs == 2.0
    np.testing.assert_array_equal(stream.position, [[2, 0, 0], [2, 0, 0]])


def test_a_corpus_smaller_than_one_batch_is_refused():
    with pytest.raises(DataError, match=r"3 sentences for a batch of 4 rows"):
        Streams(sentences_of([1, 2, 3]), rows=range(4), of=4, seed=0)


@pytest.mark.parametrize("position", [np.zeros((2, 3)), np.array([[0, 3, 0]]), np.array([[-1, 0, 0]])])
def test_a_position_of_other_rows_is_refused(position):
    with pytest.raises(DataError, match="position"):
        Streams(sentences_of([1, 2, 3]), rows=range(1), of=1, seed=0, position=position)


@quick
@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 5), st.integers(1, 7), st.integers(1, 3))
def test_held_out_words_are_read_once_in_both_directions(sizes, rows, steps, shards):
    sentences = sentences_of(sizes, shards)
    windows = list(held_out(sentences, rows=rows, steps=steps))
    assert all(mask.shape == (steps, rows) == window.inputs_2TB.shape[1:] for window, mask in windows)
    words = list(range(2, 2 + sum(sizes)))
    for direction, end in enumerate((END, BEGIN)):
        targets = [window.targets_2TB[direction][mask] for window, mask in windows]
        found = sorted(np.concatenate([np.empty(0, np.int64), *targets]).tolist())
        assert [word for word in found if word > END] == words
        assert found.count(end) == len(sizes)


@quick
@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(1, 3), st.integers(1, 400))
def test_a_sample_is_of_whole_sentences_at_even_distances(sizes, shards, tokens):
    sentences = sentences_of(sizes, shards)
    sample = sentences.spread(tokens)
    every = {tuple(sentences[number]): number for number in range(len(sentences))}
    numbers = [every[tuple(sample[number])] for number in range(len(sample))]
    count = min(len(sizes), math.ceil(tokens / (sum(sizes) + len(sizes)) * len(sizes)))
    assert numbers == [number * len(sizes) // count for number in range(count)]
    assert sample.tokens == sum(sizes[number] for number in numbers)


@quick
@given(lengths, st.integers(1, 7))
def test_a_held_out_row_is_a_stream_in_the_order_of_the_text(sizes, steps):
    windows = list(held_out(sentences_of(sizes), rows=1, steps=steps))
    inputs = np.concatenate([window.inputs_2TB[0] for window, _ in windows])[:, 0]
    mask = np.concatenate([mask for _, mask in windows])[:, 0]
    assert inputs[mask][inputs[mask] > END].tolist() == list(range(2, 2 + sum(sizes)))
    assert not mask[sum(sizes) + len(sizes) :].any()
    assert mask[: sum(sizes) + len(sizes)].all()


@quick
@given(lengths, st.integers(1, 7))
def test_a_cell_knows_the_place_of_its_word_in_both_directions(sizes, steps):
    sentences = sentences_of(sizes)
    stream = Streams(sentences, rows=range(1), of=1, seed=0)
    cells = [np.concatenate(parts, 1)[:, :, 0] for parts in zip(*(stream.next(steps) for _ in range(12)), strict=True)]
    length = {word: (place, size) for size, place, word in spelled(sentences)}
    for direction in (0, 1):
        for word, place in zip(cells[0][direction], cells[2][direction], strict=True):
            if word == BEGIN:
                assert place == 0
            elif word != END:
                assert place == length[word][0]
    ends = cells[0][1] == END  # of the backward direction: the place behind the last word
    assert (cells[2].sum(0) >= 2)[~ends].all()
    starts = cells[2][0] == 0
    np.testing.assert_array_equal(ends, starts)


def spelled(sentences):
    """Length, place from 1 and type of every word; types are distinct."""
    for number in range(len(sentences)):
        types = sentences[number].tolist()
        for place, word in enumerate(types, 1):
            yield len(types), place, word


@quick
@given(lengths, st.integers(1, 30), st.integers(1, 3))
def test_whole_sentences_are_read_once_and_never_cut(sizes, steps, shards):
    sentences = sentences_of(sizes, shards)
    windows = list(whole(sentences, steps))
    targets = np.concatenate([window.targets_2TB[0, :, 0] for window in windows])
    assert targets[targets > END].tolist() == list(range(2, 2 + sum(sizes)))
    for window in windows:
        assert window.places_2TB[0, 0, 0] == 0
        assert window.targets_2TB[0, -1, 0] == END
        count = int((window.places_2TB[0] == 0).sum())
        assert count == 1 or window.inputs_2TB.shape[1] <= steps
