"""A run starts from static word vectors instead of random weights. Before the first step,

  the encoder   is trained to predict the vectors of frequent words, centred and scaled, from their spelling, with its
                first D outputs (`EncoderFit`); a word-id model copies them into its table
  the softmax   takes them as the first D columns of its rows, and the words' log frequencies as its bias

and the LSTMs start from random weights. A model that is tuned (`tune`) keeps its encoder; the rows of its new
softmax are the vectors times a D × P matrix, learned while the biLM does not change (`RowFit`).

D columns of the vectors, P projection, S types, V vocabulary, U words that have a vector, u words of one step.
"""

import hashlib
import importlib.util
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.config import ModelConfig, WordInput
from stelmo.corpus.folder import Corpus, type_counts
from stelmo.corpus.windows import Sentences, Streams
from stelmo.errors import ConfigError, DataError
from stelmo.model.bilm import BiLM, Softmax
from stelmo.ops import losses
from stelmo.settings import TrainSettings, VectorSettings
from stelmo.store import runs, static
from stelmo.store.runs import Run
from stelmo.store.static import StaticVectors
from stelmo.text.ids import Alphabet, Vocabulary, word_ids
from stelmo.train.batches import Batches, negatives, sampled_words
from stelmo.train.learner import MARKERS, Start, log_frequencies, random_softmax
from stelmo.train.step import DIRECTIONS, EncodedWords, outputs

FOLDER = "warm-start"  # inside the run: the checkpoints of `EncoderFit` and, for `trained`, the vectors
UNUSED_OUTPUTS = 0.01  # weight of the penalty that keeps the encoder's other outputs small
MOST_DIMENSIONS = 10_000  # beyond it the main directions would take gigabytes
SAVE_EVERY = 500  # steps of `EncoderFit` between checkpoints
TRAINED = "trained"  # in place of a file's name: word2vec on the corpus itself
WIDTH = 100  # of these vectors
EPOCHS = 5
ROW_RATE = 0.01  # peak learning rate of the matrix that turns vectors into a new softmax's rows

Matrix = NDArray[np.float32]
Say = Callable[[str], None]
Advance = Callable[[float, str], None]  # called with the finished share of a fit, and figures to show


class WordVectors:
    """The static vectors of a corpus's words, centred and scaled to unit variance; D columns.

    Centre and scale are means over the words, weighted by the square roots of their counts, as `EncoderFit` draws them.
    """

    def __init__(self, corpus: Corpus, vectors: StaticVectors, settings: VectorSettings, projection: int) -> None:
        self.counts_S = type_counts(corpus)
        frequent = np.arange(MARKERS, min(len(self.counts_S), MARKERS + settings.words))
        frequent = frequent[self.counts_S[frequent] > 0]
        words = corpus.words.words(frequent)
        rows = [vectors.row(word) for word in words]
        known = np.array([row is not None for row in rows], bool)
        _refuse_unknown_words(known, self.counts_S[frequent], settings)
        self.words = [word for word, found in zip(words, known, strict=True) if found]
        self.chances_U = np.sqrt(self.counts_S[frequent[known]])
        self.chances_U /= self.chances_U.sum()
        chosen_UD = vectors.vectors_VD[[row for row in rows if row is not None]].astype(np.float64)
        self._mean_D = self.chances_U @ chosen_UD
        self._basis_DD = self._columns(chosen_UD - self._mean_D, settings.dimensions, projection)
        targets_UD = (chosen_UD - self._mean_D) @ self._basis_DD
        self._deviation = float(np.sqrt((self.chances_U @ targets_UD**2).mean()))
        if not self._deviation > 1e-12 * np.abs(chosen_UD).max():
            raise DataError("--vectors: the vectors of this corpus's words are all the same; expected word vectors")
        self.targets_UD = self._scaled(chosen_UD)
        self.share = float(self.counts_S[frequent[known]].sum() / self.counts_S[MARKERS:].sum())
        self._vectors = vectors

    @property
    def width(self) -> int:
        return int(self._basis_DD.shape[1])

    def of_vocabulary(self, vocabulary: Vocabulary) -> tuple[NDArray[np.int64], Matrix]:
        """The numbers of the words that have a vector, and their vectors."""
        rows = [self._vectors.row(word) for word in vocabulary.words]
        known = [(number, row) for number, row in enumerate(rows) if row is not None]
        numbers = np.array([number for number, _ in known], np.int64)
        return numbers, self._scaled(self._vectors.vectors_VD[[row for _, row in known]])

    def _columns(self, centred_UD: NDArray[np.float64], asked: int | None, projection: int) -> NDArray[np.float64]:
        """(width, D) of orthonormal columns: the identity, or the main directions where there are too many columns."""
        width = centred_UD.shape[1]
        columns = min(asked or width, projection)
        if columns == width:
            return np.eye(width)
        covariance_DD = (centred_UD * self.chances_U[:, None]).T @ centred_UD
        return np.linalg.eigh(covariance_DD)[1][:, ::-1][:, :columns]

    def _scaled(self, vectors_UD: NDArray[Any]) -> Matrix:
        return np.asarray((vectors_UD - self._mean_D) @ self._basis_DD / self._deviation, np.float32)


