"""Sense-tagged instances and their vectors → the senses of other instances, and their F1. Knows no files.

    F1 of WordNet's first sense (its index.sense, version 3.0, against Raganato's gold keys)

    senseval2   senseval3   semeval2007   semeval2013   semeval2015   all five   without semeval2007
       66.8        66.2         55.2          63.0          67.8        65.2            65.9

The 65.9 in Table 5 of the ELMo paper is what the four sets give without SemEval-2007, which is usually kept for
tuning: 1524 + 1225 + 1035 + 693 = 4477 right of 2282 + 1850 + 1644 + 1022 = 6798 instances. With SemEval-2007's 251 of
455, the hardest set, it is 4728 of 7253. This is our interpretation, from the arithmetic alone. The data do not explain
the difference: index.sense has every lemma and every gold key, and no answer depends on a tie. So compare our column
"without semeval2007".
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stelmo.probes.embedding import BLOCK, TIE, Embed, Vector, blocks, mean_vector, unit
from stelmo.probes.wsd_data import DEVELOPMENT, POS, TESTS, AnnotatedSentence, Instance, Keys, Lemma

Tagged = tuple[Instance, Vector]
Choice = Callable[[Instance, Vector], str | None]  # None if the lemma is unknown
Answers = dict[str, Keys]

WEIGHTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
KS = (1, 3, 5, 10, 20, 50)

_Number = TypeVar("_Number", int, float)


def tagged(sentences: Iterable[AnnotatedSentence], embed: Embed, block: int = BLOCK) -> Iterator[Tagged]:
    """Every instance with its vector. For the control without context, let `embed` return layer 0."""
    for some in blocks((sentence for sentence in sentences if sentence.instances), block):
        embedded = embed([sentence.tokens for sentence in some])
        for sentence, words_TD in zip(some, embedded, strict=True):
            for instance in sentence.instances:
                yield instance, mean_vector(words_TD, instance.start, instance.end)


# What is stored of the training corpus


class Memory(Protocol):
    def add(self, instance: Instance, vector_D: Vector) -> None: ...


def learn(uses: Iterable[Tagged], *memories: Memory) -> None:
    """Fill all memories in one pass over the training corpus."""
    for instance, vector_D in uses:
        for memory in memories:
            memory.add(instance, vector_D)


class Averages:
    """The mean vector of each sense, as in the paper; an instance with two gold keys counts for both."""

    def __init__(self) -> None:
        self._sums: dict[str, Vector] = {}
        self._counts: Counter[str] = Counter()
        self._senses: defaultdict[Lemma, dict[str, None]] = defaultdict(dict)  # in order of first occurrence

    def add(self, instance: Instance, vector_D: Vector) -> None:
        for key in instance.gold:
            if key in self._sums:
                self._sums[key] += vector_D
            else:
                self._sums[key] = vector_D.astype(np.float32)
            self._counts[key] += 1
            self._senses[instance.lemma][key] = None

    def nearest(self, instance: Instance, vector_D: Vector) -> str | None:
        """The sense whose mean has the largest cosine (Peters et al. 2018, section 5.3)."""
        return self.likeliest(instance, vector_D, weight=0.0)

    def likeliest(self, instance: Instance, vector_D: Vector, weight: float) -> str | None:
        """argmax over senses s of   cos(v, mean_s) + weight · log p(s | lemma)

        p is the sense's share in the training corpus. Weight 0 is the paper's method, a large weight the most frequent
        sense. Ties go to the more frequent sense: without context most senses tie, and rounding must not decide.
        """
        keys = list(self._senses.get(instance.lemma, ()))
        if not keys:
            return None
        cosine_S = unit(np.stack([self._sums[key] for key in keys])) @ unit(vector_D)
        count_S = np.array([self._counts[key] for key in keys])
        score_S = cosine_S + weight * np.log(count_S / count_S.sum())
        return keys[int(np.argmax(np.where(score_S >= score_S.max() - TIE, count_S, 0)))]

    def with_prior(self, weight: float) -> Choice:
        return lambda instance, vector_D: self.likeliest(instance, vector_D, weight)


class Examples:
    """Every instance, grouped by lemma, in half precision: SemCor at width 1,024 takes 0.5 GB."""

    def __init__(self) -> None:
        self._keys: defaultdict[Lemma, list[str]] = defaultdict(list)
        self._rows: defaultdict[Lemma, list[NDArray[np.float16]]] = defaultdict(list)

    def add(self, instance: Instance, vector_D: Vector) -> None:
        row_1D = unit(vector_D).astype(np.float16)[None]  # of length 1: no overflow, and a product is the cosine
        for key in instance.gold:
            self._keys[instance.lemma].append(key)
            self._rows[instance.lemma].append(row_1D)

    def vote(self, instance: Instance, vector_D: Vector, k: int) -> str | None:
        """The most frequent sense among the k nearest and all as near as the last; ties go to the nearer sense."""
        keys = self._keys.get(instance.lemma)
        if not keys:
            return None
        rows = self._rows[instance.lemma]
        if len(rows) > 1:  # added one by one, concatenated when first needed
            rows[:] = [np.concatenate(rows)]
        cosine_N = rows[0].astype(np.float32) @ unit(vector_D)
        votes: defaultdict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
        k_th = np.partition(cosine_N, -k)[-k] if k < len(cosine_N) else -np.inf
        for row in np.flatnonzero(cosine_N >= k_th - TIE):
            count, total = votes[keys[row]]
            votes[keys[row]] = count + 1, total + float(cosine_N[row])
        return max(votes, key=lambda key: votes[key])

    def of(self, k: int) -> Choice:
        return lambda instance, vector_D: self.vote(instance, vector_D, k)


# Answers


def first_sense(instances: Iterable[Instance], first: Mapping[Lemma, str]) -> Answers:
    """The baseline. A lemma that is not in WordNet gets no answer."""
    return {instance.id: (first[instance.lemma],) for instance in instances if instance.lemma in first}


def answer(uses: Iterable[Tagged], choices: Mapping[str, Choice], first: Mapping[Lemma, str]) -> dict[str, Answers]:
    """For each method the sense of each instance; WordNet's first sense for lemmas not in the training corpus."""
    answers: dict[str, Answers] = {name: {} for name in choices}
    for instance, vector_D in uses:
        for name, choose in choices.items():
            key = choose(instance, vector_D) or first.get(instance.lemma)
            if key is not None:
                answers[name][instance.id] = (key,)
    return answers


