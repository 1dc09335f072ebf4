"""Blocks of a report → Markdown and HTML. Knows no results."""

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Heading(NamedTuple):
    level: int
    text: str


class Text(NamedTuple):
    text: str


class Table(NamedTuple):
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Picture(NamedTuple):
    file: str
    about: str  # alternative text


class Commands(NamedTuple):
    lines: tuple[str, ...]


Block = Heading | Text | Table | Picture | Commands

_STYLE = """
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .25rem .75rem; text-align: right; }
th:first-child, td:first-child { text-align: left; } thead { border-bottom: 2px solid #888; }
tr + tr td { border-top: 1px solid #ddd; } img { max-width: 100%; } pre { overflow-x: auto; background: #f4f4f4;
padding: .75rem; } @media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; }
pre { background: #222; } tr + tr td { border-color: #444; } img { background: #fff; } }
"""


def markdown(blocks: Iterable[Block]) -> str:
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {text}"
        case Text(text):
            return text
        case Table(head, rows):
            return "\n".join(map(_line, [head, ("---", *["---:"] * (len(head) - 1)), *rows]))
        case Picture(file, about):
            return f"![{about}]({file})"
        case Commands(lines):
            return "\n".join(["```sh", *lines, "```"])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def page(blocks: Iterable[Block], title: str) -> str:
    """One HTML file; it only needs the pictures beside it."""
    body = "\n".join(map(_html, blocks))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{html.escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{html.escape(text)}</h{level}>"
        case Text(text):
            return f"<p>{html.escape(text)}</p>"
        case Table(head, rows):
            lines = "\n".join(_row("td", row) for row in rows)
            return f"<table>\n<thead>{_row('th', head)}</thead>\n<tbody>\n{lines}\n</tbody>\n</table>"
        case Picture(file, about):
            return f'<p><img src="{html.escape(file)}" alt="{html.escape(about)}"></p>'
        case Commands(lines):
            return f"<pre>{html.escape(chr(10).join(lines))}</pre>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
