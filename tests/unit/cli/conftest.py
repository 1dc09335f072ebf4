"""A command in a folder with a tiny model, or the model alone; files that need more define their own `call`."""

from functools import partial

import commands
import pytest
import tiny


@pytest.fixture
def model(tmp_path):
    return tiny.folder(tmp_path / "model")


@pytest.fixture
def call(monkeypatch, capsys, tmp_path, model):
    monkeypatch.chdir(tmp_path)
    return partial(commands.run, monkeypatch, capsys)
