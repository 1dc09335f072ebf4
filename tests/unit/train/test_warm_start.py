"""A start from static vectors: the encoder spells them, the softmax has them as rows, the LSTMs are as without."""

from pathlib import Path
from typing import NamedTuple

import corpora
import numpy as np
import pytest
import torch

from stelmo.corpus import folder as corpora_on_disk
from stelmo.corpus.folder import type_counts
from stelmo.corpus.windows import Sentences
from stelmo.errors import ConfigError, DataError, OutputError
from stelmo.model.bilm import BiLM
from stelmo.settings import VectorSettings
from stelmo.store import static
from stelmo.store.runs import Run
from stelmo.text.ids import UNKNOWN
from stelmo.train import presets
from stelmo.train import warm_start as warming
from stelmo.train.learner import Start, random_softmax
from stelmo.train.pretrain import pretrain
from stelmo.train.warm_start import EncoderFit, WordVectors, read_vectors, warm_start
from stelmo.train.world import World

WIDTH = 6
SETTINGS = VectorSettings(steps=300, batch=64, lr=0.01)
QUICK = VectorSettings(steps=5, batch=64)  # where it does not matter how much is learned
PLAN = presets.plan("tiny", None, ["batch=8", "tokens=1600", "validate_every=5"])
SHORT = presets.plan("tiny", None, ["batch=8", "tokens=320", "validate_every=5"])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    lines = [*corpora.sentences(200), *(["Upper W1"] * 5)]
    return corpora_on_disk.read(corpora.make(tmp_path_factory.mktemp("data") / "corpus", lines, heldout=20))


def write(path, words, width=WIDTH, seed=0):
    """A file of random vectors in GloVe's format; the rows differ in scale and are not centred."""
    rows = np.random.default_rng(seed).normal(3.0, 5.0, (len(words), width)) * np.arange(1, width + 1)
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, rows, strict=True)))
    return path


@pytest.fixture(scope="module")
def glove(tmp_path_factory):
    return write(tmp_path_factory.mktemp("vectors") / "glove.txt", [f"w{number}" for number in range(50)])


def warm(corpus, glove, settings=SETTINGS, projection=16):
    return read_vectors(str(glove), corpus, settings, projection, print)


def started(corpus, glove, path, settings=SETTINGS, config=PLAN.model, advance=lambda share, figures: None):
    path.mkdir(exist_ok=True)
    found = warm(corpus, glove, settings, config.projection)
    return warm_start(found, config, 0, corpus, Run(path), lambda message: None, advance)


class Started(NamedTuple):
    start: Start
    path: Path
    figures: list[tuple[float, str]]


@pytest.fixture(scope="module")
def whole(corpus, glove, tmp_path_factory):
    """A finished fit; tests only look at it."""
    path, figures = tmp_path_factory.mktemp("fit"), []
    start = started(corpus, glove, path, advance=lambda share, figure: figures.append((share, figure)))
    return Started(start, path, figures)


def test_the_encoder_learns_to_spell_the_vectors(corpus, glove, whole):
    found, _, figures = whole
    vectors = WordVectors(corpus, static.read(glove), SETTINGS, 16)
    fit = EncoderFit(found.bilm, vectors, SETTINGS, 0, warming.word_ids(PLAN.model, corpus.vocabulary))
    assert fit.unexplained() < 0.4
    assert [share for share, _ in figures] == [(step + 1) / SETTINGS.steps for step in range(SETTINGS.steps)]
    assert float(figures[0][1].split()[-1]) > 0.9


