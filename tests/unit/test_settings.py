"""Assignments of the command line and TOML files."""

import pytest

from stelmo.errors import ConfigError
from stelmo.settings import parse_assignments, read_toml


def test_assignments_are_toml_values_and_dots_make_parts():
    given = ["lr=0.002", "lstm.cells=512", "lstm.skip=false", "time=8h", "input.filters=[[1, 2]]"]
    expected = {"lr": 0.002, "lstm": {"cells": 512, "skip": False}, "time": "8h", "input": {"filters": [[1, 2]]}}
    assert parse_assignments(given) == expected


@pytest.mark.parametrize("given", ["lr", "=3", " =3", ""])
def test_what_is_not_an_assignment_is_refused(given):
    with pytest.raises(ConfigError, match="expected NAME=VALUE"):
        parse_assignments([given])


def test_a_name_cannot_be_a_value_and_a_part():
    with pytest.raises(ConfigError, match="lr was set to a value before"):
        parse_assignments(["lr=1", "lr.peak=2"])


@pytest.mark.parametrize("content", [b"lr = ", b"\xff\xfe", b"= 3"])
def test_a_file_that_is_not_toml_is_refused(content, tmp_path):
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"settings\.toml: cannot be read as TOML"):
        read_toml(path)


def test_a_missing_settings_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read as TOML \(No such file or directory\); "):
        read_toml(tmp_path / "none.toml")
