"""What a language model says about a word's uses: vectors of the words around them, and substitutes for the word.

N uses, V words of the vocabulary, P projection, K groups. Meanings separate by the vectors of the words around a use.

A word's vector is its row of the language model's softmax: words that are predicted in the same places have similar
rows. The mean row and the direction that all rows share most are removed (Mu & Viswanath 2018, "All-but-the-Top"). A
use is the weighted mean of the words of its sentence, the use itself left out; a frequent word has a small weight
(Arora et al. 2017), estimated from its rank, because a vocabulary has the most frequent words first.

Substitutes are the words that the model would put in the place of the uses of a group, and not in the place of the uses
of other groups: of the words with the highest mean log-probability in the group, those that exceed their mean over the
other groups most.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile

import numpy as np

from stelmo.embed.model import Model
from stelmo.explore.clusters import FUNCTION_WORDS
from stelmo.explore.index import Use, is_word, spread
from stelmo.explore.mixing import Array, Vectors, units
from stelmo.lm import probabilities as lm
from stelmo.text import chars
from stelmo.text.ids import UNKNOWN, Vocabulary

HALF = 300  # the rank of a word that has half the weight of a rare one
SHARED_FROM = 20_000  # words from which the shared direction is estimated
ASKED = 40  # uses of a group whose substitutes are computed: more hardly change the mean
ASKED_TOKENS = 10_000  # of all groups together: if sentences are long, fewer uses are asked
LIKELY = 25  # words of a group, the most likely, among which the distinctive ones are chosen
STEM, ENDING = 3, 4  # letters that inflected forms share at least, and that one of them can add at most
MARKERS = (chars.BEGIN_SENTENCE, chars.END_SENTENCE, UNKNOWN)


class Contexts:
    """The words of a language model, as vectors of the contexts in which they stand."""

    def __init__(self, vocabulary: Vocabulary, rows_VP: Array) -> None:
        self._words = vocabulary
        centred_VP = np.asarray(rows_VP, np.float32) - rows_VP.mean(0, dtype=np.float32)
        frequent_UP = units(centred_VP[:SHARED_FROM])
        shared_P = np.linalg.eigh(frequent_UP.T @ frequent_UP)[1][:, -1]
        self._units_VP = units(centred_VP - np.outer(centred_VP @ shared_P, shared_P))

    def vectors(self, uses: Sequence[Use]) -> Vectors:
        """(N, P), of length 1; zeros for a use without a known word around it."""
        found_NP = np.zeros((len(uses), self._units_VP.shape[1]), np.float32)
        known = {}  # tokens of the uses that the vocabulary has, if need be in lower case → their numbers
        for token in {token for use in uses for token in use.tokens if is_word(token)}:
            spelling = token if token in self._words else token.lower()
            if spelling in self._words:
                known[token] = self._words.id(spelling)
        for use, found_P in zip(uses, found_NP, strict=True):
            own = use.word.lower()
            found = [known[token] for token in use.tokens if token in known and token.lower() != own]
            ids = np.array(found, np.int64)
            found_P += (ids / (ids + HALF)) @ self._units_VP[ids]
        return units(found_NP)


def of_model(model: Model) -> Contexts | None:
    """None if the model has no softmax or no vocabulary: then uses are grouped by their layers."""
    if model.vocabulary is None or model.saved().read_softmax is None:
        return None
    return Contexts(model.vocabulary, model.softmax.weight.detach().cpu().numpy())


def substitutes(model: Model, groups: Sequence[Sequence[Use]], count: int = 3) -> list[list[str]]:
    """For each group of uses the words that the language model would put in their place, the most distinctive first.

    Inflected forms of the uses' own words and function words are left out. The lists are empty if there is only one
    group, or if the model has no softmax.
    """
    if len(groups) < 2 or model.vocabulary is None or model.saved().read_softmax is None:
        return [[] for _ in groups]
    asked, most = [spread(uses, ASKED) for uses in groups], ASKED
    while most > 1 and sum(len(use.tokens) for uses in asked for use in uses) > ASKED_TOKENS:
        most //= 2
        asked = [spread(uses, most) for uses in groups]
    flat = [use for uses in asked for use in uses]
    predicting_NP = lm.predicting_at(model, [use.tokens for use in flat], [use.position for use in flat])
    ends = np.cumsum([len(uses) for uses in asked])[:-1]
    means_KP = np.stack([part_NP.mean(0) for part_NP in np.split(predicting_NP, ends)])
    rows_VP, bias_V = (part.detach().float().cpu().numpy() for part in (model.softmax.weight, model.softmax.bias))
    scores_KV = means_KP @ rows_VP.T + bias_V  # mean log-probabilities, each row less a constant
    own = {use.word.lower() for use in flat}
    found = []
    for group, scores_V in enumerate(scores_KV):
        gain_V = scores_V - np.delete(scores_KV, group, 0).mean(0)
        order = np.argsort(-scores_V, kind="stable")
        likely = list(islice(_presentable(order, model.vocabulary, own), LIKELY))
        best = sorted(likely, key=lambda number: -gain_V[number])[:count]
        found.append([model.vocabulary.words[number] for number in best])
    return found


def _presentable(order: Iterable[int], words: Vocabulary, own: set[str]) -> Iterator[int]:
    """The numbers of words that can stand in a label, each spelling once."""
    seen = set[str]()
    for number in order:
        word = words.words[number]
        lower = word.lower()
        plain = is_word(word) and word not in MARKERS and lower not in FUNCTION_WORDS
        if plain and lower not in seen and not any(is_form_of(lower, other) for other in own):
            seen.add(lower)
            yield int(number)


def is_form_of(word: str, other: str) -> bool:
    """Whether two words in lower case look like forms of one: banks, banking and bank; parties and party."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False)))
    return word == other or (shared >= max(STEM, len(other) - 1) and len(word) - shared <= ENDING)
