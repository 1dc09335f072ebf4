import json
import os
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stelmo.errors import ConfigError, DataError
from stelmo.text.files import LineReader
from stelmo.text.formats import FORMATS, Sentence, guess, read

SHARED = Path(os.environ.get("STELMO_SHARED", Path(__file__).resolve().parents[4] / "shared"))
TREEBANKS = sorted(SHARED.glob("*.conllu"))
WORD = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z", "Cf"]), min_size=1, max_size=8)

shares_a_path = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


def halves(text: str) -> list[list[str]]:
    return [part.split() for part in text.split("|") if part.split()]


def sentences(tmp_path, text: str, format_name: str, column: int = 0, keep=()) -> list[Sentence]:
    path = tmp_path / "file"
    path.write_bytes(text.encode())
    with LineReader(path) as reader:
        return list(read(reader, "file", format_name, tokenizer=halves, column=column, keep=keep))


def tokens(tmp_path, text: str, format_name: str, column: int = 0) -> list[list[str]]:
    return [sentence.tokens for sentence in sentences(tmp_path, text, format_name, column)]


def row(number: object, form: str) -> str:
    return "\t".join([str(number), form, *"________"]) + "\n"


@given(given_sentences=st.lists(st.lists(WORD)))
@shares_a_path
def test_tokens_come_back_line_by_line(tmp_path, given_sentences):
    text = "".join(" ".join(words) + "\n" for words in given_sentences)
    expected = [Sentence(words, "file", line) for line, words in enumerate(given_sentences, 1)]
    assert sentences(tmp_path, text, "tokens") == expected


@given(given_sentences=st.lists(st.lists(WORD, min_size=1), max_size=5), end=st.sampled_from(["", "\n", "\n\n\n"]))
@shares_a_path
def test_conllu_and_columns_come_back_sentence_by_sentence(tmp_path, given_sentences, end):
    blocks = ["".join(row(number, word) for number, word in enumerate(words, 1)) for words in given_sentences]
    text = "\n".join(blocks) + end
    assert tokens(tmp_path, text, "conllu") == given_sentences
    assert tokens(tmp_path, text, "columns", 1) == given_sentences


@given(given_sentences=st.lists(st.lists(st.text())))
@shares_a_path
def test_json_tokens_come_back_even_empty_and_with_lone_surrogates(tmp_path, given_sentences):
    text = "".join(json.dumps({"tokens": words, "text": "other"}) + "\n\n" for words in given_sentences)
    expected = [Sentence(words, "file", 2 * index + 1) for index, words in enumerate(given_sentences)]
    assert sentences(tmp_path, text, "jsonl") == expected


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("en.conllu", "conllu"),
        ("dir.tsv/en.CONLLU.gz", "conllu"),
        ("a.tsv", "columns"),
        ("eng.testa.conll.zst", "columns"),
        ("a.bio", "columns"),
        ("a.iob", "columns"),
        ("en_pud-ud-test.iob2", "columns"),
        ("a.jsonl.xz", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.json.gz", "jsonl"),
        ("news.tok.gz", "tokens"),
        ("a.txt", "text"),
        ("a.gz", "text"),
        ("-", "text"),
        ("", "text"),
    ],
)
def test_a_name_suggests_its_format(name, format_name):
    assert guess(name) == format_name


def test_text_is_a_paragraph_a_line(tmp_path):
    found = sentences(tmp_path, "They fell . | Stocks fell .\n\n \nAgain\n", "text")
    assert found == [
        Sentence(["They", "fell", "."], "file", 1),
        Sentence(["Stocks", "fell", "."], "file", 1),
        Sentence(["Again"], "file", 4),
    ]


@pytest.mark.parametrize("text", ["a b\n\nc\n", "a  b \n \n\tc"])
def test_a_blank_line_of_tokens_is_an_empty_sentence(tmp_path, text):
    assert tokens(tmp_path, text, "tokens") == [["a", "b"], [], ["c"]]


