"""The figures against the official scorer's published cases, the papers' examples, and the definitions in loops."""

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stelmo.tasks.coref.data import Clusters, Example
from stelmo.tasks.coref.score import METRICS, b_cubed, ceaf, compare, mentions, muc, score


def clusters(text: str) -> Clusters:
    """ "ab c" → two clusters; a letter is a mention of one word."""
    return tuple(frozenset((ord(letter), ord(letter)) for letter in cluster) for cluster in text.split())


def document(text: str) -> Example:
    return Example("(d); part 0", (("word",),), (("-",),), clusters(text), "file:1")


def figures(key: str, response: str) -> dict[str, float]:
    return score([clusters(response)], [document(key)])


def shares(metric, key: str, response: str) -> tuple[float, float]:
    """Recall and precision, as fractions of 1."""
    found = metric(compare(clusters(key), clusters(response)))
    return found.recall / 100, found.precision / 100


# The test cases that come with the official scorer (conll/reference-coreference-scorers, test/TestCases.README): A are
# its own, D and E from Bagga and Baldwin 1998, F … L from Vilain et al. 1995. B is another mention that overlaps b.

KEY = "a bc def"
BIG = "12345 67 89ABC"

MUC = {
    "A1 perfect": (KEY, "a bc def", Fraction(3, 3), Fraction(3, 3)),
    "A2 missing mentions": (KEY, "a de", Fraction(1, 3), Fraction(1, 1)),
    "A3 invented mentions": (KEY, "a bcx defy z", Fraction(3, 3), Fraction(3, 5)),
    "A4 both": (KEY, "a bcx dy z", Fraction(1, 3), Fraction(1, 3)),
    "A5 an overlapping mention": (KEY, "a bcxB dy z", Fraction(1, 3), Fraction(1, 4)),
    "A6 in a cluster of no key": (KEY, "a bcx dy Bz", Fraction(1, 3), Fraction(1, 4)),
    "A8 a mention again": (KEY, "a bcx dy bz", Fraction(1, 3), Fraction(1, 3)),
    "A10 only singletons": (KEY, "a b c d e f", Fraction(0), Fraction(0)),
    "A11 one cluster": (KEY, "abcdef", Fraction(3, 3), Fraction(3, 5)),
    "A12 singletons, not the key's": (KEY, "a x y c d e z", Fraction(0), Fraction(0)),
    "A13 one cluster, not the key's": (KEY, "axycdez", Fraction(1, 3), Fraction(1, 6)),
    "D1 a small cluster joins a big one": (BIG, "12345 6789ABC", Fraction(9, 9), Fraction(9, 10)),
    "E1 two big clusters join": (BIG, "1234589ABC 67", Fraction(9, 9), Fraction(9, 10)),
    "F1": ("ABCD", "AB CD", Fraction(2, 3), Fraction(2, 2)),
    "G1": ("AB CD", "ABCD", Fraction(2, 2), Fraction(2, 3)),
    "H1": ("ABCD", "ABCD", Fraction(1), Fraction(1)),
    "J1": ("ABC", "AC", Fraction(1, 2), Fraction(1, 1)),
    "K1": ("BCDEGHJ", "ABC DEF GHI", Fraction(3, 6), Fraction(3, 6)),
    "L1": ("ABC DEFG", "AB CD FGH", Fraction(2, 5), Fraction(2, 4)),
    "N1 singletons have no links": ("a b c d e f", "a b c d e f", Fraction(0), Fraction(0)),
}