def tune(averages: Averages, uses: Sequence[Tagged], first: Mapping[Lemma, str]) -> float:
    """The weight of the prior with the best F1 on development instances; the smallest if tied."""
    return _best({weight: averages.with_prior(weight) for weight in WEIGHTS}, uses, first)


def tune_k(examples: Examples, uses: Sequence[Tagged], first: Mapping[Lemma, str]) -> int:
    """The number of neighbours with the best F1 on development instances; the smallest if tied."""
    return _best({k: examples.of(k) for k in KS}, uses, first)


def _best(choices: Mapping[_Number, Choice], uses: Sequence[Tagged], first: Mapping[Lemma, str]) -> _Number:
    answers = answer(uses, {str(number): choice for number, choice in choices.items()}, first)
    gold = [instance for instance, _ in uses]
    return max(choices, key=lambda number: (f1(answers[str(number)], gold), -number))


# The official score


def score(answers: Mapping[str, Keys], instances: Sequence[Instance]) -> dict[str, float]:
    """Percent: F1 over all, then for each data set and part of speech that occurs."""
    groups: dict[str, list[Instance]] = {"F1": list(instances)}
    by_set = _grouped(instances, lambda instance: _set_of(instance.id))
    rest = [instance for instance in instances if not is_development(instance)]
    if 0 < len(rest) < len(instances):
        groups[f"without {DEVELOPMENT}"] = rest
    groups |= {name: by_set[name] for name in TESTS if name in by_set}
    by_pos = _grouped(instances, lambda instance: instance.lemma[1])
    groups |= {pos: by_pos[pos] for pos in POS if pos in by_pos}
    return {name: f1(answers, group) for name, group in groups.items()}


def f1(answers: Mapping[str, Keys], instances: Sequence[Instance]) -> float:
    """2PR / (P + R), in percent. An answer of several keys scores the share of them that is gold."""
    given = [instance for instance in instances if answers.get(instance.id)]
    pairs = [(answers[instance.id], instance.gold) for instance in given]
    right = sum(sum(key in gold for key in answer) / len(answer) for answer, gold in pairs)
    if not right:
        return 0.0
    precision, recall = right / len(given), right / len(instances)
    return 100 * 2 * precision * recall / (precision + recall)


def is_development(instance: Instance) -> bool:
    """Whether it belongs to the set that is usually kept for tuning."""
    return _set_of(instance.id) == DEVELOPMENT


def _set_of(id: str) -> str:
    """In ALL, ids begin with the name of their data set: senseval2.d000.s000.t000."""
    return id.split(".")[0]


def _grouped(instances: Iterable[Instance], name: Callable[[Instance], Any]) -> dict[Any, list[Instance]]:
    groups: defaultdict[Any, list[Instance]] = defaultdict(list)
    for instance in instances:
        groups[name(instance)].append(instance)
    return groups
