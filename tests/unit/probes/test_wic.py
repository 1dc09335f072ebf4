import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr
from shared import DATA, needs_data
from unit.probes.toys import contextual, static

from stelmo.errors import DataError
from stelmo.probes import wic
from stelmo.probes.embedding import Occurrence, pair_cosines

OFFICIAL = "bank\tN\t1-0\tthe bank river\tbank river\nbank\tN\t1-2\tthe bank river\tmoney and bank\n"
SUPERGLUE = {
    "word": "bank",
    "sentence1": "We can't bank on it.",
    "sentence2": "Banks!",
    "start1": 9,
    "end1": 13,
    "start2": 0,
    "end2": 5,
    "label": "false",
}


def official(folder, data=OFFICIAL, gold="T\nF\n"):
    (folder / "train.data.txt").write_text(data)
    (folder / "train.gold.txt").write_text(gold)
    return folder / "train.data.txt"


def json_line(folder, value):
    (folder / "dev.jsonl").write_text(json.dumps(value) + "\n")
    return folder / "dev.jsonl"


def text(word, first, second):
    return {"label": 1, "text": f"Word: {word}. Sentence 1: {first} Sentence 2: {second}"}


def test_the_official_files_are_read(tmp_path):
    first, second = wic.read(official(tmp_path))
    assert (first.word, first.pos, first.same, second.same) == ("bank", "N", True, False)
    assert (first.first, first.second) == (
        Occurrence(("the", "bank", "river"), 1, 2),
        Occurrence(("bank", "river"), 0, 1),
    )
    assert second.second == Occurrence(("money", "and", "bank"), 2, 3)


@pytest.mark.parametrize("label", ["false", False, 0])
def test_superglue_offsets_become_places_of_words(tmp_path, label):
    (pair,) = wic.read(json_line(tmp_path, SUPERGLUE | {"label": label}))
    assert pair.first == Occurrence(("We", "ca", "n't", "bank", "on", "it", "."), 3, 4)
    assert (pair.second, pair.same) == (Occurrence(("Banks", "!"), 0, 1), False)


@pytest.mark.parametrize(
    ("word", "sentence", "place"),
    [
        ("bank", "She banked at the bank .", 4),
        ("bank", "Embankments bank", 1),
        ("begin", "It began badly .", 1),
        ("be", "But he was by her .", 2),
        ("go", "Good girls went home .", 2),
        ("think", "They thought this through .", 1),
        ("mouse", "Mice are small .", 0),
    ],
)
def test_a_word_without_offsets_is_found_by_its_form(tmp_path, word, sentence, place):
    (pair,) = wic.read(json_line(tmp_path, text(word, sentence, sentence)))
    assert pair.first == pair.second == Occurrence(tuple(sentence.split()), place, place + 1)


@pytest.mark.parametrize(
    ("data", "gold", "message"),
    [
        ("bank\tN\t1-0\tthe bank\n", "T\n", "4 columns; WiC has 5"),
        ("bank\tN\t1\ta b\tc d\n", "T\n", "positions '1'; expected two numbers such as 3-0"),
        ("bank\tN\t0-2\ta b\tc d\n", "T\n", "position 2; the sentence has words 0 to 1"),
        (OFFICIAL, "T\n", "1 answers; expected 2, one for each line of train.data.txt"),
        (OFFICIAL, "T\nyes\n", "gold.txt:2: 'yes'; expected T or F"),
        ("\n", "", "train.data.txt: no pairs; expected one on each line"),
    ],
)
def test_flawed_official_files_are_refused(tmp_path, data, gold, message):
    with pytest.raises(DataError, match=message):
        wic.read(official(tmp_path, data, gold))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (SUPERGLUE | {"label": "maybe"}, "label 'maybe'; expected true or false"),
        (SUPERGLUE | {"label": [1]}, "expected true or false"),
        (SUPERGLUE | {"start1": None}, "start1 None, end1 13; expected offsets of characters"),
        (SUPERGLUE | {"start2": 40, "end2": 44}, "no word between the characters 40 and 44 of sentence2"),
        ({"label": 1, "text": "Word bank"}, "the keys label, text; expected word, sentence1"),
        (text("bank", "xyz", "bank"), "no form of 'bank' in 'xyz'"),
        (text("bank", " ", "bank"), "no form of 'bank' in ' '"),
    ],
)
def test_flawed_json_is_refused(tmp_path, value, message):
    with pytest.raises(DataError, match=message):
        wic.read(json_line(tmp_path, value))


@pytest.mark.parametrize("line", ['{"word": ', '{"label": 1}\n[]', '{"label": 1}\n7'])
def test_what_is_no_json_object_is_refused(tmp_path, line):
    (tmp_path / "dev.jsonl").write_text(line)
    with pytest.raises(DataError, match=r"dev\.jsonl:\d: "):
        wic.read(tmp_path / "dev.jsonl")


def test_a_file_of_another_name_and_layout_is_refused(tmp_path):
    (tmp_path / "words.txt").write_text(OFFICIAL)
    with pytest.raises(DataError, match="neither JSON lines nor named"):
        wic.read(tmp_path / "words.txt")


def test_splits_are_found_and_missing_ones_named(tmp_path):
    (tmp_path / "train").mkdir()
    train = official(tmp_path / "train")
    with pytest.raises(DataError, match=r"no dev file of WiC; expected dev\.jsonl or val\.jsonl or dev\.data\.txt"):
        wic.find(tmp_path)
    dev = json_line(tmp_path, SUPERGLUE)
    assert wic.find(tmp_path) == {"train": train, "dev": dev}


