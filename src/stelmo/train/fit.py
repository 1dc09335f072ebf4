"""A plan and a corpus → whether they go together. Knows no training."""

from stelmo.config import CodePointInput, ModelConfig, TrainSettings, WordInput
from stelmo.corpus.folder import Corpus
from stelmo.errors import ConfigError, DataError
from stelmo.train.presets import Plan


def refuse_misfit(plan: Plan, corpus: Corpus) -> None:
    """Before anything is written."""
    _refuse_corpus(corpus, plan.train)
    if plan.start is None:
        _refuse_input(plan.model, corpus)


def _refuse_corpus(corpus: Corpus, settings: TrainSettings) -> None:
    found = corpus.manifest.train.sentences
    if found < settings.batch:
        raise DataError(
            f"{corpus.path}: {found} training sentences for a batch of {settings.batch} rows; "
            f"each row reads its own, so prepare more text or set batch to {max(1, found)} or less"
        )
    if not corpus.heldout:
        raise DataError(f"{corpus.path}: no held-out sentences to validate on; prepare the text with --heldout 0.01")


def _refuse_input(model: ModelConfig, corpus: Corpus) -> None:
    reads, words = model.input, len(corpus.vocabulary)
    if isinstance(reads, CodePointInput):
        raise ConfigError("input.kind: a model of code points cannot be begun here; take chars or words")
    if isinstance(reads, WordInput) and reads.words != words:
        raise ConfigError(f"input.words is {reads.words}, but {corpus.path} has a vocabulary of {words}; leave it out")
