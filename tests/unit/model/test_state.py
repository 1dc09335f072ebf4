"""The state as a value: rows are added, exchanged and taken, and nothing else moves."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.config import LstmConfig
from stelmo.model import state as states
from stelmo.model.state import State

CONFIG = LstmConfig(cells=5, projection=3, layers=2)
counts = st.integers(0, 5)
one_or_more = st.integers(1, 5)


def random_state(rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    zeros = states.zeros(CONFIG, rows, torch.device("cpu"), torch.float64)
    return State(*(torch.randn(part.shape, dtype=part.dtype, generator=generator) for part in zeros))


def same(found, expected):
    return torch.equal(found.h, expected.h) and torch.equal(found.c, expected.c)


def test_zeros_have_directions_layers_rows_and_each_parts_width():
    state = states.zeros(CONFIG, 4, torch.device("cpu"), torch.float64)
    assert state.h.shape == (2, 2, 4, 3)
    assert state.c.shape == (2, 2, 4, 5)
    assert state.rows == 4
    assert not state.h.any()
    assert not state.c.any()
    assert state.h.dtype == state.c.dtype == torch.float64


@settings(deadline=None)
@given(counts, counts)
def test_grow_keeps_the_rows_there_and_adds_zeros_up_to_the_number_asked_for(rows, asked):
    before = random_state(rows)
    after = states.grow(before, asked)
    assert after.rows == max(rows, asked)
    assert same(after.take(rows), before)
    assert not after.h[:, :, rows:].any()
    assert not after.c[:, :, rows:].any()


@settings(deadline=None)
@given(one_or_more, counts)
def test_replace_exchanges_the_first_rows_and_leaves_the_others(new, others):
    before, first = random_state(new + others), random_state(new, seed=1)
    after = states.replace(before, first)
    assert after.rows == before.rows
    assert same(after.take(new), first)
    assert same(State(after.h[:, :, new:], after.c[:, :, new:]), State(before.h[:, :, new:], before.c[:, :, new:]))


@settings(deadline=None)
@given(one_or_more)
def test_expand_repeats_the_one_row(rows):
    row = random_state(1)
    assert same(row.expand(rows), State(row.h.repeat(1, 1, rows, 1), row.c.repeat(1, 1, rows, 1)))


def test_grow_and_replace_leave_what_they_are_given_untouched():
    before, first = random_state(2), random_state(1, seed=1)
    states.replace(states.grow(before, 3), first)
    assert same(before, random_state(2))
    assert same(first, random_state(1, seed=1))
