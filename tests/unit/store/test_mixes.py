"""mixes.json: a round trip changes nothing, and what is not such a file is refused in one sentence."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stelmo.errors import DataError
from stelmo.store import mixes

GOOD = {"stelmo": 1, "task": "ner", "outputs": [{"placement": "input", "weights": [0.2, 0.5, 0.3], "gamma": 1.02}]}
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@st.composite
def outputs(draw):
    raw = draw(st.lists(st.floats(0.01, 1), min_size=1, max_size=4))
    return mixes.Output(
        placement=draw(names), weights=[share / sum(raw) for share in raw], gamma=draw(st.floats(-10, 10))
    )


@given(names, st.lists(outputs(), min_size=1, max_size=3))
def test_what_is_written_is_read(tmp_path_factory, task, found):
    folder = tmp_path_factory.mktemp("run")
    mixes.write(folder, task, found)
    assert mixes.read(folder) == mixes.read(folder / "mixes.json") == mixes.Mixes(task=task, outputs=tuple(found))


def test_the_file_is_as_documented(tmp_path):
    mixes.write(tmp_path, "ner", [mixes.Output(placement="input", weights=(0.2, 0.5, 0.3), gamma=1.02)])
    assert json.loads((tmp_path / "mixes.json").read_bytes()) == GOOD


def changed(**fields):
    return json.dumps(GOOD | fields)


def with_output(**fields):
    return changed(outputs=[GOOD["outputs"][0] | fields])


WRONG = {
    "no JSON": ("{", "cannot be read as JSON"),
    "too deep": ("[" * 100_000, "cannot be read as JSON"),
    "no UTF-8": (b"\xff", "cannot be read as JSON"),
    "a list": ("[1]", "format version None"),
    "another version": (changed(stelmo=2), "format version 2"),
    "no outputs": (changed(outputs=[]), "outputs"),
    "a field too many": (changed(more=1), "more"),
    "shares that do not sum to 1": (with_output(weights=[0.5, 0.2]), "sum to 0.7"),
    "a negative share": (with_output(weights=[-0.5, 1.5]), "greater than or equal to 0"),
    "no number": (with_output(gamma=float("nan")), "finite"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_another_file_is_refused(text, message, tmp_path):
    (tmp_path / "mixes.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=message) as refused:
        mixes.read(tmp_path)
    assert str(tmp_path / "mixes.json") in str(refused.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        mixes.read(tmp_path)
