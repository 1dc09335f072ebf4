"""Predicted BIO tags → conlleval's scores, in percent. Knows no files."""

from collections import defaultdict
from collections.abc import Sequence

from stelmo.tasks.ner.data import Example, Prediction
from stelmo.tasks.spans import Span, Tally, spans


def score(predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
    """F1 over entities whose boundaries and type are both correct; then precision, recall, and the same for each type.

    As in conlleval, tags need not be well-formed: an I-X that does not continue an X begins an entity.
    """
    overall = Tally()
    by_type: defaultdict[str, Tally] = defaultdict(Tally)
    for prediction, example in zip(predictions, examples, strict=True):
        predicted, wanted = set(spans(prediction)), set(spans(example.tags))
        overall = overall.counting(predicted, wanted)
        for label in {span.label for span in predicted | wanted}:
            by_type[label] = by_type[label].counting(_of(label, predicted), _of(label, wanted))
    figures = _figures("", overall) | {"accuracy": _accuracy(predictions, examples)}
    for label in sorted(by_type):
        figures |= _figures(f"{label} ", by_type[label])
    return figures


def _of(label: str, spans: set[Span]) -> set[Span]:
    return {span for span in spans if span.label == label}


def _figures(prefix: str, tally: Tally) -> dict[str, float]:
    return {f"{prefix}f1": tally.f1, f"{prefix}precision": tally.precision, f"{prefix}recall": tally.recall}


def _accuracy(predictions: Sequence[Prediction], examples: Sequence[Example]) -> float:
    """The share of tokens with the correct tag."""
    pairs = [
        pair
        for prediction, example in zip(predictions, examples, strict=True)
        for pair in zip(prediction, example.tags, strict=True)
    ]
    return 100.0 * sum(predicted == wanted for predicted, wanted in pairs) / len(pairs) if pairs else 0.0
