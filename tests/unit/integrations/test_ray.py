"""A corpus on a local Ray cluster of two workers, one of them killed; addresses that do not answer; bad columns."""

import json
import os
import re
import shutil
import signal
import socket
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stelmo
from stelmo.errors import ConfigError, DataError, ModelError
from stelmo.integrations import ray as on_ray
from stelmo.jobs import blocks, run, shared_folder
from stelmo.settings import OutputSettings
from stelmo.text.formats import Sentence

DOCS = Path(__file__).parents[3] / "docs" / "integrations" / "ray.md"
LINES = ["The bank .", "", "a/b river", "The bank .", "über 日本 bank"] * 8
SENTENCES = [Sentence(line.split(), "corpus.txt", number) for number, line in enumerate(LINES, 1)]
SMALL_BLOCKS = OutputSettings(block_tokens=20)

# Ray's own code warns of much: files it leaves open, names of its own that it is to give up.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.long]


@pytest.fixture(scope="module")
def ray():
    found = pytest.importorskip("ray", reason="Ray is not installed; pip install 'stelmo[ray]'")
    with on_ray.cluster(cores=2):
        yield found


def rows(path):
    return pq.read_table(path).to_pylist()


def test_a_killed_worker_and_finished_blocks_change_nothing(ray, folder, tmp_path, monkeypatch):
    output, death = tmp_path / "v.parquet", tmp_path / "died"
    local = stelmo.load(folder, threads=1)
    about = blocks.run_settings(local, SMALL_BLOCKS)
    work = blocks.working_folder(output, about, overwrite=False)
    shared_folder.fill(work, blocks.cut(local, SENTENCES, SMALL_BLOCKS))
    shared_folder.Worker(work, local, SMALL_BLOCKS, about).compute(0)
    finished = (work / "000000.parquet").stat().st_mtime_ns

    original = on_ray._worker

    def mortal(*arguments):
        """A worker that dies in the middle of the second block, once in all."""
        worker = original(*arguments)
        compute = worker._model.run

        def run_(sentences, *rest, **options):
            if sentences == [s.tokens for s in block_1] and not death.exists():
                death.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return compute(sentences, *rest, **options)

        worker._model.run = run_
        return worker

    block_1 = list(blocks.cut(local, SENTENCES, SMALL_BLOCKS))[1]
    monkeypatch.setattr(on_ray, "_worker", mortal)
    told = []
    count = on_ray.embed_sentences(
        SENTENCES, output, model=folder, workers=2, advance=told.append, block_tokens=SMALL_BLOCKS.block_tokens
    )
    assert death.exists()
    assert count == len(SENTENCES)
    assert sum(told) == sum(len(sentence.tokens) for sentence in SENTENCES)
    assert (output / "000000.parquet").stat().st_mtime_ns == finished
    run.embed_to_file(local, SENTENCES, tmp_path / "whole.parquet", SMALL_BLOCKS)
    assert rows(output) == rows(tmp_path / "whole.parquet")


def test_the_documented_snippet_keeps_order_and_documents_without_tokens_are_no_harm(
    ray, folder, tmp_path, monkeypatch
):
    texts = ["We sat. The bank closed.", "", " ", "One more."] * 5
    pq.write_table(pa.table({"id": range(len(texts)), "body": texts}), tmp_path / "documents.parquet")
    shutil.copytree(folder, tmp_path / "my-model")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(snippet.replace("/data/", f"{tmp_path}/"), names)
    split = [(number, tokens) for number, text in enumerate(texts, 1) for tokens in stelmo.tokenize(text)]
    found = rows(tmp_path / "vectors.parquet")
    assert [(row["index"], row["line"], row["tokens"]) for row in found] == [
        (index, line, tokens) for index, (line, tokens) in enumerate(split)
    ]
    expected = stelmo.load(folder).embed([tokens for _, tokens in split], layer="top")
    for row, array in zip(found, expected, strict=True):
        np.testing.assert_allclose(row["vectors"], array, atol=1e-5)
    assert names["vectors"].count() == len(split)


@pytest.mark.parametrize(
    ("rows", "column", "said"),
    [
        ([{"body": "a"}], None, "no column tokens or text; it has body"),
        ([{"body": "a"}], "title", "no column title; it has body"),
        ([{"text": 5}], None, "row 1, column text: int 5; expected text"),
        ([{"text": "fine"}, {"text": None}], None, "row 2, column text: no value"),
    ],
)
def test_a_column_that_is_absent_or_not_text_is_named_before_any_work(ray, rows, column, said, folder, tmp_path):
    with pytest.raises(DataError, match=re.escape(said)):
        on_ray.embed(ray.data.from_items(rows), tmp_path / "v.parquet", model=folder, column=column)
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_refuses_is_said_in_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=rf"Ray at {address}: no answer \(Connection refused\)"):
            on_ray._refuse_silent(address)


def test_a_port_that_stays_silent_has_a_time_limit(monkeypatch):
    monkeypatch.setattr(on_ray, "ANSWER_TIMEOUT", 2)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(ConfigError, match="silent for 2 seconds"):
        on_ray._refuse_silent(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("address", ["no-such-host.invalid:6379", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_is_refused(address):
    with pytest.raises(ConfigError, match="no answer"):
        on_ray._refuse_silent(address)


def test_without_ray_the_extra_is_named(monkeypatch, folder, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'stelmo\[ray\]'"):
        on_ray.embed_sentences(SENTENCES, tmp_path / "v.parquet", model=folder)


def test_a_users_mistake_in_a_worker_comes_home_as_what_it_is():
    def make():
        raise ModelError("no such model on this machine")

    answer = on_ray._Actor(make)({"item": [3]})["answer"][0]
    with pytest.raises(ModelError, match="on this machine"):
        on_ray._done(json.loads(answer))


def test_carry_cannot_be_spread(folder, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'stelmo[ray]'")
    with pytest.raises(ConfigError, match="carry"):
        on_ray.embed_sentences(SENTENCES, tmp_path / "v.parquet", model=folder, state="carry")


def test_the_command_writes_a_folder_of_the_rows_it_writes_alone(folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'stelmo[ray]'")
    monkeypatch.setattr(on_ray, "cluster", lambda address, cores: nullcontext())
    monkeypatch.setattr(on_ray, "_computed", lambda numbers, make, *rest: map(make().compute, numbers))
    text = tmp_path / "c.jsonl"
    text.write_text('{"tokens": ["a", "bank"]}\n{"tokens": []}\n{"text": "We sat. It rained."}\n')
    options = ["--model", folder, "--threads", "1", "--layer", "all"]
    done = commands.run(monkeypatch, capsys, "embed", text, "-o", tmp_path / "v.parquet", "--ray", "local", *options)
    assert (done.code, done.out) == (0, f"{tmp_path / 'v.parquet'}: 4 sentences in 1 Parquet file\n")
    commands.run(monkeypatch, capsys, "embed", text, "-o", tmp_path / "alone.parquet", *options)
    assert rows(tmp_path / "v.parquet") == rows(tmp_path / "alone.parquet")
