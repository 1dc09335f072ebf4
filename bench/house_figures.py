"""How finely the source is cut: files, functions, private functions with one caller, imports, calls to the LSTM.

python bench/house_figures.py                   this source
python bench/house_figures.py OTHER/src [no]    another checkout; "no": only what can be read without running it

A function's lines are those from `def` to its end, docstring included. A private function or method has one caller if
its name is used once in its file outside its own body. An import chain counts modules, along imports at module level.
"""

import ast
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

SHORT = 4  # lines of a function
WALK = """
import sys
import torch

torch.set_num_threads(1)
module, *arguments = sys.argv[1:]
deepest = []


def record(frame, event, argument):
    if event != "call" or frame.f_code.co_name != "lstm" or frame.f_globals.get("__name__") != module or deepest:
        return
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("stelmo."):
            deepest.append(frame.f_code.co_name)
        frame = frame.f_back


from stelmo.cli.main import main

sys.argv = ["stelmo", *arguments]
sys.setprofile(record)
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
print("CALLS", len(deepest) - 1)
"""


class Function(NamedTuple):
    name: str
    lines: int
    callers: int  # uses of its name in its file, its own body left out


def functions(tree: ast.Module) -> Iterator[Function]:
    used = names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Function(node.name, lines, used[node.name] - names(node)[node.name])


def names(tree: ast.AST) -> Counter[str]:
    """Every use of a name, as a variable or an attribute."""
    found = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    found.update(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return found


def imported(tree: ast.Module) -> set[str]:
    """The modules and names that a module imports at its top level."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def longest_chain(trees: dict[str, ast.Module]) -> int:
    """Modules along the longest path of imports."""

    @cache
    def below(module: str) -> int:
        return 1 + max((below(other) for other in imported(trees[module]) & trees.keys() - {module}), default=0)

    return max(map(below, trees))


def percentile(values: Sequence[int], share: float) -> int:
    return sorted(values)[int(share * (len(values) - 1))]


def read_figures(package: Path) -> dict[str, object]:
    paths = sorted(path for path in package.rglob("*.py") if path.name != "__init__.py")
    texts = {".".join(("stelmo", *path.relative_to(package).with_suffix("").parts)): path.read_text() for path in paths}
    trees = {module: ast.parse(text) for module, text in texts.items()}
    lines = [len(text.splitlines()) for text in texts.values()]
    found = [function for tree in trees.values() for function in functions(tree)]
    private = [one for one in found if one.name.startswith("_") and not one.name.startswith("__")]
    alone = [one for one in private if one.callers == 1]
    return {
        "source files": len(paths),
        "lines of a file: median, longest": f"{statistics.median(lines):.0f}, {max(lines)}",
        "lines of a function: median, 90 %": f"{statistics.median(f.lines for f in found):.0f}, "
        f"{percentile([f.lines for f in found], 0.9)}",
        "private functions": len(private),
        "… with one caller": len(alone),
        f"… with one caller and at most {SHORT} lines": sum(one.lines <= SHORT for one in alone),
        "longest import chain": longest_chain(trees),
    }


def calls(source: Path, module: str, *arguments: str) -> int:
    """How many functions of stelmo call one another, from `main` to the first call of `module.lstm`."""
    environment = {"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WALK, module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(next(line for line in done.stdout.splitlines() if line.startswith("CALLS")).split()[1])


def walked_figures(source: Path) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        text, corpus, run = (str(Path(folder) / name) for name in ("text.tok", "corpus", "run"))
        Path(text).write_text("the river bank .\na bank by the river .\n" * 40)
        prepare = ("prepare", text, "--to", corpus, "--from", "tokens", "--heldout", "8", "--processes", "1")
        environment = {"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin"}
        subprocess.run([sys.executable, "-m", "stelmo", *prepare], check=True, capture_output=True, env=environment)
        settings = ("--set", "tokens=400", "--set", "batch=4", "--set", "threads=1")
        sentence = ("embed", "The bank .", "--threads", "1")
        step = ("pretrain", "tiny", "--data", corpus, "--to", run, *settings)
        return {
            "calls from main to the LSTM: a sentence": calls(source, "stelmo.ops.fast", *sentence),
            "calls from main to the LSTM: a training step": calls(source, "stelmo.ops.trainable", *step),
        }


if __name__ == "__main__":
    source = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "src")
    figures = read_figures(source / "stelmo")
    if sys.argv[2:] != ["no"]:
        figures |= walked_figures(source.absolute())
    for name, value in figures.items():
        print(f"{name:<50} {value}")
