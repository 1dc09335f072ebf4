"""Trees of any depth, and lines that are none."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared import DATA, needs_data
from sklearn.metrics import accuracy_score
from unit.tasks.samples import SST5

from stelmo.errors import DataError
from stelmo.tasks import reading
from stelmo.tasks.reading import Skipped
from stelmo.tasks.sst5.data import FILES, Example, read, read_new, read_predictions, read_train, score, write

LABEL = st.integers(0, 4)
WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" ()\\"), min_size=1, max_size=4)
TREE = st.recursive(
    st.tuples(LABEL, WORD.filter(lambda word: word.strip())),
    lambda tree: st.tuples(LABEL, st.lists(tree, min_size=1, max_size=3)),
    max_leaves=8,
)
shares_a_path = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_text(tmp_path, text, skipped=None, **settings):
    (tmp_path / "f").write_text(text, encoding="utf-8")
    return read(tmp_path / "f", skipped, **settings)


def shown(tree):
    label, below = tree
    return f"({label} {below if isinstance(below, str) else ' '.join(map(shown, below))})"


def phrases(tree):
    """The same by recursion: the phrase itself, then those below."""
    label, below = tree
    if isinstance(below, str):
        return [((below,), label)]
    parts = [phrases(part) for part in below]
    words = tuple(word for part in parts for word in part[0][0])
    return [(words, label), *(phrase for part in parts for phrase in part)]


@shares_a_path
@given(st.lists(TREE, min_size=1, max_size=3))
def test_any_tree_is_read_with_all_its_phrases_or_only_the_sentence(tmp_path, trees):
    text = "\n".join(map(shown, trees))
    with_subtrees = read_text(tmp_path, text, subtrees=True)
    assert [(e.words, e.label) for e in with_subtrees] == [phrase for tree in trees for phrase in phrases(tree)]
    assert [(e.words, e.label) for e in read_text(tmp_path, text)] == [phrases(tree)[0] for tree in trees]


def test_the_sample_by_hand(tmp_path):
    assert read_text(tmp_path, SST5)[0] == Example(("It", "simply", "shines", "."), 3, f"{tmp_path}/f:1")
    assert [(" ".join(e.words), e.label) for e in read_text(tmp_path, SST5, subtrees=True)[:7]] == [
        ("It simply shines .", 3),
        ("It", 2),
        ("simply shines .", 4),
        ("simply shines", 4),
        ("simply", 2),
        ("shines", 4),
        (".", 2),
    ]


def test_brackets_and_slashes_are_words_again(tmp_path):
    assert [e.words for e in read_text(tmp_path, SST5)[1:]] == [("(", "dull", ")"), ("so/so",)]


def test_a_no_break_space_does_not_part_words(tmp_path):
    assert read_text(tmp_path, "(2 8\u00a01\\/2)")[0].words == ("8\u00a01/2",)


def test_a_tree_deeper_than_the_stack_is_read(tmp_path):
    depth = 100_000
    (example,) = read_text(tmp_path, "(1 " * depth + "deep" + ")" * depth)
    assert (example.words, example.label) == (("deep",), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(3 (2 It) (4 works)", "f:1: 1 brackets are never closed; expected a whole tree on each line"),
        ("(3 (2 It) (4 works)))", "f:1: ')' outside the tree; expected one tree on each line"),
        ("(3 It) (3 works)", "f:1: '(3 works)' outside the tree"),
        ("It works", "f:1: the word 'It' without a label; expected a bracket of its own for each word: (2 It)"),
        (")", "f:1: ')' outside the tree"),
        ("(5 It)", "f:1: the label '5'; expected 0, 1, 2, 3 or 4"),
        ("(-1 It)", "f:1: the label '-1'"),
        ("(x It)", "f:1: the label 'x'"),
        ("(٣ It)", "f:1: the label '٣'"),
        ("(3 (2 It) ())", "f:1: the label ''"),
        ("(3 (2 ) (2 It))", "f:1: an empty phrase labelled 2; expected a word or phrases in it"),
        ("(3)", "f:1: an empty phrase labelled 3"),
        ("(3 It works)", "f:1: the word 'It' without a label"),
        ("(3 It (2 works))", "f:1: the word 'It' without a label"),
        ("(3 (2 It) works)", "f:1: the word 'works' without a label"),
    ],
)
def test_a_line_that_is_no_tree_is_refused_or_left_out_and_counted(tmp_path, text, message):
    with pytest.raises(DataError) as caught:
        read_text(tmp_path, text)
    assert message in str(caught.value)
    skipped = Skipped()
    assert [e.words for e in read_text(tmp_path, f"{text}\n(2 fine)\n", skipped, subtrees=True)] == [("fine",)]
    assert len(skipped) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [("1\n2\n", "2 labels; expected 1"), ("5\n", "p:1: the label '5'"), ("good\n", "p:1: the label 'good'")],
)
def test_predictions_of_other_data_are_refused(tmp_path, text, message):
    (tmp_path / "p").write_text(text)
    with pytest.raises(DataError) as caught:
        read_predictions(tmp_path / "p", [Example(("a",), 1, "")])
    assert message in str(caught.value)
    assert "skip-bad" not in str(caught.value)


def test_predictions_are_a_label_a_line(tmp_path):
    write(tmp_path / "p", [Example(("a",), 1, ""), Example(("b",), 1, "")], [0, 4])
    assert (tmp_path / "p").read_text() == "0\n4\n"


@needs_data
@pytest.mark.parametrize(("split", "sentences", "phrases"), [
    pytest.param("train", 8544, 318582, marks=pytest.mark.long), ("dev", 1101, 41447), ("test", 2210, 82600),
])  # fmt: skip
def test_the_real_data_have_the_published_counts(split, sentences, phrases):
    path = reading.find(DATA / "sst5" / "trees", FILES)[split]
    assert len(read(path)) == sentences
    assert len(read(path, subtrees=True)) == phrases


def test_training_is_on_sentences_however_short_and_on_phrases_of_four_words(tmp_path):
    text = "(3 (2 a) (1 (0 (2 b) (2 c)) (4 (2 d) (2 e))))\n(2 (2 f) (1 g))\n(4 h)\n"
    (tmp_path / "f").write_text(text)
    found = [(" ".join(example.words), example.label) for example in read_train(tmp_path / "f")]
    assert found == [("a b c d e", 3), ("b c d e", 1), ("f g", 2), ("h", 4)]


# Text to be labelled


def test_text_to_be_labelled_is_a_sentence_a_line(tmp_path):
    (tmp_path / "f").write_text("It shines. Mostly.\n\n( 4 stars )\nDull , dull .\n")
    assert read_new(tmp_path / "f") == [
        Example(("It", "shines", ".", "Mostly", "."), 2, f"{tmp_path}/f:1"),
        Example(("(", "4", "stars", ")"), 2, f"{tmp_path}/f:3"),
        Example(("Dull", ",", "dull", "."), 2, f"{tmp_path}/f:4"),
    ]


def test_of_trees_the_words_are_labelled_anew(tmp_path):
    trees = read_text(tmp_path, SST5)
    assert read_new(tmp_path / "f") == [example._replace(label=2) for example in trees]


def test_labels_of_trees_to_be_labelled_may_be_of_another_scale(tmp_path):
    (tmp_path / "f").write_text("(7 (0 a) (10 b))\n(9 (2 c)(2 (3 d) (4 5)))\n")
    assert [(example.words, example.label) for example in read_new(tmp_path / "f")] == [
        (("a", "b"), 2),
        (("c", "d", "5"), 2),
    ]


def test_a_flaw_in_trees_does_not_make_them_sentences(tmp_path):
    (tmp_path / "f").write_text("(3 (2 a) (2 b))\n(3 (2 a)\n(7 a)\n(1 c)\n")
    with pytest.raises(DataError, match="f:2: 1 brackets are never closed"):
        read_new(tmp_path / "f")


def test_no_text_to_be_labelled_is_refused(tmp_path):
    (tmp_path / "f").write_text(" \n")
    with pytest.raises(DataError, match="there are no sentences; expected one or more"):
        read_new(tmp_path / "f")


# The score: accuracy, against scikit-learn and by hand


def labelled(labels):
    return [Example(("a",), label, "") for label in labels]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_accuracy_is_that_of_scikit_learn(pairs):
    predicted, wanted = zip(*pairs, strict=True)
    assert score(predicted, labelled(wanted)) == {"accuracy": pytest.approx(100 * accuracy_score(wanted, predicted))}


def test_a_near_miss_is_a_miss():
    assert score([3, 4, 0, 2], labelled([3, 3, 0, 2])) == {"accuracy": 75.0}


def test_nothing_out_of_nothing_is_zero():
    assert score([], []) == {"accuracy": 0.0}
