"""The levels of the packages: imports point down only; and rules for single packages."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import stelmo

SOURCE = Path(stelmo.__file__).parent
LEVELS = [
    {"errors"},
    {"config"},
    {"settings", "progress"},
    {"text", "ops"},
    {"model"},
    {"store"},
    {"engine", "corpus", "formats", "plots"},
    {"lm"},
    {"embed"},
    {"jobs", "train"},
    {"benchmark", "tasks", "probes", "explore", "compat", "integrations"},
    {"serve", "paper"},
    {"cli"},
]
LEVEL_OF = {package: number for number, packages in enumerate(LEVELS) for package in packages}
UNIT = Path(__file__).parent
DOCUMENT = UNIT.parents[1] / "docs" / "architecture.md"
# Tests of a whole package, or of a document; every other test file is named after the source file that it tests.
CROSS_CUTTING = {
    "test_architecture.py",
    "test_portable.py",
    "compat/test_migration.py",
    "formats/test_fuzz.py",
    "integrations/test_encoders.py",
    "paper/test_paper.py",
    "serve/test_slow_clients.py",
    "tasks/test_common.py",
    "tasks/test_networks.py",
    "tasks/coref/test_read_new.py",
}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem in LEVEL_OF)


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@cache
def imports(path: Path) -> set[str]:
    """The modules a file names, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def packages_imported(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if name.startswith("stelmo.")} - {"__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    package = package_of(path)
    for other in packages_imported(path) - {package}:
        assert LEVEL_OF[other] < LEVEL_OF[package], f"{package} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_the_drawing_in_the_documentation_has_the_same_levels():
    drawing = DOCUMENT.read_text(encoding="utf-8").split("## Levels")[1].split("```")[1]
    drawn = [line.split() for line in drawing.splitlines() if line.strip(" │")]
    assert [sorted(names) for names in drawn] == [sorted(level) for level in reversed(LEVELS)]


def is_defined(name: str) -> bool:
    """Whether `package.module`, and what follows it in a dotted name, is in the source."""
    parts = name.split(".")
    modules = [SOURCE.joinpath(*parts[:count]).with_suffix(".py") for count in range(1, len(parts) + 1)]
    module = next((path for path in modules if path.is_file()), None)
    if module is None:
        return SOURCE.joinpath(*parts).is_dir()
    nodes = ast.walk(ast.parse(module.read_text()))
    known = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)} | {"<locals>"}
    return set(parts[modules.index(module) + 1 :]) <= known


def test_the_names_in_the_documentation_exist():
    text = DOCUMENT.read_text(encoding="utf-8").split("## Every file")[0]
    names = {name for name in re.findall(r"`([a-z_]+(?:\.[\w<>]+)+)`", text) if name.split(".")[0] in LEVEL_OF}
    assert len(names) > 40
    assert [name for name in sorted(names) if not is_defined(name)] == []


def test_every_package_and_module_has_a_level():
    names = {path.stem for path in SOURCE.glob("*.py")} | {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert names - {"__init__", "__main__"} == set(LEVEL_OF)


def test_tests_mirror_the_source():
    for path in sorted(UNIT.rglob("test_*.py")):
        name = path.relative_to(UNIT)
        subject = SOURCE / name.parent / name.stem.removeprefix("test_")
        mirrors = subject.with_suffix(".py").is_file() or subject.is_dir()
        assert mirrors or name.as_posix() in CROSS_CUTTING, f"{name}: there is no {subject.relative_to(SOURCE)}.py"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_longer_than_400_lines(path):
    assert len(path.read_text().splitlines()) <= 400


def test_text_does_not_import_torch():
    users = {path for path in FILES if any(name.split(".")[0] == "torch" for name in imports(path))}
    assert "text" not in {package_of(path) for path in users}


def test_few_packages_import_file_libraries():
    libraries = {"h5py", "safetensors", "pyarrow", "matplotlib"}
    users = {package_of(path) for path in FILES if {name.split(".")[0] for name in imports(path)} & libraries}
    assert users == {"formats", "plots", "store"}


def test_only_one_file_imports_torch_distributed():
    users = [path for path in FILES if any(name.startswith("torch.distributed") for name in imports(path))]
    assert users == [SOURCE / "train" / "world.py"]


def test_pictures_need_no_display():
    assert not any("pyplot" in name for path in FILES for name in imports(path))


def test_relative_imports_are_not_used():
    for path in FILES:
        levels = [node.level for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        assert not any(levels), path


def test_every_public_name_is_there():
    for name in stelmo.__all__:
        assert getattr(stelmo, name) is not None
    assert set(stelmo.__all__) == set(dir(stelmo))
