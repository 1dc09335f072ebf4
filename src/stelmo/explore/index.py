"""A corpus → an index of word uses: where each word occurs, and its layers. Knows no file format.

N uses, L layers (L+1 with layer 0), T tokens, D width. The index of the text that comes with the package is computed at
first use.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stelmo.config import choose
from stelmo.embed.model import Model, Sentences
from stelmo.engine import planning
from stelmo.engine.engine import checked
from stelmo.errors import ConfigError, DataError, OutputError
from stelmo.explore.mixing import Mix, Vectors, mixed
from stelmo.jobs.run import Advance
from stelmo.settings import STATES
from stelmo.store import atomic
from stelmo.store import uses as store
from stelmo.store.atomic import reason
from stelmo.store.uses import Manifest, Sentence, UseFolder
from stelmo.text import formats
from stelmo.text import tokens as text
from stelmo.text.files import LineReader

Array = NDArray[Any]
Item = TypeVar("Item")
Ids = NDArray[np.int64]
Columns = Sequence[tuple[str, Sequence[str]]]  # names of columns, each with the values of a sentence's tokens

BLOCK_BYTES = 100_000_000  # layers of a block, saved as a whole; in a large block more sentences have equal length
# These change the last bits at most; with precision int8, about as much as storing 8 bits does.
HARMLESS = {"device", "threads", "batch_tokens", "batch_rows", "memory"}
BUNDLED_TEXT = Path(__file__).parents[1] / "bundled" / "uses" / "sentences.tok.xz"
BUNDLED_CREDIT = "sentences of the English Wikipedia (CC BY-SA 3.0)"
BUNDLED_PER_WORD = 200  # uses of a word: enough for any map, and words such as "the" do not take half of the space
COMPLETE = "complete"  # file of an index of the bundled text, written last
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character, which neither UTF-8 nor the page can show


class Rules(NamedTuple):
    """How raw text is tokenised, as in `stelmo.tokenize`."""

    language: str = "en"
    contractions: str = "ptb"

    def check(self) -> None:
        """Refuse rules that do not exist."""
        text.scan("", *self)


class Use(NamedTuple):
    """One word in its sentence. The id stays the same however the index grows."""

    id: int
    tokens: tuple[str, ...]
    position: int

    @property
    def word(self) -> str:
        """The word as written in the sentence."""
        return self.tokens[self.position]


class Index:
    """The uses in the folder when it was opened; safe for any number of readers and threads."""

    def __init__(self, folder: UseFolder) -> None:
        self._folder = folder

    def __len__(self) -> int:
        """Number of uses."""
        return len(self.ids)

    @property
    def folder(self) -> Path:
        return self._folder.folder

    @property
    def depth(self) -> int:
        """Layers of a use, including the token layer: L+1."""
        return self._folder.manifest.depth

    @property
    def width(self) -> int:
        return self._folder.manifest.width

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the model that computed the layers."""
        return self._folder.manifest.model

    @property
    def rules(self) -> Rules:
        """How its text was tokenised; English if the index does not record it."""
        return _recorded(self._folder.manifest) or Rules()

    @cached_property
    def ids(self) -> Ids:
        """The ids of all uses, ascending."""
        return np.flatnonzero(self._folder.there_N)

    @cached_property
    def words(self) -> Mapping[str, int]:
        """Lower-cased word → number of its uses; most frequent first, ties in alphabetical order."""
        counts = {word: len(ids) for word, ids in self._ids_of_words.items()}
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def ids_of(self, word: str) -> Ids:
        """The ids of the uses of a word, ignoring case, ascending; empty for an unknown word."""
        return self._ids_of_words.get(word.lower(), np.empty(0, np.int64))

    def uses(self, word: str) -> list[Use]:
        """The uses of a word, ignoring case; empty for an unknown word."""
        return [self.use(id) for id in self.ids_of(word).tolist()]

    def use(self, id: int) -> Use:
        self._refuse_unknown([id])
        tokens = self._folder.sentences[int(self._folder.sentence_N[id])]
        return Use(int(id), tokens, int(self._folder.position_N[id]))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the data that the index keeps."""
        return tuple(self._folder.columns)

    def values(self, ids: Sequence[int] | Ids, column: str) -> list[str]:
        """What a column says about each use; empty for a use of a sentence without that column."""
        found = self._folder.columns.get(column, {})
        return [found.get(int(id), "") for id in ids]

    def layers(self, ids: Sequence[int] | Ids) -> NDArray[np.float32]:
        """(N, L+1, D), one row per id."""
        self._refuse_unknown(ids)
        return self._folder.layers(ids)

    def mixed(self, ids: Sequence[int] | Ids, mix: Mix) -> Vectors:
        """(N, D): the layers mixed, one row per id. Layers with weight 0 are not read."""
        used = [layer for layer, weight in enumerate(mix.weights) if weight]
        weights = tuple(mix.weights[layer] for layer in used)
        return mixed(self._folder.layers(ids, used), Mix(weights, mix.gamma))

    def ids_in(self, tokens: Sequence[str]) -> Ids:
        """The ids of the uses in sentences with exactly these tokens."""
        wanted = tuple(tokens)
        numbers = [number for number, found in enumerate(self._folder.sentences) if found == wanted]
        return self.ids[np.isin(self._folder.sentence_N[self.ids], numbers)]

    @cached_property
    def _ids_of_words(self) -> dict[str, Ids]:
        found: dict[str, list[int]] = {}
        for id, sentence, position in self._places():
            found.setdefault(self._folder.sentences[sentence][position].lower(), []).append(id)
        return {word: np.array(ids, np.int64) for word, ids in found.items()}

    def _places(self) -> Iterator[tuple[int, int, int]]:
        """The id, sentence number and position of every use."""
        sentences, positions = self._folder.sentence_N[self.ids], self._folder.position_N[self.ids]
        return zip(self.ids.tolist(), sentences.tolist(), positions.tolist(), strict=True)

    def _refuse_unknown(self, ids: Sequence[int] | Ids) -> None:
        there_N = self._folder.there_N
        for id in np.asarray(ids, np.int64).tolist():
            if not (0 <= id < len(there_N) and there_N[id]):
                # Without the folder, because the service passes this message on.
                raise DataError(f"no use with id {id}; it was deleted or never existed")


def open(folder: str | Path) -> Index:
    """Opens the index in a folder that `build` made."""
    return Index(UseFolder(Path(folder)))


def rules_of(folder: str | Path) -> Rules:
    """The same as `open(folder).rules`, without reading the uses."""
    return _recorded(store.read_manifest(Path(folder))) or Rules()


def _recorded(manifest: Manifest) -> Rules | None:
    found = {name: str(manifest.settings[name]) for name in Rules._fields if name in manifest.settings}
    return Rules(**found) if found else None


def build(
    model: Model,
    sentences: Sentences | Iterable[formats.Sentence],
    folder: str | Path,
    *,
    words: Collection[str] | None = None,
    per_word: int | None = None,
    rules: Rules | None = None,
    block_tokens: int | None = None,
    advance: Advance = lambda tokens: None,
) -> Index:
    """Index the words of the sentences: uses that the folder lacks are computed and added.

    Sentences are lists of tokens, or those of `formats.read`, whose columns (such as parts of speech) are kept. `words`
    restricts the index to these words; by default all tokens with a letter are indexed. `per_word` limits the uses of a
    word to the first ones. `rules` say how the text was tokenised: a new folder records them, and the page tokenises
    other sentences in the same way. A folder belongs to one model, its settings and these rules. Finished blocks
    survive an interruption: the same call resumes. `advance` is called with the number of tokens of each finished
    block. If the work ends with an error before the first block is finished, no new folder is left behind.
    """
    path = Path(folder)
    choose("state", model.settings.state, STATES)
    if model.settings.state == "carry":
        raise ConfigError("index: with state 'carry' a use depends on the sentences before it; load with warm or fresh")
    if rules is not None:
        rules.check()
    is_new = not path.exists()
    try:
        return _build(model, sentences, path, words, per_word, rules, block_tokens or _block_tokens(model), advance)
    except BaseException:
        if is_new and store.exists(path) and not len(UseFolder(path).there_N):
            store.discard(path)
        raise


def _build(
    model: Model,
    sentences: Sentences | Iterable[formats.Sentence],
    path: Path,
    words: Collection[str] | None,
    per_word: int | None,
    rules: Rules | None,
    block_tokens: int,
    advance: Advance,
) -> Index:
    settings = _settings(model) | _rule_settings(path, rules)
    depth, width = model.config.depth, model.config.width
    fingerprint = model.saved().fingerprint()
    store.prepare(path, Manifest(model=fingerprint, settings=settings, depth=depth, width=width, vectors="int8"))
    with store.writing(path) as writer:
        choice = _Choice(writer.found, words, per_word)
        pairs = ((one.tokens, one.columns) if isinstance(one, formats.Sentence) else (one, ()) for one in sentences)
        for block in planning.by_tokens(pairs, block_tokens, lambda pair: len(pair[0])):
            tokens = [[_readable(word) for word in words] for words in checked([words for words, _ in block])]
            columns = [[(name, [*map(_readable, values)]) for name, values in named] for _, named in block]
            chosen = [sentence for sentence in map(choice.of, tokens, columns) if sentence.positions]
            if chosen:
                writer.add(chosen, _layers(model, chosen))
            advance(sum(map(len, tokens)))
    from stelmo.explore import search  # imported here, because it imports this module

    found = open(path)
    search.keep_suggested(found, model)
    return found


def _settings(model: Model) -> dict[str, Any]:
    return model.settings.model_dump(mode="json", exclude=HARMLESS)


def _rule_settings(path: Path, rules: Rules | None) -> dict[str, str]:
    """What the manifest says about the rules. An index that does not record them stays without them."""
    if not store.exists(path):
        return {} if rules is None else rules._asdict()
    found = _recorded(store.read_manifest(path))
    return {} if found is None else (rules or found)._asdict()


def _readable(word: str) -> str:
    return _SURROGATE.sub("\ufffd", word)


def _block_tokens(model: Model) -> int:
    """How many tokens have BLOCK_BYTES of layers; fewer if the model was loaded with less memory."""
    tokens = max(1, BLOCK_BYTES // (4 * model.config.depth * model.config.width))
    return tokens if model.settings.memory is None else min(tokens, model.plan.block_tokens)


def discard(folder: str | Path) -> None:
    """Remove an index from the disk."""
    store.discard(Path(folder))


def delete(folder: str | Path, unwanted: Callable[[tuple[str, ...]], bool]) -> int:
    """Delete the uses in sentences for which `unwanted` is true, and return their number.

    Readers no longer find them; their bytes stay in the files until the corpus is indexed again.
    """
    with store.writing(Path(folder)) as writer:
        found = writer.found
        numbers = [number for number, tokens in enumerate(found.sentences) if unwanted(tokens)]
        gone = np.flatnonzero(found.there_N & np.isin(found.sentence_N, numbers))
        if len(gone):
            writer.delete(gone.tolist())
    return len(gone)


def refuse_other_model(index: Index, model: Model) -> None:
    """Refuse an index of another model: vectors of two models cannot be compared."""
    here = model.saved().fingerprint()
    if index.fingerprint != here:
        raise ConfigError(
            f"{index.folder} was made by another model ({index.fingerprint[:8]}, expected {here[:8]}); "
            "choose that model with --model, or index the corpus again with this one"
        )


def is_word(token: str) -> bool:
    return any(map(str.isalpha, token))


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of the items, evenly spread; always the same ones."""
    return [items[place] for place in np.linspace(0, len(items) - 1, min(most, len(items))).astype(int)]


