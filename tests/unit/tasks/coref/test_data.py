import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared import DATA, needs_data

from stelmo.errors import DataError, OutputError
from stelmo.tasks.coref import data
from stelmo.tasks.reading import Skipped, find

BEGIN, END = "#begin document (nw/x); part 000", "#end document"


def row(word: str, cell: str = "-", speaker: str = "Ann") -> str:
    return "\t".join(["nw/x", "0", "0", word, "NN", "*", "-", "-", "-", speaker, "*", cell])


def rows(*cells: str) -> list[str]:
    return [row(f"w{number}", cell) for number, cell in enumerate(cells)]


def written(tmp_path, *lines: str):
    path = tmp_path / "train.conll"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read_one(tmp_path, *lines: str) -> data.Example:
    (example,) = data.read(written(tmp_path, BEGIN, *lines, END))
    return example


def clusters(tmp_path, *cells: str) -> set[frozenset[data.Span]]:
    return set(read_one(tmp_path, *rows(*cells)).clusters)


def test_a_document_has_sentences_speakers_and_clusters(tmp_path):
    example = read_one(tmp_path, row("Kim", "(0)"), row("left"), "", row("She", "(0)", "Bob"), "")
    assert example == data.Example(
        name="(nw/x); part 000",
        sentences=(("Kim", "left"), ("She",)),
        speakers=(("Ann", "Ann"), ("Bob",)),
        clusters=(frozenset({(0, 0), (2, 2)}),),
        where=f"{tmp_path}/train.conll:1",
    )


def test_predicates_widen_a_sentence(tmp_path):
    wide = [row(word, "*\t(V*)\t-") for word in ("a", "b")]
    assert read_one(tmp_path, *wide, "", row("c")).sentences == (("a", "b"), ("c",))


def test_columns_may_be_aligned_with_spaces(tmp_path):
    example = read_one(tmp_path, "  nw/x   0  0   Kim NNP  (TOP*)  -  -  -  Speaker#1  *   (3)  ")
    assert (example.sentences, example.speakers) == ((("Kim",),), (("Speaker#1",),))
    assert example.clusters == (frozenset({(0, 0)}),)


@pytest.mark.parametrize("nothing", ["-", "_", ""])
def test_nothing_is_written_in_three_ways(tmp_path, nothing):
    assert clusters(tmp_path, nothing, "(1)", nothing) == {frozenset({(1, 1)})}


def test_mentions_nest(tmp_path):
    assert clusters(tmp_path, "(1|(2", "(3)", "2)", "1)") == {
        frozenset({(0, 3)}),
        frozenset({(0, 2)}),
        frozenset({(1, 1)}),
    }


def test_mentions_of_one_cluster_nest(tmp_path):
    assert clusters(tmp_path, "(1", "(1", "1)", "(1)|1)") == {frozenset({(0, 3), (1, 2), (3, 3)})}


def test_mentions_of_different_clusters_cross(tmp_path):
    assert clusters(tmp_path, "(1", "(2", "1)", "2)") == {frozenset({(0, 2)}), frozenset({(1, 3)})}


@pytest.mark.parametrize("cell", ["1)|(2", "(2|1)"])
def test_one_mention_may_begin_where_another_ends(tmp_path, cell):
    assert clusters(tmp_path, "(1", cell, "2)") == {frozenset({(0, 1)}), frozenset({(1, 2)})}


@pytest.mark.parametrize("cell", ["1)|(1", "(1|1)"])
def test_within_a_cluster_opening_comes_first_as_in_the_official_scorer(tmp_path, cell):
    assert clusters(tmp_path, "(1", cell, "1)") == {frozenset({(0, 2), (1, 1)})}


def test_a_mention_may_go_on_past_a_sentence(tmp_path):
    assert read_one(tmp_path, *rows("(1", "-"), "", *rows("1)")).clusters == (frozenset({(0, 2)}),)


def test_a_mention_in_two_clusters_stays_in_the_first(tmp_path):
    found = clusters(tmp_path, "(1)|(2)", "(1)", "(2)", "(3)")
    assert found == {frozenset({(0, 0), (1, 1)}), frozenset({(2, 2)}), frozenset({(3, 3)})}


def test_clusters_are_in_the_order_of_their_first_mention(tmp_path):
    assert read_one(tmp_path, *rows("(9)", "(1", "1)", "(9)")).clusters == (
        frozenset({(0, 0), (3, 3)}),
        frozenset({(1, 2)}),
    )


def test_a_document_of_one_word_is_legal(tmp_path):
    example = read_one(tmp_path, row("Yes"))
    assert (example.sentences, example.clusters) == ((("Yes",),), ())


def test_parts_are_documents_of_their_own(tmp_path):
    path = written(tmp_path, BEGIN, *rows("(1)"), END, BEGIN.replace("000", "001"), *rows("(1)"), END)
    assert [example.name for example in data.read(path)] == ["(nw/x); part 000", "(nw/x); part 001"]


