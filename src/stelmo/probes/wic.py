"""Words in context: files → pairs of occurrences, their cosines → scores. Knows no model.

WiC: does a word mean the same in two sentences? Accuracy. Three layouts, recognised by content:
    word TAB pos TAB i-j TAB sentence TAB sentence   official: NAME.data.txt, and NAME.gold.txt with one T or F per line
    {"word", "sentence1", "start1", …, "label"}      SuperGLUE: raw sentences, offsets of characters
    {"label", "text": "Word: … Sentence 1: … …"}     tokenised sentences; the word is searched for

SCWS: how similar are two words in their contexts? Rank correlation with human ratings. A line:
    number, word, pos, word, pos, context, context (each with its word between <b> and </b>), mean rating, ratings
A context is several sentences of a paragraph, truncated at both ends; the model reads it as one sentence.
"""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stelmo.errors import DataError
from stelmo.probes.embedding import Occurrence
from stelmo.store.atomic import new_file
from stelmo.text.files import LineReader
from stelmo.text.tokens import tokenize

FILES = {
    "train": ("train.jsonl", "train.data.txt"),
    "dev": ("dev.jsonl", "val.jsonl", "dev.data.txt"),
    "test": ("test.jsonl", "test.data.txt"),
}


class Pair(NamedTuple):
    """Two occurrences of a word; `pos` is N, V, or empty if the file does not say."""

    word: str
    pos: str
    first: Occurrence
    second: Occurrence
    same: bool
    where: str


def find(folder: Path) -> dict[str, Path]:
    """Split → file. Train (for the threshold) and dev (for the score) are required."""
    found: dict[str, Path] = {}
    for split, names in FILES.items():
        paths = [path for name in names for path in sorted(folder.rglob(name))]
        if paths:
            found[split] = paths[0]
        elif split != "test":
            raise DataError(f"{folder}: no {split} file of WiC; expected {' or '.join(names)}")
    return found


def read(path: Path) -> list[Pair]:
    with LineReader(path) as reader:
        lines = [(f"{path}:{number}", line) for number, line in reader if line.strip()]
    if not lines:
        raise DataError(f"{path}: no pairs; expected one on each line")
    if lines[0][1].lstrip().startswith("{"):
        return [_json_pair(line, where) for where, line in lines]
    if ".data." not in path.name:
        raise DataError(f"{path}: neither JSON lines nor named NAME.data.txt; WiC comes as one or the other")
    gold = path.with_name(path.name.replace(".data.", ".gold."))
    answers = read_answers(gold)
    if len(answers) != len(lines):
        raise DataError(f"{gold}: {len(answers)} answers; expected {len(lines)}, one for each line of {path.name}")
    return [_official_pair(line, same, where) for (where, line), same in zip(lines, answers, strict=True)]


# The official layout


def _official_pair(line: str, same: bool, where: str) -> Pair:
    fields = line.split("\t")
    if len(fields) != 5:
        raise DataError(f"{where}: {len(fields)} columns; WiC has 5 (word, N or V, positions i-j, two sentences)")
    positions = re.fullmatch(r"(\d+)-(\d+)", fields[2])
    if not positions:
        raise DataError(f"{where}: positions {fields[2]!r}; expected two numbers such as 3-0")
    uses = []
    for sentence, number in zip(fields[3:], positions.groups(), strict=True):
        tokens, place = tuple(sentence.split()), int(number)
        if place >= len(tokens):
            raise DataError(f"{where}: position {place}; the sentence has words 0 to {len(tokens) - 1}")
        uses.append(Occurrence(tokens, place, place + 1))
    return Pair(fields[0], fields[1], uses[0], uses[1], same, where)


def read_answers(path: Path) -> list[bool]:
    """T or F, one per line: the official format of gold labels and predictions."""
    answers: list[bool] = []
    with LineReader(path) as reader:
        for number, line in reader:
            if line.strip() not in ("T", "F"):
                raise DataError(f"{path}:{number}: {line.strip()!r}; expected T or F")
            answers.append(line.strip() == "T")
    return answers


