"""Batches hold every example once; samples grow with their share."""

from hypothesis import given
from hypothesis import strategies as st

from stelmo.tasks import loop

lengths = st.lists(st.integers(1, 50), min_size=1, max_size=300)


@given(lengths, st.integers(1, 9), st.integers(0, 5))
def test_every_example_is_in_one_batch_and_the_seed_decides_which(sizes, batch, seed):
    examples = list(enumerate(sizes))
    found = loop.shuffled(examples, lambda example: example[1], batch, seed)
    assert sorted(example for part in found for example in part) == examples
    assert all(1 <= len(part) <= batch for part in found)
    assert found == loop.shuffled(examples, lambda example: example[1], batch, seed)


def test_another_seed_is_another_order():
    examples = list(range(200))
    assert loop.shuffled(examples, lambda n: 1, 4, 0) != loop.shuffled(examples, lambda n: 1, 4, 1)


@given(lengths, st.integers(1, 400), st.integers(1, 400))
def test_a_smaller_sample_is_a_part_of_a_larger_one(sizes, one, other):
    examples = list(enumerate(sizes))
    small, large = (loop.sample(examples, count) for count in sorted((one, other)))
    assert set(small) <= set(large) <= set(examples)
    assert small == sorted(small)
    assert len(small) == min(one, other, len(examples))


@given(lengths, st.integers(1, 20), st.floats(0.01, 1), st.floats(0.01, 1))
def test_a_share_has_whole_units_and_a_smaller_one_is_part_of_a_larger(sizes, per_unit, one, other):
    def unit(example):
        return example[0] // per_unit

    examples = list(enumerate(sizes))
    small, large = (loop.share(examples, fraction, unit) for fraction in sorted((one, other)))
    assert set(small) <= set(large) <= set(examples)
    assert small == sorted(small)
    units = {unit(example) for example in small}
    assert small == [example for example in examples if unit(example) in units]
    assert len(units) == max(1, round(len({unit(example) for example in examples}) * min(one, other)))


def test_no_limit_is_all_examples():
    assert loop.sample("abc", None) == ["a", "b", "c"]
