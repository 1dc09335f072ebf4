"""What holds for every task's network: it learns a few examples by heart, comes back from disk, and can be stopped."""

import io
import json
import sys
from pathlib import Path

import pytest
import tiny
import torch
from commands import run as run_command
from unit.tasks import more_samples, samples

from stelmo.errors import ConfigError, DataError, ModelError, OutputError
from stelmo.progress import NoProgress
from stelmo.store.runs import Run, read_mixes
from stelmo.tasks import experiment, loop, network
from stelmo.tasks.network import TASKS
from stelmo.tasks.reading import Skipped

SAMPLES = {
    "ner": samples.NER_COLUMNS,
    "srl": samples.SRL_JSON,
    "sst5": samples.SST5,
    "snli": more_samples.SNLI_PLAIN,
    # The sample's own answer is a part of a token, which no network can point at.
    "squad": more_samples.SQUAD.replace('"text": "40"', '"text": "40-mile"'),
    "coref": more_samples.COREF_2012,
}
NAMES = {
    "ner": "conll", "srl": "jsonl", "sst5": "txt", "snli": "jsonl", "squad": "json", "coref": "conll",
}  # fmt: skip
PLAIN = {  # text to predict on
    "ner": "Kim sat .\nBerta left Oslo .\n",
    "srl": "Kim *said* we *won* .\n",
    "sst5": "It shines .\n",
    "snli": "A man sat .\tA dog ran .\n",
    "squad": '{"context": "Kim won.", "question": "Who won?"}\n',
    "coref": "Kim said she won .\n\nBerta left .\n",
}
SMALL = {  # of each network, as small as it still learns
    "ner": ["size.filters=[[3, 8]]", "size.hidden=[12, 8]", "size.dropout=0"],
    "srl": ["size.hidden=16", "size.layers=4", "size.dropout=0"],
    "sst5": ["size.projected=12", "size.hidden=8", "size.classifier=[[16, 0.0]]", "size.word_dropout=0"],
    "snli": ["size.hidden=12", "size.dropout=0", "size.attention_dropout=0"],
    "squad": ["size.hidden=10", "size.dropout=0", "size.character_filters=6"],
    "coref": ["size.hidden=12", "size.scorer=16", "size.spans=1", "size.dropout=0", "size.lexical_dropout=0"],
}
every_task = pytest.mark.parametrize("name", list(TASKS))


class PowerCutError(Exception):
    """What no run expects."""


