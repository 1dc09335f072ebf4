"""All commands: help, version, exit codes, and one line for what is wrong or interrupted."""

import re

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
    ],
)
def test_every_verb_refuses_with_one_line(arguments, call, tmp_path):
    done = call(*arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert not (tmp_path / "there").exists()
