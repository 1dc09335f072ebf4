"""Tuning: perplexity falls, the biLM rests while its softmax is learned, and a killed run ends in the same bits."""

import dataclasses

import corpora
import numpy as np
import pytest
import tiny
import torch

from stelmo.config import CodePointConvolution, CodePointInput, ModelConfig, WordTable
from stelmo.corpus import folder as shards
from stelmo.corpus.prepare import prepare
from stelmo.corpus.windows import Sentences
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, DataError, ModelError, OutputError
from stelmo.formats import models
from stelmo.lm.perplexity import perplexity
from stelmo.progress import NoProgress
from stelmo.settings import PrepareSettings
from stelmo.text.ids import ALPHABET_MARKERS, WORD_MARKERS, Alphabet, Vocabulary
from stelmo.train import pretrain as pretraining
from stelmo.train import tune as tuning
from stelmo.train.world import join

WORDS = ["batch=8", "log_every=5", "checkpoint_every=3", "validate_every=10"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return shards.read(corpora.make(tmp_path_factory.mktemp("data") / "corpus", corpora.sentences(120), heldout=12))


@pytest.fixture(scope="module")
def saved(corpus):
    """A model whose words are the corpus'; its softmax knows nothing of them."""
    words = len(corpus.vocabulary)
    head = tiny.Softmax(words, tiny.LSTM.projection).requires_grad_(False)
    head.reset(torch.Generator().manual_seed(5))
    return tiny.saved(vocabulary=corpus.vocabulary, read_softmax=lambda: head)


def tuned(saved, corpus, to, *words, softmax_words=(), **options):
    return tuning.tune(saved, corpus, to, tuning.settings_of(None, [*WORDS, *words], softmax_words), **options)


def tensors(path):
    model = models.read(path)
    return {**model.bilm.state_dict(), **{f"softmax.{n}": t for n, t in model.read_softmax().state_dict().items()}}


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_perplexity_falls_and_is_told_before_and_after(saved, corpus, tmp_path):
    found = tuned(saved, corpus, tmp_path / "run", "epochs=3", "lr=0.01")
    assert found.outcome.finished
    assert list(found.figures) == ["before", "after"]
    before, after = found.figures.values()
    assert before.step == 0
    assert after.perplexity < 0.8 * before.perplexity
    assert after.forward < before.forward
    assert after.backward < before.backward
    assert before.tokens == after.tokens == corpus.manifest.heldout.tokens + corpus.manifest.heldout.sentences


def test_the_figure_before_is_the_model_s_own(saved, corpus, tmp_path):
    """By the evaluation of whole sentences from zero, for held-out sentences one a row."""
    found = tuned(saved, corpus, tmp_path / "run", "batch=12")
    heldout = [corpus.words.words(types) for types in Sentences(corpus.heldout)]
    expected = perplexity(Model(saved).log_probs(heldout, "fresh"))
    assert found.figures["before"].forward == pytest.approx(expected.forward, rel=1e-4)
    assert found.figures["before"].backward == pytest.approx(expected.backward, rel=1e-4)


def test_a_model_without_softmax_learns_one_first_and_its_bilm_does_not_move_meanwhile(saved, corpus, tmp_path):
    headless = dataclasses.replace(saved, read_softmax=None, vocabulary=None)
    found = tuned(headless, corpus, tmp_path / "run", "epochs=2", "lr=0.01", softmax_words=["epochs=4", "lr=0.02"])
    assert list(found.figures) == ["words by frequency", "softmax learned", "everything learned"]
    unigram, before, after = (best.perplexity for best in found.figures.values())
    assert after < before < unigram
    between = models.read(tmp_path / "run" / "softmax" / "model")
    assert same(between.bilm.state_dict(), saved.bilm.state_dict())
    assert not same(models.read(tmp_path / "run" / "model").bilm.state_dict(), saved.bilm.state_dict())
    assert between.vocabulary == corpus.vocabulary


def test_a_new_softmax_has_the_corpus_own_words(corpus, tmp_path):
    found = tuned(tiny.saved(), corpus, tmp_path / "run", new_softmax=True)
    assert "softmax learned" in found.figures
    assert models.read(tmp_path / "run" / "model").vocabulary == corpus.vocabulary


def test_a_model_of_word_ids_is_tuned_with_its_own_words(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in tiny.WORDS), encoding="utf-8")
    (tmp_path / "text.tok").write_text("the river bank .\na bank .\nthe quokka bank\n" * 20)
    settings = PrepareSettings(format="tokens", heldout=8, vocabulary=str(tmp_path / "vocab.txt"))
    prepare([tmp_path / "text.tok"], tmp_path / "corpus", settings)
    corpus = shards.read(tmp_path / "corpus")
    for number, model in enumerate([tiny.saved(tiny.WORD_CONFIG), tiny.saved(tiny.WORD_CONFIG, read_softmax=None)]):
        found = tuned(model, corpus, tmp_path / f"run{number}", "epochs=2", "lr=0.02")
        *_, before, after = found.figures.values()
        assert after.perplexity < before.perplexity


