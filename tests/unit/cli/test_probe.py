"""`stelmo probe`: every probe on tiny data, its controls, its forms of output, and what is refused."""

import json
import re
from functools import partial
from pathlib import Path

import commands
import numpy as np
import pytest
import tiny
from unit.probes.test_coarse import folder as coarse_folder

from stelmo.errors import ConfigError
from stelmo.probes import embedding, pos, run
from stelmo.store.static import StaticVectors

XML = """<corpus><text id="d000"><sentence id="s">
<instance id="{0}.t0" lemma="bank" pos="NOUN">bank</instance><wf>river</wf></sentence><sentence id="s2">
<instance id="{0}.t1" lemma="bank" pos="NOUN">bank</instance><wf>the</wf><wf>a</wf></sentence><sentence id="s3">
<wf>no</wf><wf>instance</wf></sentence></text></corpus>
"""
SENSES = ("bank%1:17:01::", "bank%1:14:00::")
TAGS = {"the": ("DET", "DT"), "a": ("DET", "DT"), "bank": ("NOUN", "NN"), "river": ("NOUN", "NN"), ".": ("PUNCT", ".")}


def write_wsd(folder):
    for name, prefix in (("semcor", "d000"), ("ALL", "semeval2007.d000")):
        (folder / f"{name}.data.xml").write_text(XML.format(prefix))
        (folder / f"{name}.gold.key.txt").write_text(f"{prefix}.t0 {SENSES[0]}\n{prefix}.t1 {SENSES[1]}\n")
    (folder / "index.sense").write_text(f"{SENSES[0]} 1 1 5\n{SENSES[1]} 2 2 5\n")


def write_pos(folder):
    for split in ("train", "dev", "test"):
        rows = [f"{n}\t{w}\t_\t{u}\t{x}\t_\t_\t_\t_\t_" for n, (w, (u, x)) in enumerate(TAGS.items(), 1)]
        (folder / f"{split}.conllu").write_text("\n".join(rows) + "\n\n")


def write_wic(folder):
    for split in ("train", "dev"):
        (folder / f"{split}.data.txt").write_text("bank\tN\t0-1\tbank river\tthe bank\nbank\tN\t0-0\tbank a\tbank a\n")
        (folder / f"{split}.gold.txt").write_text("F\nT\n")


def write_scws(folder):
    pairs = [("<b> bank </b> river", "a <b> bank </b>", 7), ("the <b> river </b>", "<b> a </b> .", 1)]
    lines = [f"{n}\tw\tn\tw\tn\t{a}\t{b}\t{rating}\t5" for n, (a, b, rating) in enumerate([*pairs, pairs[0]])]
    (folder / "ratings.txt").write_text("\n".join(lines) + "\n")


WRITERS = {"wsd": write_wsd, "pos": write_pos, "wic": write_wic, "coarse": coarse_folder, "scws": write_scws}


@pytest.fixture
def call(monkeypatch, capsys, tmp_path, model):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pos, "MIN_STEPS", 1)  # how well it learns is a question for test_pos.py
    for name, write in WRITERS.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    (tmp_path / "glove.txt").write_text("bank 1 0\nriver 0 1\nthe 1 1\n")
    return partial(commands.run, monkeypatch, capsys, "probe")


@pytest.mark.parametrize("name", WRITERS)
def test_every_probe_has_a_row_for_each_layer_and_the_static_vectors(name, call):
    done = call(name, "--data", name, "-m", "model", "--vectors", "glove.txt", "--json")
    assert done.code == 0, done.err
    found = [json.loads(line) for line in done.out.splitlines()]
    methods = {row["method"] for row in found if row["vectors"]}
    for method in methods:
        assert [row["vectors"] for row in found if row["method"] == method] == [
            "layer 0",
            "layer 1",
            "layer 2",
            "glove",
        ]
    assert methods
    assert all(run.HEADLINES[name][0] in row for row in found)
    assert len({(row["method"], row["vectors"]) for row in found}) == len(found)


@pytest.mark.parametrize("name", WRITERS)
def test_the_table_shows_the_headline_figure_of_every_method(name, call):
    done = call(name, "--data", name, "-m", "model", "--layers", "2,2-1")
    assert done.code == 0, done.err
    assert done.out.startswith(f"{run.HEADLINES[name][0]}, percent\n")
    assert "layer 0" in done.out  # the control is there unasked
    assert "layer 1" not in done.out


