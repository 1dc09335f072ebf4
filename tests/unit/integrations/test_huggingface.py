"""AutoModel against our own vectors: in memory, from every kind of folder, there and back; and the page's examples."""

import copy
import importlib
import json
import re
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch

import stelmo
from stelmo.errors import ConfigError, DataError, ModelError

# transformers warns of names of its own that it is to give up.
pytestmark = pytest.mark.filterwarnings("ignore")

DOCS = Path(__file__).parents[3] / "docs" / "integrations" / "huggingface.md"
SENTENCES = [["the", "bank"], [], ["über", "日本", "x" * 80, "<S>", "."], ["a"]]


@pytest.fixture(scope="module", autouse=True)
def _libraries():
    """Not imported above, because that takes seconds, and every process of the tests collects this file."""
    pytest.importorskip("transformers", reason="transformers is not installed; pip install 'stelmo[huggingface]'")
    global AutoConfig, AutoModel, HfApi, StelmoConfig, StelmoModel, StelmoTokenizer
    from huggingface_hub import HfApi
    from transformers import AutoConfig, AutoModel

    from stelmo.integrations.huggingface import StelmoConfig, StelmoModel, StelmoTokenizer


@pytest.fixture(scope="module")
def ours():
    return tiny.model()


def assert_equal_to_ours(found, model, **settings):
    hidden_LBTD = torch.stack(found.hidden_states).detach().numpy()
    np.testing.assert_array_equal(found.last_hidden_state.detach().numpy(), hidden_LBTD[-1])
    for row, expected_LTD in enumerate(model.layers(SENTENCES, **settings)):
        length = expected_LTD.shape[1]
        np.testing.assert_allclose(hidden_LBTD[:, row, :length], expected_LTD, rtol=1e-5, atol=1e-5)
        assert not hidden_LBTD[:, row, length:].any()


def outputs(model):
    """Without gradients and with: two ways to compute."""
    with torch.no_grad():
        yield model(sentences=SENTENCES, output_hidden_states=True)
    yield model.requires_grad_()(sentences=SENTENCES, output_hidden_states=True)
    model.requires_grad_(False)


def test_hidden_states_are_our_layers(ours):
    for found in outputs(StelmoModel.of(ours)):
        assert_equal_to_ours(found, ours)


def test_ids_and_mask_are_the_same_as_sentences(ours):
    model = StelmoModel.of(ours)
    encoded = StelmoTokenizer()(SENTENCES)
    assert encoded["attention_mask"].tolist() == [[1, 1, 0, 0, 0], [0] * 5, [1] * 5, [1, 0, 0, 0, 0]]
    assert_equal_to_ours(model(**encoded, output_hidden_states=True), ours)
    garbage = encoded["input_ids"].where(encoded["attention_mask"][:, :, None] > 0, torch.tensor(7))
    masked = model(garbage, encoded["attention_mask"], output_hidden_states=True)
    assert_equal_to_ours(masked, ours)


@pytest.mark.parametrize("sentences", [[], [[]], [[], ["a"]]], ids=str)
def test_without_words_there_are_vectors_of_the_same_shape_with_and_without_gradients(ours, sentences):
    wrapped = StelmoModel.of(ours)
    fast = wrapped(sentences=sentences).last_hidden_state
    wrapped.bilm.requires_grad_(True)
    learning = wrapped(sentences=sentences).last_hidden_state
    wrapped.bilm.requires_grad_(False)
    longest = max(map(len, sentences), default=0)
    assert fast.shape == learning.shape == (len(sentences), longest, ours.config.width)


def test_layers_come_only_when_asked_for(ours):
    model = StelmoModel.of(ours)
    assert model(sentences=SENTENCES).hidden_states is None
    last, layers = model(sentences=SENTENCES, output_hidden_states=True, return_dict=False)
    assert len(layers) == 3
    assert torch.equal(last, layers[-1])


def test_a_saved_model_comes_back_by_auto_model_and_by_stelmo(ours, tmp_path):
    StelmoModel.of(ours).save_pretrained(tmp_path)
    found = AutoModel.from_pretrained(tmp_path)
    assert isinstance(found, StelmoModel)
    for output in outputs(found):
        assert_equal_to_ours(output, ours)
    assert_equal_to_ours(next(outputs(found)), stelmo.load(tmp_path))
    config = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, StelmoConfig)
    assert (config.hidden_size, config.num_hidden_layers, config.max_characters) == (12, 2, 50)


