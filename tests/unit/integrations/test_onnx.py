"""Exported models against our own vectors, in onnxruntime; what cannot be exported; the page's examples."""

import re
import subprocess
import sys
from pathlib import Path

import commands
import numpy as np
import pytest
import tiny

from stelmo.config import CharInput, CodePointConvolution, CodePointInput, LstmConfig, ModelConfig
from stelmo.embed.model import Model
from stelmo.errors import ConfigError, OutputError
from stelmo.integrations import onnx as exporting
from stelmo.settings import LoadSettings
from stelmo.store.saved import SavedModel
from stelmo.text import chars
from stelmo.text.ids import Alphabet

pytest.importorskip("onnx", reason="onnx is not installed; pip install 'stelmo[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed; pip install 'stelmo[onnx]'")

DOCS = Path(__file__).parents[3] / "docs" / "integrations" / "onnx.md"
NARROW = LstmConfig(cells=10, projection=6, layers=2, cell_clip=0.2, projection_clip=0.1)
ARCHITECTURES = {
    "clips that bite": ModelConfig(input=tiny.CHARS, lstm=NARROW),
    "no clips, no residual": ModelConfig(
        input=tiny.CHARS, lstm=LstmConfig(cells=7, projection=6, layers=3, skip=False)
    ),
    "plain LSTM, one layer": ModelConfig(
        input=tiny.CHARS, lstm=LstmConfig(cells=6, projection=6, layers=1, cell_clip=1.0)
    ),
    "tanh, no highway, no projection of the filters, short words": ModelConfig(
        input=CharInput(embedding=3, filters=((1, 2), (4, 4)), activation="tanh", max_characters=9), lstm=tiny.LSTM
    ),
}
BATCHES = [
    [["bank"]],
    [["the", "bank", "."], [], ["über", "日本", "a" * 80, "<S>", "</S>", "\ud800"], ["a"]],
    [[]],
    [["river"] * length for length in range(12)],
]


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def run(path, sentences, width=50, padding=0):
    ids_BTC = np.pad(chars.encode_sentences(sentences, width), ((0, 0), (0, padding), (0, 0)))
    return session(path).run(None, {"characters": ids_BTC})[0]


def assert_equal_to_ours(layers_LBTD, model, sentences, **settings):
    for row, expected_LTD in enumerate(model.layers(sentences, **settings)):
        length = expected_LTD.shape[1]
        np.testing.assert_allclose(layers_LBTD[:, row, :length], expected_LTD, rtol=1e-5, atol=1e-5)
        assert not layers_LBTD[:, row, length:].any()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_exported_model_gives_our_vectors_for_every_batch_and_length(name, tmp_path):
    config = ARCHITECTURES[name]
    model = tiny.model(config)
    exporting.export(model, tmp_path / "m.onnx")
    for sentences in BATCHES:
        found = run(tmp_path / "m.onnx", sentences, config.input.max_characters)
        assert found.shape == (config.depth, len(sentences), max(map(len, sentences)), config.width)
        assert_equal_to_ours(found, model, sentences)


def test_padding_and_other_sentences_change_nothing(tmp_path):
    exporting.export(tiny.model(), tmp_path / "m.onnx")
    alone = run(tmp_path / "m.onnx", [["the", "bank"]])
    together = run(tmp_path / "m.onnx", [["a"] * 9, ["the", "bank"], []], padding=5)
    np.testing.assert_allclose(together[:, 1, :2], alone[:, 0], rtol=1e-6, atol=1e-6)
    assert not together[:, 1, 2:].any()


def test_the_start_is_baked_in(tmp_path):
    model = tiny.model()
    sentences = [["the", "bank", "."]]
    for state in ("warm", "fresh"):
        exporting.export(model, tmp_path / f"{state}.onnx", state)
        assert_equal_to_ours(run(tmp_path / f"{state}.onnx", sentences), model, sentences, state=state)
        about = session(tmp_path / f"{state}.onnx").get_modelmeta().custom_metadata_map
        assert about["state"] == state
    assert abs(run(tmp_path / "warm.onnx", sentences) - run(tmp_path / "fresh.onnx", sentences)).max() > 1e-3


