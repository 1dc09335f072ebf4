"""Mutated files of every format: refused in one sentence, or a model whose every number is finite; nothing else."""

import gzip
import json
import random
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import efml_oracle
import oracle
import pytest
import tiny
import torch
from allennlp_state import state_of

from stelmo.errors import StelmoError
from stelmo.formats import models

CHECKPOINT = Path(__file__).parents[2] / "fixtures" / "bilm_tf_checkpoint"
LANGUAGE_MODELS = Path(__file__).parents[2] / "golden" / "allennlp-transformer"
OPTIONS = oracle.options(highways=2)
MUTANTS = 25  # of each format; bench/fuzz_formats.py tries as many as asked for


def nlpl(path: Path) -> Path:
    published = tiny.folder(path / "published", "bilm")
    with zipfile.ZipFile(path / "nlpl.zip", "w") as archive:
        for ours, theirs in (
            ("weights.hdf5", "model.hdf5"),
            ("options.json", "options.json"),
            ("vocab.txt", "vocab.txt"),
        ):
            archive.write(published / ours, theirs)
    shutil.rmtree(published)
    return path / "nlpl.zip"


def allennlp(path: Path) -> Path:
    """An archive with its options, as a trained task has them."""
    state = state_of(oracle.random_weights(OPTIONS, seed=6), "text_field_embedder.token_embedder_elmo._elmo.", mixes=1)
    torch.save(state, path / "weights.th")
    (path / "options.json").write_text(json.dumps(OPTIONS))
    with tarfile.open(path / "model.tar.gz", "w:gz") as archive:
        archive.add(path / "weights.th", "weights.th")
        archive.add(path / "options.json", "fta/model.text_field_embedder.token_embedders.elmo.options_file")
    for name in ("weights.th", "options.json"):
        (path / name).unlink()
    return path / "model.tar.gz"


def allennlp_state(path: Path, zipped: bool) -> Path:
    state = state_of(oracle.random_weights(OPTIONS, seed=6), dtype=torch.float32)
    torch.save(state, path / "weights.th", _use_new_zipfile_serialization=zipped)
    return path / "weights.th"


def checkpoint(path: Path) -> Path:
    shutil.copytree(CHECKPOINT, path / "checkpoint")
    return path / "checkpoint"


def allennlp_lm(path: Path, name: str) -> Path:
    """A language model with its own softmax and vocabulary."""
    return Path(shutil.copy(LANGUAGE_MODELS / name, path / "lm.tar.gz"))


FORMATS: dict[str, Callable[[Path], Path]] = {
    "stelmo": lambda path: tiny.folder(path / "m"),
    "bilm": lambda path: tiny.folder(path / "m", "bilm"),
    "nlpl": nlpl,
    "allennlp": allennlp,
    "allennlp state": partial(allennlp_state, zipped=True),
    "allennlp state, older pickle": partial(allennlp_state, zipped=False),
    "allennlp language model": partial(allennlp_lm, name="model.tar.gz"),
    "allennlp language model, published shape": partial(allennlp_lm, name="published-shape.tar.gz"),
    "efml": lambda path: efml_oracle.write(efml_oracle.random_model(efml_oracle.architecture()), path / "m"),
    "efml, older pickles": lambda path: efml_oracle.write(
        efml_oracle.random_model(efml_oracle.architecture()), path / "m", zipped=False
    ),
    "checkpoint": checkpoint,
}


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, cut, doubled or replaced by digits."""
    for _ in range(chance.randrange(1, 4)):
        place, length = chance.randrange(len(data) or 1), chance.randrange(1, 9)
        middle = chance.choice(
            [chance.randbytes(length), b"", data[place : place + length] * 2, b"9" * length, b"\xff" * length, b"["]
        )
        data = data[:place] + middle + data[place + length :]
    return data if chance.random() < 0.9 else data[: chance.randrange(len(data) or 1)]


def outcome(path: Path) -> str:
    """What reading gives; any exception but ours is an error of the test."""
    try:
        saved = models.read(path)
        tensors = [*saved.bilm.state_dict().values()]
        tensors += saved.read_softmax().state_dict().values() if saved.read_softmax is not None else []
    except StelmoError as problem:
        return "several lines" if "\n" in str(problem) else "refused"
    assert len({tensor.dtype for tensor in saved.bilm.state_dict().values()}) == 1
    return "read" if all(bool(torch.isfinite(tensor).all()) for tensor in tensors) else "not finite"


@pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS)
def test_a_mutated_file_is_refused_or_read(make, tmp_path):
    path, chance = make(tmp_path), random.Random(7)
    files = sorted(file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    for _ in range(MUTANTS):
        file = chance.choice(files)
        whole = file.read_bytes()
        file.write_bytes(mutated(whole, chance))
        assert outcome(path) in ("refused", "read"), file.name
        file.write_bytes(whole)


@pytest.mark.parametrize("make", [allennlp, partial(allennlp_lm, name="published-shape.tar.gz")], ids=["task", "lm"])
def test_a_mutated_archive_with_right_checksums_is_refused_or_read(make, tmp_path):
    path, chance = make(tmp_path), random.Random(8)
    whole = gzip.decompress(path.read_bytes())
    for _ in range(MUTANTS):
        path.write_bytes(gzip.compress(mutated(whole, chance), 1))
        assert outcome(path) in ("refused", "read")