B_CUBED = {
    "A1": (KEY, "a bc def", Fraction(6, 6), Fraction(6, 6)),
    "A2": (KEY, "a de", (1 + Fraction(4, 3)) / 6, Fraction(3, 3)),  # {a} 1, of {def} d and e find 2/3 each
    "A3": (KEY, "a bcx defy z", Fraction(6, 6), (1 + Fraction(4, 3) + Fraction(9, 4)) / 9),
    "A4": (KEY, "a bcx dy z", (1 + 2 + Fraction(1, 3)) / 6, (1 + Fraction(4, 3) + Fraction(1, 2)) / 7),
    "A5": (KEY, "a bcxB dy z", (3 + Fraction(1, 3)) / 6, (1 + Fraction(4, 4) + Fraction(1, 2)) / 8),
    "A6": (KEY, "a bcx dy Bz", (3 + Fraction(1, 3)) / 6, (1 + Fraction(4, 3) + Fraction(1, 2)) / 8),
    "A8": (KEY, "a bcx dy bz", (3 + Fraction(1, 3)) / 6, (1 + Fraction(4, 3) + Fraction(1, 2)) / 7),
    "A10": (KEY, "a b c d e f", Fraction(3, 6), Fraction(6, 6)),
    "A11": (KEY, "abcdef", Fraction(6, 6), (Fraction(1, 6) + 2 * Fraction(2, 6) + 3 * Fraction(3, 6)) / 6),
    "A12": (KEY, "a x y c d e z", (1 + Fraction(1, 2) + Fraction(2, 3)) / 6, Fraction(4, 7)),
    "A13": (
        KEY,
        "axycdez",
        (1 + Fraction(1, 2) + 2 * Fraction(2, 3)) / 6,
        (Fraction(1, 7) + Fraction(1, 7) + 2 * Fraction(2, 7)) / 7,
    ),
    "D1": (BIG, "12345 6789ABC", Fraction(12, 12), (5 + Fraction(4, 7) + Fraction(25, 7)) / 12),  # 64/84 = 16/21
    "E1": (BIG, "1234589ABC 67", Fraction(12, 12), (2 * Fraction(25, 10) + 2) / 12),  # 7/12
    "N1": ("a b c d e f", "a b c d e f", Fraction(1), Fraction(1)),
}

CEAF = {
    "A1": (KEY, "a bc def", Fraction(3, 3), Fraction(3, 3)),
    "A2": (KEY, "a de", (1 + Fraction(4, 5)) / 3, (1 + Fraction(4, 5)) / 2),
    "A3": (KEY, "a bcx defy z", (1 + Fraction(4, 5) + Fraction(6, 7)) / 3, (1 + Fraction(4, 5) + Fraction(6, 7)) / 4),
    "A4": (KEY, "a bcx dy z", (1 + Fraction(4, 5) + Fraction(2, 5)) / 3, (1 + Fraction(4, 5) + Fraction(2, 5)) / 4),
    "A5": (KEY, "a bcxB dy z", (1 + Fraction(4, 6) + Fraction(2, 5)) / 3, (1 + Fraction(4, 6) + Fraction(2, 5)) / 4),
    "A6": (KEY, "a bcx dy Bz", (1 + Fraction(4, 5) + Fraction(2, 5)) / 3, (1 + Fraction(4, 5) + Fraction(2, 5)) / 4),
    "A8": (KEY, "a bcx dy bz", (1 + Fraction(4, 5) + Fraction(2, 5)) / 3, (1 + Fraction(4, 5) + Fraction(2, 5)) / 4),
    "N1": ("a b c d e f", "a b c d e f", Fraction(1), Fraction(1)),
}

CASES = [
    pytest.param(metric, *case, id=f"{metric.__name__} {name}")
    for metric, cases in ((muc, MUC), (b_cubed, B_CUBED), (ceaf, CEAF))
    for name, case in cases.items()
]


@pytest.mark.parametrize(("metric", "key", "response", "recall", "precision"), CASES)
def test_the_official_cases_come_out(metric, key, response, recall, precision):
    assert shares(metric, key, response) == pytest.approx((float(recall), float(precision)))


# Luo 2005, table 1: F of four systems on one key. φ4 of (a): {12345} 1, {89ABC} 2·5/(5+7) = 5/6, so 11/6 over 3 and 2.
LUO = {
    "a": ("12345 6789ABC", 0.947, 0.865, 0.733),
    "b": ("1234589ABC 67", 0.947, 0.737, 0.667),
    "c": ("123456789ABC", 0.900, 0.545, 0.294),
    "d": ("1 2 3 4 5 6 7 8 9 A B C", 0.0, 0.400, 0.178),  # the table has no MUC here: 0 out of 0 links
}


@pytest.mark.parametrize(("response", "links", "cubed", "aligned"), LUO.values(), ids=LUO)
def test_luo_s_table_comes_out(response, links, cubed, aligned):
    found = figures(BIG, response)
    assert found["muc f1"] == pytest.approx(100 * links, abs=0.05)
    assert found["b3 f1"] == pytest.approx(100 * cubed, abs=0.05)
    assert found["ceaf f1"] == pytest.approx(100 * aligned, abs=0.05)
    assert found["f1"] == pytest.approx(100 * (links + cubed + aligned) / 3, abs=0.05)


