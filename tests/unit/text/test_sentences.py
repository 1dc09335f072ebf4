import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.errors import ConfigError
from stelmo.text import sentences as module
from stelmo.text.sentences import split, tokenize, tokenize_text

LANGUAGES = st.sampled_from(["en", "de", "fr", "hi", "ja", "zh", "th", "xx", ""])
HARD = "aM. !?。'\")\n\r\t\x00\x1c\x85\u00a0\u2028\u2029\u3000\u0301\u200d😀é\ud800\udfff"
TEXT = st.text(st.one_of(st.characters(), st.sampled_from(HARD)), max_size=80)


def sentences(text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in split(text, language)]


@given(TEXT, LANGUAGES)
@settings(deadline=None, max_examples=400)
def test_sentences_are_in_order_stripped_and_lose_only_white_space(text, language):
    spans = split(text, language)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert all(text[a:b] and text[a:b] == text[a:b].strip() for a, b in spans)
    assert "".join("".join(sentences(text, language)).split()) == "".join(text.split())


@given(TEXT, LANGUAGES)
@settings(deadline=None, max_examples=400)
def test_tokens_of_a_text_are_its_slices_in_order_and_lose_only_white_space(text, language):
    parts = tokenize_text(text, language)
    tokens = [token for part in parts for token in part]
    assert all(parts)
    assert [token.text for token in tokens] == [text[token.start : token.end] for token in tokens]
    assert all(a.end <= b.start for a, b in pairwise(tokens))
    assert "".join(token.text for token in tokens) == "".join(text.split())


@pytest.mark.parametrize("code", ["DE", "de-DE", "de_AT", "De-de"])
def test_a_language_is_the_same_with_a_region_or_in_capitals(code):
    text = "Am 3. Oktober kam Dr. Müller z.B. mit Hrn. Meier. Das ist ca. 5 Mio. wert. Am 5. Januar ging er."
    assert sentences(text, "de") != sentences(text, "en")
    assert split(text, code) == split(text, "de")
    assert tokenize_text(text, code) == tokenize_text(text, "de")


def test_a_language_that_is_not_a_code_is_refused_before_the_text_is_split():
    with pytest.raises(ConfigError, match="language 'german': expected a code of two or three letters"):
        split("Ein Satz.", "german")


@given(st.lists(st.sampled_from(["They fell in love.", "Stocks fell!", "Did Mr. Smith know?"])))
@settings(deadline=None)
def test_sentences_put_together_come_apart_again(given_sentences):
    assert sentences(" ".join(given_sentences)) == given_sentences


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Mr. Smith came to the U.S. yesterday. He left.", ["Mr. Smith came to the U.S. yesterday.", "He left."]),
        ("de", "Er kam z.B. gestern. Sie blieb.", ["Er kam z.B. gestern.", "Sie blieb."]),
        ("fr", "Il est parti. Ça va ?", ["Il est parti.", "Ça va ?"]),
        ("zh", "你好。我是学生。", ["你好。", "我是学生。"]),
        ("ja", "こんにちは。元気です。", ["こんにちは。", "元気です。"]),
        ("hi", "यह एक वाक्य है। यह दूसरा है।", ["यह एक वाक्य है।", "यह दूसरा है।"]),
        ("ar", "كيف حالك؟ أنا بخير.", ["كيف حالك؟", "أنا بخير."]),
        ("ru", "Он пришёл. Она ушла.", ["Он пришёл.", "Она ушла."]),
        ("xx", "They fell in love. Stocks fell.", ["They fell in love.", "Stocks fell."]),
    ],
)
def test_sentences_end_where_their_language_ends_them(language, text, expected):
    assert sentences(text, language) == expected


@pytest.mark.parametrize("text", ["", " ", "\n\n\t\u00a0\u3000"])
def test_no_text_has_no_sentences(text):
    assert split(text) == tokenize(text) == []


@pytest.mark.parametrize("blank", ["\n\n", "\n \t\n", "\r\n\r\n", "\n\u00a0\n\n", "\u2029"])
def test_a_blank_line_ends_a_sentence(blank):
    assert sentences(f"A heading{blank}and more") == ["A heading", "and more"]


def test_one_line_break_ends_a_sentence_only_after_its_punctuation():
    assert sentences("They fell\nin love.\nStocks fell.") == ["They fell\nin love.", "Stocks fell."]


@pytest.mark.parametrize("text", ["M\u3000. Then", "M\u00a0\u2028. Then", "a \ud800 fell. Then \udfff"])
def test_characters_that_upset_the_splitter_pass(text):
    assert sentences(text)[-1].startswith(("M", "Then"))


def test_offsets_hold_in_a_text_of_many_paragraphs():
    text = "They fell é.\n\nNow\n\n\n  😀. " * 2_000
    assert [token.text for part in tokenize_text(text) for token in part] == [
        "They",
        "fell",
        "é",
        ".",
        "Now",
        "😀",
        ".",
    ] * 2_000


def test_tokenize_gives_strings_in_sentences():
    assert tokenize("They don't. Stocks fell.", contractions="moses") == [
        ["They", "don", "'t", "."],
        ["Stocks", "fell", "."],
    ]
    assert tokenize("L'été.", "fr") == [["L'", "été", "."]]


def test_an_unknown_kind_of_contractions_is_refused():
    with pytest.raises(ConfigError, match="contractions"):
        tokenize("x", contractions="none")


WORST = ['"', '?"', "('\"", "“", "« ", "a “b. ", "?»", "「a。", "'"]


@pytest.mark.parametrize("unit", WORST)
@pytest.mark.parametrize("size", [20_000, 80_000])
def test_the_splitter_is_never_given_more_marks_than_it_can_bear(unit, size, monkeypatch):
    """It takes time in proportion to the marks times the characters of a piece."""
    work, original = [], module._piece_boundaries

    def counted(piece, language):
        work.append(len(module._MARK.findall(piece)) * len(piece))
        return original(piece, language)

    monkeypatch.setattr(module, "_piece_boundaries", counted)
    text = (unit * size)[:size]
    spans = split(text)
    assert sum(work) <= 3 * module._MOST_MARKS * size
    assert max(work) <= module._MOST_WORK
    assert "".join(text[a:b] for a, b in spans).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("unit", ["word ", "word. ", "x"])
def test_many_marks_and_much_text_come_to_the_splitter_in_pieces(unit, monkeypatch):
    """So that it never holds the interpreter for long."""
    work, original = [], module._piece_boundaries

    def counted(piece, language):
        work.append(len(module._MARK.findall(piece)) * len(piece))
        return original(piece, language)

    monkeypatch.setattr(module, "_piece_boundaries", counted)
    text = "“" * 2000 + (unit * 300_000)[:300_000]
    spans = split(text)
    assert len(work) > 1
    assert max(work) <= module._MOST_WORK
    assert "".join(text[a:b] for a, b in spans).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("unit", WORST)
def test_the_worst_texts_take_seconds_not_minutes(unit):
    before = time.process_time()
    split((unit * 400_000)[:400_000])
    assert time.process_time() - before < 20


def test_a_long_paragraph_of_ordinary_text_is_split_as_a_short_one(monkeypatch):
    text = "".join(f"“Is it {n}?” he asked. She said no. It isn't Mr. Smith's, i.e. not {n}. " for n in range(2000))
    pieces = split(text)
    monkeypatch.setattr(module, "_MOST_MARKS", len(text))
    assert split(text) == pieces
