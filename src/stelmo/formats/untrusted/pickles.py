"""A pickle of torch.save → its tensors by name, or a refusal. Runs nothing that is in it; knows no tensor's meaning.

Two containers are read: the zip archive (torch 1.6 and later) and the older row of pickles with raw numbers behind.
Each is first followed without making a tensor, so that a file is refused before memory is asked for: every name in
it must be one that a state dict needs, and every number it promises must lie in the file. torch then loads it with
weights_only. A zip has checksums, and they are compared; in the older container nothing betrays a changed number.
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
# What a torn or crafted pickle makes the unpicklers raise; RuntimeError holds RecursionError, ValueError Unicode's.
_TORN = (pickle.UnpicklingError, zipfile.BadZipFile, struct.error, EOFError, OSError, MemoryError, OverflowError)
_CRAFTED = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError, Warning)
# All that torch's own weights-only unpickler follows; a pickle of protocol 2 has no others.
_OPCODES = """
    GLOBAL NEWOBJ REDUCE BUILD APPEND APPENDS SETITEM SETITEMS MARK TUPLE TUPLE1 TUPLE2 TUPLE3 NONE NEWFALSE NEWTRUE
    EMPTY_TUPLE EMPTY_LIST EMPTY_DICT EMPTY_SET BININT BININT1 BININT2 BINFLOAT BINUNICODE SHORT_BINSTRING BINPERSID
    BINGET LONG_BINGET BINPUT LONG_BINPUT LONG1 PROTO STOP
"""
_ITEM_BYTES = {
    f"torch.{name}Storage": size
    for size, names in {8: "Double Long", 4: "Float Int", 2: "Half BFloat16 Short", 1: "Char Byte Bool"}.items()
    for name in names.split()
}


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict; dicts inside it give dotted names. Anything else is refused."""
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("error")  # of the standard library, about text that only damage brings about
            _follow(file)
        state = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor.detach() for name, tensor in _flat(_unwrapped(state)).items()}
    except (*_TORN, *_CRAFTED) as problem:
        raise ModelError(f"{path}: not a state dict that can be trusted ({_reason(problem)})") from None


def _reason(problem: BaseException) -> str:
    first = str(problem).strip().split("\n")[0].split(". ")[0][:200]
    return first or ("it ends too early" if isinstance(problem, EOFError) else type(problem).__name__)


# Dicts of dicts → names


def _unwrapped(state: Any) -> Any:
    """A training checkpoint such as {"state_dict": …, "epoch": 3} → its state dict."""
    inner = state.get("state_dict", state.get("model_state_dict")) if isinstance(state, Mapping) else None
    return inner if isinstance(inner, Mapping) else state


def _flat(state: Any) -> dict[str, Tensor]:
    if not isinstance(state, Mapping):
        raise TypeError(f"it holds {_a(state)}; expected a dict of tensors")
    found: dict[str, Tensor] = {}
    _collect(state, "", found, set())
    return found


def _collect(state: Mapping[Any, Any], prefix: str, found: dict[str, Tensor], seen: set[int]) -> None:
    if id(state) in seen:  # a pickle can put a dict into itself
        raise ValueError("a dict stands in two places; a state dict is a tree")
    seen.add(id(state))
    for key, value in state.items():
        name = f"{prefix}{key}"
        if not isinstance(key, str) or name in found:
            raise TypeError(f"the name {key!r} is no string, or is there twice; tensors have names")
        if isinstance(value, Mapping):
            _collect(value, f"{name}.", found, seen)
        elif isinstance(value, Tensor):
            found[name] = value
        else:
            raise TypeError(f"{name} is {_a(value)}; expected tensors only")


def _a(value: object) -> str:
    return f"a {type(value).__name__}"


# Following a pickle without making a tensor


class _Storage(NamedTuple):
    key: str
    items: int
    bytes: int