# The definitions, in loops


def muc_by_partitions(key: Clusters, response: Clusters) -> tuple[float, float]:
    """Vilain et al. 1995: Σ |k| - |p(k)|, where p(k) is k cut up by the response, missed mentions each by itself."""
    found = total = 0
    for cluster in key:
        parts = [cluster & other for other in response if cluster & other]
        missed = cluster - frozenset().union(*response)
        found += len(cluster) - (len(parts) + len(missed))
        total += len(cluster) - 1
    return found, total


def b_cubed_by_mentions(key: Clusters, response: Clusters) -> tuple[float, float]:
    """Bagga and Baldwin 1998: the mean over mentions of the share of the cluster found with them."""
    every = [mention for cluster in key for mention in cluster]
    found = Fraction(0)
    for mention in every:
        own = next(cluster for cluster in key if mention in cluster)
        other = next((cluster for cluster in response if mention in cluster), frozenset())
        found += Fraction(len(own & other), len(own))
    return float(found), len(every)


def ceaf_by_enumeration(key: Clusters, response: Clusters) -> float:
    """Luo 2005: the best of all one-to-one alignments, each of them tried."""
    fewer, more = sorted((key, response), key=len)
    return max(
        sum(2 * len(a & b) / (len(a) + len(b)) for a, b in zip(fewer, chosen, strict=True))
        for chosen in permutations(more, len(fewer))
    )


@st.composite
def clusterings(draw) -> Clusters:
    """Eight mentions at most, in four clusters at most, some in none."""
    labels = draw(st.lists(st.integers(-1, 3), max_size=8))
    groups = [frozenset((i, i) for i, label in enumerate(labels) if label == number) for number in range(4)]
    return tuple(group for group in groups if group)


@given(clusterings(), clusterings())
def test_the_figures_are_those_of_the_definitions(key, response):
    overlap = compare(key, response)
    links, cubed, aligned = muc(overlap), b_cubed(overlap), ceaf(overlap)
    assert (links.recalled, links.of_key) == muc_by_partitions(key, response)
    assert (links.confirmed, links.of_response) == muc_by_partitions(response, key)
    assert (cubed.recalled, cubed.of_key) == pytest.approx(b_cubed_by_mentions(key, response))
    assert (cubed.confirmed, cubed.of_response) == pytest.approx(b_cubed_by_mentions(response, key))
    assert aligned.recalled == aligned.confirmed == pytest.approx(ceaf_by_enumeration(key, response))
    assert (aligned.of_key, aligned.of_response) == (len(key), len(response))


@given(clusterings(), clusterings())
def test_key_and_response_change_places_with_recall_and_precision(key, response):
    for metric in METRICS.values():
        one, other = metric(compare(key, response)), metric(compare(response, key))
        assert (one.recall, one.precision) == pytest.approx((other.precision, other.recall))


@given(clusterings())
def test_gold_is_perfect_wherever_there_is_something_to_find(key):
    for metric in METRICS.values():
        found = metric(compare(key, key))
        assert found.f1 == (100.0 if found.of_key else 0.0)


def test_mentions_are_found_regardless_of_clusters():
    assert shares(mentions, KEY, "ab xy c") == pytest.approx((3 / 6, 3 / 5))


def test_numerators_and_denominators_add_up_over_documents():
    # MUC: links found 1 + 2, of the key 1 + 5, of the response 1 + 2: recall 3/6 (a mean would be 0.7), precision 3/3
    found = score([clusters("ab"), clusters("abc")], [document("ab"), document("abcdef")])
    assert (found["muc recall"], found["muc precision"]) == pytest.approx((50.0, 100.0))


def test_mentions_of_one_document_are_not_those_of_another():
    found = score([clusters("cd"), clusters("ab")], [document("ab"), document("cd")])
    assert set(found.values()) == {0.0}


def test_the_headline_is_the_mean_f1():
    found = figures(KEY, "a bcx dy z")
    assert next(iter(found)) == "f1"
    assert found["f1"] == pytest.approx((found["muc f1"] + found["b3 f1"] + found["ceaf f1"]) / 3)


@pytest.mark.parametrize(("key", "response"), [("", ""), ("ab", ""), ("", "ab")])
def test_nothing_against_something_is_zero(key, response):
    assert set(figures(key, response).values()) == {0.0}
