"""`load` and `from_pretrained`: their settings, folders, names on the hub."""

import inspect
from typing import get_type_hints

import numpy as np
import pytest
import tiny

import stelmo
from stelmo.embed.load import LoadOptions
from stelmo.errors import ConfigError, ModelError
from stelmo.settings import LoadSettings

KEYWORDS = {
    name: parameter
    for name, parameter in inspect.signature(stelmo.load).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
}


def test_every_setting_is_a_keyword_argument_with_the_default_of_the_settings():
    defaults = LoadSettings().model_dump() | {"state": None}  # None: warm or fresh, whichever fits the model
    assert {name: KEYWORDS[name].default for name in defaults} == defaults


def test_functions_that_pass_settings_on_know_every_keyword_argument():
    assert get_type_hints(LoadOptions) == {name: get_type_hints(stelmo.load)[name] for name in KEYWORDS}


def test_every_keyword_argument_is_documented():
    undocumented = [name for name in KEYWORDS if f"- `{name}`: " not in stelmo.load.__doc__]
    assert undocumented == []


@pytest.mark.parametrize(
    "settings",
    [{"state": "lukewarm"}, {"precision": "int3"}, {"threads": 0}, {"batch_tokens": -1}],
)
def test_an_unknown_setting_is_refused(settings, tmp_path):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        stelmo.load(tiny.folder(tmp_path / "m"), **settings)


def test_an_unknown_keyword_argument_is_refused():
    with pytest.raises(TypeError, match="colour"):
        stelmo.load(colour="red")


def test_pretrained_names_work_on_a_folder(model, tmp_path):
    model.save_pretrained(tmp_path / "m")
    again = stelmo.Model.from_pretrained(tmp_path / "m", precision="float64")
    np.testing.assert_allclose(again.embed([["bank"]])[0], model.embed([["bank"]])[0], atol=1e-5)


def hub_cache(cache, name):
    """A model as the hub's client keeps it after a download."""
    home = cache / f"models--{name.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("abc123")
    (home / "snapshots").mkdir()
    tiny.folder(home / "snapshots" / "abc123")


def test_a_hub_name_is_read_from_its_cache_without_a_network(tmp_path, monkeypatch):
    hub_cache(tmp_path, "someone/elmo-tiny")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    model = stelmo.from_pretrained("someone/elmo-tiny", local_files_only=True)
    assert model.config == tiny.CONFIG


@pytest.mark.parametrize("name", ["someone/not-there", "no such/folder/at all"])
def test_a_hub_name_that_is_not_in_the_cache_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="no such folder"):
        stelmo.from_pretrained(name, local_files_only=True)


def test_load_never_takes_a_missing_path_for_a_hub_name():
    with pytest.raises(ModelError, match="no such file or folder"):
        stelmo.load("someone/elmo-tiny")


@pytest.mark.parametrize("name", ["options", "vocabulary", "softmax"])
def test_the_bundled_model_takes_no_files_of_others(name):
    with pytest.raises(ConfigError, match=f"{name} mine: the bundled model has its own; name the model"):
        stelmo.load(**{name: "mine"})
