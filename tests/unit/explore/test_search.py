"""Search finds what comparing with every use finds, in blocks and by faiss; static, suggested and similar words."""

import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.explore.toys import CONTEXTS, DEPTH, TOPICS, WIDTH, index_of, random_index

from stelmo.embed.model import Model
from stelmo.errors import ConfigError, DataError
from stelmo.explore import index, search
from stelmo.explore.mixing import Mix, of_layer
from stelmo.store import uses as store
from stelmo.store.uses import Manifest, Sentence

WORDS = ["bank", "Bank", "river"] * 12
QUERY_D = np.array([1.0, -0.5, 0.25, 2.0], np.float32)
MEAN = of_layer("mean", DEPTH)


def brute_force(found, query_D, mix, k, word=None):
    """(id, cosine), in plain Python and double precision."""
    scored = []
    for id in found.ids.tolist():
        vector_D = mix.gamma * np.einsum("l,ld->d", np.array(mix.weights), found.layers([id])[0].astype(np.float64))
        lengths = np.linalg.norm(vector_D) * np.linalg.norm(query_D)
        scored.append((id, float(vector_D @ query_D / lengths) if lengths else 0.0))
    kept = [(id, score) for id, score in scored if word is None or found.use(id).word.lower() == word.lower()]
    return sorted(kept, key=lambda pair: (-pair[1], pair[0]))[:k]


def assert_same(hits, expected):
    assert [hit.use.id for hit in hits] == [id for id, _ in expected]
    np.testing.assert_allclose([hit.similarity for hit in hits], [score for _, score in expected], atol=1e-5)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return random_index(tmp_path_factory.mktemp("search") / "i", WORDS)


numbers = st.floats(-3, 3, width=32)