@pytest.mark.parametrize("name", WRITERS)
def test_the_model_reads_every_sentence_once_for_all_layers(name, call, tmp_path):
    model, read = tiny.model(), []
    whole = embedding.of_model(model)
    counting = embedding.Source(whole.names, lambda sentences: read.extend(sentences) or whole.embed(sentences))
    shares = []
    rows = getattr(run, name)(tmp_path / name, [counting], advance=lambda tokens, share: shares.append((tokens, share)))
    assert {row.vectors for row in rows} >= set(whole.names)
    assert sum(tokens for tokens, _ in shares) == sum(map(len, read))
    assert shares[-1][1] == pytest.approx(1.0)
    texts = {"wsd": 4, "pos": 3, "wic": 8, "coarse": 5, "scws": 6}
    assert len(read) == texts[name]


@pytest.mark.parametrize("name", WRITERS)
def test_a_limit_below_one_is_refused(name, call, tmp_path):
    with pytest.raises(ConfigError, match="limit: 0; expected 1 or more"):
        getattr(run, name)(tmp_path / name, [], limit=0)


def test_rows_of_a_layer_are_those_of_that_layer_alone(call, tmp_path):
    model = tiny.model()
    together = run.scws(tmp_path / "scws", [embedding.of_model(model)])
    for layer, row in enumerate(together):
        alone = embedding.Source(("x",), lambda s, layer=layer: [x[:, None] for x in model.embed(s, layer)])
        assert run.scws(tmp_path / "scws", [alone])[0].figures == row.figures


def test_files_hold_what_is_printed(call, tmp_path):
    arguments = ("wsd", "--data", "wsd", "-m", "model")
    assert call(*arguments, "--output", "rows.jsonl").out == "rows.jsonl: 10 rows\n"
    assert (tmp_path / "rows.jsonl").read_text() == call(*arguments, "--json").out
    call(*arguments, "-o", "rows.tsv")
    head, first, *_ = (line.split("\t") for line in (tmp_path / "rows.tsv").read_text().splitlines())
    assert head[:4] == ["probe", "method", "vectors", "F1"]
    assert dict(zip(head, first, strict=True))["weight"] == ""


def test_the_old_spelling_of_the_output_works_with_a_note(call, tmp_path):
    done = call("scws", "--data", "scws", "-m", "model", "--to", "rows.jsonl")
    assert done.err.startswith("note: --to FILE is now called --output FILE;")
    assert (tmp_path / "rows.jsonl").is_file()


def test_first_senses_and_context_are_scored_as_they_should(call):
    done = call("wsd", "--data", "wsd", "-m", "model", "--json")
    by_place = {(row["method"], row["vectors"]): row["F1"] for row in map(json.loads, done.out.splitlines())}
    assert by_place["first sense", ""] == 50.0
    assert by_place["sense averages", "layer 0"] == 50.0  # one and the same vector for both
    assert by_place["sense averages", "layer 1"] == 100.0  # the sentences of training themselves


def test_pos_takes_fewer_words_and_the_other_tags(call):
    done = call("pos", "--data", "pos", "-m", "model", "--tags", "xpos", "--tokens", 3, "--json")
    assert done.code == 0, done.err


def test_limits_take_items_evenly_over_all():
    assert run.evenly(range(10), 4) == [0, 3, 6, 9]
    assert run.evenly(range(3), 9) == run.evenly(range(3), None) == [0, 1, 2]


def test_static_vectors_give_zeros_for_unknown_words():
    source = embedding.of_static(StaticVectors(["bank"], np.ones((1, 2), np.float32)), "toy")
    (words_TKD,) = source.embed([("Bank", "x")])
    assert words_TKD.tolist() == [[[1, 1]], [[0, 0]]]


def test_the_example_of_the_documents_runs(call, tmp_path, capsys):
    (tmp_path / "polysemy").mkdir()
    (tmp_path / "wic").rename(tmp_path / "polysemy" / "wic")
    (tmp_path / "glove.txt").rename(tmp_path / "glove.6B.100d.txt")
    document = Path(__file__).parents[3] / "docs" / "probes.md"
    (example,) = re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    exec(example, {})
    assert "'accuracy': " in capsys.readouterr().out


