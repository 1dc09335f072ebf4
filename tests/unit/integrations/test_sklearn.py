"""ElmoVectorizer against `Model.layers`, sklearn's own checks, grid search, pickles, and input it refuses."""

import pickle
import re
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tiny

import stelmo
from stelmo.embed import load as loading
from stelmo.errors import ConfigError, DataError, ModelError

pytest.importorskip("sklearn", reason="scikit-learn is not installed; pip install 'stelmo[sklearn]'")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

from stelmo.integrations import sklearn as integration
from stelmo.integrations.sklearn import ElmoVectorizer, mixes

DOCS = (Path(__file__).parents[3] / "docs" / "integrations" / "sklearn.md").read_text()
TEXTS = ["The bank . A river !", "", "über 日本", "  \n ", "a"]
TOKENS = [["The", "bank", "."], [], ["river"], ["a", "bank"]]


def expected(folder, sentences_of_texts, layer, pool):
    """From all layers of all tokens, the slow way."""
    model = stelmo.load(folder)
    rows = []
    for sentences in sentences_of_texts:
        tokens = [layer(layers_LTD) for layers_LTD in model.layers(sentences)]
        x_TD = np.concatenate([np.zeros((0, 12), np.float32), *tokens])
        rows.append(pool(x_TD) if len(x_TD) else np.zeros(12, np.float32))
    return np.stack(rows)


@pytest.mark.parametrize(
    ("pooling", "pool"),
    [
        ("mean", partial(np.mean, axis=0)),
        ("max", partial(np.max, axis=0)),
        ("first", lambda x_TD: x_TD[0]),
        ("last", lambda x_TD: x_TD[-1]),
    ],
)
@pytest.mark.parametrize(
    ("layer", "pick"),
    [
        ("mean", partial(np.mean, axis=0)),
        ("top", lambda x_LTD: x_LTD[-1]),
        (np.int64(1), lambda x_LTD: x_LTD[1]),
        ((0.5, 2, -1), lambda x_LTD: 0.5 * x_LTD[0] + 2 * x_LTD[1] - x_LTD[2]),
    ],
)
def test_vectors_are_pooled_layers(folder, pooling, pool, layer, pick):
    vectorizer = ElmoVectorizer(folder, pooling=pooling, layer=layer)
    for texts, sentences in ((TEXTS, map(stelmo.tokenize, TEXTS)), (TOKENS, ([tokens] for tokens in TOKENS))):
        vectors_ND = vectorizer.fit_transform(texts)
        assert vectors_ND.dtype == np.float32
        np.testing.assert_allclose(vectors_ND, expected(folder, sentences, pick, pool), rtol=1e-5, atol=1e-6)


def test_texts_come_in_any_one_dimensional_shape(folder, monkeypatch):
    plain = ElmoVectorizer(folder).fit_transform(TEXTS)
    monkeypatch.setattr(integration, "TOGETHER", 2)
    for texts in (np.array(TEXTS), np.array(TEXTS, object), tuple(TEXTS), (text for text in TEXTS)):
        np.testing.assert_allclose(ElmoVectorizer(folder).fit_transform(texts), plain, atol=1e-6)
    assert ElmoVectorizer(folder).fit_transform([]).shape == (0, 12)


def test_a_tokenizer_gives_sentences_or_the_tokens_of_one(folder):
    own = ElmoVectorizer(folder, tokenizer=str.split).fit_transform(["The bank .", " "])
    np.testing.assert_array_equal(own, ElmoVectorizer(folder).fit_transform([["The", "bank", "."], []]))
    nested = ElmoVectorizer(folder, tokenizer=lambda text: [text.split(), []]).fit_transform(["The bank .", " "])
    np.testing.assert_array_equal(own, nested)


