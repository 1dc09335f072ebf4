"""Static vectors and ELMo side by side: what is looked up, what is learned, and where it goes."""

import re
from pathlib import Path

import pytest
import tiny
import torch

from stelmo.embed.elmo import Elmo
from stelmo.errors import DataError
from stelmo.tasks import inputs
from stelmo.tasks.inputs import StaticTable, WordReader, append_elmo, static_table, with_words_of

DOCS = Path(__file__).parents[3] / "docs" / "tasks.md"
SENTENCES = [["The", "bank", "."], ["odd"], ["a", "river"]]


def table(tuned: bool = False) -> StaticTable:
    words = ["the", "bank", "river", ".", "The"]
    return StaticTable(words, torch.arange(10.0).view(5, 2) + 1, tuned)


def test_a_word_is_looked_up_as_written_and_else_in_lower_case():
    static = table()
    static.unknown_D.data = torch.tensor([-1.0, -2.0])
    found_BTD = static([["The", "BANK", "unseen"]])
    expected = torch.stack([static.vectors_VD[4], static.vectors_VD[1], static.unknown_D])
    assert torch.equal(found_BTD[0], expected)


def test_padding_is_zero_and_changes_nothing():
    static = table()
    together, alone = static(SENTENCES), [static([sentence])[0] for sentence in SENTENCES]
    for row_TD, own_TD in zip(together, alone, strict=True):
        assert torch.equal(row_TD[: len(own_TD)], own_TD)
        assert not row_TD[len(own_TD) :].any()


def test_of_random_vectors_the_words_that_occur_once_share_the_learned_one():
    messages = []
    text = [["a", "b", "a"], ["c", "b"]]
    static = static_table("random", text, [["d"]], True, messages.append)
    assert static.words == ("a", "b")
    static([["c", "d"]]).sum().backward()
    assert static.unknown_D.grad.tolist() == [2.0] * static.width
    assert static_table("random", [["a", "b"]], [], True, messages.append).words == ("a", "b")  # none occurs twice


def glove(path, **vectors):
    path.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items()))
    return str(path)


def test_static_vectors_without_a_word_of_the_data_are_refused(tmp_path):
    source = glove(tmp_path / "vectors.txt", der=[1, 2], die=[3, 4])
    with pytest.raises(DataError, match=r"vectors\.txt: has no vector for any of the data's 2 words, such as a, the"):
        static_table(source, [["the"]], [["a"]], False, print)
    with pytest.raises(DataError, match="--vectors trained: no word of the training data occurs twice"):
        static_table("trained", [["the", "a"]], [["a"]], False, print)


def test_words_of_new_text_have_the_vectors_of_the_file(tmp_path):
    source, messages = glove(tmp_path / "vectors.txt", the=[1, 2], zed=[3, 4]), []
    static = static_table(source, [["the", "odd"]], [], False, messages.append)
    static.unknown_D.data = torch.tensor([-1.0, -2.0])
    more = with_words_of(static, source, [["The", "Zed", "unseen"]], messages.append)
    assert more([["The", "Zed", "unseen"]]).tolist() == [[[1, 2], [3, 4], [-1, -2]]]
    assert static([["Zed"]]).tolist() == [[[-1, -2]]]
    assert len(messages) == 1  # of reading the file for training


@pytest.mark.parametrize("now", [None, {"zed": [1, 2, 3]}])
def test_new_words_share_a_vector_if_the_file_is_no_longer_the_same(now, tmp_path):
    source, messages = glove(tmp_path / "vectors.txt", the=[1, 2]), []
    static = static_table(source, [["the"]], [], False, lambda text: None)
    (tmp_path / "vectors.txt").unlink()
    if now is not None:
        glove(tmp_path / "vectors.txt", **now)
    assert with_words_of(static, source, [["zed"]], messages.append) is static
    (message,) = messages
    assert message.startswith(f"1 words share one vector: {source} does not have the static vectors of the training")


@pytest.mark.parametrize("tuned", [False, True])
def test_vectors_are_learned_only_where_asked_and_the_unknown_one_always(tuned):
    static = table(tuned)
    static([["the", "unseen"]]).sum().backward()
    assert (static.vectors_VD.grad is not None) == tuned
    assert static.unknown_D.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("placement", "width", "output"), [("none", 2, 0), ("input", 14, 0), ("output", 2, 12), ("both", 14, 12)]
)
def test_the_widths_are_those_of_what_is_read(placement, width, output):
    outputs = {"none": 0, "both": 2}.get(placement, 1)
    elmo = Elmo(tiny.model(), outputs=outputs) if outputs else None
    reader = WordReader(table(), elmo, placement)
    read = reader(SENTENCES)
    assert (reader.width, reader.output_width) == (width, output)
    assert read.x_BTD.shape == (3, 3, width)
    assert read.mask_BT.tolist() == [[True] * 3, [True, False, False], [True, True, False]]
    assert append_elmo(read.x_BTD, read).shape == (3, 3, width + output)


def test_each_place_has_a_mix_of_its_own_with_its_penalty():
    elmo = Elmo(tiny.model(), outputs=2, l2=0.5)
    reader = WordReader(table(), elmo, "both")
    mixes = reader.mixes()
    mixes["input"].logits.data = torch.tensor([1.0, 2.0, 0.0])
    mixes["output"].logits.data = torch.tensor([0.0, 0.0, 3.0])
    assert reader.penalty().item() == pytest.approx(0.5 * (1 + 4 + 9))
    read = reader.eval()(SENTENCES)
    assert not torch.allclose(read.x_BTD[:, :, 2:], read.elmo_BTE)


def test_without_elmo_there_is_nothing_to_penalise():
    assert WordReader(table(), None, "none").penalty().item() == 0


def test_the_example_of_the_documents_learns_the_mix_beside_its_own_vectors():
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    names = {}
    exec(snippet, names)
    assert names["elmo"].mixes[0].logits.grad.abs().sum() > 0
    assert names["table"].weight.grad.abs().sum() > 0


# Where static vectors come from

TRAIN = [["the", "cat", "sat"], ["The", "cat", "ran"]] * 10
OTHERS = [["a", "dog"]]


def made(source, tuned=True):
    said: list[str] = []
    return inputs.static_table(str(source), TRAIN, OTHERS, tuned, said.append), " ".join(said)


def test_a_file_gives_the_words_of_all_splits(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("the 1 2\ncat 3 4\ndog 5 6\nelsewhere 7 8\n")
    table, said = made(path, tuned=False)
    assert set(table.words) == {"the", "cat", "dog"}
    assert table([["dog", "The"]])[0].tolist() == [[5.0, 6.0], [1.0, 2.0]]
    assert "4 of the data's 7 words" in said  # the, The, cat and dog


def test_chance_is_the_same_at_each_run_and_said_plainly():
    (first, said), (second, _) = made("random"), made("random")
    assert torch.equal(first.vectors_VD, second.vectors_VD)
    assert set(first.words) == {"the", "The", "cat", "sat", "ran"}
    assert "at random" in said


def test_vectors_trained_on_the_text_are_the_same_at_each_run():
    pytest.importorskip("gensim", reason="gensim is not installed: the extra `baselines` has it")
    (first, said), (second, _) = made("trained"), made("trained")
    assert torch.equal(first.vectors_VD, second.vectors_VD)
    assert "the task's own text" in said


def test_none_is_no_table():
    assert made("none")[0] is None


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="absent"):
        made(tmp_path / "absent.txt")