def test_gold_files_beneath_a_folder_are_read_in_order(tmp_path):
    for name in ("b", "a"):
        (tmp_path / "train" / name).mkdir(parents=True)
        lines = [BEGIN.replace("x", name), *rows("(1)"), END]
        (tmp_path / "train" / name / "1.v4_gold_conll").write_text("\n".join(lines))
        (tmp_path / "train" / name / "1.v4_auto_conll").write_text("none of ours")
    assert [example.name[:6] for example in data.read(find(tmp_path, data.FILES)["train"])] == ["(nw/a)", "(nw/b)"]


FIRST, LAST = ([BEGIN.replace("x", name), row("word", "(1)"), END] for name in "ab")  # so a flaw begins in line 4

FLAWS = {
    "closed twice": (
        [BEGIN, *rows("(1", "1)", "1)"), END],
        r":7: 1\) closes a mention that was not opened; expected \(1 further up",
    ),
    "closed, not opened": ([BEGIN, *rows("-", "4)"), END], r":6: 4\) closes a mention that was not opened"),
    "not closed": (
        [BEGIN, *rows("-", "(4", "-"), END],
        r":6: \(4 opens a mention that is not closed; expected 4\) in the same document",
    ),
    "the inner one closed": ([BEGIN, *rows("(4", "(4", "4)"), END], r":5: \(4 opens a mention that is not closed"),
    "not brackets": ([BEGIN, *rows("-", "4"), END], r":6: coreference '4'; expected \(12, 12\) or \(12\)"),
    "a bar too many": ([BEGIN, *rows("(4)|"), END], r":5: coreference '\(4\)\|'"),
    "not a number": ([BEGIN, *rows("(a)"), END], r":5: coreference '\(a\)'"),
    "too few columns": ([BEGIN, "nw/x\t0\t0\tword\t-", END], ":5: 5 columns; expected 12, as in CoNLL-2012"),
    "a column more": ([BEGIN, row("a"), row("b", "*\t-"), END], ":6: 13 columns; expected 12, as in CoNLL-2012"),
    "no word": ([BEGIN, row(""), END], ":5: column 4 is empty; expected a word"),
    "no words": ([BEGIN, "", END], ":4: a document without words"),
    "no end": ([BEGIN, *rows("(1)")], ":4: a document without an end; expected a line '#end document'"),
    "only a begin": ([BEGIN], ":4: a document without an end"),
    "no begin": ([*rows("(1)", "-")], ":4: a line outside any document; expected a line '#begin document"),
    "only an end": ([END], ":4: a line outside any document"),
    "a name twice": (FIRST, r":4: document \(nw/a\); part 000 occurs twice"),
}


@pytest.mark.parametrize(("lines", "message"), FLAWS.values(), ids=FLAWS)
def test_a_flawed_document_is_refused_or_skipped(tmp_path, lines, message):
    path = written(tmp_path, *FIRST, *lines, *LAST)
    with pytest.raises(DataError, match=f"train.conll{message}"):
        data.read(path)
    skipped = Skipped()
    assert [example.name[:6] for example in data.read(path, skipped)] == ["(nw/a)", "(nw/b)"]
    assert len(skipped) == 1


def test_a_file_that_breaks_off_is_refused(tmp_path):
    with pytest.raises(DataError, match=":1: a document without an end"):
        data.read(written(tmp_path, BEGIN, *rows("(1)", "-")))


# Responses


def test_a_response_is_what_the_official_scorer_reads(tmp_path):
    example = read_one(tmp_path, row("Kim", "(7)"), row("left"), "", row("She", "(7)", "Bob"))
    path = tmp_path / "response"
    data.write(path, [example], [(frozenset({(0, 1), (2, 2)}), frozenset({(0, 0)}))])
    assert path.read_text().splitlines() == [
        "#begin document (nw/x); part 000",
        "nw/x\t000\t0\tKim\t-\t*\t-\t-\t-\tAnn\t*\t(0|(1)",
        "nw/x\t000\t1\tleft\t-\t*\t-\t-\t-\tAnn\t*\t0)",
        "",
        "nw/x\t000\t0\tShe\t-\t*\t-\t-\t-\tBob\t*\t(0)",
        "",
        "#end document",
    ]


def test_a_response_without_clusters_comes_back(tmp_path):
    example = read_one(tmp_path, *rows("(1)"))
    data.write(tmp_path / "response", [example], [()])
    assert data.read_predictions(tmp_path / "response", [example]) == [()]


def test_responses_are_found_by_name(tmp_path):
    examples = data.read(written(tmp_path, *FIRST, *LAST))
    data.write(tmp_path / "response", examples[::-1], [(), gold := (frozenset({(0, 0)}),)])
    assert data.read_predictions(tmp_path / "response", examples) == [gold, ()]


SPANS = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda span: (min(span), max(span)))


def crossing(cluster: frozenset[data.Span]) -> bool:
    return any(a < b <= c < d for a, c in cluster for b, d in cluster)


