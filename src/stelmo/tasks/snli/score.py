"""Labels → accuracy. Knows no files."""

from collections.abc import Sequence

from stelmo.tasks.snli.data import Example


def score(predictions: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
    """The share of pairs with the gold label, in percent."""
    right = sum(label == example.label for label, example in zip(predictions, examples, strict=True))
    return {"accuracy": 100.0 * right / len(examples)}