class _Choice:
    """Chooses which tokens of a sentence become uses, given those already in the index."""

    def __init__(self, found: UseFolder, words: Collection[str] | None, per_word: int | None) -> None:
        index = Index(found)
        self._words = None if words is None else {word.lower() for word in words}
        self._limit = per_word
        self._counts = Counter(index.words)
        self._there: dict[tuple[str, ...], set[int]] = {}
        for _, sentence, position in index._places():
            self._there.setdefault(found.sentences[sentence], set()).add(position)

    def of(self, tokens: Sequence[str], columns: Columns = ()) -> Sentence:
        """The positions to add; they are counted as added."""
        there = self._there.setdefault(tuple(tokens), set())
        added = []
        for position, word in enumerate(map(str.lower, tokens)):
            wanted = is_word(word) if self._words is None else word in self._words
            full = self._limit is not None and self._counts[word] >= self._limit
            if wanted and not full and position not in there:
                self._counts[word] += 1
                added.append(position)
        there.update(added)
        kept = tuple((name, [values[position] for position in added]) for name, values in columns)
        return Sentence(tuple(tokens), tuple(added), kept)


def _layers(model: Model, sentences: Sequence[Sentence]) -> Array:
    """(N, L+1, D) at the chosen positions."""
    model.forget_words()  # so that a block has the same bits whether or not others ran before it
    computed = model.layers([sentence.tokens for sentence in sentences])
    chosen = [
        layers_LTD[:, list(sentence.positions)].swapaxes(0, 1)
        for sentence, layers_LTD in zip(sentences, computed, strict=True)
    ]
    return np.concatenate(chosen)


