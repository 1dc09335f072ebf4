"""Tags and spans say the same; the CRF against an enumeration of all paths, in float64; legal and illegal tags."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.tasks.tags import (
    Crf,
    Span,
    Tally,
    bio,
    bio_of,
    bioul,
    first_not_bio,
    first_not_iob1,
    is_tag,
    legal,
    log_partition,
    path_score,
    spans,
    viterbi,
)

TAGS = st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), max_size=12)


def iob1(found, length):
    """The other scheme, for the round trip: B- only where a span touches one of its label."""
    tags = ["O"] * length
    for start, end, label in found:
        touches = start > 0 and tags[start - 1][2:] == label
        tags[start:end] = [f"{'B' if touches else 'I'}-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags


@given(TAGS)
def test_spans_written_as_bio_or_iob1_are_read_back(tags):
    found = spans(tags)
    assert spans(bio(found, len(tags))) == found
    assert spans(iob1(found, len(tags))) == found


@given(TAGS)
def test_each_scheme_agrees_with_its_own_tags(tags):
    assert first_not_bio(bio(spans(tags), len(tags))) is None
    assert first_not_iob1(iob1(spans(tags), len(tags))) is None


@given(TAGS)
def test_bio_tags_without_a_mistake_are_already_what_their_spans_say(tags):
    assert (bio(spans(tags), len(tags)) == tags) == (first_not_bio(tags) is None)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O I-X I-X", [Span(1, 3, "X")]),  # I- after O begins
        ("B-X I-Y", [Span(0, 1, "X"), Span(1, 2, "Y")]),  # I- of another label begins
        ("I-X B-X I-X", [Span(0, 1, "X"), Span(1, 3, "X")]),  # B- always begins
        ("B-a-b I-a-b", [Span(0, 2, "a-b")]),  # a label may hold hyphens
        ("I-X O I-X", [Span(0, 1, "X"), Span(2, 3, "X")]),
    ],
)
def test_spans_are_those_of_conlleval(tags, expected):
    assert spans(tags.split()) == expected


def test_the_first_mistake_is_found():
    assert first_not_bio(["B-X", "O", "I-X"]) == 2
    assert first_not_bio(["B-X", "I-Y"]) == 1
    assert first_not_iob1(["I-X", "B-X", "O", "B-X"]) == 3


def test_what_a_tag_is():
    assert [text for text in ("O", "B-X", "I-a-b", "", "B-", "X", "S-X", "B-a b", "o") if is_tag(text)] == [
        "O",
        "B-X",
        "I-a-b",
    ]


def test_overlapping_spans_are_our_own_mistake():
    with pytest.raises(AssertionError, match="overlap"):
        bio([Span(0, 2, "X"), Span(1, 3, "Y")], 3)


def test_precision_recall_and_f1():
    tally = Tally().counting({1, 2, 3, 4}, {3, 4, 5}).counting(set(), {6})
    # 2 of 4 predicted are right, 2 of 4 wanted are found: P = R = F1 = 50
    assert (tally.precision, tally.recall, tally.f1) == (50.0, 50.0, 50.0)
    assert Tally(correct=1, predicted=1, wanted=3).f1 == pytest.approx(2 * 100 * (100 / 3) / (100 + 100 / 3))


def test_nothing_out_of_nothing_is_zero():
    assert (Tally().precision, Tally().recall, Tally().f1) == (0.0, 0.0, 0.0)


# The CRF

BIO = ("O", "B-X", "I-X", "B-Y", "I-Y")
BIOUL = ("O", "B-X", "I-X", "U-X", "L-X", "B-Y", "I-Y", "U-Y", "L-Y")
LENGTHS = (4, 1, 2, 5, 3)
SEEDS = pytest.mark.parametrize("seed", range(5))


def problem(seed, tags=3, lengths=LENGTHS):
    """Scores, mask, transitions, start, end; the scores behind an end are huge, so that reading one shows."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((len(lengths), max(lengths), tags), (tags, tags), (tags,), (tags,))
    scores_BTY, *moves = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    mask_BT = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return scores_BTY.masked_fill(~mask_BT[:, :, None], 1e6), mask_BT, *moves


def scored(paths_PT, scores_TY, transitions_YY, start_Y, end_Y):
    """(P,): the score of each path, term by term."""
    total_P = start_Y[paths_PT[:, 0]] + end_Y[paths_PT[:, -1]]
    for t, tags_P in enumerate(paths_PT.T):
        total_P = total_P + scores_TY[t, tags_P]
    for before_P, tags_P in pairwise(paths_PT.T):
        total_P = total_P + transitions_YY[before_P, tags_P]
    return total_P


def enumerated(scores_BTY, mask_BT, *moves):
    """For each sentence: every path, and its score."""
    for scores_TY, length in zip(scores_BTY, mask_BT.sum(1).tolist(), strict=True):
        paths_PT = torch.tensor(list(product(range(scores_TY.shape[1]), repeat=length)))
        yield paths_PT, scored(paths_PT, scores_TY, *moves)


@SEEDS
def test_the_partition_sums_over_all_paths(seed):
    given_ = problem(seed)
    expected_B = torch.stack([scores.logsumexp(0) for _, scores in enumerated(*given_)])
    torch.testing.assert_close(log_partition(*given_), expected_B, rtol=1e-12, atol=1e-12)


