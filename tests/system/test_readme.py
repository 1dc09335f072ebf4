"""README's snippets run and its commands are those that CI runs."""

import re
from pathlib import Path

import pytest
import tiny

README = (Path(__file__).parents[2] / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_readme_opens_with_the_two_commands():
    main, test = blocks("sh")
    assert "stelmo embed" in main
    assert "pytest" in test
    assert README.index("```sh") < README.index("##")


@pytest.mark.parametrize("snippet", blocks("python"))
def test_a_python_snippet_runs(snippet, tmp_path, monkeypatch):
    tiny.folder(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(snippet, names)
    assert [vector.shape for vector in names["vectors"]] == [(5, 12), (3, 12)]
    assert tuple(names["words"].shape) == (2, 5, 12)


def test_readme_is_short_and_lists_every_package():
    assert len(README.splitlines()) <= 130
    source = Path(__file__).parents[2] / "src" / "stelmo"
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    listed = set(re.findall(r"`(\w+)`", README[README.index("## The packages") :]))
    assert packages <= listed


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_a_link_leads_to_a_file(link):
    assert (Path(__file__).parents[2] / link).exists()