class _StopError(Exception):
    pass


class _Stopping(NoProgress):
    """Interrupts a run behind some step, as a killed process is."""

    def __init__(self, at):
        self._left = at

    def update(self, report):
        self._left -= 1
        if not self._left:
            raise _StopError


@pytest.fixture(scope="module")
def headless(saved):
    return dataclasses.replace(saved, read_softmax=None)


@pytest.fixture(scope="module")
def uninterrupted(headless, corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, tuned(headless, corpus, folder, "epochs=2").figures


@pytest.mark.parametrize("steps", [(2,), (4, 9), (14, 3, 5)])
def test_a_run_killed_anywhere_ends_in_the_same_bits(steps, headless, corpus, uninterrupted, tmp_path):
    for at in steps:
        with pytest.raises(_StopError):
            tuned(headless, corpus, tmp_path / "run", "epochs=2", progress=_Stopping(at))
    whole, figures = uninterrupted
    assert tuned(headless, corpus, tmp_path / "run", "epochs=2").figures == figures
    for folder in ("model", "softmax/model"):
        assert same(tensors(tmp_path / "run" / folder), tensors(whole / folder))


def test_a_finished_run_has_nothing_to_do(saved, corpus, tmp_path):
    first, again = (tuned(saved, corpus, tmp_path / "run") for _ in range(2))
    assert (first.outcome.worked, again.outcome.worked) == (True, False)
    assert first.figures == again.figures


def test_a_softmax_of_frequencies_gives_words_their_share(corpus):
    softmax = tuning.unigram_softmax(corpus, tiny.CONFIG)
    shares = softmax(torch.ones(1, tiny.LSTM.projection))[0].exp().numpy()
    counted = np.ones(len(corpus.vocabulary))
    for shard in corpus.train:
        np.add.at(counted, corpus.targets_S[shard.types_N], 1)
        counted[[corpus.vocabulary.id("<S>"), corpus.vocabulary.id("</S>")]] += len(shard.ends_S)
    np.testing.assert_allclose(shares, counted / counted.sum(), rtol=1e-5)


def test_what_cannot_be_tuned_is_refused_in_one_sentence(saved, corpus, tmp_path):
    other = tiny.saved(tiny.WORD_CONFIG)
    cases = [
        (
            tiny.saved(),
            {},
            DataError,
            r"vocabulary of 6\d words is not the model's of 10; .*--vocabulary.*--new-softmax",
        ),
        (other, {}, DataError, r"is not the model's of 10; prepare the text with the model's \(--vocabulary\)$"),
        (other, {"new_softmax": True}, DataError, "is not the model's"),
        (dataclasses.replace(saved, vocabulary=None), {}, ModelError, "no vocabulary"),
    ]
    for model, options, kind, message in cases:
        with pytest.raises(kind, match=message) as refusal:
            tuned(model, corpus, tmp_path / "run", **options)
        assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()


def test_another_model_cannot_go_on_with_a_run(saved, corpus, tmp_path):
    tuned(saved, corpus, tmp_path / "run")
    changed = dataclasses.replace(saved, bilm=tiny.bilm(seed=9))
    with pytest.raises(OutputError, match="start is"):
        tuned(changed, corpus, tmp_path / "run")


def test_settings_of_the_softmax_are_those_of_the_rest_but_for_its_own():
    found = tuning.settings_of(None, ["batch=4", "lr=0.1"], ["epochs=7"])
    assert (found.everything.batch, found.everything.lr, found.everything.epochs) == (4, 0.1, 1)
    assert (found.softmax.batch, found.softmax.lr, found.softmax.epochs) == (4, 0.003, 7)
    assert found.softmax.dropout == 0
    with pytest.raises(ConfigError, match="architecture"):
        tuning.settings_of(None, ["lstm.cells=4"])


def test_a_vocabulary_of_the_same_words_in_another_order_is_another(saved, corpus, tmp_path):
    turned = Vocabulary((*corpus.vocabulary.words[:3], *corpus.vocabulary.words[:2:-1]))
    with pytest.raises(DataError, match="is not the model's"):
        tuned(dataclasses.replace(saved, vocabulary=turned), corpus, tmp_path / "run")


CODE_POINTS = Alphabet((*ALPHABET_MARKERS, "w", *"0123456789"))


def code_points(**tables):
    symbols = CodePointConvolution(embedding=4, filters=((1, 3), (2, 5)), rows=len(CODE_POINTS))
    return ModelConfig(input=CodePointInput(convolution=symbols, **tables), lstm=tiny.LSTM)


def test_a_model_of_code_points_is_tuned_with_its_alphabet(corpus, tmp_path):
    model = tiny.saved(code_points(), read_softmax=None, vocabulary=None, alphabet=CODE_POINTS)
    found = tuned(model, corpus, tmp_path / "run", "epochs=2", "lr=0.02")
    assert found.figures["everything learned"].perplexity < found.figures["softmax learned"].perplexity
    assert models.read(tmp_path / "run" / "model").alphabet == CODE_POINTS


def test_a_model_with_other_markers_in_its_word_table_is_refused(corpus, tmp_path):
    words = Vocabulary((*WORD_MARKERS, "w1"))
    config = code_points(word_table=WordTable(rows=len(words), width=3))
    model = tiny.saved(config, read_softmax=None, vocabulary=words, alphabet=CODE_POINTS)
    with pytest.raises(ModelError, match="ELMoForManyLangs"):
        tuned(model, corpus, tmp_path / "run")


def test_the_world_is_joined_once_for_both_parts(headless, corpus, tmp_path, monkeypatch):
    """A second time, the processes of torchrun would wait for each other for ever."""
    joined = []

    def counted(device):
        joined.append(device)
        return join(device)

    monkeypatch.setattr(tuning, "join", counted)
    monkeypatch.setattr(pretraining, "join", counted)
    tuned(headless, corpus, tmp_path / "run")
    assert len(joined) == 1


def circle(path, words=60):
    """Vectors that know which word follows which in `corpora.sentences`: neighbours on a circle."""
    angles = {f"w{number}": 2 * np.pi * number / words for number in range(words)}
    path.write_text("".join(f"{word} {np.cos(angle)} {np.sin(angle)}\n" for word, angle in angles.items()))
    return path


def test_static_vectors_give_a_new_softmax_a_better_start(saved, corpus, tmp_path):
    glove, known = circle(tmp_path / "circle.txt"), dataclasses.replace(corpus, heldout=corpus.train)
    short = {"new_softmax": True, "softmax_words": ["tokens=160"]}
    plain = tuned(saved, known, tmp_path / "plain", "tokens=160", **short).figures["words by frequency"]
    warm = tuned(saved, known, tmp_path / "warm", "tokens=160", vectors=str(glove), **short).figures
    assert list(warm) == ["rows from vectors", "softmax learned", "everything learned"]
    assert warm["rows from vectors"].perplexity < plain.perplexity


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_static_vectors_help_a_model_of_any_precision(dtype, saved, corpus, tmp_path):
    words = ["tokens=160"]
    found = tuned(
        saved.to(dtype), corpus, tmp_path / "run", *words, "vectors.steps=2", vectors=str(circle(tmp_path / "a.txt")),
        new_softmax=True, softmax_words=words,
    )  # fmt: skip
    assert found.outcome.finished


def test_a_tuning_run_with_other_vectors_than_it_was_started_with_is_refused(saved, corpus, tmp_path):
    run, words = tmp_path / "run", ["tokens=160"]
    one = {"new_softmax": True, "vectors": str(circle(tmp_path / "a.txt"))}
    tuned(saved, corpus, run, *words, "vectors.steps=2", softmax_words=words, **one)
    other = {**one, "vectors": str(circle(tmp_path / "b.txt", 50))}
    with pytest.raises(OutputError, match="run with other settings"):
        tuned(saved, corpus, run, *words, "vectors.steps=2", softmax_words=words, **other)


def test_vectors_require_a_new_softmax(saved, corpus, tmp_path):
    with pytest.raises(ConfigError, match=r"--vectors: the model keeps its softmax; .*--new-softmax"):
        tuned(saved, corpus, tmp_path / "run", vectors=str(circle(tmp_path / "circle.txt")))
    with pytest.raises(ConfigError, match=r"vectors\.\*: these settings require --vectors"):
        tuned(saved, corpus, tmp_path / "run", "vectors.steps=100", new_softmax=True)


@pytest.mark.parametrize("kind", tiny.WITHOUT_STATE)
def test_other_encoders_are_tuned_and_given_a_softmax(kind, corpus, tmp_path):
    headless = tiny.saved(tiny.WITHOUT_STATE[kind], vocabulary=None, read_softmax=None)
    short = {"softmax_words": ["tokens=320", "lr=0.02"], "vectors": str(circle(tmp_path / "circle.txt"))}
    found = tuned(
        headless, corpus, tmp_path / "run", "tokens=640", "lr=0.01", "unroll=20", "vectors.steps=100", **short
    )
    assert found.outcome.finished
    figures = [figure.perplexity for figure in found.figures.values()]
    assert figures == sorted(figures, reverse=True)
    assert models.read(tmp_path / "run").config == headless.config
