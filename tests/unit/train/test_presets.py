"""Presets, a settings file and --set words: what wins, what is refused, and the published sizes."""

import pytest

from stelmo.config import GatedCnnConfig, WordInput, parse
from stelmo.errors import ConfigError
from stelmo.settings import TrainSettings
from stelmo.store.saved import empty_bilm
from stelmo.train.presets import PRESETS, plan


@pytest.mark.parametrize(
    ("preset", "parameters"), [("small", 13_593_296), ("medium", 28_027_728), ("original", 93_600_848)]
)
def test_the_published_models_have_their_published_size(preset, parameters):
    counted = sum(parameter.numel() for parameter in empty_bilm(plan(preset).model).parameters())
    characters = PRESETS[preset]["input"]["embedding"]  # our table has one row more: "no token here", always zero
    assert counted - characters == parameters


@pytest.mark.parametrize("preset", ["small", "medium", "original"])
def test_the_paper_s_training(preset):
    train = plan(preset).train
    assert (train.optimizer, train.lr, train.accumulator, train.epochs) == ("adagrad", 0.2, 1.0, 10)
    assert (train.batch, train.unroll, train.negatives, train.clip, train.dropout) == (128, 20, 8192, 10.0, 0.1)
    assert train.window_loss


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_whole(preset):
    assert plan(preset).train.epochs == 10


def test_words_win_over_the_file_and_the_file_over_the_preset(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("lr = 0.5\nbatch = 32\n[lstm]\ncells = 99\n")
    found = plan("tiny", file, ["lr=0.25", "lstm.projection=7", "negatives=all", "clip=none", "optimizer=adamw"])
    assert (found.train.lr, found.train.batch, found.train.clip) == (0.25, 32, "none")
    assert (found.model.lstm.cells, found.model.lstm.projection) == (99, 7)
    assert found.train.optimizer == "adamw"


def test_the_encoder_of_a_preset_can_be_replaced_and_changed():
    words = ["encoder.kind=gated-cnn", "encoder.width=8", "encoder.blocks=[[[3, 8]]]"]
    assert plan("tiny", assignments=words).model.encoder == GatedCnnConfig(width=8, blocks=[[(3, 8)]])
    assert plan("laptop-transformer", assignments=["encoder.layers=5"]).model.encoder.layers == 5
    assert plan("tiny", assignments=["encoder.cells=9"]).model.lstm.cells == 9
    assert plan("laptop-transformer", assignments=["lstm.cells=9", "lstm.projection=7"]).model.lstm.cells == 9


@pytest.mark.parametrize("preset", ["laptop-transformer", "laptop-gated-cnn"])
def test_the_other_encoders_have_about_the_size_of_laptop_and_read_as_many_words_a_step(preset):
    sizes = [sum(p.numel() for p in empty_bilm(plan(name).model).parameters()) for name in ("laptop", preset)]
    assert abs(sizes[1] / sizes[0] - 1) < 0.1
    steps = [plan(name).train.batch * plan(name).train.unroll for name in ("laptop", preset)]
    assert steps[0] == steps[1]


def test_a_budget_replaces_the_preset_s():
    found = plan("tiny", assignments=["time=90m"]).train
    assert (found.epochs, found.tokens, found.time) == (None, None, "90m")


def test_a_model_of_word_ids_takes_its_size_from_the_vocabulary():
    assert plan("tiny", assignments=["input.kind=words"], vocabulary=77).model.input == WordInput(words=77)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lrr=1"], "no setting 'lrr'; settings are accumulate,.* lr,"),
        (["lstm.cell=1"], "no setting lstm.cell; lstm has cell_clip, cells"),
        (["lstm=1"], "lstm is 1; expected settings like"),
        (["lr=much"], r"lr: .*number.*found 'much'"),
        (["lr=-1"], "lr: .*greater than 0"),
        (["lr"], "--set lr: not an assignment"),
        (["epochs=1", "tokens=5"], "epochs and tokens: more than one budget; give one of"),
        (["time=2 hours"], "time: .*a number and one of s, m, h, d"),
        (["precision=bf16"], "bf16 is for a GPU; use float32 on the CPU"),
        (["batch=5", "accumulate=2"], "5 rows cannot be cut into 2 equal parts"),
        (["negatives=-1"], "negatives"),
        (["lstm.cells=[1]"], "lstm.cells: .*integer"),
        (["lstm.kind=gru"], "no setting lstm.kind"),
        (["lstm.cells=4", "encoder.kind=transformer"], "--set: both lstm and encoder"),
        (["encoder.kind=transformer", "encoder.width=16"], "encoder.hidden: Field required"),
        (["encoder.size=3"], "no setting encoder.size; encoder has blocks, cell_clip, cells"),
    ],
)
def test_wrong_settings_are_named(words, message):
    with pytest.raises(ConfigError, match=message):
        plan("tiny", assignments=words)


def test_settings_need_a_budget():
    with pytest.raises(ConfigError, match="no budget; give one of epochs, tokens, time"):
        parse(TrainSettings, {}, "settings", ConfigError)


def test_an_unknown_preset_is_told_the_known_ones():
    with pytest.raises(ConfigError, match="'huge' is not a preset; presets are tiny, laptop, small, medium, original"):
        plan("huge")


@pytest.mark.parametrize("content", ["lr = ", "\xff"])
def test_a_file_that_is_no_toml_is_refused(content, tmp_path):
    file = tmp_path / "s.toml"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"s\.toml: cannot be read as TOML"):
        plan("tiny", file)
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read as TOML"):
        plan("tiny", tmp_path / "absent.toml")