def write_answers(path: Path, answers: Sequence[bool], overwrite: bool = False) -> None:
    with new_file(path, overwrite) as draft:
        draft.write_text("".join("T\n" if same else "F\n" for same in answers))


# JSON lines

_LABELS: dict[object, bool] = {"true": True, "false": False, 1: True, 0: False}  # as keys, True == 1 and False == 0
_TEXT = re.compile(r"Word: (.+?)\. Sentence 1: (.+) Sentence 2: (.+)", re.DOTALL)


def _json_pair(line: str, where: str) -> Pair:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not a JSON value ({error}); expected an object on each line") from error
    if not isinstance(value, dict):
        raise DataError(f"{where}: {line[:40]!r}; expected a JSON object")
    label = value.get("label")
    if not isinstance(label, str | int) or label not in _LABELS:
        raise DataError(f"{where}: label {label!r}; expected true or false")
    match value:
        case {"word": str(word), "sentence1": str(_), "sentence2": str(_)}:
            first, second = _between_offsets(value, "1", where), _between_offsets(value, "2", where)
        case {"text": str(text)} if parts := _TEXT.fullmatch(text):
            word = parts[1]
            first, second = _search(word, parts[2], where), _search(word, parts[3], where)
        case _:
            raise DataError(
                f"{where}: the keys {', '.join(value)}; expected word, sentence1, sentence2 and their offsets"
            )
    return Pair(word, "", first, second, _LABELS[label], where)


def _between_offsets(value: dict[str, Any], which: str, where: str) -> Occurrence:
    start, end = value.get(f"start{which}"), value.get(f"end{which}")
    if not isinstance(start, int) or not isinstance(end, int):
        raise DataError(f"{where}: start{which} {start!r}, end{which} {end!r}; expected offsets of characters")
    tokens = tokenize(value[f"sentence{which}"])
    covered = [place for place, token in enumerate(tokens) if token.start < end and start < token.end]
    if not covered:
        raise DataError(f"{where}: no word between the characters {start} and {end} of sentence{which}")
    return Occurrence(tuple(token.text for token in tokens), covered[0], covered[-1] + 1)


# Forms that share fewer letters with their word than other words of the sentence may
_FORMS = {
    "be": {"am", "are", "is", "was", "were", "been", "being", "'m", "'re", "'s"},
    "go": {"goes", "going", "gone", "went"},
    "think": {"thinks", "thought"},
    "catch": {"catches", "caught"},
    "buy": {"buys", "bought"},
    "teach": {"teaches", "taught"},
}


def _search(word: str, sentence: str, where: str) -> Occurrence:
    """The word itself, else a known form of it, else the token with the longest common prefix.

    On SuperGLUE's dev file, which has offsets to compare with, this finds all 1,000 occurrences.
    """
    tokens = tuple(sentence.split())
    similarity = [_similarity(token.lower(), word.lower()) for token in tokens]
    best = max(similarity, default=(False, False, 0, 0))
    if not any(best[:3]):
        raise DataError(f"{where}: no form of {word!r} in {sentence[:60]!r}; expected the word in both sentences")
    place = similarity.index(best)
    return Occurrence(tokens, place, place + 1)


def _similarity(token: str, word: str) -> tuple[bool, bool, int, int]:
    shared = next((i for i, (a, b) in enumerate(zip(token, word, strict=False)) if a != b), min(len(token), len(word)))
    return token == word, token in _FORMS.get(word, ()), shared, -abs(len(token) - len(word))


# The probe


def threshold(cosine_N: NDArray[Any], same_N: NDArray[np.bool_]) -> float:
    """The cosine at or above which two occurrences count as the same sense, by best accuracy; the largest if tied."""
    order_N = np.argsort(-cosine_N, kind="stable")
    gain_N = np.cumsum(np.where(same_N[order_N], 1, -1))  # of calling the first n the same
    sorted_N = cosine_N[order_N].astype(np.float64)
    between_N = np.append(sorted_N[:-1] > sorted_N[1:], True)  # no threshold separates equal cosines
    if not len(sorted_N) or gain_N[between_N].max() <= 0:
        return np.inf
    best = int(np.argmax(np.where(between_N, gain_N, -len(gain_N))))
    return float((sorted_N[best] + sorted_N[best + 1]) / 2) if best + 1 < len(sorted_N) else -np.inf


