import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import DATA, needs_data

from stelmo.errors import DataError
from stelmo.tasks.reading import Skipped, find
from stelmo.tasks.squad import data

CONTEXT = "The tower is 39-feet tall. Ada built it in 1840."


def question(name: str = "q1", text: str = "Ada", start: int = 27, **changes: object) -> dict[str, object]:
    answers = [{"text": text, "answer_start": start}]
    return {"id": name, "question": "Who built it?", "answers": answers} | changes


def paragraph(*questions: object, context: str = CONTEXT) -> dict[str, object]:
    return {"context": context, "qas": list(questions)}


def written(tmp_path, *paragraphs: object):
    path = tmp_path / "train-v1.1.json"
    value = {"version": "1.1", "data": [{"title": "Towers", "paragraphs": list(paragraphs)}]}
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def read_one(tmp_path, **changes) -> data.Example:
    (example,) = data.read(written(tmp_path, paragraph(question(**changes))))
    return example


def without(value: dict[str, object], key: str) -> dict[str, object]:
    return {name: item for name, item in value.items() if name != key}


def test_a_question_has_its_tokens_and_its_passage(tmp_path):
    example = read_one(tmp_path)
    assert example.id == "q1"
    assert example.question == ("Who", "built", "it", "?")
    assert " ".join(example.passage.tokens) == "The tower is 39-feet tall . Ada built it in 1840 ."
    assert example.where == f"{tmp_path}/train-v1.1.json: question q1"


def test_every_token_is_a_slice_of_the_passage(tmp_path):
    passage = read_one(tmp_path).passage
    spans = zip(passage.tokens, passage.starts, passage.ends, strict=True)
    assert all(passage.text[start:end] == token for token, start, end in spans)


def test_an_answer_points_at_its_tokens(tmp_path):
    assert read_one(tmp_path, text="built it in", start=31).answers == (data.Answer("built it in", 7, 9),)


def test_an_answer_inside_a_token_gets_the_tokens_that_cover_it(tmp_path):
    example = read_one(tmp_path, text="39", start=13)
    assert example.answers == (data.Answer("39", 3, 3),)
    assert example.passage.between(3, 3) == "39-feet"
    assert data.unaligned([example]) == 1


def test_an_answer_across_sentences_is_fine(tmp_path):
    example = read_one(tmp_path, text="tall. Ada", start=21)
    assert example.answers == (data.Answer("tall. Ada", 4, 6),)
    assert data.unaligned([example]) == 0


def test_white_space_around_an_answer_needs_no_token(tmp_path):
    example = read_one(tmp_path, text=" Ada ", start=26)
    assert example.answers == (data.Answer(" Ada ", 6, 6),)
    assert data.unaligned([example]) == 0


@given(st.data())
def test_covering_tokens_are_the_fewest_that_hold_the_answer(draw):
    passage = data._passage(CONTEXT, "here")
    start = draw.draw(st.integers(0, len(CONTEXT) - 1))
    end = draw.draw(st.integers(start + 1, len(CONTEXT)))
    touched = [i for i in range(len(passage.tokens)) if passage.starts[i] < end and passage.ends[i] > start]
    first, last = data._cover(passage, start, end)
    assert list(range(first, last + 1)) == touched


def test_questions_about_a_passage_share_it(tmp_path):
    first, second = data.read(written(tmp_path, paragraph(question("q1"), question("q2"))))
    assert first.passage is second.passage


def test_compressed_files_are_read_too(tmp_path):
    path = written(tmp_path, paragraph(question()))
    packed = tmp_path / "dev.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert len(data.read(packed)) == 1


