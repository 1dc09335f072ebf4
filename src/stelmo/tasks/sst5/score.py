"""Predicted labels → accuracy, in percent. Knows no files."""

from collections.abc import Sequence

from stelmo.tasks.sst5.data import Example, Prediction


def score(predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
    """The share of sentences with the correct label of five. Pass whole sentences, not their phrases."""
    right = sum(prediction == example.label for prediction, example in zip(predictions, examples, strict=True))
    return {"accuracy": 100.0 * right / len(examples) if examples else 0.0}
