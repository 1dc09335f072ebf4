"""The encoder of a biLM in files and settings: old ones read as before, each kind round trips, errors say where."""

import json

import pytest
import tiny

from stelmo.config import CharInput, GatedCnnConfig, LstmConfig, ModelConfig, TransformerConfig, help_of, parse
from stelmo.errors import ConfigError
from stelmo.settings import LoadSettings, OutputSettings, PrepareSettings, TrainSettings, WordSettings
from stelmo.store.folder import ENGLISH

OLD = json.loads((ENGLISH / "config.json").read_text())["model"]
INPUT = OLD["input"]


def test_a_model_of_lstms_is_written_as_before_there_were_other_encoders():
    config = parse(ModelConfig, OLD, "config.json", ConfigError)
    assert json.loads(config.model_dump_json()) == OLD
    assert list(config.model_dump()) == ["input", "lstm"]
    assert config.model_dump_json(indent=2) == json.dumps(OLD, indent=2)


def test_an_lstm_may_be_named_as_an_encoder():
    config = ModelConfig(input=INPUT, encoder={"kind": "lstm", **OLD["lstm"]})
    assert config == ModelConfig(**OLD)
    assert config.has_state
    assert isinstance(config.encoder, LstmConfig)


@pytest.mark.parametrize("config", tiny.ENCODERS.values(), ids=tiny.ENCODERS)
def test_every_kind_of_encoder_survives_json(config):
    assert ModelConfig.model_validate_json(config.model_dump_json()) == config
    assert ModelConfig(**config.model_dump()) == config
    assert (config.projection, config.width, config.depth) == (6, 12, 3)


def test_settings_of_words_that_are_not_set_are_not_written():
    assert set(CharInput(embedding=4, filters=((1, 3),)).model_dump()) == set(INPUT)
    assert CharInput(embedding=4, filters=((1, 3),), layer_norm=1e-6).model_dump()["layer_norm"] == 1e-6


def test_what_a_gated_cnn_sees():
    assert tiny.GATED_CNN.receptive_field == 1 + 3 + 0 + 2 + 3


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ({"lstm": {"cells": 0, "projection": 3}}, r"x: lstm\.cells: .*greater than 0"),
        ({"encoder": {"kind": "transformer", "width": 16}}, r"x: encoder\.hidden: Field required"),
        ({"encoder": {"kind": "gru"}}, "x: encoder: .*'lstm', 'transformer', 'gated-cnn'"),
        ({}, "x: encoder: Field required"),
        ({"encoder": {"kind": "transformer", "width": 12, "hidden": 3}}, "a width of 12 for 8 heads"),
        ({"encoder": {"kind": "gated-cnn", "width": 5, "blocks": [[[3, 4]]]}}, "block 1 ends in 4 outputs"),
        ({"encoder": {"kind": "gated-cnn", "width": 5, "blocks": [[]]}}, "block 1 ends in no convolution"),
        ({"encoder": {"kind": "gated-cnn", "width": 5, "blocks": [[[3, 5, 2]]]}}, "dilated convolution of width 3"),
        ({"lstm": OLD["lstm"], "encoder": {"kind": "lstm"}}, "both lstm and encoder"),
    ],
)
def test_a_wrong_encoder_is_named(encoder, message):
    with pytest.raises(ConfigError, match=message):
        parse(ModelConfig, {"input": INPUT, **encoder}, "x", ConfigError)


def test_kinds_are_distinct():
    kinds = [kind.model_fields["kind"].default for kind in (LstmConfig, TransformerConfig, GatedCnnConfig)]
    assert kinds == ["lstm", "transformer", "gated-cnn"]


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (LoadSettings, {"state": "cold"}, "x: state: 'cold' is not one of fresh, warm, carry"),
        (LoadSettings, {"threads": 0}, "x: threads: should be greater than 0 (found 0)"),
        (LoadSettings, {"threads": "many"}, "x: threads: should be a valid integer (found 'many')"),
        (OutputSettings, {"layer": "last"}, "x: layer: 'last' is neither a number nor one of mean, top, all"),
        (TrainSettings, {"epochs": 1, "clip": -1}, "x: clip: should be greater than 0 (found -1)"),
        (PrepareSettings, {"heldout": 1.5}, "x: heldout 1.5: expected a share below 1, or a whole number of sentences"),
        (TrainSettings, {"time": 8}, "x: time: expected a number and one of s, m, h, d, such as 90m (found 8)"),
        (WordSettings, {"size": 3}, "x: size: there is no such setting; expected one of layer, max_words, min_count"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_setting_is_explained_in_plain_words(kind, values, message):
    with pytest.raises(ConfigError) as refusal:
        parse(kind, values, "x", ConfigError)
    assert str(refusal.value) == message


def test_help_is_a_sentence_unless_it_begins_with_a_value():
    assert help_of(WordSettings, "min_count") == "Words that occur less often are left out."
    assert help_of(WordSettings, "layer", after="; default: mean").startswith("mean (of all layers), top, ")
    assert help_of(WordSettings, "min_count", before="For a corpus: ") == (
        "For a corpus: words that occur less often are left out."
    )