FLAWS = {
    "answer elsewhere": (
        paragraph(question("q2", start=28)),
        "json: question q2: answer 'Ada', but the context has 'da ' at character 28; expected the answer's text there",
    ),
    "answer before the context": (
        paragraph(question("q2", text="1840", start=-5)),
        "answer '1840', but the context has '' at",
    ),
    "answer behind the context": (paragraph(question("q2", start=99)), "answer 'Ada', but the context has '' at"),
    "empty answer": (paragraph(question("q2", text="")), "answer '', but"),
    "answer of white space": (paragraph(question("q2", text=" ", start=3)), "answer ' ', but"),
    "fractional start": (paragraph(question("q2", start=27.0)), "'answer_start' is a fraction; expected a number"),
    "no answers": (paragraph(question("q2", answers=[])), "question q2: no answers; .* unlike 2.0"),
    "answers missing": (paragraph(without(question("q2"), "answers")), "question q2: no 'answers'"),
    "no text": (paragraph(question("q2", answers=[{"answer_start": 1}])), "question q2: no 'text'"),
    "id missing": (paragraph(without(question(), "id")), "article 1, paragraph 2, question 1: no 'id'"),
    "an id twice": (paragraph(question("q1")), "question q1: the id occurs twice"),
    "empty question": (paragraph(question("q2", question=" ")), "question q2: the question has no words"),
    "question missing": (paragraph(without(question("q2"), "question")), "question q2: no 'question'"),
    "question no object": (paragraph("why?"), "paragraph 2, question 1: a string; expected an object with 'id'"),
    "empty context": (paragraph(context=" "), "article 1, paragraph 2: the context has no words"),
    "context missing": ({"qas": []}, "article 1, paragraph 2: no 'context'"),
    "questions missing": ({"context": CONTEXT}, "article 1, paragraph 2: no 'qas'"),
    "context null": (paragraph(context=None), "paragraph 2: 'context' is null; expected a string"),
}


@pytest.mark.parametrize(("flawed", "message"), FLAWS.values(), ids=FLAWS)
def test_a_flawed_question_is_refused_or_skipped(tmp_path, flawed, message):
    path = written(tmp_path, paragraph(question("q1")), flawed, paragraph(question("q3")))
    with pytest.raises(DataError, match=message):
        data.read(path)
    skipped = Skipped()
    assert [example.id for example in data.read(path, skipped)] == ["q1", "q3"]
    assert len(skipped) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"data": [\n}', r"json:2: not JSON \(Expecting value, column 1\)"),
        ('{"data": 1e5}', "json: 'data' is a fraction; expected an array"),
        ("[]", "json: an array; expected an object with 'data'"),
        ('{"data": [{}]}', "json: article 1: no 'paragraphs'"),
        ('{"data": []}', "json: there are no questions"),
        ("", "json:1: not JSON"),
        ("[" * 100_000, "json: not JSON"),
    ],
)
def test_a_file_that_is_not_squad_is_refused(tmp_path, text, message):
    path = tmp_path / "train.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        data.read(path)


def test_predictions_are_one_object_by_id(tmp_path):
    examples = data.read(written(tmp_path, paragraph(question("q1"), question("q2"))))
    path = tmp_path / "predictions.json"
    data.write(path, examples, ["Ada\ud800", "the tower"])
    assert json.loads(path.read_text()) == {"q1": "Ada\ud800", "q2": "the tower"}
    assert data.read_predictions(path, examples[::-1]) == ["the tower", "Ada\ud800"]


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"q9": "Ada"}', "no answer to question q1"), ('{"q1": 3}', "no answer to question q1"), ("[]", "an array")],
)
def test_predictions_must_answer_every_question(tmp_path, text, message):
    examples = data.read(written(tmp_path, paragraph(question())))
    path = tmp_path / "predictions.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        data.read_predictions(path, examples)


def test_official_names_are_found(tmp_path):
    for name in ("train-v1.1.json", "dev-v1.1.json", "train-v2.0.json"):
        (tmp_path / name).touch()
    expected = {"train": tmp_path / "train-v1.1.json", "dev": tmp_path / "dev-v1.1.json"}
    assert find(tmp_path, data.FILES) == expected


def lines(tmp_path, *rows: object):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("answers", [{}, {"answers": []}, {"answers": [{"text": "nowhere", "answer_start": 1}]}])
def test_answers_do_not_matter_for_prediction(tmp_path, answers):
    (example,) = data.read_new(written(tmp_path, paragraph(without(question(), "answers") | answers)))
    assert (example.id, example.question, example.answers) == ("q1", ("Who", "built", "it", "?"), ())


def test_an_official_file_spread_over_lines_is_read_for_prediction(tmp_path):
    path = written(tmp_path, paragraph(question("q1"), question("q2")))
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1))
    assert data.read_new(path) == [example._replace(answers=()) for example in data.read(path)]


