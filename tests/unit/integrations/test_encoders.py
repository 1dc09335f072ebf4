"""Every way to use a model, on each of the three encoders: equal to `Model.layers`, or refused in one sentence."""

import importlib
import json
from contextlib import nullcontext

import numpy as np
import pytest
import tiny
import torch
from commands import run
from unit.probes.test_coarse import folder as coarse_folder
from unit.tasks import samples

import stelmo
from stelmo.integrations import onnx
from stelmo.probes import embedding
from stelmo.probes import run as probes

SENTENCES = [["the", "bank", "of", "über"], ["river"], ["a", "日本", "x" * 60, "bank", "the", "of", "a"] * 3]
encoders = pytest.mark.parametrize("config", tiny.ENCODERS.values(), ids=tiny.ENCODERS)


def close(found, expected, atol=3e-6):
    for one, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, right, atol=atol, rtol=1e-5)


@encoders
def test_a_folder_keeps_every_bit(config, tmp_path):
    model = tiny.model(config)
    model.save(tmp_path / "m")
    for found, right in zip(stelmo.load(tmp_path / "m").layers(SENTENCES), model.layers(SENTENCES), strict=True):
        np.testing.assert_array_equal(found, right)


@encoders
def test_elmo_mixes_the_same_layers_frozen_and_trainable(config):
    model = tiny.model(config)
    expected = [layers_LTD.mean(0) for layers_LTD in model.layers(SENTENCES)]
    for trainable in (False, True):
        vectors_BTD, mask_BT = stelmo.Elmo(model, dropout=0, trainable=trainable)(SENTENCES)
        rows = [row_TD[mask_T].detach().numpy() for row_TD, mask_T in zip(vectors_BTD, mask_BT, strict=True)]
        close(rows, expected)


@encoders
def test_onnx_gives_the_same_layers(config, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    model = tiny.model(config, state="fresh")
    onnx.export(model, tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    ids_BTC = stelmo.text.chars.encode_sentences(SENTENCES)
    (layers_LBTD,) = session.run(None, {"characters": ids_BTC})
    close([layers_LBTD[:, row, : len(words)] for row, words in enumerate(SENTENCES)], model.layers(SENTENCES), 1e-5)


@encoders
def test_hugging_face_gives_the_same_layers_and_saves_them(config, tmp_path):
    pytest.importorskip("transformers", minversion="5")
    from stelmo.integrations.huggingface import StelmoModel

    model = tiny.model(config, state="fresh")
    made = StelmoModel.of(model)
    made.save_pretrained(tmp_path / "hf")
    for one in (made, StelmoModel.from_pretrained(tmp_path / "hf")):
        with torch.no_grad():
            hidden = torch.stack(one(sentences=SENTENCES, output_hidden_states=True).hidden_states)
        close([hidden[:, row, : len(words)] for row, words in enumerate(SENTENCES)], model.layers(SENTENCES))
    close(stelmo.load(tmp_path / "hf", state="fresh").layers(SENTENCES), model.layers(SENTENCES))


@encoders
def test_hugging_face_trains_it(config):
    pytest.importorskip("transformers", minversion="5")
    from stelmo.integrations.huggingface import StelmoModel

    model = tiny.model(config, state="fresh")
    made = StelmoModel.of(model)
    made.bilm.requires_grad_()
    top_BTD = made(sentences=SENTENCES).last_hidden_state
    close([top_BTD[row, : len(words)].detach() for row, words in enumerate(SENTENCES)], model.embed(SENTENCES, "top"))
    top_BTD.square().sum().backward()
    assert all(bool(parameter.grad.any()) for parameter in made.bilm.stacks[1].parameters())


@encoders
def test_scikit_learn_and_stored_layers_give_the_same_vectors(config, tmp_path):
    model = tiny.model(config)
    folder = tiny.folder(tmp_path / "m", config=config)
    from stelmo.integrations.sklearn import ElmoVectorizer

    found = ElmoVectorizer(str(folder)).fit_transform(SENTENCES)
    np.testing.assert_allclose(found, model.sentence_vectors(SENTENCES), atol=3e-6)
    stored = stelmo.precompute(model, SENTENCES, tmp_path / "layers")
    close([stored.layers(words) for words in SENTENCES], model.layers(SENTENCES))


@encoders
def test_spacy_gives_the_same_vectors(config, tmp_path):
    spacy = pytest.importorskip("spacy")
    importlib.import_module("stelmo.integrations.spacy")  # registers the component

    nlp = spacy.blank("en")
    nlp.add_pipe("stelmo", config={"model": str(tiny.folder(tmp_path / "m", config=config))})
    doc = nlp("the bank of a river")
    close([doc.tensor], tiny.model(config).embed([[token.text for token in doc]]))


@encoders
def test_the_service_and_the_index_of_uses_give_the_same_vectors(config, tmp_path):
    testclient = pytest.importorskip("starlette.testclient")
    from stelmo.explore import index
    from stelmo.serve.app import app

    model = tiny.model(config)
    index.build(model, SENTENCES, tmp_path / "uses")
    uses = index.open(tmp_path / "uses")
    expected_LD = model.layers(SENTENCES)[1][:, 0]
    half_a_step_L1 = np.abs(expected_LD).max(1, keepdims=True) / 127 / 2  # an index keeps 8 bits
    assert (np.abs(uses.layers(uses.ids_of("river"))[0] - expected_LD) <= 1.001 * half_a_step_L1).all()
    with testclient.TestClient(app(model, name="tiny", hosts=("localhost",)), base_url="http://localhost") as client:
        answer = client.post("/v1/embed", json={"sentences": SENTENCES[:2], "layer": 1}).json()
        guess = client.post("/v1/guess", json={"tokens": SENTENCES[0], "position": 1, "k": 3})
    close([np.array(rows) for rows in answer["vectors"]], [rows[1] for rows in model.layers(SENTENCES[:2])])
    best = [found["word"] for found in guess.json()["both"]]
    assert best == [found.word for found in model.substitutes(SENTENCES[0], 1, k=3)]


@encoders
@pytest.mark.filterwarnings("ignore")  # the library warns of names of its own that it is to give up
def test_sentence_transformers_give_the_same_vectors_and_save_them(config, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    from stelmo.integrations.sentence_transformers import StelmoTransformer

    words = StelmoTransformer(tiny.model(config))
    made = library.SentenceTransformer(
        modules=[words, modules.Pooling(words.get_embedding_dimension(), "mean")], device="cpu"
    )
    made.save(str(tmp_path))
    texts = ["the bank", "a river bank"]
    expected = tiny.model(config).sentence_vectors([text.split() for text in texts])
    again = library.SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=True)
    for one in (made, again):
        np.testing.assert_allclose(one.encode(texts), expected, rtol=1e-5, atol=1e-5)


@encoders
@pytest.mark.filterwarnings("ignore")  # of Ray's own code
def test_workers_of_ray_write_the_same_vectors(config, tmp_path, monkeypatch, capsys):
    pytest.importorskip("ray")
    from stelmo.integrations import ray as on_ray

    # The worker as Ray would make it, in this process; test_ray.py has a real cluster.
    monkeypatch.setattr(on_ray, "cluster", lambda address, cores: nullcontext())
    monkeypatch.setattr(on_ray, "_computed", lambda numbers, make, *rest: map(make().compute, numbers))
    folder, text = tiny.folder(tmp_path / "m", config=config), tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"tokens": words}) + "\n" for words in SENTENCES))
    arguments = ["embed", text, "-m", folder, "--threads", 1, "-o", tmp_path / "v.parquet", "--ray", "local"]
    done = run(monkeypatch, capsys, *arguments)
    assert done.code == 0, done.err
    from pyarrow import parquet

    found = [np.array(row["vectors"]) for row in parquet.read_table(tmp_path / "v.parquet").to_pylist()]
    close(found, tiny.model(config).embed(SENTENCES))