def test_answers_written_and_read_back_score_the_same(tmp_path):
    pairs = wic.read(official(tmp_path))
    wic.write_answers(tmp_path / "answers.txt", [pair.same for pair in pairs])
    assert wic.accuracy(wic.read_answers(tmp_path / "answers.txt"), pairs) == 100.0


# The probe

SCORES = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=12)


@given(scores=SCORES)
def test_no_other_threshold_is_better(scores):
    cosine_N, same_N = np.array([s / 4 for s, _ in scores]), np.array([same for _, same in scores])

    def right(limit):
        return int(((cosine_N >= limit) == same_N).sum())

    assert right(wic.threshold(cosine_N, same_N)) == max(right(limit) for limit in np.linspace(-1.01, 1.01, 203))


def test_context_tells_two_uses_apart(tmp_path):
    pairs = wic.read(official(tmp_path))
    in_context, alone = (pair_cosines([pair[2:4] for pair in pairs], embed) for embed in (contextual, static))
    assert wic.score(pairs, in_context, pairs, in_context)["accuracy"] == 100.0
    assert wic.score(pairs, alone, pairs, alone)["accuracy"] == 50.0  # one word, one vector
    assert wic.most_frequent(pairs, pairs[:1]) == 100.0


@needs_data
def test_the_real_files_are_read_and_the_search_by_form_finds_what_offsets_say():
    found = wic.find(DATA / "polysemy" / "wic")
    train, dev = wic.read(found["train"]), wic.read(found["dev"])
    assert (len(train), len(dev), sum(pair.same for pair in train), sum(pair.same for pair in dev)) == (
        5428,
        500,
        2714,
        255,
    )
    uses = [(pair.word, use) for pair in dev for use in (pair.first, pair.second)]
    missed = [
        use
        for word, use in uses
        if wic._search(word, " ".join(use.tokens), "").tokens[use.start] != use.tokens[use.start]
    ]
    assert missed == []


# SCWS

RATINGS = """1\tbank\tn\triver\tn\tthe <b> bank </b> river\t<b> river </b> x\t8.5\t8.0\t9.0
2\tbank\tn\tmoney\tn\tthe <b> bank </b> river\ta <b>money</b> b\t1.0\t0.0\t2.0
3\tbank\tn\tbank\tn\t<b> bank </b>\t<b> bank </b>\t10\t10\t10
"""


def ratings(folder, text=RATINGS):
    (folder / "ratings.txt").write_text(text)
    return wic.read_ratings(folder / "ratings.txt")


def test_the_marked_words_are_the_uses(tmp_path):
    first, second, _ = ratings(tmp_path)
    assert (first.first, first.second) == (Occurrence(("the", "bank", "river"), 1, 2), Occurrence(("river", "x"), 0, 1))
    assert (second.second, second.rating) == (Occurrence(("a", "money", "b"), 1, 2), 1.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\t8.5\t8.0\t9.0", "", r"ratings\.txt:1: 7 columns; SCWS has 8 or more"),
        ("\t8.5", "\thigh", r"ratings\.txt:1: mean rating 'high'; expected a number"),
        ("\t8.5", "\tnan", r"ratings\.txt:1: mean rating 'nan'; expected a number from 0 to 10"),
        ("<b> river </b>", "river", r"ratings\.txt:1: the context 'river x'… has no marked word"),
        ("<b>money</b>", "<b>money", r"ratings\.txt:2: .* has no marked word"),
        ("<b>money</b>", "<b> </b>", r"ratings\.txt:2: .* has no marked word"),
        ("<b> river </b> x", "<b> river </b> <b> x </b>", r"txt:1: .* has no marked word; expected one between"),
    ],
)
def test_flawed_lines_are_refused(tmp_path, old, new, message):
    with pytest.raises(DataError, match=message):
        ratings(tmp_path, RATINGS.replace(old, new))


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no pairs; expected the ratings\.txt of SCWS"):
        ratings(tmp_path, "\n")


def test_similarity_in_context_is_compared_with_the_ratings(tmp_path):
    pairs = ratings(tmp_path)
    cosine_N = pair_cosines([pair[:2] for pair in pairs], contextual)
    assert wic.score_ratings(pairs, cosine_N)["spearman"] == pytest.approx(100.0)


VALUES = st.lists(st.tuples(st.integers(-3, 3), st.floats(-1, 1)), min_size=2, max_size=30)


@given(pairs=VALUES)
def test_ranks_and_correlation_agree_with_scipy(pairs):
    a_N, b_N = (np.array(values, float) for values in zip(*pairs, strict=True))
    np.testing.assert_array_equal(wic.ranks(a_N), rankdata(a_N))
    assume(len(set(a_N)) > 1 and len(set(b_N)) > 1)
    assert wic.spearman(a_N, b_N) == pytest.approx(spearmanr(a_N, b_N).statistic, abs=1e-12)


def test_a_single_rank_has_no_correlation():
    assert math.isnan(wic.spearman(np.ones(3), np.arange(3)))


@needs_data
def test_the_real_file_is_read_whole():
    pairs = wic.read_ratings(DATA / "polysemy" / "scws" / "ratings.txt")
    assert len(pairs) == 2003
    assert {use.end - use.start for pair in pairs for use in pair[:2]} == {1}