def test_questions_in_json_lines_are_read_for_prediction(tmp_path):
    row = {"context": CONTEXT, "question": "Who built it?"}
    path = lines(tmp_path, row, "", row | {"id": "q7"})
    first, second = data.read_new(path)
    assert (first.id, first.where, second.id, second.where) == ("1", f"{path}:1", "q7", f"{path}:3")
    assert first.question == ("Who", "built", "it", "?")
    assert first.passage is second.passage


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"context": CONTEXT}], "jsonl:1: no 'question'"),
        ([{"question": "Who?"}], "jsonl:1: no 'context'"),
        ([{"context": " ", "question": "Who?"}], "jsonl:1: the context has no words"),
        ([{"context": CONTEXT, "question": " "}], "jsonl:1: the question has no words"),
        ([{"context": CONTEXT, "question": "Who?"}, "{"], r"jsonl:2: not JSON"),
        ([{"context": CONTEXT, "question": "Who?"}, "[]"], "jsonl:2: an array; expected an object with 'context'"),
        ([{"context": CONTEXT, "question": "Who?", "id": "2"}, {"context": "It", "question": "Who?"}], "occurs twice"),
        (["Who built it?"], "jsonl:1: not JSON"),
        ([], "jsonl:1: not JSON"),
    ],
)
def test_flawed_questions_to_answer_are_refused(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        data.read_new(lines(tmp_path, *rows))


@needs_data
@pytest.mark.parametrize(("split", "count"), [pytest.param("train", 16138, marks=pytest.mark.long), ("dev", 10570)])
def test_the_real_files_have_the_published_counts(split, count):
    files = find(DATA / "squad", data.FILES)
    assert sorted(files) == ["dev", "train"]
    assert len(data.read(files[split])) == count


# The score


PASSAGE = data.Passage("Yes", ("Yes",), (0,), (3,))


def answered(*answers: str) -> data.Example:
    return data.Example("q", PASSAGE, ("Why", "?"), tuple(data.Answer(text, 0, 0) for text in answers), "file: q")


def figures(prediction: str, *answers: str) -> tuple[float, float]:
    found = data.score([prediction], [answered(*answers)])
    return found["f1"], found["exact match"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The Old  Bridge", ["old", "bridge"]),
        ("an apple, a pear", ["apple", "pear"]),
        ("theatre and another", ["theatre", "and", "another"]),  # articles are whole words
        ("U.S.A.", ["usa"]),
        ("state-of-the-art", ["stateoftheart"]),  # punctuation goes first, and leaves no gap
        ("the “Rhine”", ["“rhine”"]),  # only ASCII punctuation counts
        ("$1,000", ["1000"]),
        ("The", []),
    ],
)
def test_case_punctuation_articles_and_spaces_do_not_count(answer, expected):
    assert data.normalised(answer) == expected


def test_the_headline_comes_first():
    assert next(iter(data.score(["x"], [answered("x")]))) == "f1"


def test_an_answer_that_differs_only_in_form_is_right():
    assert figures("THE old bridge.", "old Bridge") == (100.0, 100.0)


def test_f1_counts_the_words_in_common():
    # found: {old, stone, bridge}; gold: {bridge, stone}; shared 2: P = 2/3, R = 2/2, F1 = 2·(2/3)·1 / (5/3) = 4/5
    assert figures("the old stone bridge", "Bridge, stone") == (pytest.approx(80.0), 0.0)


def test_a_word_said_twice_is_shared_only_as_often_as_in_both():
    # found: {new, new, york}; gold: {new, york}: shared 2; P = 2/3, R = 1
    assert data.overlap(["new", "new", "york"], ["new", "york"]) == pytest.approx(0.8)


def test_the_best_gold_answer_counts_for_each_figure():
    assert figures("two bridges", "bridges", "two bridges", "three") == (100.0, 100.0)


def test_nothing_in_common_is_zero():
    assert figures("river", "bridge") == (0.0, 0.0)
    assert figures("", "bridge") == (0.0, 0.0)


def test_an_answer_without_words_matches_exactly_but_shares_none():
    assert figures("the", "a") == (0.0, 100.0)


def test_figures_are_means_over_questions():
    # F1: (1 + 4/5 + 0) / 3; exact: (1 + 0 + 0) / 3
    found = data.score(["rain", "new new york", "sun"], [answered("rain"), answered("new york"), answered("snow")])
    assert found == {"f1": pytest.approx(60.0), "exact match": pytest.approx(100 / 3)}
