"""What a run begins from, if not from chance. Knows no files."""

from typing import NamedTuple

from stelmo.model.bilm import BiLM
from stelmo.model.softmax import Softmax
from stelmo.text.codepoints import Alphabet


class Start(NamedTuple):
    bilm: BiLM
    softmax: Softmax
    frozen: bool  # the biLM stays as it is, and the softmax learns
    alphabet: Alphabet | None  # of a model that reads code points
    fingerprint: str  # a run goes on only from the start it had