def test_conllu_keeps_the_syntactic_words_only(tmp_path):
    first = "# text = Vámonos al mar\n" + row("1-2", "Vámonos") + row(1, "Vamos") + row(2, "nos") + row("2.1", "elided")
    second = "\n\n# sent_id = 2\n" + row(1, "10 000") + row(2, "#") + "\n# the end\n"
    assert sentences(tmp_path, first + second, "conllu") == [
        Sentence(["Vamos", "nos"], "file", 2),
        Sentence(["10 000", "#"], "file", 9),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# x\n1\tone\n", "file:2: 2 columns; CoNLL-U has 10"),
        (row(1, "one") + row(3, "three"), "file:2: word number '3'; expected 2"),
        (row(1, "one") + row(1, "one"), "file:2: word number '1'; expected 2"),
        (row("x", "one"), "file:1: word number 'x'; expected 1"),
        (row(1, ""), "file:1: column 1, counted from 0, is empty"),
    ],
)
def test_broken_conllu_is_refused_with_its_place(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        tokens(tmp_path, text, "conllu")


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("-DOCSTART- -X- O O\n\nEU NNP B-NP\nrejects VBZ  B-VP\n\nPeter NNP B-NP\n", 0, [["EU", "rejects"], ["Peter"]]),
        ("-DOCSTART-\tO\nEU\tO\n", 0, [["EU"]]),
        ("#begin document (a); part 000\na 0 0 In\na 0 1 it\n\n#end document\n", 3, [["In", "it"]]),
        ("# id = 1\n# text = a b\na\tO\nb\tO\n", 0, [["a", "b"]]),
        ("# id 5239\tdomain=en\nthe _ _ O\nbank _ _ B-CORP\n", 0, [["the", "bank"]]),
        ("#\thttp://a.de\t[2009]\n1\tAm\tO\tO\n2\t#\tO\tO\n", 1, [["Am", "#"]]),
        ("#\tSYM\n#begin\tO\n#tag\tO\n", 0, [["#", "#begin", "#tag"]]),
        ("paid VBD O\n# # B-NP\n1.1 CD I-NP\n", 0, [["paid", "#", "1.1"]]),
        ("a\n#\nb\n", 0, [["a", "#", "b"]]),
        ("New York\tB-LOC\n10\u00a0000\tO\n", 0, [["New York", "10\u00a0000"]]),
        ("10\u00a0000 CD\n\u00a0 SP\n", 0, [["10\u00a0000", "\u00a0"]]),
        ("\n\n", 0, []),
    ],
)
def test_columns_are_read_as_the_shared_tasks_wrote_them(tmp_path, text, column, expected):
    assert tokens(tmp_path, text, "columns", column) == expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a b\nc\n", 1, "file:2: 1 columns; the word is expected in column 1"),
        ("a\tO\n\tO\n", 0, "file:2: column 0, counted from 0, is empty"),
    ],
)
def test_a_row_without_its_word_is_refused(tmp_path, text, column, message):
    with pytest.raises(DataError, match=message):
        tokens(tmp_path, text, "columns", column)


