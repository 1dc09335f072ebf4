"""`stelmo embed`: what it prints and writes, from every input, in shards, and what it refuses."""

import gzip
import json
import lzma
from functools import partial

import commands
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny
import zstandard

import stelmo as stelmo_package
from stelmo.formats import models


@pytest.fixture
def embed(call):
    return partial(call, "embed", "--model", "model")


@pytest.fixture
def stelmo(monkeypatch, capsys):
    return lambda *arguments: commands.run(monkeypatch, capsys, *arguments)


def vectors_in(path):
    with h5py.File(path) as file:
        return [file[str(number)][...] for number in range(len(file) - 1)]


def test_a_sentence_becomes_a_table_of_its_words(embed):
    done = embed("The bank raised its rates.")
    assert done.code == 0
    words = [line.split()[0] for line in done.out.splitlines()[1:7]]
    assert words == ["The", "bank", "raised", "its", "rates", "."]
    assert "12 dimensions per word" in done.out


@pytest.fixture
def mild(tmp_path):
    """A model with small weights: those of the tiny one saturate, so that all uses of a word are alike."""
    saved = tiny.saved(start=None)
    for tensor in saved.bilm.state_dict().values():
        tensor.mul_(0.3)
    models.write(saved, tmp_path / "mild")
    return stelmo_package.load(tmp_path / "mild")


def test_a_word_that_sentences_share_is_compared_layer_by_layer(call, mild):
    text = ["the bank rose .", "a bank .", "that river bank and this bank .", "bank it ."]
    done = call("embed", "--model", "mild", *text, "--layer", "top")
    assert done.code == 0, done.err
    heading, *uses, empty, header, first, second, third, said, written = done.out.splitlines()
    assert heading.split() == ["bank", "in", "vector"]
    assert empty == ""
    assert header.split() == ["similarity", "of", "bank", "layer", "0", "(no", "context)", "layer", "1", "layer", "2"]
    assert written.startswith("12 dimensions per word")
    sentences = [["the", "bank", "rose", "."], ["a", "bank", "."], ["bank", "it", "."]]
    layers = [found[:, tokens.index("bank")] for found, tokens in zip(mild.layers(sentences), sentences, strict=True)]
    names = (1, 2, 4)  # the third sentence has the word twice: which one would be meant?
    for line, name, tokens, vectors in zip(uses, names, sentences, layers, strict=True):
        assert line.split() == [str(name), *tokens, *(f"{number:.2f}" for number in vectors[-1][:4]), "…"]
    expected = {
        (names[a], names[b]): (layers[a] * layers[b]).sum(1)
        / (np.linalg.norm(layers[a], axis=1) * np.linalg.norm(layers[b], axis=1))
        for a, b in ((0, 1), (0, 2), (1, 2))
    }
    best = max(range(3), key=lambda layer: np.ptp([cosines[layer] for cosines in expected.values()]))
    ranked = sorted(expected, key=lambda pair: -expected[pair][best])
    for line, (a, b) in zip((first, second, third), ranked, strict=True):
        assert line.split() == ["in", str(a), "and", str(b), *(f"{cosine:.2f}" for cosine in expected[a, b])]
    (a, b), (c, d) = ranked[0], ranked[-1]
    assert said == (
        f"Layer {best} separates the uses of bank most: {a} and {b} are the most similar ({expected[a, b][best]:.2f}), "
        f"{c} and {d} the least ({expected[c, d][best]:.2f})."
    )


def test_of_two_uses_the_layer_where_they_differ_most_is_named(call, mild):
    first, second = mild.layers([["the", "bank", "rose", "."], ["a", "bank", "."]])
    norms = np.linalg.norm(first[:, 1], axis=1) * np.linalg.norm(second[:, 1], axis=1)
    cosines = (first[:, 1] * second[:, 1]).sum(1) / norms
    expected = f"The two uses of bank differ most in layer {cosines.argmin()} (cosine {cosines.min():.2f})."
    assert expected in call("embed", "--model", "mild", "the bank rose .", "a bank .").out.splitlines()