@given(st.lists(st.frozensets(SPANS, min_size=1).filter(lambda cluster: not crossing(cluster)), max_size=4))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_clusters_come_back_as_they_were_written(tmp_path, response):
    example = read_one(tmp_path, *rows(*"------"))
    data.write(tmp_path / "response", [example], [tuple(response)])
    (again,) = data.read_predictions(tmp_path / "response", [example])
    assert set(again) == set(data.disjoint(response))


@pytest.mark.parametrize("cluster", [{(0, 2), (1, 3)}, {(0, 1), (1, 2)}])
def test_crossing_mentions_of_one_cluster_cannot_be_written(tmp_path, cluster):
    example = read_one(tmp_path, *rows(*"----"))
    with pytest.raises(OutputError, match="two mentions of one cluster cross"):
        data.write(tmp_path / "response", [example], [(frozenset(cluster),)])
    assert not (tmp_path / "response").exists()


def test_a_missing_document_is_refused(tmp_path):
    examples = data.read(written(tmp_path, *FIRST, *LAST))
    data.write(tmp_path / "response", examples[:1], [()])
    with pytest.raises(DataError, match=r"response: no document \(nw/b\); part 000"):
        data.read_predictions(tmp_path / "response", examples)


def test_a_response_to_other_words_is_refused(tmp_path):
    one, two = read_one(tmp_path, *rows("-")), read_one(tmp_path, *rows("-", "-"))
    data.write(tmp_path / "response", [one], [()])
    with pytest.raises(DataError, match="has 1 words; expected 2, as in the key"):
        data.read_predictions(tmp_path / "response", [two])


def test_official_names_are_found(tmp_path):
    names = {split: f"{split}.english.v4_gold_conll" for split in ("train", "dev", "test")}
    for name in names.values():
        (tmp_path / name).touch()
    assert find(tmp_path, data.FILES) == {split: tmp_path / name for split, name in names.items()}


@needs_data
def test_the_real_files_have_the_published_counts():
    documents = {split: data.read(path) for split, path in find(DATA / "coref" / "litbank", data.FILES).items()}
    assert {split: len(examples) for split, examples in documents.items()} == {"train": 80, "dev": 10, "test": 10}
    every = [cluster for examples in documents.values() for example in examples for cluster in example.clusters]
    assert sum(map(len, every)) == 29103


# Documents whose clusters are to be found: columns and plain text


def new(tmp_path, *lines: str) -> list[data.Example]:
    return data.read_new(written(tmp_path, *lines))


def test_of_a_labelled_file_the_clusters_do_not_matter(tmp_path):
    lines = [BEGIN, *rows("(1", "1)", "broken("), "", row("x", speaker="Bob"), END]
    (example,) = new(tmp_path, *lines)
    assert example == data.Example(
        name="(nw/x); part 000",
        sentences=(("w0", "w1", "w2"), ("x",)),
        speakers=(("Ann",) * 3, ("Bob",)),
        clusters=(),
        where=f"{tmp_path}/train.conll:1",
    )


def test_columns_behind_the_word_may_be_missing(tmp_path):
    (example,) = new(tmp_path, BEGIN, "nw/x 0 0 Kim", "nw/x 0 1 left", END)
    assert (example.sentences, example.speakers) == ((("Kim", "left"),), (("-", "-"),))


def test_plain_text_is_cut_into_sentences_and_a_blank_line_ends_a_document(tmp_path):
    first, second = new(tmp_path, "Kim left. She", "was tired.", "", " ", "It didn't rain.")
    assert first.sentences == (("Kim", "left", "."), ("She", "was", "tired", "."))
    assert second.sentences == (("It", "did", "n't", "rain", "."),)
    assert second.speakers == (("-",) * 5,)
    assert [first.name, second.name] == ["(train.conll); part 000", "(train.conll); part 001"]
    assert [first.where, second.where] == [f"{tmp_path}/train.conll:{line}" for line in (1, 5)]


def test_tokenised_text_has_a_sentence_a_line(tmp_path):
    (example,) = new(tmp_path, "Mr. Kim left .", "We do n't know")
    assert example.sentences == (("Mr.", "Kim", "left", "."), ("We", "do", "n't", "know"))


def test_an_answer_to_plain_text_can_be_read_back(tmp_path):
    examples = new(tmp_path, "Kim left.", "", "She did.")
    answers = [(frozenset({(0, 0), (1, 1)}),), ()]
    data.write(tmp_path / "out", examples, answers)
    assert data.read_predictions(tmp_path / "out", examples) == answers


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["", " "], "train.conll: there are no documents"),
        ([BEGIN, "nw/x 0 0", END], "train.conll:2: 3 columns; expected 4 or more"),
        ([BEGIN, row("a")], "train.conll:1: a document without an end"),
        ([BEGIN, row("a"), END, BEGIN, row("b"), END], "train.conll:4: document .* occurs twice"),
    ],
)
def test_a_flaw_of_a_document_without_clusters_has_its_place(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        new(tmp_path, *lines)