def test_rows_of_the_softmax_are_the_vectors_centred_and_scaled(corpus, glove, whole):
    found, vectors = whole.start, static.read(glove)
    known = [word for word in corpus.vocabulary.words if vectors.row(word) is not None]
    numbers = [corpus.vocabulary.id(word) for word in known]
    rows = found.softmax.weight[numbers, :WIDTH].numpy()
    given = vectors.of(known)
    distances, expected = (np.linalg.norm(x[:, None] - x[None], axis=2) for x in (rows, given))
    factor = distances[0, 1] / expected[0, 1]
    np.testing.assert_allclose(distances, expected * factor, rtol=1e-4, atol=1e-4)  # a shift and one factor
    counts = type_counts(corpus)
    weights = np.sqrt([counts[2 + corpus.words.words(range(2, len(counts))).index(word)] for word in known])
    np.testing.assert_allclose(weights @ rows / weights.sum(), 0, atol=1e-5)
    assert np.sqrt((weights @ rows**2 / weights.sum()).mean()) == pytest.approx(SETTINGS.rows, rel=1e-5)


def test_the_bias_is_the_log_frequency_of_the_words(corpus, whole):
    bias = whole.start.softmax.bias
    words = [word for types in Sentences(corpus.train) for word in corpus.words.words(types)]
    total = len(words) + 2 * corpus.manifest.train.sentences + len(corpus.vocabulary)
    number = corpus.vocabulary.id("w3")
    assert bias[number].item() == pytest.approx(np.log((words.count("w3") + 1) / total))
    assert bias.exp().sum().item() == pytest.approx(1)


def test_everything_else_starts_from_the_same_random_weights(corpus, whole):
    found = whole.start
    plain = BiLM(PLAN.model).reset(0).state_dict()
    for name, tensor in found.bilm.state_dict().items():
        assert torch.equal(tensor, plain[name]) == (not name.startswith("encoder.")), name
    softmax = random_softmax(len(corpus.vocabulary), PLAN.model, 0)
    assert torch.equal(found.softmax.weight[:, WIDTH:], softmax.weight[:, WIDTH:])
    unknown = corpus.vocabulary.id(UNKNOWN)
    assert torch.equal(found.softmax.weight[unknown], softmax.weight[unknown])


def test_a_cased_word_without_a_vector_takes_that_of_its_lower_case(corpus, whole):
    weight = whole.start.softmax.weight
    upper, lower = (corpus.vocabulary.id(word) for word in ("W1", "w1"))
    assert torch.equal(weight[upper, :WIDTH], weight[lower, :WIDTH])


def test_an_interrupted_fit_ends_in_the_same_bits(corpus, glove, tmp_path, monkeypatch):
    monkeypatch.setattr(warming, "SAVE_EVERY", 7)
    brief = VectorSettings(steps=60, batch=64, lr=0.01)
    whole = started(corpus, glove, tmp_path / "whole", brief).bilm.state_dict()

    def interrupt(share, figures):
        if share > 0.4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        started(corpus, glove, tmp_path / "cut", brief, advance=interrupt)
    shares = []
    resumed = started(corpus, glove, tmp_path / "cut", brief, advance=lambda share, _: shares.append(share))
    resumed = resumed.bilm.state_dict()
    assert shares[0] > 0.3
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_word_id_model_copies_the_vectors_into_its_table(corpus, glove, tmp_path):
    config = presets.plan("tiny", None, ["input.kind=words"], vocabulary=len(corpus.vocabulary)).model
    found = started(corpus, glove, tmp_path, SETTINGS, config)
    number = corpus.vocabulary.id("w3")
    ratio = found.bilm.encoder.table[number, :WIDTH] / found.softmax.weight[number, :WIDTH]
    torch.testing.assert_close(ratio, torch.full((WIDTH,), SETTINGS.scale / SETTINGS.rows))


def test_of_more_dimensions_than_outputs_the_main_directions_are_used(corpus, tmp_path):
    words = [f"w{number}" for number in range(50)]
    path, said = write(tmp_path / "wide.txt", words, width=40), []
    read_vectors(str(path), corpus, SETTINGS, 16, said.append)
    assert said == [f"{path}: 40 dimensions; the 16 main directions are used (the projection has 16)"]
    found = WordVectors(corpus, static.read(path), SETTINGS, 16)
    assert found.width == 16
    all_of_it = WordVectors(corpus, static.read(path), SETTINGS, 40)
    chances = found.chances_U[:, None]
    kept = (chances * found.targets_UD**2).sum() * (found._deviation / all_of_it._deviation) ** 2
    values = np.linalg.eigvalsh((all_of_it.targets_UD * chances).T @ all_of_it.targets_UD)
    assert kept == pytest.approx(values[-16:].sum(), rel=1e-4)


