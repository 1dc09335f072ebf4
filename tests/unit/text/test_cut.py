"""Sentences → blocks of about as many tokens."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stelmo.text import cut

sentences = st.lists(st.lists(st.just("a"), max_size=9), max_size=30)


@given(sentences, st.integers(1, 20), st.integers(1, 4))
def test_blocks_concatenate_to_the_sentences(found, tokens, multiple):
    blocks = list(cut.by_tokens(found, tokens, len, multiple))
    assert [sentence for block in blocks for sentence in block] == found
    assert all(len(block) % multiple == 0 for block in blocks[:-1])


@given(sentences, st.integers(1, 20))
def test_a_block_is_full_but_has_no_more_tokens_than_allowed(found, tokens):
    blocks = list(cut.by_tokens(found, tokens, len))
    for block, following in pairwise(blocks):
        assert sum(map(len, block)) <= tokens or len(block) == 1
        assert sum(len(sentence) + 1 for sentence in block) + len(following[0]) > tokens


def test_a_full_block_does_not_wait_for_the_next_sentence():
    read = []
    stream = (read.append(number) or ["a", "b", "c"] for number in range(10))
    next(cut.by_tokens(stream, 7, len))
    assert read == [0, 1]