def test_of_two_equal_uses_no_layer_is_named(embed):
    said = "The two uses of bank have nearly the same vectors in every layer."
    assert said in embed("the bank .", "the bank .").out.splitlines()


def test_where_no_layer_separates_the_uses_it_is_said(embed):
    assert "No layer separates the uses of bank." in embed(*["the bank ."] * 3).out.splitlines()


def test_of_many_uses_the_most_and_the_least_similar_are_shown(embed):
    out = embed(*(f"{'the ' * number} bank ." for number in range(7))).out
    assert out.count("\nin ") == 10
    assert out.count("\n…") == 1


def test_sentences_that_share_no_word_make_a_table_of_all_words(embed):
    out = embed("the bank", "a river").out.splitlines()
    assert [line.split()[0] for line in out[:5]] == ["word", "the", "bank", "a", "river"]


def test_a_word_in_square_brackets_is_shown_as_it_is(embed):
    assert "[bold]" in embed("a [bold] word", "--from", "tokens").out


def test_many_sentences_make_a_short_table_and_say_so(embed):
    done = embed(*["one word."] * 30)
    assert "first 20 sentences" in done.err


def test_sentences_can_be_compared_by_their_vectors(embed):
    done = embed("The bank.", "A river.", "--sentence-vectors")
    assert "A river ." in done.out
    assert "dimensions per sentence" in done.out


def test_without_a_name_the_bundled_model_is_taken_and_nothing_is_noted(call):
    done = call("embed", "Hello")
    assert done.code == 0
    assert done.err == ""


def test_json_lines_go_to_standard_output(embed):
    done = embed("The bank.", "-o", "-")
    line = json.loads(done.out)
    assert line["tokens"] == ["The", "bank", "."]
    np.testing.assert_allclose(line["vectors"], tiny.model().embed([line["tokens"]])[0], atol=1e-6)