def test_the_gradient_of_the_partition_is_that_of_the_enumeration():
    scores_BTY, mask_BT, *moves = problem(7)
    leaves = [tensor.requires_grad_() for tensor in (scores_BTY, *moves)]
    ours = torch.autograd.grad(log_partition(scores_BTY, mask_BT, *moves).sum(), leaves)
    total = sum(scores.logsumexp(0) for _, scores in enumerated(scores_BTY, mask_BT, *moves))
    for found, expected in zip(ours, torch.autograd.grad(total, leaves), strict=True):
        assert found.abs().sum() > 0
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def best(*given_):
    return [paths_PT[scores_P.argmax()].tolist() for paths_PT, scores_P in enumerated(*given_)]


@SEEDS
def test_viterbi_finds_the_best_of_all_paths(seed):
    assert viterbi(*problem(seed)) == best(*problem(seed))


@SEEDS
def test_viterbi_finds_the_best_of_the_legal_paths(seed):
    scores_BTY, mask_BT, *moves = problem(seed, len(BIO))
    bounded = [move.masked_fill(~allowed, -torch.inf) for move, allowed in zip(moves, legal(BIO, "BIO"), strict=True)]
    found = viterbi(scores_BTY, mask_BT, *bounded)
    assert found == best(scores_BTY, mask_BT, *bounded)
    assert all(first_not_bio([BIO[tag] for tag in path]) is None for path in found)


@SEEDS
def test_a_path_scores_the_sum_of_its_terms_whatever_stands_behind_its_end(seed):
    scores_BTY, mask_BT, *moves = problem(seed)
    path_BT = torch.randint(3, mask_BT.shape, generator=torch.Generator().manual_seed(seed))
    expected_B = torch.cat(
        [
            scored(path_T[None, :length], scores_TY, *moves)
            for path_T, length, scores_TY in zip(path_BT, LENGTHS, scores_BTY, strict=True)
        ]
    )
    torch.testing.assert_close(path_score(scores_BTY, path_BT, mask_BT, *moves), expected_B, rtol=1e-12, atol=1e-12)


def test_the_likelihoods_of_all_paths_sum_to_one():
    crf = Crf(BIO, "BIO").double()
    scores_BTY, *_ = problem(3, len(BIO), lengths=(3,))
    paths_BT = torch.tensor(list(product(range(len(BIO)), repeat=3)))
    mask_BT = torch.ones(paths_BT.shape, dtype=torch.bool)
    losses_B = crf.loss(scores_BTY.expand(len(paths_BT), -1, -1), paths_BT, mask_BT)
    assert (-losses_B).exp().sum().item() == pytest.approx(1.0, abs=1e-12)


def test_padding_changes_neither_loss_nor_path():
    scores_BTY, mask_BT, *_ = problem(5, len(BIOUL))
    path_BT = torch.ones(mask_BT.shape, dtype=torch.int64)
    crf = Crf(BIOUL, "BIOUL").double()
    together_B, paths = crf.loss(scores_BTY, path_BT, mask_BT), crf.decode(scores_BTY, mask_BT)
    for row, length in enumerate(LENGTHS):
        alone = (scores_BTY[row : row + 1, :length], mask_BT[row : row + 1, :length])
        torch.testing.assert_close(crf.loss(alone[0], path_BT[row : row + 1, :length], alone[1])[0], together_B[row])
        assert crf.decode(*alone) == [paths[row]]


# Tags


def sequences(tags, length):
    """All that the scheme allows, by its masks."""
    scheme = "BIOUL" if "U-X" in tags else "BIO"
    follows_YY, start_Y, end_Y = (allowed.tolist() for allowed in legal(tags, scheme))
    for path in product(range(len(tags)), repeat=length):
        moves = all(follows_YY[before][tag] for before, tag in pairwise(path))
        if start_Y[path[0]] and moves and end_Y[path[-1]]:
            yield tuple(tags[tag] for tag in path)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_what_bio_allows_is_what_reads_as_bio(length):
    assert set(sequences(BIO, length)) == {tags for tags in product(BIO, repeat=length) if first_not_bio(tags) is None}


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_what_bioul_allows_is_bio_told_in_more_detail(length):
    assert sorted(sequences(BIOUL, length)) == sorted(tuple(bioul(tags)) for tags in sequences(BIO, length))


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_bio_survives_bioul(length):
    assert all(bio_of(bioul(tags)) == list(tags) for tags in sequences(BIO, length))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=9, max_size=9), min_size=1, max_size=7), st.booleans()
)
def test_no_scores_lead_to_illegal_tags(scores, detailed):
    tags = BIOUL if detailed else BIO
    crf = Crf(tags, "BIOUL" if detailed else "BIO").requires_grad_(False)
    scores_BTY = torch.tensor([scores])[:, :, : len(tags)]
    (path,) = crf.decode(scores_BTY, torch.ones(1, len(scores), dtype=torch.bool))
    found = [tags[tag] for tag in path]
    told = bio_of(found)
    assert first_not_bio(told) is None
    assert found == (bioul(told) if detailed else told)


def test_with_no_tag_but_o_there_is_one_path():
    crf = Crf(["O"], "BIOUL")
    scores_BTY, mask_BT = torch.randn(2, 3, 1), torch.ones(2, 3, dtype=torch.bool)
    assert crf.decode(scores_BTY, mask_BT) == [[0, 0, 0]] * 2
    torch.testing.assert_close(
        crf.loss(scores_BTY, torch.zeros(2, 3, dtype=torch.int64), mask_BT), torch.zeros(2), atol=1e-5, rtol=0
    )
