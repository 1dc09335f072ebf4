"""Writes the file-by-file map of docs/architecture.md from the first sentences of the modules' docstrings.

python docs/write_map.py
"""

import ast
import re
from pathlib import Path

DOCUMENT = Path(__file__).with_name("architecture.md")
SOURCE = Path(__file__).parents[1] / "src" / "stelmo"
BEGIN, END = "<!-- the map: written by docs/write_map.py -->\n", "<!-- end of the map -->\n"


def first_sentence(path: Path) -> str:
    """Of the module's docstring, in one line."""
    text = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    sentence = re.split(r"(?<=\.)\s(?![a-z0-9])", " ".join(text.split()), maxsplit=1)[0]
    return sentence.replace("|", "\\|")


def file_map() -> str:
    """One table for each package."""
    packages: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name != "__init__.py":
            packages.setdefault(path.parent.relative_to(SOURCE).as_posix(), []).append(path)
    lines: list[str] = []
    for package, paths in sorted(packages.items()):
        lines += [f"### {'top level' if package == '.' else package}", "", "| file | what it is |", "|---|---|"]
        lines += [f"| `{path.relative_to(SOURCE).as_posix()}` | {first_sentence(path)} |" for path in paths]
        lines.append("")
    return "\n".join(lines)


def with_map(document: str) -> str:
    before, _, rest = document.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{file_map()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_map(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