COMPRESSORS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
INPUTS = {
    "c.txt": "The bank. A river.\n",
    "c.tok": "The bank .\nA river .\n",
    "c.conllu": "# text = The bank.\n"
    + "".join(f"{i}\t{w}" + "\t_" * 8 + "\n" for i, w in enumerate(["The", "bank", "."], 1))
    + "\n"
    + "".join(f"{i}\t{w}" + "\t_" * 8 + "\n" for i, w in enumerate(["A", "river", "."], 1))
    + "\n",
    "c.tsv": "The\tO\nbank\tB\n.\tO\n\nA\tO\nriver\tB\n.\tO\n",
    "c.jsonl": '{"tokens": ["The", "bank", "."]}\n{"text": "A river."}\n',
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("ending", COMPRESSORS)
def test_every_input_format_gives_the_same_vectors(name, ending, embed, tmp_path):
    (tmp_path / (name + ending)).write_bytes(COMPRESSORS[ending](INPUTS[name].encode()))
    done = embed(name + ending, "-o", "v.hdf5")
    assert done.code == 0, done.err
    expected = tiny.model().embed([["The", "bank", "."], ["A", "river", "."]])
    for found, vectors in zip(vectors_in("v.hdf5"), expected, strict=True):
        np.testing.assert_allclose(found, vectors, atol=1e-6)


def test_standard_input_is_read(embed):
    done = embed("-o", "v.hdf5", stdin=b"The bank. A river.")
    assert done.code == 0
    assert len(vectors_in("v.hdf5")) == 2


def test_blank_lines_of_tokenised_text_stay_in_step(embed, tmp_path):
    (tmp_path / "c.tok").write_text("a b\n\nc\n")
    embed("c.tok", "-o", "v.hdf5", "--forget-sentences", "--layer", "top")
    with h5py.File("v.hdf5") as file:
        assert [file[name].shape for name in "012"] == [(2, 12), (0, 12), (1, 12)]


def test_several_files_and_sentences_come_one_after_another(embed, tmp_path):
    (tmp_path / "c.tok").write_text("a\nb\n")
    embed("c.tok", "The river.", "c.tok", "-o", "v.jsonl")
    tokens = [json.loads(line)["tokens"] for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert tokens == [["a"], ["b"], ["The", "river", "."], ["a"], ["b"]]


def test_moses_contractions_can_be_asked_for(embed):
    tokens = json.loads(embed("Don't!", "--contractions", "moses", "-o", "-").out)["tokens"]
    assert tokens == ["Don", "'t", "!"]


@pytest.fixture
def old(call, tmp_path):
    """The old command on two lines, with a model in the published layout."""
    call("convert", "model", "published", "--format", "bilm")
    (tmp_path / "lines.txt").write_text("the  bank .\na and/or b\n")
    weights = ["--weight-file", "published/weights.hdf5", "--options-file", "published/options.json"]
    return partial(call, "embed", "lines.txt", "output.bin", *weights)


OLD_SENTENCES = [["the", "bank", "."], ["a", "and/or", "b"]]


@pytest.mark.parametrize(("flag", "pick"), [("all", slice(None)), ("top", 2), ("average", None)])
def test_the_flags_of_the_old_command_write_its_file_whatever_its_name(flag, pick, old):
    """From zeros, as the old command's first batch."""
    ignored = ["--file-friendly-logging", "--include-package", "my.package"]
    done = old(f"--{flag}", "--batch-size", 2, "--cuda-device", -1, *ignored)
    assert done.code == 0, done.err
    layers = tiny.model().layers(OLD_SENTENCES, state="fresh")
    for found, expected in zip(vectors_in("output.bin"), layers, strict=True):
        np.testing.assert_allclose(found, expected.mean(0) if pick is None else expected[pick], atol=1e-5)


def test_the_old_command_keeps_lines_as_they_are_and_replaces_its_output(old):
    for _ in range(2):
        assert old("--all").code == 0
    with h5py.File("output.bin") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"the  bank .": "0", "a and/or b": "1"}
    assert old("--top", "--use-sentence-keys").code == 0
    with h5py.File("output.bin") as file:
        assert file["a and/or b"].shape == (3, 12)


def test_the_old_command_can_carry_its_state_from_batch_to_batch(old):
    assert old("--all", "--state", "carry", "--batch-size", 1).code == 0
    model = tiny.model()
    first, state = model.carry(OLD_SENTENCES[:1])
    second, _ = model.carry(OLD_SENTENCES[1:], state)
    for found, expected in zip(vectors_in("output.bin"), [*first, *second], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "resumes"),
    [
        (["-o", "v.hdf5"], True),
        (["-o", "v.hdf5", "--shard", "1/2"], True),
        (["v.hdf5", "--all"], False),
        (["-o", "-"], False),
        ([], False),
    ],
)
def test_ctrl_c_offers_to_resume_only_where_finished_work_is_kept(embed, tmp_path, monkeypatch, arguments, resumes):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    (tmp_path / "lines.txt").write_text("the bank .\n")
    monkeypatch.setattr("stelmo.engine.engine.Engine.run", interrupted)
    offer = "; run the same command again to resume" if resumes else ""
    done = embed("lines.txt", "--from", "tokens", *arguments)
    assert (done.code, done.err) == (130, f"stelmo: interrupted{offer}\n")
    assert not (tmp_path / "v.hdf5").exists()


def test_without_a_weight_file_the_old_command_names_its_model(call, tmp_path):
    (tmp_path / "lines.txt").write_text("the bank .\n")
    done = call("embed", "lines.txt", "v.hdf5", "--top")
    assert done.err == "note: no --weight-file: the vectors come from the small English model bundled with stelmo\n"
    bundled = stelmo_package.load().embed([["the", "bank", "."]], "top", "fresh")[0]
    np.testing.assert_allclose(vectors_in("v.hdf5")[0], bundled, atol=1e-5)


def test_sentences_can_be_the_keys(embed, tmp_path):
    (tmp_path / "c.tok").write_text("the bank .\na river .\n")
    assert embed("c.tok", "-o", "v.hdf5", "--use-sentence-keys").code == 0
    with h5py.File("v.hdf5") as file:
        assert sorted(file) == ["a river .", "the bank ."]


