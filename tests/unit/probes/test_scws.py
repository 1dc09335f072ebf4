import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr
from shared import DATA, needs_data
from unit.probes.toys import contextual

from stelmo.errors import DataError
from stelmo.probes import scws
from stelmo.probes.embedding import Occurrence, pair_cosines

LINES = """1\tbank\tn\triver\tn\tthe <b> bank </b> river\t<b> river </b> x\t8.5\t8.0\t9.0
2\tbank\tn\tmoney\tn\tthe <b> bank </b> river\ta <b>money</b> b\t1.0\t0.0\t2.0
3\tbank\tn\tbank\tn\t<b> bank </b>\t<b> bank </b>\t10\t10\t10
"""


def read(folder, text=LINES):
    (folder / "ratings.txt").write_text(text)
    return scws.read(folder / "ratings.txt")


def test_the_marked_words_are_the_uses(tmp_path):
    first, second, _ = read(tmp_path)
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
        read(tmp_path, LINES.replace(old, new))


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no pairs; expected the ratings\.txt of SCWS"):
        read(tmp_path, "\n")


def test_similarity_in_context_is_compared_with_the_ratings(tmp_path):
    pairs = read(tmp_path)
    cosine_N = pair_cosines([pair[:2] for pair in pairs], contextual)
    assert scws.score(pairs, cosine_N)["spearman"] == pytest.approx(100.0)


VALUES = st.lists(st.tuples(st.integers(-3, 3), st.floats(-1, 1)), min_size=2, max_size=30)


@given(pairs=VALUES)
def test_ranks_and_correlation_agree_with_scipy(pairs):
    a_N, b_N = (np.array(values, float) for values in zip(*pairs, strict=True))
    np.testing.assert_array_equal(scws.ranks(a_N), rankdata(a_N))
    assume(len(set(a_N)) > 1 and len(set(b_N)) > 1)
    assert scws.spearman(a_N, b_N) == pytest.approx(spearmanr(a_N, b_N).statistic, abs=1e-12)


def test_a_single_rank_has_no_correlation():
    assert math.isnan(scws.spearman(np.ones(3), np.arange(3)))


@needs_data
def test_the_real_file_is_read_whole():
    pairs = scws.read(DATA / "polysemy" / "scws" / "ratings.txt")
    assert len(pairs) == 2003
    assert {use.end - use.start for pair in pairs for use in pair[:2]} == {1}
