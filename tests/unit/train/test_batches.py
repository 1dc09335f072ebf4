"""A window of types → the distinct words, where they stand, and the targets as vocabulary ids; and the negatives."""

import numpy as np
import pytest
import tiny
import torch

from stelmo.config import CodePointConvolution, CodePointInput, ModelConfig, WordInput, WordTable
from stelmo.corpus.windows import Window
from stelmo.errors import ConfigError, ModelError
from stelmo.ops import reference
from stelmo.text import chars
from stelmo.text.ids import ALPHABET_MARKERS, WORD_MARKERS, Alphabet, Vocabulary, encode_code_points
from stelmo.train import batches
from stelmo.train.batches import Batches, negatives, word_ids

TYPES = ["<S>", "</S>", "the", "bank", "über", "zebra", "x" * 70]
TARGETS = np.array([0, 1, 3, 4, 8, 2, 2], np.int32)


class Types:
    """Counts how often a word is asked for."""

    def __init__(self):
        self.asked = []

    def __len__(self):
        return len(TYPES)

    def bytes_of(self, types):
        self.asked += list(types)
        return [TYPES[number].encode() for number in types]


PLACES = np.array([[[0, 1], [1, 2]], [[3, 2], [2, 1]]])
WINDOW = Window(np.array([[[0, 2], [2, 6]], [[1, 5], [5, 2]]]), np.array([[[2, 6], [6, 1]], [[5, 2], [2, 0]]]), PLACES)


def test_a_batch_holds_each_word_once_and_says_where_it_stands():
    batch = Batches(word_ids(tiny.CONFIG, None), Types(), TARGETS)(WINDOW)
    expected = chars.encode_words([TYPES[number] for number in WINDOW.inputs_2TB.ravel()])
    assert batch.ids_U.shape == (5, 50)
    assert np.array_equal(batch.ids_U[batch.index_2TB].numpy().reshape(-1, 50), expected)
    assert np.array_equal(batch.targets_2TB.numpy(), TARGETS[WINDOW.targets_2TB])


def test_a_word_is_encoded_when_it_is_first_met_and_never_again():
    types = Types()
    batches = Batches(word_ids(tiny.CONFIG, None), types, TARGETS)
    first, again = batches(WINDOW), batches(WINDOW)
    assert np.array_equal(first.ids_U, again.ids_U)
    assert sorted(types.asked) == [0, 1, 2, 5, 6]


def test_a_model_of_word_ids_reads_numbers_of_the_vocabulary():
    vocabulary = Vocabulary(tiny.WORDS)
    batch = Batches(word_ids(tiny.WORD_CONFIG, vocabulary), Types(), TARGETS)(WINDOW)
    assert batch.ids_U[batch.index_2TB].tolist() == TARGETS[WINDOW.inputs_2TB].tolist()


def test_a_model_of_word_ids_needs_a_vocabulary():
    with pytest.raises(ModelError, match="vocabulary"):
        word_ids(ModelConfig(input=WordInput(words=10), lstm=tiny.LSTM), None)


def test_a_model_of_code_points_reads_both():
    alphabet = Alphabet((*ALPHABET_MARKERS, *"thebank"))
    vocabulary = Vocabulary((*WORD_MARKERS, "the"))
    reads = CodePointInput(
        word_table=WordTable(rows=4, width=3),
        convolution=CodePointConvolution(embedding=4, filters=((2, 5),), rows=len(alphabet)),
    )
    batch = Batches(word_ids(ModelConfig(input=reads, lstm=tiny.LSTM), vocabulary, alphabet), Types(), TARGETS)(WINDOW)
    expected = encode_code_points(["<S>", "</S>", "the", "zebra", "x" * 70], vocabulary, alphabet)
    assert np.array_equal(batch.ids_U, expected)


# Negatives


def test_negatives_are_distinct_words_of_the_vocabulary():
    found = negatives(0, 0, 1000, 400)
    assert len(set(found.ids_K.tolist())) == 400
    assert found.ids_K.min() >= 0
    assert found.ids_K.max() < 1000
    assert found.tries >= 400


def test_the_same_seed_and_step_draw_the_same_and_others_others():
    first = negatives(1, 2, 1000, 50)
    assert torch.equal(first.ids_K, negatives(1, 2, 1000, 50).ids_K)
    assert not torch.equal(first.ids_K, negatives(1, 3, 1000, 50).ids_K)
    assert not torch.equal(first.ids_K, negatives(2, 2, 1000, 50).ids_K)


@pytest.mark.parametrize("together", [1, 64, 4096])
def test_tries_are_counted_to_the_draw_that_completes_them(monkeypatch, together):
    """One draw after another, as the definition says, from the same stream of chance."""
    monkeypatch.setattr(batches, "_DRAWS_AT_LEAST", together)
    words, count = 50, 20
    found = negatives(7, 3, words, count)
    draws = np.exp(np.random.default_rng((7, 3)).random(10_000) * np.log(words + 1)).astype(int) - 1
    seen: list[int] = []
    tries = 0
    while len(seen) < count:
        seen += [draws[tries]] * (draws[tries] not in seen)
        tries += 1
    assert found.ids_K.tolist() == seen
    assert found.tries == tries


def test_words_come_as_often_as_expected():
    words, count, steps = 200, 20, 3000
    counts = np.zeros(words)
    expected = np.zeros(words)
    for step in range(steps):
        found = negatives(0, step, words, count)
        counts[found.ids_K.numpy()] += 1
        expected += reference.log_expected_count(torch.arange(words), words, found.tries).exp().numpy()
    assert counts.sum() == count * steps
    # TensorFlow's formula treats the number of tries as given, so it is close, not exact.
    np.testing.assert_allclose(counts, expected, atol=5 * np.sqrt(steps * 0.25), rtol=0.03)
    assert counts[0] > 1.5 * counts[5] > 3 * counts[100] > 0


def test_the_sampled_gradient_is_the_full_one_s_in_the_mean():
    """Half the words of a well-spread softmax, the mean over many draws: within the sampling's own bias."""
    generator = torch.Generator().manual_seed(0)
    words, tokens, width = 60, 40, 4
    h_NP = torch.randn(tokens, width, generator=generator, dtype=torch.float64)
    weight_VP = torch.randn(words, width, generator=generator, dtype=torch.float64) * 0.5
    bias_V = torch.zeros(words, dtype=torch.float64)
    targets_N = torch.randint(words, (tokens,), generator=generator)

    def gradient(loss, *rest):
        leaf = h_NP.clone().requires_grad_()
        return torch.autograd.grad(loss(leaf, targets_N, weight_VP, bias_V, *rest), leaf)[0]

    full = gradient(reference.full_softmax)
    drawn = [gradient(reference.sampled_softmax, *negatives(0, step, words, 30)) for step in range(400)]
    mean = torch.stack(drawn).mean(0)
    assert (mean - full).norm() < 0.1 * full.norm()
    assert (drawn[0] - full).norm() > 2 * (mean - full).norm()


@pytest.mark.parametrize("count", [0, 501, 1000, 5000])
def test_more_than_half_the_vocabulary_is_refused(count):
    with pytest.raises(ConfigError, match="full softmax"):
        negatives(0, 0, 1000, count)