def _refuse_unknown_words(known: NDArray[np.bool_], counts: NDArray[np.float64], settings: VectorSettings) -> None:
    share = float(counts[known].sum() / max(1.0, counts.sum()))
    if not known.any() or share < settings.least_known:
        expected = f"{settings.least_known:.0%}" if known.any() else "one word"
        allow = ", or allow it with --set vectors.least_known=0" if known.any() else ""
        raise DataError(
            f"--vectors: they know {share:.1%} of the running words of this corpus, expected at least {expected}; "
            f"they may be for another language: use other vectors{allow}"
        )


class WarmStart(NamedTuple):
    """Static vectors to start from, and how. `digest` decides whether an interrupted run may resume."""

    vectors: StaticVectors | None  # None: trained on the corpus when they are first needed
    settings: VectorSettings
    digest: str

    def about(self) -> dict[str, Any]:
        """As stored in run.json."""
        return {**self.settings.model_dump(mode="json"), "digest": self.digest}


def read_vectors(source: str, corpus: Corpus, settings: VectorSettings, projection: int, say: Say) -> WarmStart:
    """A file or folder of static vectors, or `trained`: word2vec on the corpus itself."""
    if source == TRAINED:
        _refuse_without_gensim()
        return WarmStart(None, settings, TRAINED)
    types = corpus.words.words(range(MARKERS, len(corpus.words)))
    vectors = static.read(source, set(types) | set(corpus.vocabulary.words))
    asked, width = settings.dimensions, vectors.width
    if width > MOST_DIMENSIONS:
        raise DataError(
            f"{source}: vectors of {width:,} dimensions; expected word vectors of at most {MOST_DIMENSIONS:,}"
        )
    if asked is not None and asked > width:
        raise ConfigError(f"vectors.dimensions is {asked}, but {source} has {width}; ask for {width} or fewer")
    if min(asked or width, projection) < width:
        kept = min(asked or width, projection)
        say(f"{source}: {width} dimensions; the {kept} main directions are used (the projection has {projection})")
    WordVectors(corpus, vectors, settings, projection)  # refuses vectors that do not fit, before anything is written
    digest = hashlib.sha256("\n".join(vectors.words).encode())
    digest.update(np.ascontiguousarray(vectors.vectors_VD).data)
    return WarmStart(vectors, settings, digest.hexdigest()[:32])


def warm_start(
    warm: WarmStart, config: ModelConfig, seed: int, corpus: Corpus, run: Run, say: Say, advance: Advance
) -> Start:
    """The start from static vectors; interrupted, the same call resumes from the last checkpoint of the fit."""
    vectors = warm.vectors or trained_once(corpus, run.path, say)
    found = WordVectors(corpus, vectors, warm.settings, config.projection)
    say(
        f"warm start: {len(found.words):,} of the {min(warm.settings.words, len(corpus.words) - MARKERS):,} most "
        f"frequent words have a vector ({found.share:.1%} of the running words); {found.width} of "
        f"{config.projection} outputs"
    )
    bilm = BiLM(config).reset(seed)
    numbers, vectors_UD = found.of_vocabulary(corpus.vocabulary)
    if isinstance(config.input, WordInput):
        with torch.no_grad():
            bilm.encoder.table[numbers, : found.width] = torch.from_numpy(vectors_UD * warm.settings.scale)
    else:
        EncoderFit(bilm, found, warm.settings, seed, word_ids(config, corpus.vocabulary)).run(run, say, advance)
    softmax = random_softmax(len(corpus.vocabulary), config, seed)
    softmax.weight[numbers, : found.width] = torch.from_numpy(vectors_UD * warm.settings.rows)
    softmax.bias.copy_(log_frequencies(corpus, found.counts_S))
    return Start(bilm, softmax, False, None, warm.digest)


def trained_once(corpus: Corpus, run: Path, say: Say) -> StaticVectors:
    """Vectors trained on the corpus, kept in the run's folder so that a resumed run finds them."""
    path = run / FOLDER / "vectors.bin"
    if not path.is_file():
        runs.make(path.parent)
        found = train_vectors(_Text(corpus), say, min_count=5)
        rows = [
            (word, row_D) for word, row_D in zip(found.words, found.vectors_VD, strict=True) if static.writable(word)
        ]
        static.write(path, len(rows), found.width, rows)
    return static.read(path)


