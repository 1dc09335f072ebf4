"""Candidates, the best spans and the clusters of antecedents, against enumeration."""

from hypothesis import given
from hypothesis import strategies as st

from stelmo.tasks.coref.data import Example
from stelmo.tasks.coref.spans import NO_CLUSTER, candidates, cluster_numbers, cut, linked, pruned


def cross(first, second):
    (a, b), (c, d) = sorted([first, second])
    return a < c <= b < d


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 4))
def test_candidates_are_all_spans_of_a_sentence_up_to_a_width(lengths, widest):
    sentence_of = [number for number, length in enumerate(lengths) for _ in range(length)]
    words = range(len(sentence_of))
    found = {(start, start + more) for start, more in candidates(lengths, widest).nonzero().tolist()}
    assert found == {
        (start, end)
        for start in words
        for end in words
        if start <= end < start + widest and sentence_of[start] == sentence_of[end]
    }


span = st.tuples(st.integers(0, 8), st.integers(0, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))
scored = st.lists(st.tuples(span, st.integers(-3, 3)), max_size=25, unique_by=lambda pair: pair[0])


@given(scored, st.integers(1, 30))
def test_the_best_spans_are_kept_that_cross_no_better_one(given_, keep):
    spans, scores = [pair[0] for pair in given_], [float(pair[1]) for pair in given_]
    expected = []
    for place in sorted(range(len(spans)), key=lambda place: -scores[place]):
        if len(expected) < keep and not any(cross(spans[place], spans[other]) for other in expected):
            expected.append(place)
    kept = pruned(spans, scores, keep)
    assert set(kept) == set(expected)
    assert [spans[place] for place in kept] == sorted(spans[place] for place in kept)


def test_mentions_know_the_number_of_their_cluster():
    clusters = (frozenset({(0, 0), (4, 5)}), frozenset({(2, 3)}))
    assert cluster_numbers([(0, 0), (0, 1), (2, 3), (4, 5)], clusters) == [0, NO_CLUSTER, 1, 0]


@given(st.data())
def test_clusters_are_what_antecedents_connect(data):
    count = data.draw(st.integers(1, 8))
    antecedents = [data.draw(st.none() | st.integers(0, i - 1)) if i else None for i in range(count)]
    alone = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    mentions = [(place, place) for place in range(count)]
    connected = [{i} for i in range(count)]
    for i, antecedent in enumerate(antecedents):
        if antecedent is not None:
            both = connected[i] | connected[antecedent]
            for each in both:
                connected[each] = both
    expected = {
        frozenset((place, place) for place in group)
        for group in connected
        if len(group) > 1 or all(alone[place] for place in group)
    }
    found = linked(mentions, antecedents, alone)
    assert set(found) == expected
    assert len(found) == len(expected)


def test_a_piece_of_a_document_has_the_mentions_that_lie_in_it():
    document = Example(
        name="(x); part 000",
        sentences=(("a", "b"), ("c", "d", "e"), ("f",), ("g",)),
        speakers=(("-", "-"), ("-", "-", "Ann"), ("Bob",), ("-",)),
        clusters=(frozenset({(0, 0), (2, 3), (5, 5)}), frozenset({(1, 1), (6, 6)}), frozenset({(4, 4)})),
        where="f:1",
    )
    assert cut(document, 1, 2) == document._replace(
        sentences=(("c", "d", "e"), ("f",)),
        speakers=(("-", "-", "Ann"), ("Bob",)),
        clusters=(frozenset({(0, 1), (3, 3)}), frozenset({(2, 2)})),
    )
    assert cut(document, 0, 4) == document