@encoders
def test_probes_see_every_layer(config, tmp_path):
    model = tiny.model(config)
    source = embedding.of_model(model)
    close(
        [words_TLD.swapaxes(0, 1) for words_TLD in source.embed([tuple(words) for words in SENTENCES])],
        model.layers(SENTENCES),
    )
    rows = probes.coarse(coarse_folder(tmp_path), [source])
    layers = [f"layer {layer}" for layer in range(model.config.depth)]
    assert [row.vectors for row in rows if row.method == "nearest example"] == layers
    assert source.identity() == embedding.of_model(tiny.model(config)).identity()


@encoders
def test_a_task_is_trained_on_it_frozen_and_finetuned(config, tmp_path, monkeypatch, capsys):
    (tmp_path / "data").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "data" / f"{split}.txt").write_text(samples.SST5)
    folder = tiny.folder(tmp_path / "m", config=config)
    small = [
        word for value in ("projected=8", "hidden=6", "classifier=[[8, 0.0]]") for word in ("--set", f"size.{value}")
    ]
    for name, more in (("frozen", []), ("finetuned", ["--finetune"])):
        done = run(monkeypatch, capsys, "task", "sst5", "--data", tmp_path / "data", "--to", tmp_path / name, "--model",
                   folder, "--elmo", "both", "--set", "epochs=1", *small, *more)  # fmt: skip
        assert done.code == 0, done.err
        (mix,) = [line for line in done.out.splitlines() if line.startswith("layers at the input: ")]
        assert mix.count(".") == config.depth + 1, mix  # a weight for every layer, and gamma


@pytest.mark.parametrize("config", tiny.WITHOUT_STATE.values(), ids=tiny.WITHOUT_STATE)
@pytest.mark.parametrize("format", ["bilm", "efml"])
def test_formats_of_lstms_are_refused_and_leave_nothing(config, format, tmp_path):
    with pytest.raises(stelmo.ConfigError, match=r"holds LSTMs.*stelmo folder or .*ONNX"):
        tiny.model(config).save(tmp_path / "m", format=format)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("config", tiny.WITHOUT_STATE.values(), ids=tiny.WITHOUT_STATE)
def test_eight_bits_are_refused(config):
    with pytest.raises(stelmo.ConfigError, match="int8 is for LSTMs"):
        tiny.model(config, precision="int8")
