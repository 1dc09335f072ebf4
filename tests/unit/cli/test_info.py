"""`stelmo info`: what it says about models, folders and vector files."""

from functools import partial

import pytest
import tiny

import stelmo
from stelmo.cli.info import describe
from stelmo.explore import index

SENTENCES = [["The", "bank", "."], ["a", "river", "bank"]]


@pytest.fixture
def embed(call):
    return partial(call, "embed", "--model", "model")


@pytest.mark.parametrize("arguments", [("info",), ("tune", "--data", "corpus", "--to", "run")])
def test_a_url_is_refused_as_it_was_given(arguments, call):
    done = call(arguments[0], "https://example.org/elmo_weights.hdf5", *arguments[1:])
    assert done.code == 2
    assert "stelmo: https://example.org/elmo_weights.hdf5: nothing is downloaded" in done.err


def test_a_url_stands_for_the_file_of_its_name(call, tmp_path):
    tiny.folder(tmp_path / "old", "bilm")
    (tmp_path / "old" / "weights.hdf5").rename(tmp_path / "weights.hdf5")
    (tmp_path / "old" / "options.json").rename(tmp_path / "options.json")
    done = call("info", "https://example.org/weights.hdf5")
    assert done.out.startswith("format         bilm HDF5")


@pytest.mark.parametrize("ending", ["hdf5", "npz", "parquet"])
def test_info_knows_files_of_vectors(ending, embed, call):
    embed("The bank. A river.", "-o", f"v.{ending}")
    done = call("info", f"v.{ending}")
    assert done.code == 0
    assert done.out.startswith("format         vectors")
    assert "sentences      2" in done.out


def test_an_index_of_uses_is_described(tmp_path):
    index.build(tiny.model(), SENTENCES, tmp_path / "uses")
    lines = dict(describe(tmp_path / "uses"))
    assert lines["format"] == "index of word uses"
    assert lines["uses"] == "5 in 2 sentences"  # the full stop is no word
    assert lines["vectors"] == "3 layers of 12 dimensions, int8"


def test_precomputed_layers_are_described(tmp_path):
    stelmo.precompute(tiny.model(), SENTENCES, tmp_path / "layers")
    lines = dict(describe(tmp_path / "layers"))
    assert lines["format"] == "precomputed layers"
    assert lines["sentences"] == "2, 6 tokens"


@pytest.mark.parametrize(
    ("format", "start"),
    [("stelmo", "warm: its own, stored"), ("bilm", "fresh (zeros): no warm state of its own")],
)
def test_the_state_that_sentences_start_from_is_named_with_the_reason(format, start, tmp_path):
    assert dict(describe(tiny.folder(tmp_path / "model", format)))["start state"] == start


@pytest.mark.parametrize(
    ("kind", "name", "size"),
    [
        ("lstm", "LSTM", "2 layers of 10 cells, projection 6, each direction"),
        ("transformer", "Transformer", "width 6, inner width 9, 3 heads, 2 layers in each direction"),
        ("gated-cnn", "gated CNN", "width 6, 2 layers in each direction; a vector sees 8 words to each side"),
    ],
)
def test_the_encoder_is_named_with_its_size(kind, name, size, tmp_path):
    folder = tiny.folder(tmp_path / "model", config=tiny.ENCODERS[kind])
    lines = dict(describe(folder))
    assert lines[name] == size
    assert ("none: it carries no state" in lines["start state"]) == (kind != "lstm")
    assert f"| {name} |" in (folder / "README.md").read_text()