@pytest.mark.parametrize("line", ["a/b", "the bank .", ""])
def test_a_sentence_that_cannot_be_a_key_is_refused(line, embed, tmp_path):
    (tmp_path / "c.tok").write_text(f"the bank .\n{line}\n")
    done = embed("c.tok", "-o", "v.hdf5", "--use-sentence-keys")
    assert done.code == 2
    assert "c.tok:2" in done.err


def test_options_that_are_not_beside_the_weights_are_named(call, tmp_path):
    call("convert", "model", "published", "--format", "bilm")
    (tmp_path / "published" / "options.json").rename(tmp_path / "mine.json")
    given = ["embed", "the bank .", "--model", "published/weights.hdf5", "-o", "v.npz"]
    assert "--options FILE" in call(*given).err
    assert call(*given, "--options", "mine.json").code == 0
    refused = call(*given, "--options", "mine.json", "--options-file", "other.json")
    assert "--options-file other.json and --options mine.json disagree" in refused.err


@pytest.mark.parametrize(
    "flags", [["--all", "--top"], ["--weight-file", "other"], ["--all", "--batch-size", "0"]], ids=str
)
def test_old_flags_at_odds_are_refused(flags, embed, tmp_path):
    (tmp_path / "c.tok").write_text("a\n")
    assert embed("c.tok", "v.hdf5", *flags).code == 2