def open_bundled(model: Model, cache: Path | None = None, advance: Advance = lambda tokens: None) -> Index:
    """The index of the bundled text by this model. Whatever the cache folder lacks is computed first.

    A complete index is only read: several processes can use it at once, and its folder may be read-only.
    """
    folder = (cache or cache_folder()) / f"uses-{model.saved().fingerprint()[:16]}-{model.settings.state}"
    text_digest = hashlib.sha256(BUNDLED_TEXT.read_bytes()).hexdigest()
    complete = folder / COMPLETE
    if complete.is_file() and store.recognises(folder):
        found = open(folder)
        same_settings = found._folder.manifest.settings == _settings(model)
        if same_settings and complete.read_text() == f"{text_digest} {len(found)}\n":
            return found
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        complete.unlink(missing_ok=True)
    except OSError as problem:
        raise OutputError(f"{folder.parent}: {reason(problem)}; set XDG_CACHE_HOME to another cache folder") from None
    found = build(model, bundled_sentences(), folder, per_word=BUNDLED_PER_WORD, advance=advance)
    with atomic.new_file(complete, overwrite=True) as draft:
        draft.write_text(f"{text_digest} {len(found)}\n")
    return found


def bundled_sentences() -> Iterator[list[str]]:
    """The bundled sentences; each contains at least one ambiguous word."""
    with LineReader(BUNDLED_TEXT) as reader:
        for _, line in reader:
            yield line.split()


def cache_folder() -> Path:
    """The user's cache folder for stelmo (XDG Base Directory)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stelmo"