class _Text:
    """The training sentences as words; may be read several times."""

    def __init__(self, corpus: Corpus) -> None:
        self._words = corpus.words.words(range(len(corpus.words)))
        self._shards = corpus.train

    def __iter__(self) -> Iterator[list[str]]:
        for types_N, ends_S in self._shards:
            start = 0
            for end in ends_S.tolist():
                yield [self._words[number] for number in types_N[start:end].tolist()]
                start = end


class EncoderFit:
    """Trains the character encoder to predict static vectors: squared error, words drawn by root of count."""

    def __init__(
        self,
        bilm: BiLM,
        found: WordVectors,
        settings: VectorSettings,
        seed: int,
        ids_of: Callable[[list[str]], NDArray[np.int64]],
    ) -> None:
        self._bilm, self._settings, self._seed = bilm, settings, seed
        self._chances_U = np.cumsum(found.chances_U)
        self._ids_U = torch.from_numpy(np.asarray(ids_of(found.words)))
        self._targets_UD = torch.from_numpy(found.targets_UD * settings.scale)
        self._optimizer = torch.optim.Adam(bilm.encoder.parameters(), settings.lr, fused=True)

    def run(self, run: Run, say: Say, advance: Advance) -> None:
        """Train all steps, or the remaining ones after an interruption."""
        folder = Run(run.path / FOLDER)
        runs.make(folder.path / "checkpoints")
        first, steps = self._resume(folder, say), self._settings.steps
        for done in range(first + 1, steps + 1):
            unexplained = self.step(done - 1)
            advance(done / steps, f"step {done:,}/{steps:,}, unexplained variance {unexplained:.2f}")
            if done % SAVE_EVERY == 0 or done == steps:
                tensors = {f"encoder.{name}": tensor for name, tensor in self._bilm.encoder.state_dict().items()}
                for number, state in self._optimizer.state_dict()["state"].items():
                    tensors |= {f"adam.{number}.{key}": value for key, value in state.items()}
                folder.save(done, tensors, {"step": done, "unexplained": unexplained}, keep=1)
        say(f"warm start: the encoder leaves {self.unexplained():.0%} of the vectors' variance unexplained")

    def step(self, number: int) -> float:
        """Train one step → the share of the drawn words' variance that was unexplained before it."""
        settings, encoder = self._settings, self._bilm.encoder
        rate = min(1.0, (number + 1) / 100) * (1 - number / settings.steps)
        for group in self._optimizer.param_groups:
            group["lr"] = settings.lr * rate
        chance = np.random.default_rng((self._seed, number))
        drawn = np.searchsorted(self._chances_U, chance.random(settings.batch) * self._chances_U[-1])
        chosen_u = torch.from_numpy(np.unique(drawn))
        encoder.zero_grad(set_to_none=True)
        words = EncodedWords(self._bilm, self._ids_U[chosen_u])
        gradient_uP, unexplained = self._gradient(words.x_UP.detach(), self._targets_UD[chosen_u])
        words.backward([gradient_uP])
        self._optimizer.step()
        return unexplained

    def _gradient(self, x_uP: Tensor, targets_uD: Tensor) -> tuple[Tensor, float]:
        """The gradient of ‖x_D − target‖² / (U·D·scale²) + the penalty on the other outputs; and the first term."""
        width, variance = targets_uD.shape[1], self._settings.scale**2
        error_uD = x_uP[:, :width] - targets_uD
        gradient_uP = x_uP * (2 * UNUSED_OUTPUTS / max(1, x_uP[:, width:].numel()))
        gradient_uP[:, :width] = error_uD * (2 / (error_uD.numel() * variance))
        return gradient_uP, float(error_uD.square().mean()) / variance

    @torch.no_grad()
    def unexplained(self) -> float:
        """The unexplained share of the variance over the most frequent words, up to ten thousand."""
        words = EncodedWords(self._bilm, self._ids_U[:10_000])
        return self._gradient(words.x_UP, self._targets_UD[:10_000])[1]

    def _resume(self, folder: Run, say: Say) -> int:
        """Read the newest checkpoint, if there is one → the number of steps that are done."""
        path = folder.newest(say)
        if path is None:
            return 0
        about, tensors = runs.read(path)
        encoder = {name.removeprefix("encoder."): t for name, t in tensors.items() if name.startswith("encoder.")}
        self._bilm.encoder.load_state_dict(encoder)
        memory: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("adam."):
                _, number, key = name.split(".")
                memory.setdefault(int(number), {})[key] = tensor.clone()
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": memory})
        return int(about["step"])