class _Follower(pickle.Unpickler):
    """Gathers the storages a pickle promises. Names lead to stand-ins or nowhere."""

    def __init__(self, file: BinaryIO | io.BytesIO) -> None:
        super().__init__(file, encoding="latin-1")
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        full_name = f"{module}.{name}"
        if full_name in _STAND_INS:
            return _STAND_INS[full_name]
        raise pickle.UnpicklingError(f"it names {full_name}, which no state dict needs; nothing of it was run")

    def persistent_load(self, promise: Any) -> _Storage:
        _, item_bytes, key, _, items = promise[:5]
        if type(items) is not int or type(item_bytes) is not int or items < 0:
            raise ValueError(f"a storage of {items!r} numbers")
        storage = self.storages.setdefault(str(key), _Storage(str(key), items, items * item_bytes))
        if storage.bytes != items * item_bytes:
            raise ValueError(f"storage {key} has two sizes")
        return storage


class _Tensor:
    """Called in the place of a tensor's maker. Without attributes: a pickle may set those of what it names."""

    __slots__ = ()

    def __call__(self, storage: _Storage, offset: int, shape: tuple[int, ...], *_: Any) -> None:
        # A stride of 0 would let one number stand for a terabyte.
        if math.prod(shape) > storage.items or any(size < 0 for size in shape):
            raise ValueError(f"a tensor of shape {shape} over {storage.items} numbers")


class _Parameter:
    __slots__ = ()

    def __call__(self, *_: Any) -> None:
        return None


_STAND_INS: dict[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_tensor": _Tensor(),
    "torch._utils._rebuild_tensor_v2": _Tensor(),
    "torch._utils._rebuild_parameter": _Parameter(),
    **_ITEM_BYTES,
}


def _unpickled(data: Any) -> tuple[Any, dict[str, _Storage]]:
    """The next pickle of a stream, followed: what it holds, with stand-ins for tensors, and its storages."""
    start, known = data.tell(), set(_OPCODES.split())
    for opcode, argument, position in pickletools.genops(data):
        if opcode.name not in known:
            raise pickle.UnpicklingError(f"the pickle has the instruction {opcode.name}, which no state dict needs")
        if opcode.name == "PROTO" and argument != 2:
            raise pickle.UnpicklingError(f"pickle protocol {argument}; torch.save writes 2")
        # The C unpickler makes room for as many objects as a number here says.
        if opcode.name.endswith("PUT") and int(argument or 0) > (position or 0):
            raise pickle.UnpicklingError("the pickle counts more objects than it has")
    end = data.tell()
    data.seek(start)
    follower = _Follower(io.BytesIO(data.read(end - start)))
    return follower.load(), follower.storages


def _follow(file: BinaryIO) -> None:
    if file.read(len(ZIP_MAGIC)) == ZIP_MAGIC:
        with zipfile.ZipFile(file) as archive:
            _follow_zip(archive, file.seek(0, io.SEEK_END))
    else:
        # Reads from a map are bounded by the file, whatever length a pickle states.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _follow_old(data)


def _follow_zip(archive: zipfile.ZipFile, size: int) -> None:
    members = {member.filename: member for member in archive.infolist()}
    _refuse_tricks(archive.infolist(), size)
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
            raise ValueError(f"storage {storage.key} has {found:,} bytes, {storage.bytes:,} are promised")


def _refuse_tricks(members: list[zipfile.ZipInfo], size: int) -> None:
    """What torch.save never writes, and what would let two readers see two archives, or a small one grow."""
    if len({member.filename.lower() for member in members}) != len(members):
        raise ValueError("the archive has a member twice")
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("the archive is compressed; torch.save stores")
    if sum(member.file_size for member in members) > size:
        raise ValueError("the archive promises more than the file holds")


def _follow_old(data: mmap.mmap) -> None:
    magic = _unpickled(data)[0]
    if magic != OLD_MAGIC:
        raise ValueError("torch.save did not write it")
    for _ in ("version", "machine"):
        _unpickled(data)
    _, storages = _unpickled(data)
    keys, _ = _unpickled(data)
    if sorted(keys) != sorted(storages):
        raise ValueError("its list of storages is another than its tensors use")
    expected = data.tell() + sum(8 + storage.bytes for storage in storages.values())
    if expected != len(data):
        raise ValueError(f"it has {len(data):,} bytes, {expected:,} are promised; the file is torn, copy it again")
