"""All commands: help, version, exit codes, and one line for what is wrong or interrupted."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import stelmo
from stelmo.cli.main import COMMANDS, RESUMABLE, app


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_for_every_command(call, name):
    done = call(name, "--help")
    assert done.code == 0
    assert f"Example: stelmo {name}" in done.out


def test_help_lists_every_command(call):
    out = call("--help").out
    assert "Example" in out
    assert [name for name in COMMANDS if f" {name} " not in out] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_every_command_with_one_line_and_exit_130(call, monkeypatch, name):
    def interrupted(self, ctx):
        ctx.invoked_subcommand = name
        raise KeyboardInterrupt

    monkeypatch.setattr(TyperGroup, "invoke", interrupted)
    done = call(name)
    resume = "; run the same command again to resume" if name in RESUMABLE else ""
    assert done == (130, "", f"stelmo: interrupted{resume}\n")


def visible(flag):
    """Commands that show an option → its help."""
    parameters = ((name, found) for name, command in get_command(app).commands.items() for found in command.params)
    return {name: found.help for name, found in parameters if flag in found.opts and not found.hidden}


def test_an_option_means_the_same_in_every_command():
    folders, files = visible("--to"), visible("--output")
    assert set(folders) == {"index", "prepare", "pretrain", "tune", "task", "paper"}
    assert [help_ for help_ in folders.values() if not help_.startswith("Output folder")] == []
    assert [help_ for help_ in files.values() if "utput file" not in help_] == []
    assert set(visible("--index")) == {"neighbours", "serve"}
    assert set(visible("--format")) == {"convert"}


def test_help_has_no_tags_which_markdown_would_leave_out():
    parameters = [found for command in get_command(app).commands.values() for found in command.params]
    texts = [re.sub("`[^`]*`", "", found.help or "") for found in parameters]
    assert [text for text in texts if re.search("<[^ ]", text)] == []


def test_the_version_is_the_package_s(call):
    assert call("--version").out.strip() == f"stelmo {stelmo.__version__}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["embed", "a b", "--model", "nowhere"],
        ["info", "nowhere"],
        ["info", "."],
        ["convert", "nowhere", "there"],
        ["convert", "model", "model"],
        ["convert", "model", "there", "--format", "pdf"],
        ["convert", "model", "there", "--dtype", "int3"],
        ["convert", "model", "there", "--token-embeddings"],
        ["embed", "--model", "model"],
        ["embed", "", "--model", "model"],
        ["info", ""],
        ["convert", "model", ""],
    ],
)
def test_every_verb_refuses_with_one_line(arguments, call, tmp_path):
    done = call(*arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert not (tmp_path / "there").exists()


def command(*arguments, **environment):
    """The program as a shell starts it, and its environment."""
    line = [sys.executable, "-m", "stelmo", *map(str, arguments)]
    return {"args": line, "env": os.environ | environment, "stderr": subprocess.PIPE}


@pytest.mark.parametrize("arguments", [["--help"], ["embed", "--help"], ["guess", "Он ___ .", "--json", "-m", "MODEL"]])
def test_output_is_utf_8_whatever_encoding_the_system_has(arguments, model):
    given = [model if argument == "MODEL" else argument for argument in arguments]
    done = subprocess.run(**command(*given, PYTHONIOENCODING="cp1252"), stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not done.stdout.isascii()
    assert done.stdout.decode("utf-8")


def test_half_a_character_in_a_text_is_escaped(call, model, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"tokens": ["a\\ud800b"]}\n')
    done = call("embed", "t.jsonl", "-o", "-", "-m", model)
    assert done.code == 0
    assert '"a\\ud800b"' in done.out


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_stops_reading_ends_the_command_without_an_error(model, tmp_path, unbuffered):
    (tmp_path / "long.tok").write_text("the bank of the river .\n" * 3000)
    options = command(
        "embed", tmp_path / "long.tok", "--from", "tokens", "-o", "-", "-m", model, PYTHONUNBUFFERED=unbuffered
    )
    with subprocess.Popen(**options, stdout=subprocess.PIPE) as process:
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_reader_that_is_gone_before_the_help_is_no_error_either():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(**command("--help"), stdout=writing, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_one_line(model, unbuffered):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(**command("info", model, PYTHONUNBUFFERED=unbuffered), stdout=full, check=False)
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "stelmo: standard output: the disk is full or a size limit was reached; redirect it to another place\n"
    )


def test_an_error_that_is_not_of_the_output_keeps_its_traceback(call, monkeypatch):
    def broken(self, ctx):
        raise OSError("a bug")

    monkeypatch.setattr(TyperGroup, "invoke", broken)
    with pytest.raises(OSError, match="a bug"):
        call("info")
