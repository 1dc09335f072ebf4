"""Frames that nobody has tagged: predicates in a list, marked in a line, or out of a labelled file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.tasks.samples import SRL_2012, SRL_JSON, SRL_PROPBANK

from stelmo.errors import DataError
from stelmo.tasks.srl.data import Example, read, read_new
from stelmo.tasks.srl.untagged import _of_text


def read_text(tmp_path, text):
    (tmp_path / "f").write_text(text, encoding="utf-8")
    return read_new(tmp_path / "f")


def found(examples):
    return [(example.words, example.predicate) for example in examples]


def test_predicates_are_named_by_their_places(tmp_path):
    line = json.dumps({"words": ["Kim", "said", "we", "won"], "predicates": [1, 3]})
    assert read_text(tmp_path, f"{line}\n\n") == [
        Example(("Kim", "said", "we", "won"), 1, "", ("O", "B-V", "O", "O"), f"{tmp_path}/f:1"),
        Example(("Kim", "said", "we", "won"), 3, "", ("O", "O", "O", "B-V"), f"{tmp_path}/f:1"),
    ]


def test_predicates_are_marked_in_a_sentence(tmp_path):
    assert found(read_text(tmp_path, "Kim *said* we *won* .\n\n*Go*!\n")) == [
        (("Kim", "said", "we", "won", "."), 1),
        (("Kim", "said", "we", "won", "."), 3),
        (("Go", "!"), 0),
    ]


def test_a_mark_around_several_tokens_is_at_the_first(tmp_path):
    assert found(read_text(tmp_path, "We *don't* know, he (*said*).")) == [
        (("We", "do", "n't", "know", ",", "he", "(", "said", ")", "."), 1),
        (("We", "do", "n't", "know", ",", "he", "(", "said", ")", "."), 7),
    ]


@pytest.mark.parametrize("text", [SRL_JSON, SRL_PROPBANK, SRL_2012], ids=["json", "propbank", "conll-2012"])
def test_of_a_tagged_file_the_tags_do_not_matter(tmp_path, text):
    fresh = read_text(tmp_path, text)
    assert [example._replace(tags=()) for example in fresh] == [
        example._replace(tags=()) for example in read(tmp_path / "f")
    ]
    assert {tag for example in fresh for tag in example.tags} == {"O", "B-V"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Kim left .", "no predicate is marked; expected one or more in asterisks"),
        ("{", "not JSON"),
        ('{"words": ["a"]}', "no lists of words and predicates"),
        ('{"words": [], "predicates": []}', "no lists of words and predicates"),
        ('{"words": ["a", ""], "predicates": [0]}', "a word that is empty or not a string"),
        ('{"words": ["a"], "predicates": [1]}', "the predicate 1; expected the position of a word, 0 to 0"),
        ('{"words": ["a"], "predicates": [true]}', "the predicate True"),
        ('{"words": ["a"], "frames": [{}]}', "a frame without a predicate"),
    ],
)
def test_a_flaw_has_its_line(tmp_path, line, message):
    with pytest.raises(DataError) as error:
        read_text(tmp_path, f"*Go* !\n{line}\n")
    assert str(error.value).startswith(f"{tmp_path}/f:2: {message}")


@pytest.mark.parametrize("text", ["", "\n", '{"words": ["a"], "predicates": []}\n'])
def test_a_file_without_frames_is_refused(tmp_path, text):
    with pytest.raises(DataError, match="there are no frames"):
        read_text(tmp_path, text)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])).filter(lambda text: "**" not in text))
def test_a_mark_finds_a_word_whatever_surrounds_it(text):
    frames = list(_of_text(f"{text} *run* {text}", "f:1"))
    assert any(frame.words[frame.predicate].startswith("run") for frame in frames)