def test_a_run_learns_faster_from_vectors_that_know_who_follows_whom(corpus, tmp_path):
    """In this corpus w5 is followed by w6: vectors on a circle, close to their neighbours, are worth having."""
    angles = {f"w{number}": 2 * np.pi * number / 60 for number in range(60)}
    path = tmp_path / "circle.txt"
    path.write_text("".join(f"{word} {np.cos(a)} {np.sin(a)}\n" for word, a in angles.items()))
    plan = PLAN._replace(warm=warm(corpus, path))
    with_vectors = pretrain(plan, corpus, tmp_path / "warm").best.perplexity
    without = pretrain(PLAN, corpus, tmp_path / "cold").best.perplexity
    assert with_vectors < without


def test_a_run_with_other_vectors_than_it_was_started_with_is_refused(corpus, glove, tmp_path):
    pretrain(SHORT._replace(warm=warm(corpus, glove, QUICK)), corpus, tmp_path / "run")
    other = write(tmp_path / "other.txt", [f"w{number}" for number in range(50)], seed=1)
    with pytest.raises(OutputError, match=r"run with other settings \(vectors.digest is .* there"):
        pretrain(SHORT._replace(warm=warm(corpus, other, QUICK)), corpus, tmp_path / "run")
    with pytest.raises(OutputError, match=r"vectors.digest is .* there, None here"):
        pretrain(SHORT, corpus, tmp_path / "run")


def test_a_finished_run_needs_no_second_fit(corpus, glove, tmp_path, monkeypatch):
    plan = SHORT._replace(warm=warm(corpus, glove, QUICK))
    pretrain(plan, corpus, tmp_path / "run")
    monkeypatch.setattr(EncoderFit, "run", lambda *_: pytest.fail("a second fit"))
    assert not pretrain(plan, corpus, tmp_path / "run").worked


def test_every_process_starts_from_the_first_one_s_fit(corpus, glove, whole):
    class Second(World):
        def on_rank_0(self, work, long=False):
            return None  # the first process has done it

    from stelmo.progress import NoProgress
    from stelmo.train.pretrain import _warm_start

    second = _warm_start(PLAN, warm(corpus, glove), corpus, Run(whole.path), Second(), NoProgress())
    assert all(map(torch.equal, whole.start.bilm.state_dict().values(), second.bilm.state_dict().values()))


def test_vectors_are_trained_on_the_corpus_itself_once(corpus, tmp_path):
    pytest.importorskip("gensim")
    first = started(corpus, "trained", tmp_path, QUICK)
    kept = (tmp_path / "warm-start" / "vectors.bin").stat().st_mtime_ns
    again = started(corpus, "trained", tmp_path, QUICK)
    assert (tmp_path / "warm-start" / "vectors.bin").stat().st_mtime_ns == kept
    assert torch.equal(first.softmax.weight, again.softmax.weight)
    assert not torch.equal(first.softmax.weight, random_softmax(len(corpus.vocabulary), PLAN.model, 0).weight)


def test_a_text_without_repeated_words_trains_no_vectors():
    pytest.importorskip("gensim")
    with pytest.raises(DataError, match="no word occurs 5 times in the training text; prepare more text"):
        warming.train_vectors([["a", "b"], ["c"]], lambda text: None, min_count=5)


def test_without_gensim_trained_vectors_are_refused_before_anything_is_written(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"gensim is not installed; pip install 'stelmo\[baselines\]', or give"):
        presets.with_vectors(PLAN, "trained", corpus, lambda text: None)


