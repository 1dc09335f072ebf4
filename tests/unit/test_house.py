"""The floors of the house: imports point down, never sideways or up; and each room's own rules."""

import ast
from pathlib import Path

import pytest

import stelmo

SOURCE = Path(stelmo.__file__).parent
FLOORS = [
    {"errors"},
    {"config", "interrupts", "progress"},
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
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem in FLOOR_OF)


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(path: Path) -> set[str]:
    """The modules a file names, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rooms_imported(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if name.startswith("stelmo.")} - {"__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    room = room_of(path)
    for other in rooms_imported(path) - {room}:
        assert FLOOR_OF[other] < FLOOR_OF[room], f"{room} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_text_knows_no_torch():
    users = {path for path in FILES if any(name.split(".")[0] == "torch" for name in imports(path))}
    assert "text" not in {room_of(path) for path in users}


def test_only_the_store_knows_file_libraries():
    libraries = {"h5py", "safetensors", "pyarrow", "matplotlib"}
    users = {room_of(path) for path in FILES if {name.split(".")[0] for name in imports(path)} & libraries}
    assert users == {"store"}


def test_only_one_file_knows_of_other_processes():
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
