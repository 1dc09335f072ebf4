from stelmo.tasks.snli.data import Example
from stelmo.tasks.snli.score import score


def pair(label: str) -> Example:
    return Example(("It", "rains"), ("It", "is", "wet"), label, "1", "file:1")


def test_accuracy_is_the_share_of_right_labels():
    examples = [pair("neutral"), pair("neutral"), pair("entailment"), pair("contradiction")]
    assert score(["neutral", "entailment", "entailment", "contradiction"], examples) == {"accuracy": 75.0}


def test_nothing_right_is_zero():
    assert score(["neutral"], [pair("entailment")]) == {"accuracy": 0.0}
