"""A pickle written by torch.save → its tensors by name, or a refusal. Runs no code of the pickle.

Two containers are read: the zip archive (torch 1.6 and later) and the older sequence of pickles and raw numbers.
A file is refused before memory is allocated. First its instructions are checked: only those that a state dict needs, in
a limited number, with limited integers and without nested keys. Then the pickle is read once with stand-ins in place of
tensors: every name must be one that a state dict needs, and every number it refers to must be in the file. Finally
torch loads it with weights_only. A zip has checksums, which are compared; the older container has none.
"""

import io
import math
import mmap
import pickle
import pickletools
import struct
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from stelmo.errors import ModelError

ZIP_MAGIC = b"PK\x03\x04"
OLD_MAGIC = 0x1950A86A20F9469CFC6C
# What the unpicklers raise on a damaged or crafted pickle; RuntimeError includes RecursionError, ValueError Unicode's.
_DAMAGED = (pickle.UnpicklingError, zipfile.BadZipFile, struct.error, EOFError, OSError, MemoryError, OverflowError)
_CRAFTED = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError, Warning)
MOST_INSTRUCTIONS = 1_000_000  # a state dict needs about 30 for a tensor
MOST_NODES = 1_000  # in one tuple, nested ones included; a storage's description has 5
LARGEST_NUMBER = 2**61  # below the modulus of Python's hashes, so that keys cannot be made to collide
MOST_DIMENSIONS = 64
# The instructions that torch's own weights-only unpickler follows; a pickle of protocol 2 has no others.
_OPCODES = """
    GLOBAL NEWOBJ REDUCE BUILD APPEND APPENDS SETITEM SETITEMS MARK TUPLE TUPLE1 TUPLE2 TUPLE3 NONE NEWFALSE NEWTRUE
    EMPTY_TUPLE EMPTY_LIST EMPTY_DICT EMPTY_SET BININT BININT1 BININT2 BINFLOAT BINUNICODE SHORT_BINSTRING BINPERSID
    BINGET LONG_BINGET BINPUT LONG_BINPUT LONG1 PROTO STOP
"""
# How many values they take from the stack, if any.
_TAKES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "REDUCE": 2, "NEWOBJ": 2, "BINPERSID": 1}
_CHANGES = {"APPEND": 1, "SETITEM": 2, "BUILD": 1, "STOP": 1}  # the value below stays
_TEXT = ("BINUNICODE", "SHORT_BINSTRING")
_ITEM_BYTES = {
    f"torch.{name}Storage": size
    for size, names in {8: "Double Long", 4: "Float Int", 2: "Half BFloat16 Short", 1: "Char Byte Bool"}.items()
    for name in names.split()
}


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict; dicts inside it give dotted names. Anything else is refused."""
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    if not path.stat().st_size:
        raise ModelError(f"{path}: the file is empty; expected tensors that torch.save wrote, copy it again")
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("error")  # the standard library warns about text that only occurs in damaged files
            _dry_run(file)
        state = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor.detach() for name, tensor in _flat(state).items()}
    except (*_DAMAGED, *_CRAFTED) as problem:
        first = str(problem).strip().split("\n")[0].split(". ")[0][:200]
        reason = first or ("it ends too early" if isinstance(problem, EOFError) else type(problem).__name__)
        raise ModelError(f"{path}: not a state dict that can be trusted ({reason})") from None


# Dicts of dicts → names


def _flat(state: Any) -> dict[str, Tensor]:
    """The tensors of a state dict, or of the one in a training checkpoint such as {"state_dict": …, "epoch": 3}."""
    if not isinstance(state, Mapping):
        raise TypeError(f"it holds {_a(state)}; expected a dict of tensors")
    inner = state.get("state_dict", state.get("model_state_dict"))
    found: dict[str, Tensor] = {}
    _collect(inner if isinstance(inner, Mapping) else state, "", found, set())
    return found


def _collect(state: Mapping[Any, Any], prefix: str, found: dict[str, Tensor], seen: set[int]) -> None:
    if id(state) in seen:  # a pickle can put a dict into itself
        raise ValueError("a dict occurs in two places; a state dict is a tree")
    seen.add(id(state))
    for key, value in state.items():
        name = f"{prefix}{key}"
        if not isinstance(key, str) or name in found:
            raise TypeError(f"the name {key!r} is not a string, or occurs twice; tensors have names")
        if isinstance(value, Mapping):
            _collect(value, f"{name}.", found, seen)
        elif isinstance(value, Tensor):
            found[name] = value
        else:
            raise TypeError(f"{name} is {_a(value)}; expected tensors only")


def _a(value: object) -> str:
    return f"a {type(value).__name__}"


# Following a pickle without creating a tensor


class _Storage(NamedTuple):
    key: str
    items: int
    bytes: int


class _DryRun(pickle.Unpickler):
    """Collects the storages that a pickle refers to. Names lead to stand-ins or are refused."""

    def __init__(self, file: BinaryIO | io.BytesIO) -> None:
        super().__init__(file, encoding="latin-1")
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        full_name = f"{module}.{name}"
        if full_name in _STAND_INS:
            return _STAND_INS[full_name]
        raise pickle.UnpicklingError(f"it names {full_name}, which no state dict needs; nothing of it was run")

    def persistent_load(self, description: Any) -> _Storage:
        if type(description) is not tuple or len(description) < 5:
            raise ValueError("a storage without its description")
        _, item_bytes, key, _, items = description[:5]
        if type(item_bytes) is not int or type(key) is not str or type(items) is not int or items < 0:
            raise ValueError("the description of a storage is not (kind, name, place, size)")
        storage = self.storages.setdefault(key, _Storage(key, items, items * item_bytes))
        if storage.bytes != items * item_bytes:
            raise ValueError(f"storage {key} has two sizes")
        return storage


class _Tensor:
    """Called instead of the function that creates a tensor. Without attributes, because a pickle may set them."""

    __slots__ = ()

    def __call__(self, storage: _Storage, offset: int, shape: tuple[int, ...], *_: Any) -> None:
        if type(shape) is not tuple or len(shape) > MOST_DIMENSIONS or any(type(size) is not int for size in shape):
            raise ValueError(f"a tensor whose shape is not a tuple of at most {MOST_DIMENSIONS} numbers")
        if not isinstance(storage, _Storage):
            raise TypeError("a tensor without a storage")
        # With a stride of 0, one number would become a terabyte.
        if math.prod(shape) > storage.items or any(size < 0 for size in shape):
            raise ValueError(f"a tensor of shape {shape} over {storage.items} numbers")


class _Parameter:
    __slots__ = ()

    def __call__(self, *_: Any) -> None:
        return None


def _ordered_dict(items: Any = ()) -> OrderedDict[str, Any]:
    """Python 2 gives the items here, Python 3 adds them later."""
    if type(items) not in (list, tuple) or any(type(item) not in (list, tuple) or len(item) != 2 for item in items):
        raise TypeError("an OrderedDict of items that are not pairs")
    if any(type(key) is not str for key, _ in items):
        raise TypeError("a name is not a string; tensors have names")
    return OrderedDict(items)


_STAND_INS: dict[str, Any] = {
    "collections.OrderedDict": _ordered_dict,
    "torch._utils._rebuild_tensor": _Tensor(),
    "torch._utils._rebuild_tensor_v2": _Tensor(),
    "torch._utils._rebuild_parameter": _Parameter(),
    **_ITEM_BYTES,
}


def _unpickled(data: Any) -> tuple[Any, dict[str, _Storage]]:
    """The next pickle of a stream, followed: its value, with stand-ins for tensors, and its storages."""
    start = data.tell()
    _check_instructions(data)
    end = data.tell()
    data.seek(start)
    dry_run = _DryRun(io.BytesIO(data.read(end - start)))
    return dry_run.load(), dry_run.storages


def _check_instructions(data: Any) -> None:
    """Refuse what would take unlimited memory or time when it is followed.

    The stack holds the number of nodes of each value, 0 for text. A tuple of two references to a tuple of two
    references to … has exponentially many nodes, and hashing visits all of them. Lists and dicts cannot be hashed and
    count as one.
    """
    known = set(_OPCODES.split())
    stack: list[int | None] = []  # None: MARK
    memo: dict[int, int | None] = {}
    for count, (opcode, argument, position) in enumerate(pickletools.genops(data)):
        name = opcode.name
        if name not in known:
            raise pickle.UnpicklingError(f"the pickle has the instruction {name}, which no state dict needs")
        if count == MOST_INSTRUCTIONS:
            raise pickle.UnpicklingError(f"the pickle has more than {MOST_INSTRUCTIONS:,} instructions")
        if name == "PROTO" and argument != 2:
            raise pickle.UnpicklingError(f"pickle protocol {argument}; torch.save writes 2")
        # The C unpickler allocates as many objects as a number here says.
        if name.endswith("PUT") and int(argument or 0) > (position or 0):
            raise pickle.UnpicklingError("the pickle counts more objects than it has")
        if name == "LONG1" and abs(int(argument or 0)) >= LARGEST_NUMBER and argument != OLD_MAGIC:
            raise pickle.UnpicklingError("the pickle has a number larger than any size")
        _apply(name, argument, stack, memo)


def _apply(name: str, argument: Any, stack: list[int | None], memo: dict[int, int | None]) -> None:
    """One instruction, applied to numbers of nodes."""
    if name.endswith("GET"):
        stack.append(memo[argument])
    elif name.endswith("PUT"):
        memo[argument] = stack[-1]
    elif name in ("TUPLE", "APPENDS", "SETITEMS"):
        items = [stack.pop()]
        while items[-1] is not None:
            items.append(stack.pop())
        items = items[-2::-1]
        if name == "SETITEMS" and any(items[::2]):
            raise pickle.UnpicklingError("a name is not a string; tensors have names")
        if name == "TUPLE":
            stack.append(_nodes(items))
    elif name in _CHANGES:
        items = [stack.pop() for _ in range(_CHANGES[name])]
        if name == "SETITEM" and items[-1]:
            raise pickle.UnpicklingError("a name is not a string; tensors have names")
    elif name in _TAKES:
        items = [stack.pop() for _ in range(_TAKES[name])]
        stack.append(_nodes(items) if name.startswith("TUPLE") else 1)
    elif name != "PROTO":
        stack.append(None if name == "MARK" else 0 if name in _TEXT else 1)


def _nodes(items: list[int | None]) -> int:
    nodes = 1 + sum(item or 1 for item in items)
    if nodes > MOST_NODES:
        raise pickle.UnpicklingError(f"a tuple with more than {MOST_NODES:,} values, nested ones included")
    return nodes


def _dry_run(file: BinaryIO) -> None:
    if file.read(len(ZIP_MAGIC)) == ZIP_MAGIC:
        with zipfile.ZipFile(file) as archive:
            _follow_zip(archive, file.seek(0, io.SEEK_END))
    else:
        # Reads from a map are bounded by the file, whatever length a pickle says.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _follow_old(data)


def _follow_zip(archive: zipfile.ZipFile, size: int) -> None:
    members = {member.filename: member for member in archive.infolist()}
    _refuse_ambiguous_zip(archive.infolist(), size)
    damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"{damaged} does not match its checksum; the file is damaged, copy it again")
    top = [name.removesuffix("data.pkl") for name in members if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(top) != 1:
        raise ValueError("an archive without data.pkl; torch.save did not write it")
    _, storages = _unpickled(io.BytesIO(archive.read(f"{top[0]}data.pkl")))
    for storage in storages.values():
        member = members.get(f"{top[0]}data/{storage.key}")
        found = 0 if member is None else member.file_size
        if found != storage.bytes:
            raise ValueError(f"storage {storage.key} has {found:,} bytes, {storage.bytes:,} are expected")


def _refuse_ambiguous_zip(members: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse what torch.save never writes: archives that two readers could see differently, or that grow."""
    if len({member.filename.lower() for member in members}) != len(members):
        raise ValueError("the archive has a member twice")
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("the archive is compressed; torch.save does not compress")
    if sum(member.file_size for member in members) > size:
        raise ValueError("the members are larger than the file")


def _follow_old(data: mmap.mmap) -> None:
    if _unpickled(data)[0] != OLD_MAGIC:
        raise ValueError("torch.save did not write it")
    for _ in ("version", "machine"):
        _unpickled(data)
    _, storages = _unpickled(data)
    keys, _ = _unpickled(data)
    if type(keys) is not list or any(type(key) is not str for key in keys) or sorted(keys) != sorted(storages):
        raise ValueError("its list of storages is not the one that its tensors use")
    expected = data.tell() + sum(8 + storage.bytes for storage in storages.values())
    if expected != len(data):
        raise ValueError(f"it has {len(data):,} bytes, {expected:,} are expected; the file is damaged, copy it again")
