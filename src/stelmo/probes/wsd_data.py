"""Raganato's XML and key files, WordNet's index.sense → sentences with sense-tagged instances. Knows no vectors.

NAME.data.xml       corpus > text > sentence > wf | instance (id, lemma, pos)
NAME.gold.key.txt   one instance per line: its id, then one or more sense keys (answers have the same format)
index.sense         one sense per line: sense key, synset offset, sense number, count
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from stelmo.errors import DataError
from stelmo.store.atomic import new_file
from stelmo.text.files import LineReader

TRAINING = "semcor"
DEVELOPMENT = "semeval2007"
TESTS = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")
ALL = "ALL"  # the five sets in one file; ids begin with the name of their set
POS = ("NOUN", "VERB", "ADJ", "ADV")

Lemma = tuple[str, str]  # lemma, part of speech
Keys = tuple[str, ...]


class Instance(NamedTuple):
    """An expression to be disambiguated: words `start` to `end` (exclusive) of its sentence."""

    id: str
    lemma: Lemma
    start: int
    end: int
    gold: Keys


class AnnotatedSentence(NamedTuple):
    tokens: tuple[str, ...]
    instances: tuple[Instance, ...]
    where: str


class Files(NamedTuple):
    data: Path
    keys: Path


def find(folder: Path, name: str) -> Files:
    """The two files of a data set, anywhere below the folder."""
    data, keys = f"{name}.data.xml", f"{name}.gold.key.txt"
    for path in sorted(folder.rglob(data)):
        if (path.parent / keys).is_file():
            return Files(path, path.parent / keys)
    raise DataError(
        f"{folder}: no {data} with {keys} beside it; unpack the WSD evaluation framework (Raganato et al. 2017) there"
    )


def find_index(folder: Path) -> Path:
    for path in sorted(folder.rglob("index.sense")):
        return path
    raise DataError(f"{folder}: no index.sense; copy the one of WordNet 3.0 (its dict folder) there")


def read(files: Files) -> list[AnnotatedSentence]:
    return list(stream(files))


def stream(files: Files) -> Iterator[AnnotatedSentence]:
    """The sentences one by one, so that SemCor need not fit in memory. Ids and keys must match one to one."""
    keys = read_keys(files.keys)
    with LineReader(files.data) as reader:
        yield from _Parser(reader.name, keys, str(files.keys)).sentences(reader)
    for id in keys:  # the parser has removed those it found
        with LineReader(files.keys) as reader:
            line_number = next(number for number, line in reader if line.split()[:1] == [id])
        raise DataError(f"{files.keys}:{line_number}: instance {id!r} is not in {files.data}; the two files must match")


def read_keys(path: Path) -> dict[str, Keys]:
    """Instance → sense keys. Gold and answers have the same format."""
    keys: dict[str, Keys] = {}
    with LineReader(path) as reader:
        for number, line in reader:
            if fields := line.split():
                where = f"{path}:{number}"
                if len(fields) < 2:
                    raise DataError(f"{where}: {line.strip()!r}; expected an instance id and one or more sense keys")
                if fields[0] in keys:
                    raise DataError(f"{where}: instance {fields[0]!r} occurs twice; expected one line for each")
                keys[fields[0]] = tuple(fields[1:])
    return keys


def write_answers(path: Path, answers: Mapping[str, Keys], overwrite: bool = False) -> None:
    with new_file(path, overwrite) as draft:
        draft.write_text("".join(f"{' '.join([id, *keys])}\n" for id, keys in answers.items()), encoding="utf-8")


# The parser: expat, for its line numbers, and because it reports a DOCTYPE before any entity is expanded

_PARENT = {"corpus": None, "text": "corpus", "sentence": "text", "wf": "sentence", "instance": "sentence"}


class _Parser:
    """Collects complete sentences, and removes the keys it has used from `keys`."""

    def __init__(self, name: str, keys: dict[str, Keys], keys_name: str) -> None:
        self._name, self._keys, self._keys_name = name, keys, keys_name
        self._open: list[str] = []
        self._attributes: dict[str, str] = {}
        self._text: list[str] = []
        self._tokens: list[str] = []
        self._instances: list[Instance] = []
        self._where = ""
        self._complete: list[AnnotatedSentence] = []
        self._expat = expat.ParserCreate("UTF-8")
        self._expat.StartDoctypeDeclHandler = self._refuse_doctype
        self._expat.StartElementHandler = self._start
        self._expat.CharacterDataHandler = self._text.append
        self._expat.EndElementHandler = self._end

    def sentences(self, reader: LineReader) -> Iterator[AnnotatedSentence]:
        for _, line in reader:
            self._feed(line + "\n")
            yield from self._complete
            self._complete.clear()
        self._feed("", final=True)
        yield from self._complete

    def _feed(self, text: str, final: bool = False) -> None:
        try:
            self._expat.Parse(text, final)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise DataError(f"{self._name}:{error.lineno}: not XML ({what}); copy the file again") from error

    def _here(self) -> str:
        return f"{self._name}:{self._expat.CurrentLineNumber}"

    def _refuse_doctype(self, *_: object) -> None:
        raise DataError(f"{self._here()}: a DOCTYPE, which may define unlimited entities; remove the line")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        parent = self._open[-1] if self._open else None
        if _PARENT.get(tag, tag) != parent:
            inside = f"inside <{parent}>" if parent else "outermost"
            raise DataError(f"{self._here()}: <{tag}> {inside}; expected corpus > text > sentence > wf or instance")
        self._open.append(tag)
        self._attributes = attributes
        self._text.clear()
        if tag == "sentence":
            self._where = self._here()

    def _end(self, tag: str) -> None:
        self._open.pop()
        if tag in ("wf", "instance"):
            self._add_words(tag)
        elif tag == "sentence":
            self._complete.append(AnnotatedSentence(tuple(self._tokens), tuple(self._instances), self._where))
            self._tokens.clear()
            self._instances.clear()

    def _add_words(self, tag: str) -> None:
        """An expression such as "took place" is one element; the model reads words."""
        words, here = "".join(self._text).split(), self._here()
        if not words:
            raise DataError(f"{here}: an empty <{tag}>; expected a word in it")
        start = len(self._tokens)
        self._tokens += words
        if tag == "wf":
            return
        for name in ("id", "lemma", "pos"):
            if not self._attributes.get(name):
                raise DataError(f"{here}: an <instance> without {name}; expected id, lemma and pos")
        id, lemma, pos = (self._attributes[name] for name in ("id", "lemma", "pos"))
        if pos not in POS:
            raise DataError(f"{here}: part of speech {pos!r} of an <instance>; expected {', '.join(POS)}")
        if id not in self._keys:
            raise DataError(
                f"{here}: instance {id!r} has no line in {self._keys_name}, or occurs twice here; "
                f"the two files must match"
            )
        gold = self._keys.pop(id)
        self._instances.append(Instance(id, (lemma.lower(), pos), start, len(self._tokens), gold))


# WordNet

_POS_OF = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}  # 5: satellite adjectives


def read_first_senses(path: Path) -> dict[Lemma, str]:
    """Lemma and part of speech → the key of sense number 1, WordNet's most frequent."""
    first: dict[Lemma, str] = {}
    with LineReader(path) as reader:
        for number, line in reader:
            where, fields = f"{path}:{number}", line.split()
            if len(fields) != 4 or not all(field.isdecimal() for field in fields[1:]):
                found = f"{where}: {line[:60]!r}"
                raise DataError(f"{found}; index.sense has a sense key and 3 numbers (offset, sense, count)")
            key, _, sense_number, _ = fields
            lemma, _, rest = key.rpartition("%")
            if not lemma or rest[:1] not in _POS_OF:
                raise DataError(f"{where}: sense key {key!r}; expected one such as bank%1:14:00::")
            if int(sense_number) == 1:
                first[lemma, _POS_OF[rest[0]]] = key
    return first
