"""A command in a folder with a tiny model; files that need more define their own `call`."""

from functools import partial

import commands
import pytest
import tiny


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    tiny.folder(tmp_path / "model")
    return partial(commands.run, monkeypatch, capsys)