def accuracy(predicted: Sequence[bool] | NDArray[np.bool_], pairs: Sequence[Pair]) -> float:
    """Percent."""
    return 100 * float(np.mean([answer == pair.same for answer, pair in zip(predicted, pairs, strict=True)]))


def score(
    tuning: Sequence[Pair], tuning_cosine_N: NDArray[Any], test: Sequence[Pair], test_cosine_N: NDArray[Any]
) -> dict[str, float]:
    """Percent correct with the threshold of the tuning pairs."""
    limit = threshold(tuning_cosine_N, np.array([pair.same for pair in tuning], bool))
    return {"accuracy": accuracy(test_cosine_N >= limit, test), "threshold": limit}


def most_frequent(tuning: Sequence[Pair], test: Sequence[Pair]) -> float:
    """The accuracy of the tuning pairs' more frequent answer ("same" if tied)."""
    same = 2 * sum(pair.same for pair in tuning) >= len(tuning)
    return accuracy([same] * len(test), test)


# SCWS

SCWS_COLUMNS = 8  # up to the mean; the single ratings after it are not used


class RatedPair(NamedTuple):
    first: Occurrence
    second: Occurrence
    rating: float
    where: str


def read_ratings(path: Path) -> list[RatedPair]:
    with LineReader(path) as reader:
        pairs = [_rated_pair(line.split("\t"), f"{path}:{number}") for number, line in reader if line.strip()]
    if not pairs:
        raise DataError(f"{path}: no pairs; expected the ratings.txt of SCWS")
    return pairs


def _rated_pair(fields: list[str], where: str) -> RatedPair:
    if len(fields) < SCWS_COLUMNS:
        raise DataError(
            f"{where}: {len(fields)} columns; "
            f"SCWS has {SCWS_COLUMNS} or more (number, word, pos, word, pos, two contexts, mean rating)"
        )
    first, second = _marked(fields[5], where), _marked(fields[6], where)
    try:
        rating = float(fields[7])
    except ValueError as error:
        raise DataError(f"{where}: mean rating {fields[7]!r}; expected a number") from error
    if not math.isfinite(rating):
        raise DataError(f"{where}: mean rating {fields[7]!r}; expected a number from 0 to 10")
    return RatedPair(first, second, rating, where)


def _marked(context: str, where: str) -> Occurrence:
    before, opened, rest = context.partition("<b>")
    inside, closed, after = rest.partition("</b>")
    words = inside.split()
    if not (opened and closed and words) or "<b>" in rest:
        raise DataError(f"{where}: the context {context[:40]!r}… has no marked word; expected one between <b> and </b>")
    start = len(before.split())
    return Occurrence((*before.split(), *words, *after.split()), start, start + len(words))


def score_ratings(pairs: Sequence[RatedPair], cosine_N: NDArray[Any]) -> dict[str, float]:
    """100 ρ, as usually reported."""
    return {"spearman": 100 * spearman(cosine_N, np.array([pair.rating for pair in pairs]))}


def spearman(a_N: NDArray[Any], b_N: NDArray[Any]) -> float:
    """The correlation of the ranks; NaN if all values of one side are equal."""
    x_N, y_N = (ranks(values_N) - (len(values_N) + 1) / 2 for values_N in (a_N, b_N))
    scale = math.sqrt(float(x_N @ x_N) * float(y_N @ y_N))
    return float(x_N @ y_N) / scale if scale else math.nan


def ranks(values_N: NDArray[Any]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, which_N, counts = np.unique(values_N, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_rank: NDArray[np.float64] = last - (counts - 1) / 2
    return mean_rank[which_N.reshape(-1)]
