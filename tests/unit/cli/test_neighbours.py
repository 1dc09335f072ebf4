"""`stelmo neighbours`: the uses most like a word in its sentence, beside its neighbours without context."""

import json

import pytest
from commands import run

from stelmo.embed.load import load
from stelmo.explore import index, mixing, search

CORPUS = [["the", "river", "bank", "."], ["a", "bank", "."], ["the", "Bank"], ["über", "the", "river"]]
SENTENCE = "the bank ."


@pytest.fixture
def uses(model, tmp_path):
    return index.build(load(model), CORPUS, tmp_path / "uses").folder


@pytest.fixture
def stelmo(model, uses, monkeypatch, capsys):
    """The command over the small corpus."""
    return lambda *arguments: run(
        monkeypatch, capsys, "neighbours", "--model", model, "--index", uses, "--from", "tokens", *arguments
    )


def test_the_neighbours_are_those_of_the_search(stelmo, model, uses):
    found = json.loads(stelmo("bank", "--in", SENTENCE, "--layer", "1", "-k", 3, "--json").out)
    mix = mixing.of_layer(1, 3)
    query_D = load(model).embed([SENTENCE.split()], 1)[0][1]
    expected = search.nearest(index.open(uses), query_D, mix, 3)
    assert [hit["id"] for hit in found["contextual"]["1"]] == [hit.use.id for hit in expected]
    assert found["contextual"]["1"][0]["tokens"] == list(expected[0].use.tokens)
    assert found["contextual"]["1"][0]["similarity"] == pytest.approx(expected[0].similarity, abs=1e-5)
    assert (found["tokens"], found["position"]) == (SENTENCE.split(), 1)
    assert len(found["static"]) == 3
    assert "bank" not in [neighbour["word"] for neighbour in found["static"]]


@pytest.mark.parametrize(("asked", "layers"), [("all", ["0", "1", "2"]), ("top", ["top"]), ("mean", ["mean"])])
def test_layers_are_shown_as_asked(asked, layers, stelmo):
    found = json.loads(stelmo("bank", "--in", SENTENCE, "--layer", asked, "--json").out)
    assert list(found["contextual"]) == layers


def test_the_sentence_itself_is_no_neighbour(stelmo):
    found = json.loads(stelmo("bank", "--in", "a bank .", "-k", 50, "--json").out)
    assert ["a", "bank", "."] not in [hit["tokens"] for hit in found["contextual"]["mean"]]


def test_uses_of_the_word_alone_can_be_asked_for(stelmo):
    found = json.loads(stelmo("bank", "--in", SENTENCE, "-k", 50, "--same-word", "--json").out)
    assert {hit["tokens"][hit["position"]].lower() for hit in found["contextual"]["mean"]} == {"bank"}


def test_static_vectors_of_a_file_stand_in_for_layer_0(stelmo, tmp_path):
    (tmp_path / "glove.txt").write_text("bank 1 0\nmoney 1 0.1\ntree 0 1\n")
    found = json.loads(stelmo("bank", "--in", SENTENCE, "--vectors", tmp_path / "glove.txt", "--json").out)
    assert [neighbour["word"] for neighbour in found["static"]] == ["money", "tree"]


def test_a_word_without_a_static_vector_is_noted(stelmo, tmp_path):
    (tmp_path / "glove.txt").write_text("money 1 0.1\ntree 0 1\n")
    done = stelmo("bank", "--in", SENTENCE, "--vectors", tmp_path / "glove.txt", "--json")
    assert done.code == 0
    assert "has no vector for 'bank'" in done.err
    assert json.loads(done.out)["static"] == []


def test_no_file_is_blamed_if_the_model_knows_no_other_word(stelmo, monkeypatch):
    monkeypatch.setattr(search, "is_word", lambda word: word == "bank")
    done = stelmo("bank", "--in", SENTENCE, "--json")
    assert json.loads(done.out)["static"] == []
    assert done.err == ""


def test_the_table_has_both_kinds_side_by_side_and_fits_the_terminal(stelmo, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    done = stelmo("bank", "--in", SENTENCE, "--layer", "all", "-k", 2)
    assert done.out.startswith(SENTENCE)
    assert done.out.count("without context") == 3
    assert "in context (layer 0)" in done.out
    assert max(map(len, done.out.splitlines())) <= 60


def test_a_long_sentence_is_shown_around_its_word(stelmo, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    done = stelmo("bank", "--in", " ".join(["left"] * 40 + ["bank"] + ["right"] * 40), "-k", 1)
    first = done.out.splitlines()[0]
    assert first.startswith("… left")
    assert "left bank right" in first
    assert first.endswith("right …")
    assert len(first) <= 50


def test_the_case_of_the_word_counts_only_where_both_are_there(stelmo):
    sentence = ["--in", "Bank the bank .", "--json"]
    assert json.loads(stelmo("bank", *sentence).out)["position"] == 2
    assert json.loads(stelmo("THE", *sentence).out)["position"] == 1


def test_raw_text_of_several_sentences_is_split(stelmo):
    found = json.loads(stelmo("bank", "--in", "Stocks fell. The bank's river.", "--json", "--from", "text").out)
    assert (found["tokens"], found["position"]) == (["The", "bank", "'s", "river", "."], 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["money", "--in", SENTENCE], "'money' is not a token of 'the bank .'"),
        (["bank", "--in", " "], "'bank' is not a token of ''"),
        (["bank", "--in", SENTENCE, "--layer", "3"], "--layer: '3' is not one of mean, top, 0, 1, 2, all"),
        (["bank", "--in", SENTENCE, "--vectors", "missing.txt"], "missing.txt"),
    ],
)
def test_a_mistake_is_said_in_one_line(arguments, message, stelmo):
    done = stelmo(*arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_the_sentence_is_tokenised_like_the_index_unless_it_is_said_how(model, tmp_path, monkeypatch, capsys):
    uses = index.build(load(model), [["l'", "eau"]], tmp_path / "fr", rules=index.Rules("fr")).folder
    options = ("--in", "Voici l'eau.", "--model", model, "--index", uses, "--json")
    assert json.loads(run(monkeypatch, capsys, "neighbours", "eau", *options).out)["tokens"] == [
        "Voici",
        "l'",
        "eau",
        ".",
    ]
    assert run(monkeypatch, capsys, "neighbours", "eau", *options, "--language", "en").code == 2
