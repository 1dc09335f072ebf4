"""Predicted BIO tags → the scores of CoNLL-2005's srl-eval.pl, in percent. Knows no files."""

from collections.abc import Sequence

from stelmo.tasks.spans import Tally, spans
from stelmo.tasks.srl.data import Example, Prediction

Argument = tuple[str, tuple[tuple[int, int], ...]]  # its role, and (start, end) of its pieces, end exclusive


def score(predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
    """F1 over arguments whose role and pieces are all correct; precision; recall; predicates without any mistake.

    As in the official script, V is not counted (the predicate is given), and C-X is a further piece of the preceding X.
    A metric that counts C-X as a separate role, as AllenNLP's does in training, gives slightly different scores.
    """
    tally, perfect = Tally(), 0
    for prediction, example in zip(predictions, examples, strict=True):
        predicted, wanted = arguments(prediction), arguments(example.tags)
        tally = tally.counting(predicted, wanted)
        perfect += predicted == wanted
    share = 100.0 * perfect / len(examples) if examples else 0.0
    return {"f1": tally.f1, "precision": tally.precision, "recall": tally.recall, "perfect": share}


def arguments(tags: Sequence[str]) -> set[Argument]:
    """C-X continues the last X; without one it is an X. R-X is a separate role. V and C-V are left out."""
    found: list[Argument] = []
    last: dict[str, int] = {}
    for start, end, label in spans(tags):
        role = label.removeprefix("C-")
        if label != role and role in last:
            found[last[role]] = (role, (*found[last[role]][1], (start, end)))
        else:
            last[role] = len(found)
            found.append((role, ((start, end),)))
    return {argument for argument in found if argument[0] != "V"}