def test_all_probes_are_one_table_and_are_kept(call, tmp_path):
    arguments = ("all", "--data", tmp_path, "-m", "model", "--vectors", "glove.txt", "--cache", "kept")
    done = call(*arguments, "--markdown")
    assert done.code == 0, done.err
    head, _, *lines = done.out.splitlines()
    assert head == "| percent | no vectors | layer 0 | layer 1 | layer 2 | glove |"
    titles = {line.split(",")[0].removeprefix("| ") for line in lines}
    assert titles == {"word senses", "parts of speech", "word in context", "CoarseWSD-20", "SCWS"}
    assert len(list((tmp_path / "kept").iterdir())) == 2 * len(WRITERS)  # the model and the static vectors
    printed = call(*arguments, "--json").out.splitlines()
    assert len(list((tmp_path / "kept").iterdir())) == 2 * len(WRITERS)
    alone = call("coarse", "--data", "coarse", "-m", "model", "--vectors", "glove.txt", "--json").out.splitlines()
    assert [line for line in printed if json.loads(line)["probe"] == "coarse"] == alone


def test_several_probes_are_shown_in_one_table(call, tmp_path):
    done = call("wic,scws", "--data", tmp_path, "-m", "model")
    assert done.code == 0, done.err
    assert "word in context, cosine" in done.out  # the rest of the line is wrapped on a narrow screen
    assert "SCWS, cosine: spearman" in done.out
    assert "word senses" not in done.out


def test_all_among_other_probes_means_all(call, tmp_path):
    arguments = ("--data", tmp_path, "-m", "model", "--cache", "kept", "--json")
    assert call("scws, all", *arguments).out == call("all", *arguments).out != ""


def test_of_all_probes_those_without_data_are_left_out_with_a_note(call, tmp_path):
    (tmp_path / "wsd").rename(tmp_path / "senses")
    done = call("all", "--data", tmp_path, "-m", "model", "--json")
    assert done.code == 0, done.err
    assert "no folder wsd below it; probe wsd is left out" in done.err
    assert {json.loads(line)["probe"] for line in done.out.splitlines()} == {"pos", "wic", "coarse", "scws"}
    asked = call("wsd,pos", "--data", tmp_path, "-m", "model")
    assert asked.code == 2
    assert "no folder wsd below it for probe wsd" in asked.err


WRONG = {
    "an unknown probe": (["xyz", "--data", "wsd"], "probe: 'xyz' is not one of wsd, pos, wic, coarse, scws, all"),
    "one unknown probe of several": (["wsd,xyz", "--data", "."], "probe: 'xyz' is not one of wsd"),
    "none of the folders": (["all", "--data", "model"], "none of the folders wsd, pos, wic"),
    "Markdown and JSON": (["wic", "--data", "wic", "--json", "--markdown"], "--json and --markdown present the same"),
    "no data": (["wsd"], "--data"),
    "a folder without files": (["wsd", "--data", "pos"], "no index.sense"),
    "a folder that is not there": (["pos", "--data", "nowhere"], "nowhere: no such folder"),
    "a folder without a treebank": (["pos", "--data", "wic"], "no train.conllu"),
    "a layer the model lacks": (["wic", "--data", "wic", "--layers", "3"], "layer: 3 is not one of 0, 1, 2"),
    "layers that are no numbers": (["wic", "--data", "wic", "--layers", "top"], "--layers 'top'"),
    "three layers in a difference": (["wic", "--data", "wic", "--layers", "2-1-0"], "--layers '2-1-0'"),
    "half a difference": (["wic", "--data", "wic", "--layers", "2-"], "--layers '2-'"),
    "unknown tags": (["pos", "--data", "pos", "--tags", "ptb"], "'ptb' is not one of upos, xpos"),
    "a limit for pos": (["pos", "--data", "pos", "--limit", "5"], "use --tokens instead"),
    "words for wsd": (["wsd", "--data", "wsd", "--tokens", "5"], "--tokens: only for probe pos"),
    "two outputs": (["wic", "--data", "wic", "--json", "-o", "x.tsv"], "give one of them"),
    "an unknown ending": (["wic", "--data", "wic", "-o", "x.xls"], "unknown extension '.xls'"),
    "no static vectors": (["wic", "--data", "wic", "--vectors", "none.txt"], "none.txt: No such file"),
    "no limit": (["wic", "--data", "wic", "--limit", "0"], "--limit"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_and_the_exit_code_is_2(arguments, message, call):
    done = call(*arguments, "-m", "model")
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