def write(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def nothing(folder):
    pass


WRONG = {
    "a missing file": (nothing, ["missing.txt"], "missing.txt: no such file"),
    "an empty file": (write("e.txt", b""), ["e.txt"], "no sentence"),
    "an empty file to a file": (write("e.txt", b"\n\n"), ["e.txt", "-o", "v.npz"], "no sentence"),
    "a binary file": (write("b.txt", bytes(range(256))), ["b.txt"], "b.txt:2: byte 0x80"),
    "UTF-16": (write("u.txt", "bank".encode("utf-16")), ["u.txt"], "UTF-16"),
    "invalid UTF-8 in line 3": (write("l.tok", b"a\nb\nc \xff\n"), ["l.tok", "-o", "v.npz"], "l.tok:3"),
    "a cut gz": (write("z.gz", gzip.compress(b"a b\n" * 99)[:-9]), ["z.gz", "-o", "v.npz"], "z.gz"),
    "bad CoNLL-U": (write("c.conllu", b"1\tThe\n"), ["c.conllu"], "c.conllu:1"),
    "bad JSON": (write("j.jsonl", b'{"text": 3}\n'), ["j.jsonl"], "j.jsonl:1"),
    "no such column": (write("c.tsv", b"a\tb\n"), ["c.tsv", "--column", "7"], "c.tsv:1"),
    "a folder": (lambda folder: (folder / "d").mkdir(), ["d"], "d: "),
    "an unknown ending": (nothing, ["a b", "-o", "v.doc"], "unknown ending '.doc'"),
    "an output that exists": (write("v.npz", b""), ["a b", "-o", "v.npz"], "--overwrite"),
    "an output in no folder": (nothing, ["a b", "-o", "no/v.npz"], "no folder"),
    "an unknown layer": (nothing, ["a b", "--layer", "9"], "layer: 9"),
    "a layer of no name": (nothing, ["a b", "--layer", "bottom"], "layer"),
    "a layer with two signs": (nothing, ["a b", "--layer=--1"], "layer"),
    "a layer in superscript": (nothing, ["a b", "--layer", "²"], "layer"),
    "all layers in a table": (nothing, ["a b", "--layer", "all"], "-o FILE"),
    "an unknown state": (nothing, ["a b", "--state", "hot"], "state"),
    "an unknown number type": (nothing, ["a b", "--dtype", "int3"], "dtype"),
    "no threads": (nothing, ["a b", "--threads", "0"], "threads"),
    "an unknown format": (nothing, ["a b", "--from", "docx"], "--from"),
    "an unknown contraction": (nothing, ["a b", "--contractions", "dada"], "contractions"),
    "a device that is not there": (nothing, ["a b", "--device", "cuda:77"], "device"),
    "an unknown option": (nothing, ["a b", "--colour"], "colour"),
}  # fmt: skip


@pytest.mark.parametrize(("prepare", "arguments", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_in_one_sentence_and_nothing_is_left(prepare, arguments, message, embed, tmp_path):
    prepare(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    done = embed(*arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.tok"
    path.write_text("the bank .\n\na river\n" * 4)
    return path


def test_shards_and_merge_make_the_file_of_one_command(stelmo, model, corpus, tmp_path):
    stelmo("embed", corpus, "--model", model, "-o", tmp_path / "whole.hdf5")
    for shard in ("1/2", "2/2"):
        done = stelmo("embed", corpus, "--model", model, "-o", tmp_path / "v.hdf5", "--shard", shard)
        assert done.code == 0
    assert f"stelmo embed --merge -o {tmp_path / 'v.hdf5'}" in done.out
    merged = stelmo("embed", "--merge", "-o", tmp_path / "v.hdf5")
    assert merged.out == f"{tmp_path / 'v.hdf5'}: 12 sentences; the parts can be deleted\n"
    assert (tmp_path / "v.hdf5").read_bytes() == (tmp_path / "whole.hdf5").read_bytes()


def test_a_merge_of_named_parts_says_what_is_missing(stelmo, model, corpus, tmp_path):
    stelmo("embed", corpus, "--model", model, "-o", tmp_path / "v.npz", "--shard", "2/3")
    done = stelmo("embed", "--merge", tmp_path / "v.npz.2-of-3", "-o", tmp_path / "other.npz")
    assert done.code == 2
    assert "shard 1/3, 3/3 is missing" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shard", "1/2", "--ray", "local", "-o", "v.parquet"], "--shard and --ray cannot be combined"),
        (["--merge", "--shard", "1/2", "-o", "v.npz"], "--shard and --merge cannot be combined"),
        (["--shard", "1/2"], "--shard writes to disk; name the output"),
        (["--ray", "local", "-o", "-"], "--ray writes to disk"),
        (["--workers", "2", "-o", "v.npz"], "--workers requires --ray"),
        (["--shard", "3/2", "-o", "v.npz"], "expected I/N"),
        (["--ray", "local", "-o", "v.hdf5"], "folder of Parquet files"),
        (["--shard", "1/2", "-o", "v.npz", "--state", "carry"], "carry"),
    ],
)
def test_what_cannot_be_spread_is_refused_in_one_line(options, said, stelmo, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = stelmo("embed", "The bank .", "--model", model, *options)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    "columns",
    [{"text": ["We sat. It rained.", "", "Yes."], "id": [1, 2, 3]}, {"tokens": [["We", "sat"], [], ["Yes"]]}],
    ids=["text", "tokens"],
)
def test_parquet_is_read_as_the_same_rows_in_jsonl(columns, stelmo, model, tmp_path):
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "c.parquet", row_group_size=2)
    lines = [str(row).replace("'", '"') for row in table.select([0]).to_pylist()]
    (tmp_path / "c.jsonl").write_text("\n".join(lines) + "\n")
    found = [stelmo("embed", tmp_path / name, "--model", model, "-o", "-").out for name in ("c.parquet", "c.jsonl")]
    assert found[0] == found[1]
    assert found[0].count("\n") == 3


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"body": ["a"]}, "no column tokens or text; it has body"),
        ({"text": [1]}, "c.parquet:1: int 1; expected text"),
        ({"tokens": [[b"a"]]}, "c.parquet:1: token 0 is"),
        ({"text": ["a", None]}, "c.parquet:2: no value; expected text"),
    ],
)
def test_a_table_without_text_is_refused(columns, said, stelmo, model, tmp_path):
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    done = stelmo("embed", tmp_path / "c.parquet", "--model", model, "-o", tmp_path / "v.npz")
    assert done.code == 2
    assert said in done.err


def test_a_file_that_is_no_parquet_is_refused(stelmo, model, tmp_path):
    (tmp_path / "c.parquet").write_text("text")
    done = stelmo("embed", tmp_path / "c.parquet", "--model", model)
    assert done.code == 2
    assert "cannot be read as Parquet" in done.err