def test_the_start_is_kept_and_can_be_chosen(ours, tmp_path):
    StelmoModel.of(ours, state="fresh").save_pretrained(tmp_path)
    assert_equal_to_ours(next(outputs(AutoModel.from_pretrained(tmp_path))), ours, state="fresh")
    assert_equal_to_ours(next(outputs(AutoModel.from_pretrained(tmp_path, state="warm"))), ours, state="warm")
    assert_equal_to_ours(next(outputs(StelmoModel.of(ours))), stelmo.load(tmp_path), state="warm")


def test_the_warm_state_follows_changed_weights(tmp_path):
    StelmoModel.of(stelmo.load(tiny.folder(tmp_path / "tiny"))).save_pretrained(tmp_path / "saved")
    model = AutoModel.from_pretrained(tmp_path / "saved", state="warm")
    model.eval()(sentences=SENTENCES)
    with torch.no_grad():
        for weight in model.bilm.parameters():
            weight *= 0.5
    changed = model(sentences=SENTENCES).last_hidden_state
    model.save_pretrained(tmp_path / "changed")
    again = AutoModel.from_pretrained(tmp_path / "changed").eval()
    assert torch.equal(changed, again(sentences=SENTENCES).last_hidden_state)


def test_every_stelmo_folder_is_one_of_auto_model(ours, tmp_path):
    ours.save(tmp_path / "whole")
    without_start = tiny.folder(tmp_path / "without start")
    for folder in (tmp_path / "whole", without_start):
        assert_equal_to_ours(next(outputs(AutoModel.from_pretrained(folder))), ours)
    AutoModel.from_pretrained(without_start).save_pretrained(tmp_path / "again")
    assert_equal_to_ours(next(outputs(StelmoModel.of(stelmo.load(tmp_path / "again")))), ours)


def test_stored_halves_are_computed_in_float32_unless_told(ours, tmp_path):
    ours.save(tmp_path / "half", dtype="float16")
    found = AutoModel.from_pretrained(tmp_path / "half")
    assert found.dtype == torch.float32
    assert_equal_to_ours(next(outputs(found)), stelmo.load(tmp_path / "half"))
    assert AutoModel.from_pretrained(tmp_path / "half", dtype=torch.float64).dtype == torch.float64


def test_it_learns(ours, tmp_path):
    ours.save(tmp_path / "m")
    model = AutoModel.from_pretrained(tmp_path / "m")
    with torch.no_grad():
        before = model(sentences=SENTENCES).last_hidden_state
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(sentences=SENTENCES).last_hidden_state.square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    optimizer.step()
    with torch.no_grad():
        after = model(sentences=SENTENCES).last_hidden_state
    assert (after - before).abs().max() > 1e-3
    torch.testing.assert_close(after, model(sentences=SENTENCES).last_hidden_state)
    torch.testing.assert_close(after, copy.deepcopy(model)(sentences=SENTENCES).last_hidden_state)


def test_its_vectors_can_feed_a_network_that_learns(ours):
    head = torch.nn.Linear(12, 2)
    head(StelmoModel.of(ours)(sentences=SENTENCES).last_hidden_state).sum().backward()
    assert head.weight.grad is not None


def test_a_model_from_its_config_alone_is_ready_to_train():
    config = StelmoConfig(tiny.CONFIG.model_dump())
    model = AutoModel.from_config(config)
    assert all(bool(parameter.isfinite().all()) for parameter in model.parameters())
    assert float(model.bilm.lstm_forward[0].kernel.detach().std()) > 0.01
    assert bool(model(sentences=SENTENCES).last_hidden_state.isfinite().all())


def test_a_text_is_one_row_and_the_tokenizer_comes_back(tmp_path):
    tokenizer = StelmoTokenizer(12, contractions="moses")
    tokenizer.save_pretrained(tmp_path / "t")
    again = StelmoTokenizer.from_pretrained(tmp_path / "t")
    assert vars(again) == vars(tokenizer)
    assert again.tokens("I don't. You do.") == ["I", "don", "'t", ".", "You", "do", "."]
    assert again(["I do.", "Yes"])["input_ids"].shape == (2, 3, 12)
    tiny.folder(tmp_path / "m")
    assert StelmoTokenizer.from_pretrained(tmp_path / "m", language="de").max_characters == 50


