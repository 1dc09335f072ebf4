"""Blocks of a report → Markdown and HTML. Knows no results.

In texts and cells, `code` and **strong** are marked as in Markdown.
"""

import base64
import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Heading(NamedTuple):
    level: int
    text: str


class Text(NamedTuple):
    text: str


class Link(NamedTuple):
    """A cell of a table that is the result of a command."""

    text: str
    command: str  # its name


class Table(NamedTuple):
    head: tuple[str, ...]
    rows: tuple[tuple[str | Link, ...], ...]
    texts: tuple[int, ...] = (0,)  # columns that are aligned left, and wrapped after the first


class Picture(NamedTuple):
    file: str
    about: str  # alternative text


class Command(NamedTuple):
    name: str
    about: str  # such as its time
    line: str


class Commands(NamedTuple):
    commands: tuple[Command, ...]


Block = Heading | Text | Table | Picture | Commands


# Markdown


def markdown(blocks: Iterable[Block]) -> str:
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {text}"
        case Text(text):
            return text
        case Table(head, rows, columns):
            lines = [head, ["---" if column in columns else "---:" for column in range(len(head))], *rows]
            texts = [[cell.text if isinstance(cell, Link) else cell for cell in line] for line in lines]
            return "\n".join(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |" for line in texts)
        case Picture(file, about):
            return f"![{about}]({file})"
        case Commands(commands):
            pairs = (f"# {name}: {about}\n{line}" for name, about, line in commands)
            return "\n".join(["```sh", *pairs, "```"])


# HTML

_STYLE = """
:root { color-scheme: light dark;
--ink: #222; --paper: #fff; --faint: #ddd; --line: #888; --box: #f4f4f4; --link: #0b57d0; }
@media (prefers-color-scheme: dark) {
:root { --ink: #ddd; --paper: #181818; --faint: #444; --line: #888; --box: #242424; --link: #8ab4f8; } }
body { max-width: 72rem; margin: 0 auto; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
background: var(--paper); overflow-wrap: break-word; } h1 { line-height: 1.2; } a { color: var(--link); }
nav a { margin-right: 1rem; white-space: nowrap; } .scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .75rem; text-align: right; }
th { vertical-align: bottom; } td { white-space: nowrap; } thead { border-bottom: 2px solid var(--line); }
.text { text-align: left; } .text:not(:first-child) { white-space: normal; min-width: 8rem; }
th:first-child, td:first-child { position: sticky; left: 0; padding-left: 0; background: var(--paper); }
tr + tr td { border-top: 1px solid var(--faint); } td a { text-decoration-style: dotted; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; } code, pre { font-size: .875em; }
pre { background: var(--box); padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere; margin: .25rem 0 1rem; }
.command:target { outline: 2px solid var(--link); outline-offset: 4px; } .command p { margin: 0; }
@media (max-width: 30rem) { body { padding: .75rem; } th, td { padding: .3rem .5rem; } table { font-size: .9rem; } }
"""


def page(blocks: Iterable[Block], title: str, folder: Path) -> str:
    """One HTML file that needs no other: pictures are read from `folder` and stored inside."""
    blocks = list(blocks)
    parts = [block.text for block in blocks if isinstance(block, Heading) and block.level == 2]
    links = "\n".join(f'<a href="#{_anchor(part)}">{html.escape(part.partition(":")[0])}</a>' for part in parts)
    body = "\n".join(_html(block, folder) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{html.escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<nav>\n{links}\n</nav>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block, folder: Path) -> str:
    match block:
        case Heading(level, text):
            return f'<h{level} id="{_anchor(text)}">{html.escape(text)}</h{level}>'
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Table(head, rows, columns):
            lines = "\n".join(_row("td", row, columns) for row in rows)
            table = f"<table>\n<thead>{_row('th', head, columns)}</thead>\n<tbody>\n{lines}\n</tbody>\n</table>"
            return f'<div class="scroll" tabindex="0">\n{table}\n</div>'  # the keyboard can scroll it, too
        case Picture(file, about):
            kind = {".svg": "svg+xml", ".png": "png"}[Path(file).suffix]
            content = base64.b64encode((folder / file).read_bytes()).decode("ascii")
            return f'<p><img src="data:image/{kind};base64,{content}" alt="{html.escape(about)}"></p>'
        case Commands(commands):
            parts = []
            for command in commands:
                name, about, line = map(html.escape, command)
                anchor, title = _anchor("run " + command.name), f"<p><strong>{name}</strong>: {about}</p>"
                parts.append(f'<div class="command" id="{anchor}">\n{title}\n<pre>{line}</pre>\n</div>')
            return "\n".join(parts)


def _row(tag: str, cells: Sequence[str | Link], texts: Sequence[int]) -> str:
    parts = []
    for column, cell in enumerate(cells):
        kind = ' class="text"' if column in texts else ""
        if isinstance(cell, Link):
            content = f'<a href="#{_anchor("run " + cell.command)}">{html.escape(cell.text)}</a>'
        else:
            content = _inline(cell)
        parts.append(f"<{tag}{kind}>{content}</{tag}>")
    return f"<tr>{''.join(parts)}</tr>"


def _inline(text: str) -> str:
    escaped = html.escape(text)
    coded = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*(?=\S)(.+?)(?<=\S)\*\*", r"<strong>\1</strong>", coded)


def _anchor(text: str) -> str:
    """Text → a name for an element."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")