class StopsAt(NoProgress):
    """Ends the run in the middle of an epoch."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def update(self, report) -> None:
        if getattr(report, "epoch", None) == self._epoch:
            raise PowerCutError


def folder(name, path):
    path.mkdir()
    for split in ("train", "dev", "test"):
        (path / f"{split}.{NAMES[name]}").write_text(SAMPLES[name], encoding="utf-8")
    return path


def small(name, *words, **elmo):
    return network.configure(
        name, "cpu", {"placement": "none", **elmo}, [*SMALL[name], "batch=8", "patience=50", *words]
    )


def trained(chosen, data, to, progress=None, model=None, seeds=(0,), cache=None):
    return experiment.run(chosen, data, to, seeds, model, None, cache, None, progress or NoProgress())


def weights_of(seed_folder):
    from stelmo.store.folder import read_safetensors

    return read_safetensors(seed_folder / "model" / network.WEIGHTS)


def test_a_share_of_the_sentiment_data_is_of_trees_with_all_their_phrases(tmp_path):
    path = tmp_path / "data"
    path.mkdir()
    tree = "(3 (2 It) (3 (2 {}) (3 (2 is) (3 (3 good) (2 .)))))\n"  # two phrases of four or more words
    for split in ("train", "dev"):
        (path / f"{split}.txt").write_text("".join(tree.format(f"word{number}") for number in range(20)))
    chosen = network.configure("sst5", fraction=0.1)
    data, whole = experiment.read_data(chosen, path, None)
    assert whole == 40
    assert len(data.train) == 4
    assert len({example.words[-4] for example in data.train}) == 2  # two trees


def test_a_flawed_example_is_refused_with_the_way_out(tmp_path):
    path = folder("ner", tmp_path / "data")
    (path / "dev.conll").write_text("Kim\tO\nsaid\n")
    with pytest.raises(DataError, match=r"dev\.conll:2: .*\(--skip-bad skips such examples\)"):
        trained(small("ner"), path, tmp_path / "run")


@pytest.mark.parametrize(("name", "word"), [("snli", "talk"), ("squad", "Who"), ("srl", "said")])
def test_half_a_character_in_json_is_a_character_like_any_other(name, word, tmp_path):
    path = folder(name, tmp_path / "data")
    for file in path.iterdir():
        file.write_text(SAMPLES[name].replace(word, word + "\\ud83d"), encoding="utf-8")
    found = trained(small(name, "epochs=1"), path, tmp_path / "run")
    assert (
        experiment.predict_file(
            experiment.read_run(tmp_path / "run", name), path / f"test.{NAMES[name]}", tmp_path / "answers", print
        )
        == found.examples["test"]
    )


def test_weights_of_another_size_are_refused():
    net, other = torch.nn.Linear(2, 3), torch.nn.Linear(2, 4)
    with pytest.raises(ModelError, match="the weights belong to another network: weight has 4×2 numbers, not 3×2"):
        loop.load_weights(net, other.state_dict())


@pytest.mark.parametrize(("dev", "test"), [("dev_examples=2", 1), ("dev_examples=3", 0)])
def test_without_a_test_file_the_dev_examples_that_choose_no_network_are_the_test(dev, test, tmp_path):
    path = folder("sst5", tmp_path / "data")
    whole, _ = experiment.read_data(small("sst5"), path, None)
    (path / "test.txt").unlink()
    data, _ = experiment.read_data(small("sst5", dev), path, None)
    assert len(data.test) == test
    assert sorted([*data.dev, *data.test]) == sorted(whole.dev)


@every_task
def test_a_few_examples_are_learned_by_heart(name, tmp_path):
    chosen = small(name, "lr=0.01", "optimizer=adam", "plateau=50")
    task, path = chosen.task, folder(name, tmp_path / "data")
    materials = experiment.prepare(chosen, path, None, None, tmp_path / "layers", None, NoProgress())
    built = experiment.new_network(chosen, materials, 0)
    learner = loop.Training(built.net, chosen.train, 0)
    examples = materials.data.train
    for _ in range(80):
        built.net.train()
        learner.step(examples)
    predictions = loop.predict(built.net, task, examples, 64)
    assert task.headline(task.score(predictions, examples)) == pytest.approx(100.0)


@every_task
def test_in_half_precision_the_loss_is_nearly_the_same_and_every_weight_gets_a_gradient(name, tmp_path):
    chosen, model = small(name, placement="both", dropout=0.0), tiny.model()
    path = folder(name, tmp_path / "data")
    materials = experiment.prepare(chosen, path, model, None, tmp_path / "layers", None, NoProgress())
    losses, norms = [], []
    for precision in ("float32", "bfloat16"):
        settings = chosen.train.model_copy(update={"precision": precision})
        learner = loop.Training(experiment.new_network(chosen, materials, 0).net, settings, 0)
        learner.net.eval()  # no dropout
        losses.append(learner.step(materials.data.train))
        norms.append(torch.stack([parameter.grad.norm() for parameter in learner.parameters]))
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    assert torch.equal(norms[0] > 0, norms[1] > 0)
    torch.testing.assert_close(norms[1], norms[0], rtol=0.1, atol=0.01 * float(norms[0].max()))


@pytest.mark.parametrize(("has_instructions", "chosen"), [(True, "bfloat16"), (False, "float32")])
def test_the_automatic_precision_is_half_where_the_processor_has_instructions_for_it(
    has_instructions, chosen, monkeypatch
):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_instructions)
    assert loop.chosen_precision("auto", "cpu") == chosen
    assert loop.chosen_precision("float32", "cpu") == "float32"
    assert loop.chosen_precision("bfloat16", "cpu") == "bfloat16"


@pytest.mark.parametrize("placement", ["input", "output", "both"])
def test_a_bilm_is_trained_in_single_precision_inside_a_network_in_half_precision(placement, tmp_path):
    path, model = folder("sst5", tmp_path / "data"), tiny.model()
    before = {name: tensor.clone() for name, tensor in model.bilm.state_dict().items()}
    chosen = small("sst5", "epochs=2", "precision=bfloat16", "lr=0.01", placement=placement, finetune=True)
    materials = experiment.prepare(chosen, path, model, None, tmp_path / "layers", None, NoProgress())
    built = experiment.new_network(chosen, materials, 0)
    losses = [loop.Training(built.net, chosen.train, 0).step(materials.data.train) for _ in range(3)]
    assert losses[-1] < losses[0]
    after = built.words.elmo.bilm.state_dict()
    assert all(tensor.dtype == torch.float32 for tensor in after.values())
    assert any(not torch.equal(tensor, before[name]) for name, tensor in after.items())


def test_a_run_may_resume_in_another_precision_and_notes_the_last_one(tmp_path):
    path = folder("sst5", tmp_path / "data")
    with pytest.raises(PowerCutError):
        trained(small("sst5", "epochs=3"), path, tmp_path / "run", StopsAt(2))
    trained(small("sst5", "epochs=3", "precision=bfloat16"), path, tmp_path / "run")
    result = json.loads((tmp_path / "run" / "seed-0" / "result.json").read_text())
    assert result["precision"] == "bfloat16"


@every_task
def test_a_network_read_back_from_disk_answers_alike(name, tmp_path):
    model = tiny.model()
    chosen = small(name, "epochs=2", placement="both")
    path = folder(name, tmp_path / "data")
    trained(chosen, path, tmp_path / "run", model=model)
    again = network.read(tmp_path / "run" / "seed-0" / "model", open_model=lambda where: model)
    examples = chosen.task.data.read(path / f"dev.{NAMES[name]}")
    written = chosen.task.data.read_predictions(tmp_path / "run" / "seed-0" / "dev.predictions", examples)
    assert loop.predict(again.net, chosen.task, examples, chosen.train.score_tokens) == written


@every_task
def test_a_run_stopped_in_an_epoch_ends_in_the_same_bits(name, tmp_path):
    chosen = small(name, "epochs=4", "plateau=1")
    path = folder(name, tmp_path / "data")
    whole = trained(chosen, path, tmp_path / "whole")
    with pytest.raises(PowerCutError):
        trained(chosen, path, tmp_path / "torn", StopsAt(3))
    assert trained(chosen, path, tmp_path / "torn") == whole
    first, second = (weights_of(tmp_path / run / "seed-0") for run in ("whole", "torn"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    logs = [Run(tmp_path / run / "seed-0").log.entries() for run in ("whole", "torn")]
    assert logs[0] == logs[1]


def test_a_finished_run_with_a_higher_limit_goes_on_and_ends_in_the_same_bits(tmp_path):
    path = folder("sst5", tmp_path / "data")
    whole = trained(small("sst5", "epochs=4"), path, tmp_path / "whole")
    short = trained(small("sst5", "epochs=2"), path, tmp_path / "run")
    assert short.epochs == (2,)
    assert trained(small("sst5", "epochs=4"), path, tmp_path / "run") == whole
    first, second = (weights_of(tmp_path / run / "seed-0") for run in ("whole", "run"))
    assert all(torch.equal(first[key], second[key]) for key in first)
    results = [json.loads((tmp_path / run / "seed-0" / "result.json").read_text()) for run in ("whole", "run")]
    for result in results:
        del result["seconds"]
    assert results[0] == results[1]


def test_a_run_of_a_version_without_a_setting_goes_on_with_the_value_it_had(tmp_path):
    path, note = folder("sst5", tmp_path / "data"), tmp_path / "run" / "seed-0" / "task.json"
    chosen = {gamma: small("sst5", "epochs=2", placement="input", gamma=gamma) for gamma in (1.0, 0.5)}
    first = trained(chosen[1.0], path, tmp_path / "run", model=tiny.model())
    settings = json.loads(note.read_text())
    del settings["elmo"]["gamma"]
    note.write_text(json.dumps(settings))
    with pytest.raises(OutputError, match=r"elmo.gamma is 1.0 there, 0.5 here"):
        trained(chosen[0.5], path, tmp_path / "run", model=tiny.model())
    assert trained(chosen[1.0], path, tmp_path / "run", model=tiny.model()) == first


def test_without_elmo_its_settings_may_change(tmp_path):
    path = folder("sst5", tmp_path / "data")
    first = trained(small("sst5", "epochs=2", dropout=0.1), path, tmp_path / "run")
    assert trained(small("sst5", "epochs=2", dropout=0.9, gamma=0.1), path, tmp_path / "run") == first


def test_gamma_starts_where_the_settings_say(tmp_path):
    path, model = folder("sst5", tmp_path / "data"), tiny.model()
    chosen = small("sst5", placement="both", gamma=0.2)
    materials = experiment.prepare(chosen, path, model, None, tmp_path / "layers", None, NoProgress())
    mixes = experiment.new_network(chosen, materials, 0).words.mixes()
    assert {place: mix.scale.item() for place, mix in mixes.items()} == pytest.approx({"input": 0.2, "output": 0.2})


def test_a_run_whose_score_stopped_rising_does_not_go_on(tmp_path):
    path = folder("sst5", tmp_path / "data")
    chosen = [small("sst5", f"epochs={epochs}", "patience=1", "lr=1e-9") for epochs in (5, 50)]
    first = trained(chosen[0], path, tmp_path / "run")
    assert first.epochs[0] < 5
    assert trained(chosen[1], path, tmp_path / "run", StopsAt(first.epochs[0] + 1)) == first


def test_a_run_can_neither_shrink_nor_go_on_without_its_checkpoint(tmp_path):
    path, seed = folder("sst5", tmp_path / "data"), tmp_path / "run" / "seed-0"
    first = trained(small("sst5", "epochs=3"), path, tmp_path / "run")
    with pytest.raises(OutputError, match="seed-0: was trained for 3 steps, and the limit is 2; raise it"):
        trained(small("sst5", "epochs=2"), path, tmp_path / "run")
    for checkpoint in Run(seed).checkpoints():
        checkpoint.unlink()
    with pytest.raises(OutputError, match="for 3 steps, the limit is now 4, and there is no checkpoint"):
        trained(small("sst5", "epochs=4"), path, tmp_path / "run")
    assert trained(small("sst5", "epochs=3"), path, tmp_path / "run") == first


@every_task
def test_unlabelled_text_is_answered_in_the_official_format(name, tmp_path):
    chosen = small(name, "epochs=1")
    path = folder(name, tmp_path / "data")
    trained(chosen, path, tmp_path / "run")
    built = experiment.read_run(tmp_path / "run", name)
    source = path / f"test.{NAMES[name]}"
    count = experiment.predict_file(built, source, tmp_path / "answers", NoProgress().message)
    examples = chosen.task.data.read_new(source)
    assert count == len(examples)
    assert len(chosen.task.data.read_predictions(tmp_path / "answers", examples)) == count


@every_task
@pytest.mark.parametrize("texts", [SAMPLES, PLAIN], ids=["labelled", "plain"])
def test_standard_input_can_be_predicted_on_like_a_file(name, texts, tmp_path, monkeypatch):
    """It can be read only once."""
    (tmp_path / "file").write_text(texts[name], encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(texts[name].encode()), "utf-8"))
    piped, read = (TASKS[name].data.read_new(path) for path in (Path("-"), tmp_path / "file"))
    assert read
    assert experiment.sentences(TASKS[name], piped) == experiment.sentences(TASKS[name], read)


def glove(path, **vectors):
    path.write_text("".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in vectors.items()))
    return str(path)


def test_the_file_of_the_static_vectors_may_be_elsewhere_when_predicting(tmp_path):
    source = glove(tmp_path / "vectors.txt", it=[1, 2], zed=[3, 4])
    config = small("sst5", "epochs=1")._replace(vectors=source)
    trained(config, folder("sst5", tmp_path / "data"), tmp_path / "run")
    (tmp_path / "vectors.txt").rename(tmp_path / "moved.txt")
    (tmp_path / "new.txt").write_text("Zed .\n")
    messages = []
    for vectors, known in ((None, False), (str(tmp_path / "moved.txt"), True)):
        built = experiment.read_run(tmp_path / "run", "sst5", vectors=vectors)
        experiment.predict_file(built, tmp_path / "new.txt", tmp_path / "answers", messages.append)
        assert built.words.static.lacks("Zed") is not known
    assert len(messages) == 1
    assert "pass --vectors" in messages[0]
    with pytest.raises(DataError, match="nowhere: no such file"):
        experiment.read_run(tmp_path / "run", "sst5", vectors="nowhere")
    with pytest.raises(ConfigError, match="run: a run of sst5, not of squad"):
        experiment.read_run(tmp_path / "run", "squad")


def test_vectors_that_were_not_of_a_file_are_nowhere_else(tmp_path):
    trained(small("sst5", "epochs=1"), folder("sst5", tmp_path / "data"), tmp_path / "run")
    with pytest.raises(ConfigError, match="trained with --vectors random"):
        experiment.read_run(tmp_path / "run", "sst5", vectors=str(tmp_path))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--predict", "run", "new.txt", "--size", "paper"], "--size has no effect here: with --predict"),
        (["--predict", "run", "new.txt", "--data", "data", "--to", "other"], "--data has no effect here"),
        (["--predict", "run", "new.txt", "--set", "lr=1"], "--set has no effect here"),
        (["--data", "data", "--to", "run", "-o", "answers"], "--output has no effect here: it is the file"),
        (
            ["--data", "data", "--to", "run", "--transformer", "bert", "--set", "elmo.finetune=true"],
            "without --model, --finetune",
        ),
    ],
)
def test_an_option_without_effect_is_refused(options, named, monkeypatch, capsys):
    refused = run_command(monkeypatch, capsys, "task", "ner", *options)
    assert refused.code == 2
    assert named in refused.err
    assert refused.err.count("\n") == 1


@every_task
@pytest.mark.parametrize("placement", ["input", "output", "both"])
def test_elmo_reaches_the_loss_at_every_place(name, placement, tmp_path):
    model = tiny.model()
    chosen = small(name, placement=placement, dropout=0.0)
    path = folder(name, tmp_path / "data")
    materials = experiment.prepare(chosen, path, model, None, tmp_path / "layers", None, NoProgress())
    built = experiment.new_network(chosen, materials, 0)
    built.net.train()
    built.net.loss(materials.data.train).backward()
    assert set(built.words.mixes()) == ({"input", "output"} if placement == "both" else {placement})
    for mix in built.words.mixes().values():
        assert mix.scale.grad.abs() > 0
        assert mix.logits.grad.abs().sum() > 0


@pytest.mark.pictures
def test_the_run_folder_holds_what_it_promises(tmp_path):
    chosen = small("sst5", "epochs=2", placement="both")
    path = folder("sst5", tmp_path / "data")
    found = trained(chosen, path, tmp_path / "run", model=tiny.model(), seeds=(0, 1))
    assert experiment.read_results(tmp_path / "run") == found
    assert {output.placement for output in read_mixes(tmp_path / "run").outputs} == {"input", "output"}
    assert found.seeds == (0, 1)
    assert len(found.dev) == len(found.test) == 2
    for seed in (0, 1):
        names = {file.name for file in (tmp_path / "run" / f"seed-{seed}").iterdir()}
        assert names >= {
            "task.json", "log.jsonl", "model", "dev.predictions", "test.predictions", "mixes.json", "curve.svg",
            "result.json",
        }  # fmt: skip


@pytest.mark.parametrize("elmo", [{}, {"placement": "input", "finetune": True}])
def test_a_seed_does_not_depend_on_the_seeds_trained_before_it(elmo, tmp_path):
    chosen = small("sst5", "epochs=2", "lr=0.01", "tuned_vectors=true", **elmo)
    path, make = folder("sst5", tmp_path / "data"), tiny.model if elmo else lambda: None
    trained(chosen, path, tmp_path / "both", seeds=(0, 1), model=make())
    trained(chosen, path, tmp_path / "alone", seeds=(1,), model=make())
    first, second = (weights_of(tmp_path / run / "seed-1") for run in ("both", "alone"))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert log_of(tmp_path / "both", 1) == log_of(tmp_path / "alone", 1)


def test_finished_seeds_are_not_trained_again(tmp_path):
    chosen = small("sst5", "epochs=2")
    path = folder("sst5", tmp_path / "data")
    trained(chosen, path, tmp_path / "run")
    assert trained(chosen, path, tmp_path / "run", StopsAt(1)).seeds == (0,)
    with pytest.raises(PowerCutError):
        trained(chosen, path, tmp_path / "run", StopsAt(1), seeds=(0, 1))


def test_a_run_of_other_settings_is_refused(tmp_path):
    path = folder("sst5", tmp_path / "data")
    trained(small("sst5", "epochs=1", "lr=0.001"), path, tmp_path / "run")
    with pytest.raises(OutputError, match=r"train.lr is 0.001 there, 0.01 here"):
        trained(small("sst5", "epochs=1", "lr=0.01"), path, tmp_path / "run")


def test_the_reported_score_is_that_of_the_kept_predictions(tmp_path):
    chosen = small("ner", "epochs=3", "lr=0.01")
    path = folder("ner", tmp_path / "data")
    found = trained(chosen, path, tmp_path / "run")
    examples = chosen.task.data.read(path / "test.conll")
    kept = chosen.task.data.read_predictions(tmp_path / "run" / "seed-0" / "test.predictions", examples)
    assert chosen.task.score(kept, examples)["f1"] == pytest.approx(found.test[0])


def test_a_running_average_is_what_is_scored_and_kept(tmp_path):
    chosen = small("sst5", "epochs=3", "average=0.5", "lr=0.01")
    path = folder("sst5", tmp_path / "data")
    whole = trained(chosen, path, tmp_path / "whole")
    with pytest.raises(PowerCutError):
        trained(chosen, path, tmp_path / "torn", StopsAt(3))
    assert trained(chosen, path, tmp_path / "torn") == whole
    plain = small("sst5", "epochs=3", "lr=0.01")
    trained(plain, path, tmp_path / "plain")
    first, second = (weights_of(tmp_path / run / "seed-0") for run in ("whole", "plain"))
    assert any(not torch.equal(first[key], second[key]) for key in first)


def test_the_running_average_forgets_faster_at_the_start(tmp_path):
    chosen = small("sst5", "average=0.6", "lr=0.01")
    materials = experiment.prepare(
        chosen, folder("sst5", tmp_path / "data"), None, None, tmp_path / "layers", None, NoProgress()
    )
    learner = loop.Training(experiment.new_network(chosen, materials, 0).net, chosen.train, 0)
    expected = [parameter.detach().clone() for parameter in learner.parameters]
    for number in range(1, 15):
        learner.step(materials.data.train)
        decay = min(0.6, (1 + number) / (10 + number))
        expected = [
            decay * old + (1 - decay) * new.detach() for old, new in zip(expected, learner.parameters, strict=True)
        ]
    for averaged, wanted in zip(learner.average, expected, strict=True):
        torch.testing.assert_close(averaged, wanted)


def test_a_tuned_bilm_is_trained_along_and_kept(tmp_path):
    model = tiny.model()
    before = {key: tensor.clone() for key, tensor in model.bilm.state_dict().items()}
    chosen = small("sst5", "epochs=2", "lr=0.01", placement="input", finetune=True)
    trained(chosen, folder("sst5", tmp_path / "data"), tmp_path / "run", model=model)
    kept = weights_of(tmp_path / "run" / "seed-0")
    changed = [key for key in before if not torch.equal(before[key], kept[f"words.elmo.bilm.{key}"])]
    assert changed
    assert not (tmp_path / "run" / "layers").exists()


@pytest.mark.parametrize("factor", [1.0, 0.01])
def test_a_tuned_bilm_has_a_learning_rate_of_its_own(factor, tmp_path):
    chosen = small("sst5", "lr=0.01", f"bilm_lr_factor={factor}", placement="input", finetune=True)
    path = folder("sst5", tmp_path / "data")
    materials = experiment.prepare(chosen, path, tiny.model(), None, tmp_path / "layers", None, NoProgress())
    net = experiment.new_network(chosen, materials, 0).net
    before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    loop.Training(net, chosen.train, 0).step(materials.data.train, decay=0.5)
    largest = {True: 0.0, False: 0.0}  # Adam's first step changes no weight by more than the learning rate
    for name, parameter in net.named_parameters():
        change = float((parameter.detach() - before[name]).abs().max())
        largest["bilm" in name] = max(largest["bilm" in name], change)
    assert largest[False] == pytest.approx(0.005, rel=0.01)
    assert largest[True] == pytest.approx(0.005 * factor, rel=0.01)


def test_the_rate_of_the_bilm_is_a_setting_of_runs_that_train_it(tmp_path):
    path = folder("sst5", tmp_path / "data")
    for name, elmo, model in (("frozen", {}, None), ("tuned", {"placement": "input", "finetune": True}, tiny.model())):
        chosen = small("sst5", "epochs=1", "bilm_lr_factor=1", **elmo)
        trained(chosen, path, tmp_path / name, model=model)
        note = tmp_path / name / "seed-0" / "task.json"  # as an earlier version wrote it
        settings = json.loads(note.read_text())
        del settings["train"]["bilm_lr_factor"]
        note.write_text(json.dumps(settings))
        trained(chosen, path, tmp_path / name, model=model)
    trained(small("sst5", "epochs=1"), path, tmp_path / "frozen")
    with pytest.raises(OutputError, match=r"train.bilm_lr_factor is 1.0 there, 0.02 here"):
        trained(small("sst5", "epochs=1", placement="input", finetune=True), path, tmp_path / "tuned", model=model)


def test_a_frozen_bilm_is_not_copied_into_the_task(tmp_path):
    chosen = small("sst5", "epochs=1", placement="input")
    trained(chosen, folder("sst5", tmp_path / "data"), tmp_path / "run", model=tiny.model())
    assert not [key for key in weights_of(tmp_path / "run" / "seed-0") if "bilm" in key]


def test_another_bilm_than_the_one_trained_with_is_refused(tmp_path):
    chosen = small("sst5", "epochs=1", placement="input")
    trained(chosen, folder("sst5", tmp_path / "data"), tmp_path / "run", model=tiny.model())
    other = tiny.model()
    other.bilm.encoder.table[1] += 1.0
    with pytest.raises(ModelError, match="another biLM"):
        network.read(tmp_path / "run" / "seed-0" / "model", open_model=lambda where: other)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lr=fast"], "lr: "),
        (["speed=3"], "speed"),
        (["size.wings=2"], "wings"),
        (["size=3"], "one setting of the size"),
    ],
)
def test_a_wrong_setting_is_refused(words, message):
    with pytest.raises(ConfigError, match=message):
        network.configure("ner", assignments=words)


def test_a_setting_of_a_size_is_unset_by_none():
    assert network.configure("ner", "workstation").train.average == 0.998
    words = ["average=none", "patience=none", "evaluate_every=none", "decay=none"]
    chosen = network.configure("ner", "workstation", assignments=words).train
    assert (chosen.average, chosen.patience, chosen.evaluate_every) == (None, None, None)
    assert chosen.decay == "none"
    assert network.configure("squad", "cpu", assignments=["size.train_tokens=none"]).size.train_tokens is None
    assert network.configure("ner", "workstation", assignments=["epochs=2", "steps=none"]).train.steps is None
    with pytest.raises(ConfigError, match="lr: "):
        network.configure("ner", assignments=["lr=none"])


def test_a_network_that_would_read_nothing_is_refused():
    with pytest.raises(ConfigError, match="would have no input"):
        network.configure("ner", elmo={"placement": "output"}, vectors="none")


def test_a_configuration_comes_back_from_its_json():
    chosen = network.configure("srl", "paper", {"layers": "top"}, ["lr=0.5"], "glove.txt", 0.25)
    assert network.from_json(json.loads(json.dumps(chosen.to_json()))) == chosen


def test_a_missing_split_is_named(tmp_path):
    path = folder("ner", tmp_path / "data")
    (path / "dev.conll").unlink()
    with pytest.raises(DataError, match="no dev file"):
        trained(small("ner"), path, tmp_path / "run")


def test_no_trained_task_is_found_in_an_empty_folder(tmp_path):
    with pytest.raises(ModelError, match="no trained task there"):
        experiment.find_model(tmp_path)


def test_a_diverged_loss_is_refused(tmp_path):
    chosen = small("sst5", "epochs=1")
    path = folder("sst5", tmp_path / "data")
    materials = experiment.prepare(chosen, path, None, None, tmp_path / "layers", Skipped(), NoProgress())
    built = experiment.new_network(chosen, materials, 0)
    built.words.static.unknown_D.data.fill_(float("nan"))
    built.words.static.vectors_VD.data.fill_(float("nan"))
    with pytest.raises(ModelError, match="smaller lr"):
        loop.Training(built.net, chosen.train, 0).step(materials.data.train)


# Steps and evaluations


class StopsAfter(NoProgress):
    """Ends the run after some training steps."""

    def __init__(self, step: int) -> None:
        self._step = step

    def update(self, report) -> None:
        if getattr(report, "step", 0) == self._step:
            raise PowerCutError


def log_of(run, seed=0):
    return Run(run / f"seed-{seed}").log.entries()


def test_dev_is_evaluated_every_so_many_steps_whatever_an_epoch_is(tmp_path):
    path = folder("sst5", tmp_path / "data")
    trained(small("sst5", "batch=1", "steps=11", "evaluate_every=4"), path, tmp_path / "run")
    assert [entry["step"] for entry in log_of(tmp_path / "run")] == [4, 8, 11]
    assert [entry["evaluation"] for entry in log_of(tmp_path / "run")] == [1, 2, 3]


def test_without_settings_an_epoch_is_a_pass_and_ends_with_an_evaluation(tmp_path):
    path = folder("sst5", tmp_path / "data")
    trained(small("sst5", "batch=1", "epochs=2"), path, tmp_path / "run")
    assert [entry["epoch"] for entry in log_of(tmp_path / "run")] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("decay", "elmo"), [("none", {}), ("linear", {}), ("none", {"placement": "input", "finetune": True})]
)
@pytest.mark.parametrize("step", [2, 5, 9])
def test_a_run_stopped_between_evaluations_ends_in_the_same_bits(decay, elmo, step, tmp_path):
    words = "batch=1", "steps=11", "evaluate_every=4", "lr=0.01", f"decay={decay}", "plateau=1"
    chosen, make = small("sst5", *words, **elmo), tiny.model if elmo else lambda: None
    path = folder("sst5", tmp_path / "data")
    whole = trained(chosen, path, tmp_path / "whole", model=make())
    with pytest.raises(PowerCutError):
        trained(chosen, path, tmp_path / "torn", StopsAfter(step), model=make())
    assert trained(chosen, path, tmp_path / "torn", model=make()) == whole
    first, second = (weights_of(tmp_path / run / "seed-0") for run in ("whole", "torn"))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert log_of(tmp_path / "whole") == log_of(tmp_path / "torn")


def test_every_example_is_learned_from_once_in_each_pass_whatever_the_evaluations(tmp_path):
    path = folder("sst5", tmp_path / "data")
    chosen = small("sst5", "batch=1", "steps=8", "evaluate_every=3")
    materials = experiment.prepare(chosen, path, None, None, tmp_path / "layers", None, NoProgress())
    count = len(materials.data.train)
    chosen = small("sst5", "batch=1", f"steps={2 * count}", f"evaluate_every={count - 1}")
    built = experiment.new_network(chosen, materials, 0)
    learner = loop.Training(built.net, chosen.train, 0)
    seen = []
    step = learner.step
    learner.step = lambda examples, decay: seen.extend(examples) or step(examples, decay)
    run = Run(tmp_path / "run", "task.json")
    run.start({}, frozenset())
    state, finished = loop.train(
        learner, chosen.task, materials.data, count, run, lambda predictions: None, NoProgress()
    )
    assert (state.step, finished) == (2 * count, True)
    assert sorted(seen[:count]) == sorted(seen[count:]) == sorted(materials.data.train)


def test_a_fraction_of_the_data_is_trained_for_as_many_steps(tmp_path):
    path = folder("sst5", tmp_path / "data")
    words = [*SMALL["sst5"], "batch=1", "epochs=3", "patience=50"]
    for name, fraction in (("whole", 1.0), ("part", 0.34)):
        chosen = network.configure("sst5", "cpu", {"placement": "none"}, words, fraction=fraction)
        trained(chosen, path, tmp_path / name)
    whole, part = log_of(tmp_path / "whole"), log_of(tmp_path / "part")
    assert [entry["step"] for entry in whole] == [entry["step"] for entry in part]
    assert part[-1]["epoch"] > whole[-1]["epoch"] == 3


def test_patience_counts_evaluations(tmp_path):
    path = folder("sst5", tmp_path / "data")
    words = ("batch=1", "steps=40", "evaluate_every=2", "lr=1e-9", "patience=3")
    trained(small("sst5", *words), path, tmp_path / "run")
    assert [entry["step"] for entry in log_of(tmp_path / "run")] == [2, 4, 6, 8]


def test_the_learning_rate_is_halved_after_evaluations_without_a_better_score(tmp_path):
    path = folder("sst5", tmp_path / "data")
    trained(small("sst5", "batch=1", "steps=8", "evaluate_every=2", "lr=1e-9", "plateau=1"), path, tmp_path / "run")
    assert [entry["lr"] for entry in log_of(tmp_path / "run")] == [1e-9, 5e-10, 2.5e-10, 1.25e-10]


def test_a_linear_decay_scales_every_step_down_to_zero_at_the_last(tmp_path, monkeypatch):
    path, step, used = folder("sst5", tmp_path / "data"), loop.Training.step, []

    def noted(training, *inputs):
        loss = step(training, *inputs)
        used.append(training.optimizer.param_groups[0]["lr"])
        return loss

    monkeypatch.setattr(loop.Training, "step", noted)
    words = ("batch=1", "steps=8", "evaluate_every=2", "lr=1e-9", "decay=linear")
    trained(small("sst5", *words), path, tmp_path / "run")
    assert used == pytest.approx([1e-9 * (1 - step / 8) for step in range(8)])
    assert [entry["lr"] for entry in log_of(tmp_path / "run")] == pytest.approx([7.5e-10, 5e-10, 2.5e-10, 0])
    used.clear()
    trained(small("sst5", *words, "plateau=1"), path, tmp_path / "both")  # the score rises only once
    halved = [1, 1, 1, 1, 1 / 2, 1 / 2, 1 / 4, 1 / 4]
    assert used == pytest.approx([1e-9 * (1 - step / 8) * half for step, half in enumerate(halved)])


def test_the_limit_of_a_run_whose_learning_rate_depends_on_it_cannot_be_raised(tmp_path):
    path, words = folder("sst5", tmp_path / "data"), ("batch=1", "evaluate_every=2", "decay=linear")
    first = trained(small("sst5", "steps=4", *words), path, tmp_path / "run")
    with pytest.raises(OutputError, match=r"train.steps is 4 there, 6 here"):
        trained(small("sst5", "steps=6", *words), path, tmp_path / "run")
    assert trained(small("sst5", "steps=4", *words), path, tmp_path / "run") == first


def test_dev_is_scored_once_per_evaluation_and_its_best_predictions_are_kept(tmp_path, monkeypatch):
    path = folder("ner", tmp_path / "data")
    chosen = small("ner", "steps=6", "evaluate_every=2", "lr=0.01")
    scored = []
    predict = loop.predict
    monkeypatch.setattr(
        loop, "predict", lambda net, task, examples, n: scored.append(1) or predict(net, task, examples, n)
    )
    found = trained(chosen, path, tmp_path / "run")
    assert len(scored) == 3
    examples = chosen.task.data.read(path / "dev.conll")
    kept = chosen.task.data.read_predictions(tmp_path / "run" / "seed-0" / "dev.predictions", examples)
    assert chosen.task.score(kept, examples)["f1"] == pytest.approx(found.dev[0])
    assert found.dev[0] == max(entry["dev"]["f1"] for entry in log_of(tmp_path / "run"))


def test_epochs_replace_the_steps_of_a_preset():
    chosen = network.configure("ner", "workstation", assignments=["epochs=2"]).train
    assert (chosen.epochs, chosen.steps, chosen.evaluate_every) == (2, None, None)
    kept = network.configure("ner", "workstation", assignments=["epochs=2", "evaluate_every=50"]).train
    assert (kept.steps, kept.evaluate_every) == (None, 50)
    with pytest.raises(ConfigError, match="set one of them"):
        network.configure("ner", assignments=["epochs=2", "steps=9"])


@every_task
def test_the_workstation_size_uses_all_training_data_and_counts_steps(name):
    chosen = network.configure(name, "workstation").train
    assert chosen.train_examples is None
    assert chosen.steps is not None
    assert chosen.evaluate_every is not None
    assert chosen.patience is not None


def test_an_unfinished_run_that_counted_epochs_is_refused(tmp_path):
    path = folder("sst5", tmp_path / "data")
    chosen = small("sst5", "batch=1", "steps=11", "evaluate_every=4")
    with pytest.raises(PowerCutError):
        trained(chosen, path, tmp_path / "run", StopsAfter(6))
    run = Run(tmp_path / "run" / "seed-0", "task.json")
    run.save(9, {}, {"epoch": 1, "best": 0.0, "best_epoch": 1, "seconds": 1.0, "stopped": False, "lr": 0.1}, keep=1)
    with pytest.raises(OutputError, match="counted epochs instead of steps"):
        trained(chosen, path, tmp_path / "run")


# The layer norm of ELMo's layers


@pytest.mark.parametrize(("over", "alike"), [("sentence", True), ("batch", False)])
def test_the_layer_norm_depends_on_the_batch_only_where_asked(over, alike, tmp_path):
    model = tiny.model()
    chosen = small("snli", f"elmo.layer_norm_over={over}", placement="both", layer_norm=True, dropout=0.0)
    path = folder("snli", tmp_path / "data")
    materials = experiment.prepare(chosen, path, model, None, tmp_path / "layers", None, NoProgress())
    net = experiment.new_network(chosen, materials, 0).net.eval()
    examples = materials.data.train
    together, alone = net(examples), torch.cat([net([example]) for example in examples])
    assert torch.allclose(together, alone, atol=1e-5) is alike


def test_a_network_saved_before_the_setting_existed_keeps_its_layer_norm():
    values = network.configure("snli").to_json()
    assert network.from_json(values).elmo.layer_norm_over == "sentence"
    del values["elmo"]["layer_norm_over"]
    assert network.from_json(values).elmo.layer_norm_over == "batch"


@every_task
def test_elmo_is_used_as_in_the_paper_unless_the_size_has_a_choice_of_its_own(name):
    published = TASKS[name].model.ELMO
    for size in ("paper", "cpu"):
        assert network.configure(name, size).elmo.model_dump().items() >= published.items()
    ours = network.configure(name, "workstation").elmo
    assert ours.dropout <= 0.2
    assert ours.placement == ("output" if name == "snli" else published["placement"])
    assert network.configure(name, "workstation", {"placement": "output"}).elmo.placement == "output"


def test_elmo_settings_are_reached_by_set():
    assert network.configure("ner", assignments=["elmo.layer_norm=true"]).elmo.layer_norm
    with pytest.raises(ConfigError, match=r"one of ELMo's settings"):
        network.configure("ner", assignments=["elmo=1"])
    with pytest.raises(ConfigError, match="wings"):
        network.configure("ner", assignments=["elmo.wings=1"])
