"""Settings that override others: `name=value` assignments of the command line, and TOML files."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stelmo.errors import ConfigError


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{path}: cannot be read as TOML ({problem})") from None


def parse(assignments: Iterable[str]) -> dict[str, Any]:
    """["lr=0.002", "lstm.cells=512"] → {"lr": 0.002, "lstm": {"cells": 512}}"""
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set {assignment}: not an assignment; expected NAME=VALUE, such as lr=0.002")
        *parts, last = name.strip().split(".")
        place = values
        for part in parts:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set {assignment}: {part} was set to a value before; expected one or the other")
        place[last] = _value(text.strip())
    return values


def _value(text: str) -> Any:
    """A TOML value; anything else is a string, so that strings need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