def test_vectors_of_another_language_are_refused_with_the_share_they_know(corpus, tmp_path):
    path = write(tmp_path / "foreign.txt", ["w50", "w51", "über", "straße"])
    with pytest.raises(DataError, match=r"they know \d\.\d% of the running words .* at least 10%; .*least_known=0"):
        started(corpus, path, tmp_path / "run")
    allowed = started(corpus, path, tmp_path / "run", VectorSettings(steps=1, least_known=0))
    assert torch.isfinite(allowed.softmax.weight).all()


def test_vectors_that_know_no_word_at_all_are_refused_even_where_few_are_allowed(corpus, tmp_path):
    path = write(tmp_path / "foreign.txt", ["über", "straße"])
    with pytest.raises(DataError, match=r"they know 0\.0% .* at least one word; .*: use other vectors$"):
        started(corpus, path, tmp_path / "run", VectorSettings(least_known=0))


def test_vectors_that_are_all_the_same_are_refused(corpus, tmp_path):
    path = tmp_path / "same.txt"
    path.write_text("".join(f"w{number} 1 2\n" for number in range(50)))
    with pytest.raises(DataError, match=r"the vectors of this corpus's words are all the same"):
        started(corpus, path, tmp_path / "run")


def test_vectors_of_absurdly_many_dimensions_are_refused(corpus, tmp_path):
    path = tmp_path / "wide.txt"
    path.write_text(f"w0 {'1 ' * 10_001}\n")
    with pytest.raises(DataError, match=r"vectors of 10,001 dimensions; expected word vectors of at most 10,000"):
        warm(corpus, path)


def test_vectors_that_do_not_fit_are_refused_before_the_run_is_begun(corpus, tmp_path):
    path = write(tmp_path / "foreign.txt", ["über", "straße"])
    with pytest.raises(DataError, match=r"they know 0\.0%"):
        presets.with_vectors(PLAN, str(path), corpus, print)


def test_more_dimensions_asked_for_than_there_are_is_refused(corpus, glove):
    with pytest.raises(ConfigError, match=r"vectors.dimensions is 7, but .*glove.txt has 6; ask for 6 or fewer"):
        warm(corpus, glove, VectorSettings(dimensions=7))


def test_a_vector_that_is_not_a_number_is_refused(corpus, tmp_path):
    path = tmp_path / "nan.txt"
    path.write_text("w0 1 2\nw1 nan 2\n")
    with pytest.raises(DataError, match=r"the vector of 'w1' is not finite"):
        warm(corpus, path)


def test_settings_of_vectors_require_vectors(corpus):
    plan = presets.plan("tiny", None, ["vectors.steps=5"])
    with pytest.raises(ConfigError, match=r"vectors\.\*: these settings require --vectors"):
        presets.with_vectors(plan, None, corpus, print)
    with pytest.raises(ConfigError, match=r"no setting vectors.step;"):
        presets.plan("tiny", None, ["vectors.step=5"])


ENCODERS = {
    "transformer": ["encoder.kind=transformer", "encoder.width=16", "encoder.hidden=8", "encoder.layers=1"],
    "gated cnn": ["encoder.kind=gated-cnn", "encoder.width=16", "encoder.blocks=[[[2,16]]]"],
}


@pytest.mark.parametrize("words", ENCODERS.values(), ids=ENCODERS)
def test_other_encoders_start_from_vectors_too(words, corpus, glove, tmp_path):
    plan = presets.plan("tiny", None, [*words, "batch=8", "tokens=320"])
    quick = VectorSettings(steps=20, batch=64)
    found = started(corpus, glove, tmp_path / "fit", quick, plan.model)
    random = BiLM(plan.model).reset(0).state_dict()
    moved = {name for name, tensor in found.bilm.state_dict().items() if not torch.equal(tensor, random[name])}
    assert moved
    assert all(name.startswith("encoder.") for name in moved)
    assert pretrain(plan._replace(warm=warm(corpus, glove, quick)), corpus, tmp_path / "run").finished