class RowFit:
    """Trains the rows of a new softmax for a biLM that does not change: static vectors times a learned matrix.

    Words that are rare in the text get a useful row, too: similar vectors give similar rows.
    """

    def __init__(
        self, bilm: BiLM, corpus: Corpus, found: WordVectors, settings: TrainSettings, alphabet: Alphabet | None
    ) -> None:
        self._bilm, self._settings = bilm, settings
        ids_of = word_ids(bilm.config, corpus.vocabulary, alphabet)
        self._batches = Batches(ids_of, corpus.words, corpus.targets_S)
        rows = range(settings.batch)
        self._streams = Streams(Sentences(corpus.train), rows=rows, of=settings.batch, seed=settings.seed)
        self._numbers_U, vectors_UD = found.of_vocabulary(corpus.vocabulary)
        self._vectors_UD = torch.from_numpy(vectors_UD)
        self.softmax = Softmax(len(corpus.vocabulary), bilm.config.projection).requires_grad_(False)
        self.softmax.weight.zero_()
        self.softmax.bias.copy_(log_frequencies(corpus, found.counts_S))
        self._matrix_DP = torch.zeros(found.width, bilm.config.projection)
        self._optimizer = torch.optim.Adam([self._matrix_DP], ROW_RATE)
        self._state = bilm.zero_state(settings.batch)

    @torch.no_grad()
    def run(self, steps: int, advance: Advance) -> Softmax:
        settings, weight_VP, bias_V = self._settings, self.softmax.weight, self.softmax.bias
        count = sampled_words(settings, len(bias_V))
        for step in range(1, steps + 1):
            batch = self._batches(self._streams.next(settings.unroll))
            h_2TBP, self._state = outputs(self._bilm, batch, self._state)
            drawn = negatives(settings.seed, step, len(bias_V), count) if count else None
            loss, parts = 0.0, []
            for direction in DIRECTIONS:
                head = (h_2TBP[direction].flatten(0, 1), batch.targets_2TB[direction].flatten(), weight_VP, bias_V)
                found = losses.full_softmax(*head) if drawn is None else losses.sampled_softmax(*head, *drawn)
                loss += float(found.loss) / len(DIRECTIONS)
                parts.append(found.rows)
            rows = losses.merge(parts)
            gradient_VP = torch.zeros_like(weight_VP).index_add_(0, rows.rows_n, rows.weight_nP)
            self._matrix_DP.grad = self._vectors_UD.t() @ gradient_VP[self._numbers_U]
            self._optimizer.param_groups[0]["lr"] = ROW_RATE * (1 - (step - 1) / steps)
            self._optimizer.step()
            weight_VP[self._numbers_U] = self._vectors_UD @ self._matrix_DP
            advance(step / steps, f"step {step:,}/{steps:,}, training loss {loss:.2f}")
        return self.softmax


# Vectors trained on the text itself


def train_vectors(
    sentences: Iterable[Sequence[str]], say: Callable[[str], None], min_count: int = 2, width: int = WIDTH
) -> StaticVectors:
    """Vectors of the words that occur `min_count` times; the same for the same sentences. Read several times over."""
    _refuse_without_gensim()
    from gensim.models import Word2Vec
    from gensim.models.callbacks import CallbackAny2Vec

    class Epochs(CallbackAny2Vec):  # type: ignore[misc]
        def __init__(self) -> None:
            self.done = 0

        def on_epoch_end(self, model: Any) -> None:
            self.done += 1
            say(f"word2vec: epoch {self.done} of {EPOCHS}")

    try:
        model = Word2Vec(
            sentences,
            vector_size=width,
            min_count=min_count,
            sg=1,
            epochs=EPOCHS,
            seed=1,
            workers=1,  # with several threads the order of updates differs from run to run
            # Python's own hash of a string differs from process to process.
            hashfxn=lambda text: zlib.crc32(text.encode("utf-8", "surrogatepass")),
            callbacks=[Epochs()],
        )
    except RuntimeError as problem:
        if "build vocabulary" not in str(problem):
            raise
        raise DataError(
            f"--vectors {TRAINED}: no word occurs {min_count} times in the training text; prepare more text, "
            "or give a file of vectors"
        ) from problem
    return StaticVectors(list(model.wv.index_to_key), np.array(model.wv.vectors, np.float32))


def _refuse_without_gensim() -> None:
    if importlib.util.find_spec("gensim") is None:
        raise ConfigError(
            f"--vectors {TRAINED}: gensim is not installed; pip install 'stelmo[baselines]', or give a file"
        )