@given(
    query=st.lists(numbers, min_size=WIDTH, max_size=WIDTH).filter(lambda query: np.linalg.norm(query) > 0.1),
    weights=st.tuples(*[st.sampled_from([0.0, 0.2, 1.0])] * DEPTH),
    k=st.integers(0, 50),
    word=st.sampled_from([None, "bank", "RIVER", "nowhere"]),
    block=st.integers(1, 50),
)
@settings(max_examples=60)
def test_search_is_comparing_with_every_use(found, query, weights, k, word, block):
    query_D, mix = np.array(query, np.float32), Mix(weights, 1.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BLOCK_USES", block)
        hits = search.nearest(found, query_D, mix, k, word)
    assert_same(hits, brute_force(found, query_D, mix, k, word))


def test_a_use_is_nearest_to_itself(found):
    layers_NLD = found.layers([7])
    hits = search.nearest(found, layers_NLD[0, 2], of_layer(2, DEPTH), 1)
    assert hits[0].use == found.use(7)
    assert hits[0].similarity == pytest.approx(1.0, abs=1e-5)


def test_the_querys_own_sentence_can_be_left_out(found):
    own = found.use(7)
    hits = search.nearest(found, found.layers([7])[0, 2], of_layer(2, DEPTH), len(WORDS), exclude=list(own.tokens))
    assert {hit.use.id for hit in hits} == set(found.ids.tolist()) - {7}


def test_deleted_uses_are_not_found(tmp_path):
    random_index(tmp_path / "i", WORDS)
    index.delete(tmp_path / "i", lambda tokens: int(tokens[0]) % 2 == 0)
    found = index.open(tmp_path / "i")
    hits = search.nearest(found, QUERY_D, MEAN, len(WORDS))
    assert_same(hits, brute_force(found, QUERY_D, MEAN, len(WORDS)))
    assert len(hits) == len(WORDS) // 2


def test_equals_come_in_the_order_of_their_ids(tmp_path):
    found = index_of(tmp_path / "i", ["a"] * 9, np.ones((9, DEPTH, WIDTH)))
    assert [hit.use.id for hit in search.nearest(found, QUERY_D, MEAN, 5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("query_D", [np.zeros(WIDTH, np.float32), QUERY_D], ids=["query", "uses"])
def test_a_vector_of_zeros_is_like_nothing(query_D, tmp_path):
    found = index_of(tmp_path / "i", ["a", "b"], np.zeros((2, DEPTH, WIDTH)))
    assert [hit.similarity for hit in search.nearest(found, query_D, MEAN, 2)] == [0.0, 0.0]


def test_an_empty_index_has_no_neighbour(tmp_path):
    random_index(tmp_path / "i", WORDS)
    index.delete(tmp_path / "i", lambda tokens: True)
    assert search.nearest(index.open(tmp_path / "i"), QUERY_D, MEAN, 3) == []


# Faiss


@pytest.fixture
def by_faiss(monkeypatch):
    pytest.importorskip("faiss", reason="faiss is an extra; pip install 'stelmo[explore]'")
    monkeypatch.setattr(search, "FAISS_FROM", 1)
    monkeypatch.setattr(search, "SPARE", 2)
    search._flat.cache_clear()
    yield
    search._flat.cache_clear()


@pytest.mark.parametrize("layer", [0, 1, "top", "mean"])
@pytest.mark.parametrize("k", [1, 5, 100])
def test_faiss_gives_the_same_answers(layer, k, found, by_faiss):
    mix = of_layer(layer, DEPTH)
    assert_same(search.nearest(found, QUERY_D, mix, k), brute_force(found, QUERY_D, mix, k))
    assert search._flat.cache_info().currsize == 1


def test_faiss_finds_enough_when_a_sentence_is_left_out(found, by_faiss):
    best = brute_force(found, QUERY_D, MEAN, 4)
    hits = search.nearest(found, QUERY_D, MEAN, 3, exclude=found.use(best[0][0]).tokens)
    assert_same(hits, best[1:])


def test_without_faiss_a_large_index_is_searched_all_the_same(found, monkeypatch):
    monkeypatch.setattr(search, "FAISS_FROM", 1)
    monkeypatch.setattr(search, "find_spec", lambda name: None)
    assert_same(search.nearest(found, QUERY_D, MEAN, 5), brute_force(found, QUERY_D, MEAN, 5))


def test_a_word_is_found_in_its_first_sentence_and_an_exact_match_wins():
    sentences = [["The", "Bank"], ["a", "bank", "."], ["bank"]]
    assert search.find_word("bank", sentences) == (["a", "bank", "."], 1)
    assert search.find_word("BANK", sentences) == (["The", "Bank"], 1)
    with pytest.raises(DataError, match="'river' is not a token of 'The Bank a bank"):
        search.find_word("river", sentences)


GLOVE = "bank 1 0 0\nriver 0.9 0.1 0\nmoney 0.5 0.5 0\nthe 0 0 1\nzero 0 0 0\n"


@pytest.fixture
def glove(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text(GLOVE)
    return path


def test_neighbours_of_a_file_are_by_cosine_without_the_word_itself(glove):
    found = search.static_of_file(glove).neighbours("bank", 10)
    assert [word for word, _ in found] == ["river", "money", "the", "zero"]
    np.testing.assert_allclose([score for _, score in found], [0.9 / np.sqrt(0.82), np.sqrt(0.5), 0, 0], atol=1e-6)


def test_as_many_as_asked_for(glove):
    assert len(search.static_of_file(glove).neighbours("bank", 2)) == 2


def test_a_word_is_looked_up_in_lower_case_where_its_own_case_is_missing(glove):
    assert search.static_of_file(glove).neighbours("River", 2)[0][0] == "river"


def test_an_unknown_word_has_no_neighbours(glove):
    assert search.static_of_file(glove).neighbours("unheard-of", 3) == []


def test_neighbours_of_a_model_are_by_its_layer_0_over_the_words_of_its_vocabulary():
    model = tiny.model()
    words = [word for word in tiny.WORDS if any(map(str.isalpha, word))]
    layers = model.layers([[word] for word in [*words, "banks"]])
    *vectors, query_D = (layers_LTD[0, 0] / np.linalg.norm(layers_LTD[0, 0]) for layers_LTD in layers)
    expected = {word: float(vector_D @ query_D) for word, vector_D in zip(words, vectors, strict=True)}
    found = search.static_of_model(model).neighbours("banks", 99)  # read by its characters: no word of the vocabulary
    assert [word for word, _ in found] == sorted(words, key=lambda word: -expected[word])
    np.testing.assert_allclose([score for _, score in found], [expected[word] for word, _ in found], atol=1e-5)


def test_a_model_without_a_vocabulary_is_refused():
    with pytest.raises(ConfigError, match="no vocabulary, so it has no static neighbours"):
        search.static_of_model(Model(tiny.saved(vocabulary=None)))


def clouds(distance, rng):
    """(24, 3, 16): uses in two clouds that far apart on the top layer."""
    layers_NLD = rng.normal(size=(24, 3, 16))
    layers_NLD[:12, 2, 0] += distance
    layers_NLD[12:, 2, 0] -= distance
    return layers_NLD


def test_the_best_separated_words_come_first_and_function_words_never(tmp_path):
    rng = np.random.default_rng(0)
    words = {"bank": 3, "rock": 30, "play": 8, "house": 0, "the": 50}
    layers_NLD = np.concatenate([clouds(distance, rng) for distance in words.values()])
    made = index_of(tmp_path / "uses", [word for word in words for _ in range(24)], layers_NLD)
    assert search.separating(made, 9) == ["rock", "play", "bank", "house"]
    assert search.separating(made, 2) == ["rock", "play"]


def test_with_context_vectors_the_words_around_the_uses_count(tmp_path):
    """On the top layer "rock" separates; by the words around them only "bank" does."""
    rng = np.random.default_rng(0)
    money, river = ([f"{topic}{n}" for n in numbers] for topic, numbers in TOPICS.items())
    banks = [["bank", *rng.choice(money if n < 12 else river, 5)] for n in range(24)]
    rocks = [["rock", *rng.permutation([*money, *river])[:5]] for n in range(24)]
    layers_NLD = np.concatenate([clouds(0, rng), clouds(30, rng)]).astype(np.float16)
    store.prepare(tmp_path / "uses", Manifest(model="toy", settings={}, depth=3, width=16))
    with store.writing(tmp_path / "uses") as writer:
        writer.add([Sentence(tuple(tokens), (0,)) for tokens in [*banks, *rocks]], layers_NLD)
    made = index.open(tmp_path / "uses")
    assert search.separating(made, 2) == ["rock", "bank"]
    assert search.separating(made, 2, CONTEXTS) == ["bank", "rock"]


def test_words_are_kept_when_an_index_is_made_and_again_when_it_grows(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "FEWEST", 2)
    counted = []
    original = search.separating
    monkeypatch.setattr(search, "separating", lambda *given: (counted.append(1), original(*given))[1])
    model = tiny.model()
    sentences = [["the", "bank"], ["a", "bank"], ["a", "river"], ["the", "river", "bank"]]
    found = index.build(model, sentences, tmp_path / "uses")
    assert sorted(search.suggested(found, 9)) == ["bank", "river"]
    index.build(model, sentences, tmp_path / "uses")
    assert len(counted) == 1
    grown = index.build(model, [["über", "bank"], ["über", "river"]], tmp_path / "uses")
    assert len(counted) == 2
    assert sorted(search.suggested(grown, 9)) == ["bank", "river", "über"]
    assert len(search.suggested(grown, 1)) == 1
    assert len(counted) == 2


@pytest.mark.parametrize("damaged", ["", "{", '{"uses": 4, "words": ["zzz"]}', '{"uses": 3, "words": []}'])
def test_an_index_without_them_or_with_others_has_them_computed(tmp_path, monkeypatch, damaged):
    monkeypatch.setattr(search, "FEWEST", 2)
    found = index.build(tiny.model(), [["the", "bank"], ["a", "bank"]], tmp_path / "uses")
    assert len(found) == 4
    (tmp_path / "uses" / "suggested.json").write_text(damaged)
    assert search.suggested(found, 9) == ["bank"]
    (tmp_path / "uses" / "suggested.json").unlink()
    assert search.suggested(found, 9) == ["bank"]


def test_two_outliers_are_not_a_meaning(tmp_path):
    rng = np.random.default_rng(1)
    outlying = rng.normal(size=(24, 3, 16))
    outlying[:2, 2, 0] += 100
    layers_NLD = np.concatenate([outlying, clouds(3, rng)])
    made = index_of(tmp_path / "uses", ["bank"] * 24 + ["rock"] * 24, layers_NLD)
    assert search.separating(made, 2) == ["rock", "bank"]


def test_rare_words_are_not_suggested(tmp_path):
    assert search.separating(random_index(tmp_path / "uses", ["bank"] * 19), 5) == []


@pytest.mark.parametrize(
    ("typed", "best"), [("bnak", "bank"), ("Rivers", "river"), ("rivver", "river"), ("bank", "bank")]
)
def test_a_misspelled_word_finds_the_one_that_was_meant(tmp_path, typed, best):
    made = random_index(tmp_path / "uses", ["bank", "bank", "back", "bark", "river", "zebra"])
    assert search.spelled_like(made, typed, 3)[0] == best


def test_a_word_like_no_other_finds_none(tmp_path):
    assert search.spelled_like(random_index(tmp_path / "uses", ["bank", "river"]), "zzz", 3) == []
