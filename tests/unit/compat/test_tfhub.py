"""`ElmoModule`: TF-Hub's dictionary, both signatures, against plain NumPy."""

import pickle

import numpy as np
import oracle
import pytest

from stelmo.compat import tfhub
from stelmo.compat.tfhub import ElmoModule
from stelmo.errors import ConfigError, DataError, MissingModelError, StelmoError

OPTIONS = oracle.options()
ARRAYS = oracle.random_weights(OPTIONS)
STRINGS = ["the cat is on the mat", "dogs  are in the fog", ""]
TOKENS = [text.split() for text in STRINGS]
PADDED = {"tokens": [[*tokens, *[""] * (7 - len(tokens))] for tokens in TOKENS], "sequence_len": [6, 5, 0]}


def written(folder, **options):
    made = oracle.options(**options)
    oracle.write(folder, made, oracle.random_weights(made))
    return folder


@pytest.fixture(scope="module")
def elmo(folder):
    return ElmoModule(folder, precision="float64")


@pytest.fixture(scope="module")
def expected():
    return [oracle.layers(OPTIONS, ARRAYS, tokens) for tokens in TOKENS]


@pytest.mark.parametrize(
    ("inputs", "signature", "longest"),
    [
        (STRINGS, "default", 6),
        (PADDED, "tokens", 7),
        ({"tokens": np.array(PADDED["tokens"]), "sequence_len": np.array([6, 5, 0])}, "tokens", 7),
    ],
)
def test_the_dictionary_is_what_numpy_computes(elmo, expected, inputs, signature, longest):
    found = elmo(inputs, signature=signature, as_dict=True)
    assert list(found) == ["word_emb", "lstm_outputs1", "lstm_outputs2", "elmo", "default"]
    assert found["word_emb"].shape == (3, longest, 4)
    assert found["elmo"].shape == found["lstm_outputs1"].shape == found["lstm_outputs2"].shape == (3, longest, 8)
    for row, layers in enumerate(expected):
        parts = {"word_emb": layers[0, :, :4], "lstm_outputs1": layers[1], "lstm_outputs2": layers[2]}
        for name, part in (parts | {"elmo": layers.mean(0)}).items():
            np.testing.assert_allclose(found[name][row, : len(part)], part, atol=1e-12)
            assert not found[name][row, len(part) :].any()
    np.testing.assert_allclose(found["default"][0], expected[0].mean((0, 1)), atol=1e-12)
    np.testing.assert_allclose(found["default"][1], expected[1].mean((0, 1)), atol=1e-12)
    assert not found["default"][2].any()


def test_without_the_dictionary_the_sentence_vectors_come_alone(elmo):
    np.testing.assert_array_equal(elmo(STRINGS), elmo(STRINGS, as_dict=True)["default"])


def test_strings_are_split_at_spaces_and_nowhere_else(elmo):
    found = elmo(["a\tb  c"], as_dict=True)["elmo"]
    tokens = elmo({"tokens": [["a\tb", "c"]], "sequence_len": [2]}, "tokens", as_dict=True)["elmo"]
    np.testing.assert_array_equal(found, tokens)


def test_every_lstm_layer_has_its_key(tmp_path):
    found = ElmoModule(written(tmp_path, layers=3))(["a"], as_dict=True)
    assert [name for name in found if name.startswith("lstm")] == ["lstm_outputs1", "lstm_outputs2", "lstm_outputs3"]


def test_what_cannot_be_done_is_refused_in_one_sentence(elmo):
    cases = [
        (
            lambda: ElmoModule("https://tfhub.dev/google/elmo/3"),
            MissingModelError,
            "https://tfhub.dev/google/elmo/3: nothing is",
        ),
        (lambda: elmo(["a"], signature="words"), ConfigError, "default, tokens"),
        (lambda: elmo(), DataError, "takes a list of strings"),
        (lambda: elmo("a b"), DataError, "takes a list of strings"),
        (lambda: elmo([None]), DataError, r"inputs\[0\] is None"),
        (lambda: elmo([b"\xff"]), DataError, "not UTF-8"),
        (
            lambda: elmo({"tokens": [["a", None]], "sequence_len": [2]}, "tokens"),
            DataError,
            r"tokens\[0\]\[1\] is None",
        ),
        (lambda: elmo([["a", "b"]]), DataError, r"inputs\[0\] is .* the signature"),
        (lambda: elmo([]), DataError, "no sentences"),
        (lambda: elmo([["a"]], signature="tokens"), DataError, "sequence_len"),
        (lambda: elmo({"tokens": [["a"], ["a", "b"]], "sequence_len": [1, 2]}, "tokens"), DataError, "one length"),
        (lambda: elmo({"tokens": [["a"]], "sequence_len": [1, 1]}, "tokens"), DataError, "1 rows of tokens, 2 lengths"),
        (lambda: elmo({"tokens": [["a"]], "sequence_len": [2]}, "tokens"), DataError, r"sequence_len\[0\] is 2"),
    ]
    for call, kind, message in cases:
        with pytest.raises(StelmoError, match=message) as refusal:
            call()
        assert refusal.type is kind
        assert "\n" not in str(refusal.value)


def test_bytes_are_utf_8_text_in_lists_arrays_and_tensors(elmo):
    expected = elmo(["the naïve cat"], as_dict=True)["elmo"]
    encoded = "the naïve cat".encode()
    for inputs in ([encoded], np.array([encoded]), np.array(["the naïve cat"]), ("the naïve cat",)):
        np.testing.assert_array_equal(elmo(inputs, as_dict=True)["elmo"], expected)
    tokens = {"tokens": np.array([encoded.split()]), "sequence_len": np.array([3])}
    np.testing.assert_array_equal(elmo(tokens, "tokens", as_dict=True)["elmo"], expected)


class Eager:
    """A tensor as TensorFlow 2 has them, as far as this module looks."""

    def __init__(self, values):
        self.values = values

    def numpy(self):
        return np.array(self.values)


def test_signatures_are_called_as_those_of_hub_load(folder):
    module = tfhub.load(folder)
    found = module.signatures["default"](Eager([b"a b"]))
    np.testing.assert_array_equal(module.signatures["default"](text=["a b"])["elmo"], found["elmo"])
    rows = module.signatures["tokens"](tokens=Eager([[b"a", b"b"]]), sequence_len=Eager([2]))
    np.testing.assert_array_equal(rows["elmo"], found["elmo"])


def test_trainable_reads_vectors_with_a_note_and_a_name_is_accepted(folder):
    with pytest.warns(UserWarning, match="nothing is trained; stelmo.Elmo"):
        module = tfhub.Module(folder, trainable=True, name="elmo")
    np.testing.assert_allclose(module(["a"]), ElmoModule(folder)(["a"]), rtol=1e-5, atol=1e-7)


def test_the_module_can_be_pickled_after_use(elmo):
    expected = elmo(["a b"])
    # Weights at other addresses may change the last bit of a product.
    np.testing.assert_allclose(pickle.loads(pickle.dumps(elmo))(["a b"]), expected, rtol=1e-12)