class OfNumbers(ElmoVectorizer):
    """Rows of numbers as sentences whose words are the numbers: what it takes to run sklearn's checks on us."""

    def fit(self, X, y=None):
        return super().fit(_spelled(validate_data(self, X)))

    def transform(self, X):
        check_is_fitted(self)
        return super().transform(_spelled(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = False, True
        return tags


def _spelled(X):
    return [[f"{value:.3g}" for value in row] for row in X]


def check(estimator, **options):
    """What did not pass, by the check's name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it cannot check everything, which is what we look at
        results = check_estimator(estimator, on_fail=None, on_skip=None, **options)
    return {result["check_name"]: result["status"] for result in results if result["status"] != "passed"}


def test_sklearns_checks_pass_where_numbers_are_words(folder):
    """The array API is checked only where an environment variable asks for it."""
    failed = check(OfNumbers(str(folder), precision="float64"))
    assert failed.keys() <= {"check_array_api_input"}
    reason = "it allows a difference of 1e-9, less than float32 can tell apart"
    single = check(
        OfNumbers(str(folder)),
        expected_failed_checks={
            "check_methods_sample_order_invariance": reason,
            "check_methods_subset_invariance": reason,
        },
    )
    assert set(single.values()) <= {"skipped", "xfail"}


def test_sklearns_checks_pass_as_far_as_there_are_any_for_text(folder):
    assert check(ElmoVectorizer(folder)) == {}


def test_a_grid_over_pooling_and_layers_reads_the_model_once(folder, monkeypatch):
    reads = []
    read = loading.load
    monkeypatch.setattr(loading, "load", lambda *a, **k: reads.append(a) or read(*a, **k))
    loading._read.cache_clear()
    texts, labels = ["The bank .", "a river", "bank bank", "river a ."] * 4, [0, 1, 0, 1] * 4
    pipeline = make_pipeline(ElmoVectorizer(folder), LogisticRegression())
    grid = {"elmovectorizer__pooling": ["mean", "max"], "elmovectorizer__layer": ["top", 0, *mixes(3, 1)]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(texts, labels)
    assert search.score(texts, labels) == 1.0
    assert len(reads) == 1
    assert search.best_estimator_.set_output(transform="default").predict(["bank"]).shape == (1,)


def test_mixes_are_all_that_sum_to_one():
    found = mixes(3, 4)
    assert len(found) == len(set(found)) == 15
    assert all(len(mix) == 3 and sum(mix) == 1 for mix in found)


def test_params_and_clones_keep_what_was_given(folder):
    mix = (0.0, 0.5, 0.5)
    vectorizer = ElmoVectorizer(folder, pooling="max", layer=mix).fit(TEXTS)
    copy = clone(vectorizer)
    assert copy.get_params() == vectorizer.get_params()
    assert not hasattr(copy, "fingerprint_")
    assert list(vectorizer.get_feature_names_out())[:2] == ["elmovectorizer0", "elmovectorizer1"]


def test_a_pickle_is_a_name_and_a_fingerprint(folder):
    vectorizer = ElmoVectorizer(str(folder), pooling="max").fit(TEXTS)
    data = pickle.dumps(vectorizer)
    assert len(data) < 1000 < (folder / "model.safetensors").stat().st_size
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.transform(TEXTS), vectorizer.transform(TEXTS))
    assert again._shared(None).model is vectorizer._shared(None).model


@pytest.mark.long
def test_a_pickle_is_read_by_another_process(folder, tmp_path):
    (tmp_path / "v.pkl").write_bytes(pickle.dumps(ElmoVectorizer(str(folder), pooling="max").fit(TEXTS)))
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).transform([['a', 'bank']]).shape)"
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "v.pkl"], capture_output=True, text=True)
    assert done.stdout == "(1, 12)\n", done.stderr


def test_a_model_written_anew_is_not_taken_for_the_old_one(tmp_path):
    tiny.folder(tmp_path / "m")
    vectorizer = ElmoVectorizer(tmp_path / "m").fit(TEXTS)
    other = stelmo.load(tmp_path / "m")
    other.bilm.encoder.table[5] += 1
    other.save(tmp_path / "m", overwrite=True)
    with pytest.raises(ModelError, match="other weights"):
        vectorizer.transform(TEXTS)
    assert vectorizer.fit(TEXTS).transform(TEXTS).shape == (5, 12)


def test_before_fit_there_are_no_vectors(folder):
    with pytest.raises(NotFittedError):
        ElmoVectorizer(folder).transform(TEXTS)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("The bank .", "str 'The bank .'; expected a list of texts"),
        (5, "int 5; expected a list of texts"),
        (np.zeros((2, 3)), "ndarray of 2 dimensions; expected one column"),
        (["a", None], "row 1: NoneType None; expected a text"),
        (["a", float("nan")], "row 1: float nan"),
        (["a", b"a"], "row 1: bytes b'a'"),
        ([["a"], ["b", 3]], "row 1: token 3; tokens must be strings"),
        ([[["a"], ["b"]]], "row 0: token .'a'.; tokens must be strings"),
    ],
)
def test_what_is_no_text_is_refused(folder, texts, message):
    with pytest.raises(DataError, match=message):
        ElmoVectorizer(folder).fit_transform(texts)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "median"}, "pooling: 'median' is not one of mean, max, first, last"),
        ({"layer": 3}, "layer: 3 is not one of"),
        ({"layer": "bottom"}, "layer: 'bottom' is not one of"),
        ({"layer": (1, 2)}, "3 layers, so expected 3 finite weights"),
        ({"layer": (1, 2, float("inf"))}, "expected 3 finite weights"),
        ({"layer": None}, "layer: None; expected mean, top"),
        ({"layer": ["a", "b", "c"]}, "a weight for each layer"),
        ({"state": "carry"}, "carry"),
        ({"precision": "float8"}, "precision"),
        ({"model": tiny.model}, "model: function found; expected a path, so save it first"),
    ],
)
def test_settings_are_refused_by_fit(folder, settings, message):
    with pytest.raises(ConfigError, match=message):
        ElmoVectorizer(**{"model": folder, **settings}).fit(TEXTS)


def test_without_sklearn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "stelmo.integrations.sklearn")
    with pytest.raises(ConfigError, match=re.escape("pip install 'stelmo[sklearn]'")):
        import stelmo.integrations.sklearn  # noqa: F401


def test_the_page_runs(tmp_path, monkeypatch):
    tiny.folder(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", DOCS, re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    exec(snippet, names)
    assert names["search"].best_score_ >= 0.5
    assert names["vectors"].shape == (2, 12)
