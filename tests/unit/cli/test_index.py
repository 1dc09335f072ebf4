"""`stelmo index`: what a shell sees of making an index."""

import pytest
import tiny
from commands import run

from stelmo.explore import index

TEXT = "The bank was full . A river bank .\nThe river .\n"


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.tok").write_text(TEXT)
    return tmp_path / "corpus.tok"


@pytest.fixture
def stelmo(tmp_path, monkeypatch, capsys):
    """The command with a tiny model."""
    model = tiny.folder(tmp_path / "model")
    return lambda *arguments: run(monkeypatch, capsys, "index", "--model", model, *arguments)


def test_a_corpus_becomes_an_index_and_the_next_command_is_named(stelmo, corpus, tmp_path):
    done = stelmo(corpus, "--to", tmp_path / "uses")
    assert (done.code, done.out) == (
        0,
        f"{tmp_path / 'uses'}: 9 uses of 6 words; show them with `stelmo explore {tmp_path / 'uses'}`\n",
    )
    assert dict(index.open(tmp_path / "uses").words) == {"bank": 2, "river": 2, "the": 2, "a": 1, "full": 1, "was": 1}


def test_several_files_and_later_ones_go_into_one_index(stelmo, corpus, tmp_path):
    for name in ("b", "c"):
        (tmp_path / f"{name}.tok").write_text(f"another {name} bank\n")
    stelmo(corpus, tmp_path / "b.tok", "--to", tmp_path / "uses")
    stelmo(tmp_path / "c.tok", "--to", tmp_path / "uses")
    assert index.open(tmp_path / "uses").words["bank"] == 4


def test_words_and_their_number_can_be_chosen(stelmo, corpus, tmp_path):
    (tmp_path / "words").write_text("Bank\n\nriver\n")
    stelmo(corpus, "--to", tmp_path / "uses", "--words", tmp_path / "words", "--per-word", 1)
    assert dict(index.open(tmp_path / "uses").words) == {"bank": 1, "river": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["CORPUS"], "Missing option '--to'"),
        (["--to", "uses"], "Missing argument 'CORPUS...'"),
        (["no/such.txt", "--to", "uses"], "no/such.txt: no such file"),
        (["missing.md", "--to", "uses"], "missing.md: no such file; expected text files, or - for standard input"),
        (["a sentence about a bank", "--to", "uses"], "a sentence about a bank: no such file"),
        (["CORPUS", "--to", "uses", "--language", "klingon"], "language 'klingon': expected a code"),
        (["CORPUS", "--to", "no/uses"], "there is no folder"),
        (["CORPUS", "--to", "uses", "--words", "EMPTY"], "no words; expected one per line"),
        (["CORPUS", "--to", "uses", "--words", "bank,river"], "--words bank,river: no such file; expected one with"),
        (["EMPTY", "--to", "uses"], "the index is empty; the corpus does not use any word"),
    ],
)
def test_a_mistake_is_explained(arguments, message, stelmo, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.tok").write_text("\n")
    names = {"CORPUS": corpus, "EMPTY": tmp_path / "empty.tok"}
    done = stelmo(*(names.get(argument, argument) for argument in arguments))
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "uses").exists()


def test_an_interruption_says_how_to_resume(stelmo, corpus, tmp_path, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(index, "build", stop)
    done = stelmo(corpus, "--to", tmp_path / "uses")
    assert done.code == 130
    assert "run the same command again to resume" in done.err


def test_a_column_of_the_data_is_kept(stelmo, tmp_path):
    (tmp_path / "tagged.tsv").write_text("the\tDET\nbank\tNOUN\n\nthey\tPRON\nbank\tVERB\n")
    done = stelmo(tmp_path / "tagged.tsv", "--to", tmp_path / "uses", "--keep", "pos=1")
    assert done.code == 0
    found = index.open(tmp_path / "uses")
    assert found.values(found.ids_of("bank"), "pos") == ["NOUN", "VERB"]


def test_a_column_of_a_text_without_columns_is_refused(stelmo, corpus, tmp_path):
    done = stelmo(corpus, "--to", tmp_path / "uses", "--keep", "upos")
    assert done.code == 2
    assert "give conllu, columns or jsonl" in done.err
    assert not (tmp_path / "uses").exists()


def test_the_index_records_how_raw_text_was_tokenised(stelmo, tmp_path):
    (tmp_path / "fr.txt").write_text("L'homme boit de l'eau.\n")
    assert stelmo(tmp_path / "fr.txt", "--to", tmp_path / "uses", "--language", "fr").code == 0
    assert index.open(tmp_path / "uses").rules == index.rules_of(tmp_path / "uses") == ("fr", "ptb")
    done = stelmo(tmp_path / "fr.txt", "--to", tmp_path / "uses")
    assert done.code == 2
    assert '"language": "fr"' in done.err