def test_json_lines_hold_tokens_or_text(tmp_path):
    text = (
        '{"id": 1, "text": "a b | c"}\n["d", ""]\n"e | f"\n\n{"tokens": []}\n{"text": ""}\n{"text": 1, "text": "g"}\n'
    )
    assert tokens(tmp_path, text, "jsonl") == [["a", "b"], ["c"], ["d", ""], ["e"], ["f"], [], ["g"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"a"\n{"tokens": ["a"', r"file:2: not a JSON value"),
        ("[" * 100_000, "file:1: not a JSON value"),
        ("1" * 5_000, "file:1: not a JSON value"),
        ("12", "file:1: the value 12; expected"),
        ("null", "file:1: the value null; expected"),
        ('{"words": ["a"]}', r'file:1: an object with the keys \["words"\]; expected'),
        ("{}", "file:1: an object with no keys; expected"),
        ('{"text": 5}', r'file:1: an object with the keys \["text"\]; expected'),
        ('{"tokens": null, "text": "a"}', "file:1: tokens are null; expected an array of strings"),
        ('{"tokens": "a b"}', 'file:1: tokens are "a b"; expected an array of strings'),
        ('["a", 2]', "file:1: token 1 is 2; expected a string"),
        ('[["a"], ["b"]]', r'file:1: token 0 is \["a"\]; expected a string'),
    ],
)
def test_json_of_another_shape_is_refused_with_its_place(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        tokens(tmp_path, text, "jsonl")


def test_standard_input_is_named_in_messages(tmp_path):
    (tmp_path / "file").write_bytes(b"{}")
    with LineReader(tmp_path / "file") as reader, pytest.raises(DataError, match="<stdin>:1: an object"):
        list(read(reader, "-", "jsonl", tokenizer=halves))


@pytest.mark.parametrize(
    ("format_name", "column", "message"),
    [("csv", 0, f"format 'csv': expected one of {', '.join(FORMATS)}"), ("columns", -1, "column -1: expected 0")],
)
def test_an_unknown_format_or_column_is_refused_before_reading(format_name, column, message):
    with pytest.raises(ConfigError, match=message):
        read(LineReader("never opened"), "x", format_name, tokenizer=halves, column=column)


def test_sentences_are_read_one_at_a_time(tmp_path):
    (tmp_path / "file").write_bytes(b"a b\n" * 100_000 + b"\xff")
    with LineReader(tmp_path / "file") as reader:
        first = list(islice(read(reader, "file", "tokens", tokenizer=halves), 2))
    assert [sentence.tokens for sentence in first] == [["a", "b"], ["a", "b"]]


@pytest.mark.skipif(not TREEBANKS, reason=f"no CoNLL-U file in {SHARED}; set STELMO_SHARED")
def test_a_real_treebank_has_words_in_every_sentence():
    with LineReader(TREEBANKS[0]) as reader:
        assert all(sentence.tokens for sentence in read(reader, TREEBANKS[0].name, "conllu", tokenizer=halves))


@pytest.mark.parametrize("blank", ["\x0b", "\u00a0", "\x1c", "\x85"])
def test_a_row_of_other_white_space_is_not_taken_for_a_document_mark(tmp_path, blank):
    assert tokens(tmp_path, f"a\n{blank}\nb\n", "columns") == [["a", blank, "b"]]


# Further columns

TREE = (
    "# text = banks\n1-2\tbanks\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tbank\tbank\tNOUN\tNN\t_\t0\troot\t_\t_\n2\ts\t_\tPART\tPOS\t_\t1\tcase\t_\t_\n"
)


@pytest.mark.parametrize(
    ("format_name", "text", "keep", "expected"),
    [
        ("conllu", TREE, ["upos", "deprel"], (("upos", ["NOUN", "PART"]), ("deprel", ["root", "case"]))),
        ("columns", "bank NN O\ns POS B\n", ["1", "ner=2"], (("column 1", ["NN", "POS"]), ("ner", ["O", "B"]))),
        ("jsonl", '{"tokens": ["bank", "s"], "pos": ["N", "P"]}\n', ["pos"], (("pos", ["N", "P"]),)),
        ("jsonl", '{"tokens": ["bank", "s"], "source": "news"}\n', ["source"], (("source", ["news", "news"]),)),
        ("jsonl", '{"text": "bank s", "source": "news"}\n', ["source"], (("source", ["news", "news"]),)),
    ],
)
def test_columns_that_are_kept_have_a_value_for_each_token(tmp_path, format_name, text, keep, expected):
    (found,) = sentences(tmp_path, text, format_name, keep=keep)
    assert found.tokens == ["bank", "s"]
    assert found.columns == expected


@pytest.mark.parametrize("format_name", ["text", "tokens"])
def test_a_format_without_columns_keeps_none(tmp_path, format_name):
    with pytest.raises(ConfigError, match=f"{format_name} has no column 'upos'; give conllu, columns or jsonl"):
        sentences(tmp_path, "a bank\n", format_name, keep=["upos"])


@pytest.mark.parametrize(
    ("format_name", "text", "column", "message"),
    [
        ("conllu", TREE, "pos", "column 'pos': CoNLL-U has lemma, upos"),
        ("columns", "a b\n", "pos", "expected the number of a column, counted from 0, such as 3 or pos=3"),
        ("columns", "a b\n", "ner=2", "file:1: 2 columns; ner is expected in column 2"),
        ("jsonl", '{"tokens": ["a"]}\n', "pos", "file:1: no column 'pos' for 1 tokens"),
        ("jsonl", '{"tokens": ["a"], "pos": ["N", "V"]}\n', "pos", "no column 'pos' for 1 tokens"),
        ("jsonl", '{"text": "a b", "pos": ["N", "V"]}\n', "pos", "no column 'pos' for 2 tokens"),
        ("jsonl", '{"tokens": ["a"], "pos": [3]}\n', "pos", "token 0 is 3; expected a string"),
        ("jsonl", '["a"]\n', "pos", "no column 'pos' for 1 tokens"),
    ],
)
def test_a_column_that_is_not_there_is_refused(tmp_path, format_name, text, column, message):
    with pytest.raises((ConfigError, DataError), match=message):
        sentences(tmp_path, text, format_name, keep=[column])