def test_the_command_exports(monkeypatch, capsys, tmp_path):
    folder = tiny.folder(tmp_path / "model")
    done = commands.run(monkeypatch, capsys, "convert", folder, tmp_path / "m.onnx", "--state", "fresh")
    assert done.code == 0, done.err
    assert "characters → layers" in done.out
    assert_equal_to_ours(run(tmp_path / "m.onnx", [["a"]]), tiny.model(), [["a"]], state="fresh")


@pytest.mark.parametrize(
    ("target", "options", "named"),
    [
        ("m.onnx", ["--format", "bilm"], "--format"),
        ("m.onnx", ["--dtype", "float16"], "--dtype float16"),
        ("m.onnx", ["--token-embeddings"], "--token-embeddings"),
        ("m.onnx", ["--state", "carry"], "state carry"),
        ("m.onnx", ["--state", "hot"], "state"),
        ("nowhere/m.onnx", [], "no folder"),
        ("there", ["--state", "warm"], "--state"),
    ],
)
def test_the_command_names_the_option_that_cannot_be_exported(monkeypatch, capsys, tmp_path, target, options, named):
    folder = tiny.folder(tmp_path / "model")
    done = commands.run(monkeypatch, capsys, "convert", folder, tmp_path / target, *options)
    assert done.code == 2
    assert named in done.err
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def code_points():
    convolution = CodePointConvolution(embedding=3, filters=((1, 4),), rows=9)
    config = ModelConfig(input=CodePointInput(convolution=convolution), lstm=tiny.LSTM)
    alphabet = Alphabet(("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", "a", "b", "c"), "alphabet")
    return Model(SavedModel(tiny.bilm(config), "tiny", alphabet=alphabet), LoadSettings())


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: tiny.model(tiny.WORD_CONFIG), "word ids"),
        (code_points, "code points"),
        (lambda: tiny.model(state="carry"), "state carry"),
    ],
)
def test_a_model_that_cannot_be_exported_is_refused_by_its_option(make, named, tmp_path):
    with pytest.raises(ConfigError, match=named):
        exporting.export(make(), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_more_weights_than_a_file_holds_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(exporting, "LARGEST", 100)
    with pytest.raises(ConfigError, match="2 GB"):
        exporting.export(tiny.model(), tmp_path / "m.onnx")


def test_a_file_that_is_there_is_kept(tmp_path):
    (tmp_path / "m.onnx").write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        exporting.export(tiny.model(), tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_text() == "mine"
    exporting.export(tiny.model(), tmp_path / "m.onnx", overwrite=True)
    assert run(tmp_path / "m.onnx", [["a"]]).shape == (3, 1, 1, 12)


def test_without_onnx_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"pip install 'stelmo\[onnx\]'"):
        exporting.export(tiny.model(), tmp_path / "m.onnx")


def test_the_page_examples_need_no_torch(tmp_path):
    exporting.export(tiny.model(), tmp_path / "model.onnx")
    snippets = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    assert len(snippets) == 3
    arrays = []
    for snippet in snippets[:2]:
        program = f"import sys\nsys.modules['torch'] = None\n{snippet}\nnp.save('found.npy', layers)"
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
        arrays.append(np.load(tmp_path / "found.npy"))
    sentences = [["The", "bank", "was", "closed", "."], ["Closed"]]
    assert_equal_to_ours(arrays[0], tiny.model(), sentences)
    np.testing.assert_array_equal(*arrays)


def test_the_page_export_runs(monkeypatch, tmp_path):
    tiny.folder(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    exec(re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.DOTALL | re.MULTILINE)[2], {})
    assert_equal_to_ours(run("fresh.onnx", [["a"]]), tiny.model(), [["a"]], state="fresh")
