"""Every sentence in exactly one batch, and no batch larger than asked for."""

from hypothesis import given
from hypothesis import strategies as st

from stelmo.engine import batching as batches

lengths_of_sentences = st.lists(st.integers(0, 40), max_size=60)
budgets = st.integers(1, 200)


def flat(groups):
    return [position for group in groups for position in group]


@given(lengths_of_sentences, budgets)
def test_by_length_places_every_sentence_exactly_once(lengths, budget):
    assert sorted(flat(batches.by_length(lengths, budget))) == list(range(len(lengths)))


@given(lengths_of_sentences, budgets)
def test_by_length_keeps_within_the_budget_unless_one_sentence_exceeds_it(lengths, budget):
    for group in batches.by_length(lengths, budget):
        assert len(group) == 1 or len(group) * max(lengths[position] for position in group) <= budget


@given(lengths_of_sentences, budgets)
def test_by_length_has_no_empty_batch(lengths, budget):
    assert all(batches.by_length(lengths, budget))


@given(lengths_of_sentences, budgets)
def test_by_length_begins_with_the_longest_so_that_memory_fails_at_once_or_never(lengths, budget):
    ordered = [lengths[position] for position in flat(batches.by_length(lengths, budget))]
    assert ordered == sorted(lengths, reverse=True)


@given(lengths_of_sentences, budgets)
def test_by_length_leaves_no_room_for_the_next_sentence(lengths, budget):
    groups = list(batches.by_length(lengths, budget))
    for group in groups[:-1]:
        assert (len(group) + 1) * max(1, lengths[group[0]]) > budget


@given(st.lists(st.integers(3, 3), max_size=20), budgets)
def test_sentences_of_one_length_stay_in_order(lengths, budget):
    assert flat(batches.by_length(lengths, budget)) == list(range(len(lengths)))


@given(st.integers(0, 60), st.integers(1, 20))
def test_in_order_keeps_the_order_in_full_batches_but_the_last(count, rows):
    groups = list(batches.in_order(count, rows))
    assert flat(groups) == list(range(count))
    assert all(len(group) == rows for group in groups[:-1])
    assert all(1 <= len(group) <= rows for group in groups[-1:])
