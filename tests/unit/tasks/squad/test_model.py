"""The reader of passages: its attentions against loops, its spans against enumeration; it cuts in training."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from unit.tasks.squad.eight import EIGHT, SMALL, asked, net

from stelmo.tasks.squad import model
from stelmo.tasks.squad.data import Answer
from stelmo.tasks.squad.model import (
    BiAttention,
    SelfAttention,
    best_spans,
    inventory,
    sentences,
)


def ragged(lengths, seed, width=5):
    generator = torch.Generator().manual_seed(seed)
    x_BTD = torch.randn(len(lengths), max(lengths), width, generator=generator, dtype=torch.float64)
    return x_BTD, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def likeness(trilinear, a_D, b_D):
    return trilinear.first.weight[0] @ a_D + trilinear.second.weight[0] @ b_D + trilinear.product_D @ (a_D * b_D)


def weighted(scores, x_SD):
    return sum(share * x_D for share, x_D in zip(torch.stack(scores).softmax(0), x_SD, strict=True))


def test_attention_between_passage_and_question_is_that_of_a_loop():
    attention, merge = BiAttention(5).double(), nn.Linear(20, 3).double()
    (p_BTD, p_mask_BT), (q_BSD, q_mask_BS) = ragged([4, 1, 3], 1), ragged([2, 5, 1], 2)
    found = attention(p_BTD, p_mask_BT, q_BSD, q_mask_BS, merge)
    for row in range(3):
        p_TD, q_SD = p_BTD[row][p_mask_BT[row]], q_BSD[row][q_mask_BS[row]]
        scores = [[likeness(attention.likeness, p_D, q_D) for q_D in q_SD] for p_D in p_TD]
        gist_D = weighted([max(row_S) for row_S in scores], p_TD)
        for p_D, row_S, found_H in zip(p_TD, scores, found[row], strict=False):
            asked_D = weighted(row_S, q_SD)
            assert_close(found_H, merge(torch.cat([p_D, asked_D, p_D * asked_D, gist_D * asked_D])))


def test_attention_of_the_passage_to_itself_is_that_of_a_loop_without_the_word_itself():
    attention = SelfAttention(5).double()
    p_BTD, mask_BT = ragged([4, 2, 3], 1)
    found = attention(p_BTD, mask_BT)
    for row in range(3):
        words = p_BTD[row][mask_BT[row]]
        for place, p_D in enumerate(words):
            others = torch.cat([words[:place], words[place + 1 :]])
            rest_D = weighted([likeness(attention.likeness, p_D, other_D) for other_D in others], others)
            assert_close(found[row, place], torch.cat([p_D, rest_D, p_D * rest_D]))


def test_a_passage_of_one_word_has_no_rest():
    attention = SelfAttention(5)
    p_BTD = torch.randn(1, 1, 5)
    assert_close(attention(p_BTD, torch.ones(1, 1, dtype=torch.bool)), torch.cat([p_BTD, torch.zeros(1, 1, 10)], -1))


@given(st.data())
def test_the_best_span_is_the_best_of_all_that_are_short_enough(data):
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3), label="lengths")
    longest = data.draw(st.integers(1, 12), label="longest")
    (start_BT, end_BT), mask_BT = ragged(lengths, data.draw(st.integers(0, 999)), 2)[0].unbind(2), ragged(lengths, 0)[1]
    lowest = torch.finfo(start_BT.dtype).min
    found = best_spans(start_BT.masked_fill(~mask_BT, lowest), end_BT.masked_fill(~mask_BT, lowest), longest)
    for span, start_T, end_T, length in zip(found, start_BT, end_BT, lengths, strict=True):
        spans = [(first, last) for first in range(length) for last in range(first, min(first + longest, length))]
        assert span == max(spans, key=lambda ends: start_T[ends[0]] + end_T[ends[1]])


def learn(reader, examples, steps):
    optimizer = torch.optim.Adam(reader.parameters(), 0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        reader.loss(examples).backward()
        optimizer.step()
    return reader.eval()


def test_no_answer_is_longer_than_allowed():
    reader = learn(net(size=SMALL.model_copy(update={"answer_tokens": 2})), EIGHT[:1], 30)
    assert len(reader.predict(EIGHT[:1])[0].split()) <= 2


def test_a_question_answered_behind_the_cut_teaches_nothing():
    reader = net("both", SMALL.model_copy(update={"train_tokens": 8})).double()
    behind = EIGHT[1]
    assert behind.answers[0].last >= 8
    assert_close(reader.loss(EIGHT), reader.loss([one for one in EIGHT if one is not behind]))
    assert reader.loss([behind]) == 0
    reader.loss([behind]).backward()
    assert all(parameter.grad.isfinite().all() for parameter in reader.parameters() if parameter.grad is not None)


def test_an_answer_that_ends_behind_the_cut_teaches_nothing():
    reader = net(size=SMALL.model_copy(update={"train_tokens": 4}))
    assert EIGHT[0].answers[0] == Answer("the bank of the river", 0, 4)
    assert reader.loss(EIGHT[:1]) == 0
    assert net(size=SMALL.model_copy(update={"train_tokens": 5})).loss(EIGHT[:1]) > 0


def test_in_half_precision_neither_padding_nor_what_is_behind_the_cut_reaches_the_loss(monkeypatch):
    reader = net("both", SMALL.model_copy(update={"train_tokens": 5})).eval()
    losses = []
    for tokens in (1, 16):
        monkeypatch.setattr(model, "TOKENS", tokens)
        with torch.autocast("cpu", torch.bfloat16):
            losses.append(reader.loss(EIGHT).item())
            assert reader(EIGHT, 5)[0].shape[1] == max(5, tokens)
    assert losses == pytest.approx([reader.loss(EIGHT).item()] * 2, rel=0.02)


def test_answers_are_looked_for_in_the_whole_passage():
    cut, whole = (net("both", SMALL.model_copy(update={"train_tokens": tokens})).eval() for tokens in (3, None))
    assert cut.predict(EIGHT) == whole.predict(EIGHT)


def test_words_are_asked_for_as_they_are_precomputed_also_where_passages_are_cut():
    read = set()
    reader = net(size=SMALL.model_copy(update={"train_tokens": 3}))
    reader.words.register_forward_pre_hook(lambda _, given: read.update(given[0]))
    reader.loss(EIGHT)
    assert read == {sentence for one in EIGHT for sentence in sentences(one)}


def test_characters_of_a_passage_count_once_however_many_questions_it_has():
    one = asked("ab b", "c", 0, 0)
    again = one._replace(id="2", question=("d",))
    assert inventory([one, again], SMALL.model_copy(update={"character_minimum": 2})) == {"characters": ["b"]}