def test_a_tokenizer_on_the_hub_is_found_by_its_name(tmp_path):
    repository = tmp_path / "models--you--german"
    (repository / "snapshots").mkdir(parents=True)
    tiny.folder(repository / "snapshots" / ("a" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    cached = {"cache_dir": tmp_path, "local_files_only": True}
    assert vars(StelmoTokenizer.from_pretrained("you/german", **cached)) == vars(StelmoTokenizer(50))
    StelmoTokenizer(50, "de", "moses").save_pretrained(repository / "snapshots" / ("a" * 40))
    found = StelmoTokenizer.from_pretrained("you/german", contractions="ptb", **cached)
    assert vars(found) == {"max_characters": 50, "language": "de", "contractions": "ptb"}


def test_the_tokenizer_takes_the_usual_options():
    tokenizer = StelmoTokenizer()
    expected = tokenizer([["the", "bank"], ["a"]])["input_ids"]
    usual = {"padding": "longest", "truncation": True, "return_tensors": "pt"}
    for texts, options in (
        (["the bank", "a"], usual),
        (["the bank of", "a"], usual | {"max_length": 2}),
        ([["the", "bank"], ["a"]], usual | {"is_split_into_words": True}),
    ):
        assert torch.equal(tokenizer(texts, **options)["input_ids"], expected)
    assert torch.equal(tokenizer(["the", "bank"], is_split_into_words=True)["input_ids"], expected[:1])
    cut = tokenizer(["the bank", "a"], max_length=1, truncation="longest_first")
    assert cut["attention_mask"].tolist() == [[1], [1]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"padding": "max_length"}, "padding"),
        ({"padding": False}, "padding"),
        ({"truncation": "only_second"}, "truncation"),
        ({"max_length": 3}, "max_length 3: expected 1 or more, together with truncation=True"),
        ({"max_length": 0, "truncation": True}, "max_length 0"),
        ({"text_pair": "b", "stride": 2}, "text_pair, stride found; expected padding, truncation"),
    ],
)
def test_what_the_tokenizer_cannot_do_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        StelmoTokenizer()("a", **options)


def test_what_is_pushed_to_the_hub_is_a_folder_that_loads(ours, tmp_path, monkeypatch):
    def keep(api, repo_id, operations, **_):
        assert repo_id == "someone/elmo"
        for operation in operations:
            shutil.copy(operation.path_or_fileobj, tmp_path / operation.path_in_repo)

    monkeypatch.setattr(HfApi, "create_repo", lambda api, repo_id, **_: types.SimpleNamespace(repo_id=repo_id))
    monkeypatch.setattr(HfApi, "create_commit", keep)
    card = types.SimpleNamespace(save=lambda path: Path(path).write_text("# ELMo"))
    monkeypatch.setattr("transformers.utils.hub.create_and_tag_model_card", lambda *_, **__: card)
    StelmoModel.of(ours).push_to_hub("someone/elmo")
    found = AutoModel.from_pretrained(tmp_path)(sentences=SENTENCES, output_hidden_states=True)
    assert_equal_to_ours(found, ours)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "one of the two"),
        ({"sentences": ["raw text"]}, "stelmo.tokenize"),
        ({"input_ids": torch.zeros(2, 3, dtype=torch.long)}, r"\(B, T, 50\)"),
        ({"input_ids": torch.full((1, 2, 50), 300)}, "0 … 261"),
        ({"input_ids": torch.ones(1, 2, 50, dtype=torch.long), "attention_mask": torch.ones(1, 3)}, r"\(1, 2\)"),
        (
            {"input_ids": torch.ones(1, 2, 50, dtype=torch.long), "attention_mask": torch.tensor([[0, 1]])},
            "past a sentence's end",
        ),
    ],
)
def test_bad_input_is_one_sentence(ours, arguments, said):
    with pytest.raises(DataError, match=said):
        StelmoModel.of(ours)(**arguments)


def test_what_it_cannot_do_is_named(ours, tmp_path):
    with pytest.raises(ConfigError, match="input words"):
        StelmoModel.of(tiny.model(tiny.WORD_CONFIG))
    with pytest.raises(ConfigError, match="carry"):
        StelmoModel.of(ours, state="carry")
    with pytest.raises(ConfigError, match="return_tensors"):
        StelmoTokenizer()("a", return_tensors="tf")
    (tmp_path / "stelmo_tokenizer.json").write_text(json.dumps({"colour": "red"}))
    with pytest.raises(ModelError, match="colour"):
        StelmoTokenizer.from_pretrained(tmp_path)


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "stelmo.integrations.huggingface")
    with pytest.raises(ConfigError, match=r"pip install 'stelmo\[huggingface\]'"):
        importlib.import_module("stelmo.integrations.huggingface")


def test_the_page_examples_run(monkeypatch, tmp_path):
    tiny.folder(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    text = DOCS.read_text().partition("## Sentence transformers")[0]
    names = {}
    for snippet in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        exec(snippet, names)
    expected = tiny.model().layers(names["tokens"])
    np.testing.assert_allclose(names["layers"][:, 0], expected[0], rtol=1e-5, atol=1e-5)
    assert names["again"].config.num_hidden_layers == 2
