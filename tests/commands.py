"""Runs a command in this process as a shell would: arguments in; exit code, output and errors out."""

import io
import sys
from typing import NamedTuple

from stelmo.cli.main import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


class _Pipe(io.TextIOWrapper):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), "utf-8")


def run(monkeypatch, capsys, *arguments: object, stdin: bytes = b"") -> Done:
    monkeypatch.setattr(sys, "argv", ["stelmo", *map(str, arguments)])
    monkeypatch.setattr(sys, "stdin", _Pipe(stdin))
    try:
        main()
        code = 0
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    return Done(code, *capsys.readouterr())
