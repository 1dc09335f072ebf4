"""State dicts come out of both containers of torch.save; nothing torn, crafted or dishonest does."""

import io
import pickle
import random
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch

from stelmo.errors import ModelError
from stelmo.formats.untrusted import pickles
from stelmo.formats.untrusted.pickles import read_state

NUMBERS = 1000  # small enough for a pickle to write it in two bytes, which the tests look for
CONTAINERS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "older"])


def saved(path: Path, state: object, zipped: bool = True) -> Path:
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    return path


def state_dict() -> OrderedDict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return OrderedDict(
        weight=torch.randn(4, 3, generator=generator),
        transposed=torch.randn(4, 3, generator=generator).T,
        part=torch.randn(8, generator=generator)[2:5],
        half=torch.randn(2, generator=generator).half(),
        double=torch.randn(2, 2, generator=generator).double(),
        count=torch.arange(3),
        scalar=torch.tensor(2.5),
        empty=torch.zeros(0, 3),
    )


def rezipped(path: Path, change: object, compression: int = zipfile.ZIP_STORED) -> Path:
    """The archive again, with right checksums, `change` applied to its data.pkl."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, change(data) if name.endswith("data.pkl") else data)  # type: ignore[operator]
    return path


def refused(path: Path, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        read_state(path)


@CONTAINERS
def test_what_was_saved_is_what_is_read(tmp_path, zipped):
    state = state_dict()
    found = read_state(saved(tmp_path / "state.pkl", state, zipped))
    assert list(found) == list(state)
    assert all(torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in state.items())


@CONTAINERS
def test_a_module_s_state_and_its_parameters_are_read_without_gradients(tmp_path, zipped):
    module = torch.nn.LSTM(3, 4)
    state = module.state_dict() | {"parameter": module.weight_ih_l0, "the same": module.weight_ih_l0}
    found = read_state(saved(tmp_path / "state.pkl", state, zipped))
    assert list(found) == list(state)
    assert torch.equal(found["parameter"], module.weight_ih_l0)
    assert not any(tensor.requires_grad for tensor in found.values())


def test_dicts_inside_give_dotted_names(tmp_path):
    state = {"encoder": OrderedDict(weight=torch.ones(2)), "bias": torch.ones(1)}
    assert list(read_state(saved(tmp_path / "state.pkl", state))) == ["encoder.weight", "bias"]


# Code


class Command:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.target,)


class Room:
    """Harmless names that torch allows, called for a terabyte."""

    def __reduce__(self) -> tuple[object, ...]:
        return bytearray, (2**40,)


@CONTAINERS
def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(tmp_path, zipped):
    target = tmp_path / "was here"
    path = saved(tmp_path / "state.pkl", {"weight": torch.ones(2), "x": Command(target)}, zipped)
    refused(path, "which no state dict needs; nothing of it was run")
    assert not target.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_a_plain_pickle_that_would_run_code_is_refused_and_runs_nothing(tmp_path, protocol):
    target, path = tmp_path / "was here", tmp_path / "state.pkl"
    path.write_bytes(pickle.dumps(Command(target), protocol))
    refused(path, "can be trusted")
    assert not target.exists()


@CONTAINERS
def test_a_name_that_torch_would_allow_is_refused_where_no_state_dict_needs_it(tmp_path, zipped):
    refused(saved(tmp_path / "state.pkl", {"x": Room()}, zipped), r"builtin\w*.bytearray")


@CONTAINERS
@pytest.mark.parametrize(
    "value",
    [torch.nn.Linear(2, 2), torch.eye(2).to_sparse(), torch.Size([1]), torch.float32],
    ids=["module", "sparse", "size", "dtype"],
)
def test_other_things_of_torch_are_refused(tmp_path, zipped, value):
    refused(saved(tmp_path / "state.pkl", {"x": value}, zipped), "which no state dict needs")


def test_attributes_of_what_is_named_cannot_be_set(tmp_path):
    build = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(N}X\x04\x00\x00\x00nameX\x01\x00\x00\x00xstb."
    refused(rezipped(saved(tmp_path / "state.pkl", {}), lambda _: build), "can be trusted")


# Promises


ENORMOUS = b"\x8a\x06" + (2**40).to_bytes(6, "little")  # where the pickle says how many numbers there are


def enlarged(data: bytes) -> bytes:
    told = b"M" + NUMBERS.to_bytes(2, "little")
    assert data.count(told) == 2  # of the storage, and of the tensor over it
    return data.replace(told, ENORMOUS)


@pytest.fixture
def torch_is_not_asked(monkeypatch):
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("memory would have been asked for"))


@pytest.mark.usefixtures("torch_is_not_asked")
def test_numbers_that_the_file_does_not_hold_are_refused_before_memory_is_asked_for(tmp_path):
    zipped = saved(tmp_path / "zip.pkl", {"weight": torch.zeros(NUMBERS)})
    refused(rezipped(zipped, enlarged), "has 4,000 bytes, 4,398,046,511,104 are expected")
    older = saved(tmp_path / "older.pkl", {"weight": torch.zeros(NUMBERS)}, zipped=False)
    older.write_bytes(enlarged(older.read_bytes()))
    refused(older, "4,398,046,511,.* are expected; the file is damaged")


@CONTAINERS
@pytest.mark.usefixtures("torch_is_not_asked")
def test_one_number_does_not_stand_for_many(tmp_path, zipped):
    path = saved(tmp_path / "state.pkl", {"weight": torch.zeros(1).expand(2**40)}, zipped)
    refused(path, "a tensor of shape .* over 1 numbers")


@pytest.mark.usefixtures("torch_is_not_asked")
def test_a_compressed_archive_is_refused(tmp_path):
    path = saved(tmp_path / "state.pkl", {"weight": torch.zeros(10**6)})
    refused(rezipped(path, lambda data: data, zipfile.ZIP_DEFLATED), "compressed")


@pytest.mark.usefixtures("torch_is_not_asked")
def test_a_member_that_two_readers_could_see_differently_is_refused(tmp_path):
    path = saved(tmp_path / "state.pkl", {"weight": torch.zeros(2)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("state/DATA/0", bytes(8))
    refused(path, "a member twice")


@pytest.mark.usefixtures("torch_is_not_asked")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x80\x02}r\xff\xff\xff\xff.", "counts more objects than it has"),
        (b"\x80\x02X\xff\xff\xff\xffa.", "can be trusted"),
        (b"\x80\x02\x8b\xff\xff\xff\x7fa.", "can be trusted"),
        (b"\x80\x04}.", "protocol 4"),
        (b"\x80\x02}p999999999\n.", "instruction PUT"),
        (b"", "can be trusted"),
    ],
    ids=["memo", "string", "long", "protocol", "textual memo", "empty"],
)
def test_a_pickle_cannot_ask_for_memory_by_itself(tmp_path, data, why):
    refused(rezipped(saved(tmp_path / "state.pkl", {}), lambda _: data), why)


def test_a_very_deep_pickle_is_refused(tmp_path):
    lists = b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."
    refused(rezipped(saved(tmp_path / "state.pkl", {}), lambda _: lists), "holds a list")
    dicts = b"\x80\x02" + b"}X\x01\x00\x00\x00a" * 20_000 + b"}" + b"s" * 20_000 + b"."
    refused(rezipped(saved(tmp_path / "state.pkl", {}), lambda _: dicts), "can be trusted")


# Files that would never end


def nested(levels: int, between: bytes) -> bytes:
    """() doubled again and again: each level is a tuple of the one before, twice; 2 ** levels nodes in all."""
    doubled = b"".join(b"q" + bytes([n]) + b"h" + bytes([n]) + b"\x86" for n in range(levels))
    return b"\x80\x02" + between.replace(b"NESTED", b")" + doubled) + b"."


def with_state(path: Path, data: bytes, zipped: bool) -> Path:
    """A file of torch.save whose state is that pickle."""
    if zipped:
        return rezipped(saved(path, {}), lambda _: data)
    raw, empty = saved(path, {}, zipped=False).read_bytes(), b"\x80\x02}q\x00."
    assert raw.count(empty) == 1
    path.write_bytes(raw.replace(empty, data))
    return path


TEXT = b"X\x01\x00\x00\x00a"
STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nKEYX\x03\x00\x00\x00cpuK\x01tQ"
FLOATS = STORAGE.replace(b"KEY", TEXT)
LONG = b"\x8a\xff" + b"\x7f" * 255


@CONTAINERS
@pytest.mark.usefixtures("torch_is_not_asked")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (nested(60, b"}NESTEDNs"), "a tuple with more than 1,000 values"),
        (nested(60, b"}(NESTEDNu"), "a tuple with more than 1,000 values"),
        (nested(60, b"ccollections\nOrderedDict\n(](NESTEDNtatR"), "a tuple with more than 1,000 values"),
        (nested(60, STORAGE.replace(b"KEY", b"NESTED")), "a tuple with more than 1,000 values"),
        (nested(5, b"}NESTEDNs"), "tensors have names"),
        (nested(0, b"ccollections\nOrderedDict\n(](K\x01NtatR"), "tensors have names"),
        (nested(0, b"}" + TEXT + LONG + b"s"), "a number larger than any size"),
        (
            nested(
                0, b"}" + TEXT + b"ctorch._utils\n_rebuild_tensor_v2\n(" + FLOATS + b"K\0(" + b"K\1" * 100 + b"tNtRs"
            ),
            "at most 64 numbers",
        ),
    ],
    ids=["key", "keys", "items", "storage", "tuple as key", "number as key", "long number", "long shape"],
)
def test_a_pickle_that_takes_for_ever_is_refused_at_once(tmp_path, zipped, data, why):
    refused(with_state(tmp_path / "state.pkl", data, zipped), why)


@pytest.mark.usefixtures("torch_is_not_asked")
def test_a_pickle_of_countless_instructions_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pickles, "MOST_INSTRUCTIONS", 100)
    refused(saved(tmp_path / "state.pkl", {str(n): torch.ones(1) for n in range(9)}), "more than 100 instructions")


# Shapes of the state


def cycle() -> dict[str, object]:
    state: dict[str, object] = {}
    state["again"] = state
    return state


@CONTAINERS
@pytest.mark.parametrize(
    ("state", "why"),
    [
        ([torch.ones(1)], "holds a list"),
        (torch.ones(1), "holds a Tensor"),
        ({"epoch": 3}, "epoch is a int"),
        ({"all": [torch.ones(1)]}, "all is a list"),
        ({1: torch.ones(1)}, "tensors have names"),
        ({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}, "twice"),
        (cycle(), "a state dict is a tree"),
    ],
    ids=["list", "tensor", "number", "nested list", "numbered", "ambiguous", "cycle"],
)
def test_only_dicts_of_tensors_are_states(tmp_path, zipped, state, why):
    refused(saved(tmp_path / "state.pkl", state, zipped), why)


@pytest.mark.parametrize("data", [b"PK\x03\x04", b"\x80\x02", b"text\n", bytes(1000), b"\x89HDF\r\n\x1a\n"])
def test_other_files_are_refused(tmp_path, data):
    (tmp_path / "state.pkl").write_bytes(data)
    refused(tmp_path / "state.pkl", "state.pkl: not a state dict that can be trusted")


def test_an_empty_file_is_said_to_be_empty(tmp_path):
    (tmp_path / "state.pkl").touch()
    refused(
        tmp_path / "state.pkl", r"state\.pkl: the file is empty; expected tensors that torch\.save wrote, copy it again"
    )


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    refused(tmp_path / "state.pkl", "no such file")
    refused(tmp_path, "no such file")


def test_an_archive_of_another_kind_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "state.pkl", "w") as archive:
        archive.writestr("readme.txt", "hello")
    refused(tmp_path / "state.pkl", "without data.pkl")


# Damage


@CONTAINERS
def test_a_file_cut_anywhere_is_refused(tmp_path, zipped):
    data = saved(tmp_path / "state.pkl", state_dict(), zipped).read_bytes()
    for length in range(1, len(data), 7):
        (tmp_path / "state.pkl").write_bytes(data[:length])
        refused(tmp_path / "state.pkl", "can be trusted")


def test_more_bytes_than_promised_are_refused_in_the_older_container(tmp_path):
    path = saved(tmp_path / "state.pkl", state_dict(), zipped=False)
    path.write_bytes(path.read_bytes() + b"more")
    refused(path, "bytes, .* are expected")


def flipped(data: bytes, generator: random.Random) -> bytes:
    place = generator.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << generator.randrange(8)]) + data[place + 1 :]


def outcome(path: Path) -> dict[str, torch.Tensor] | None:
    try:
        return read_state(path)
    except ModelError:
        return None


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_flipped_bit_in_an_archive_is_refused_or_changes_nothing(tmp_path):
    state, generator = dict(state_dict()), random.Random(1)
    data = saved(tmp_path / "state.pkl", state).read_bytes()
    for _ in range(300):
        (tmp_path / "state.pkl").write_bytes(flipped(data, generator))
        found = outcome(tmp_path / "state.pkl")
        assert found is None or same(found, state)


def test_a_flipped_bit_in_the_older_container_is_refused_or_gives_a_state_dict(tmp_path):
    generator = random.Random(2)
    data = saved(tmp_path / "state.pkl", state_dict(), zipped=False).read_bytes()
    for _ in range(300):
        (tmp_path / "state.pkl").write_bytes(flipped(data, generator))
        found = outcome(tmp_path / "state.pkl") or {}
        assert all(isinstance(tensor, torch.Tensor) for tensor in found.values())


def test_checksums_are_compared_though_torch_does_not(tmp_path):
    path = saved(tmp_path / "state.pkl", {"weight": torch.full((100,), 1.5)})
    data = path.read_bytes().replace(torch.full((1,), 1.5).numpy().tobytes(), b"\0\0\0\x40", 1)
    path.write_bytes(data)
    assert torch.load(io.BytesIO(data), weights_only=True)["weight"][0] == 2.0
    refused(path, "does not match its checksum")


def test_the_older_container_has_no_checksum_so_a_changed_number_is_read(tmp_path):
    path = saved(tmp_path / "state.pkl", {"weight": torch.full((100,), 1.5)}, zipped=False)
    path.write_bytes(path.read_bytes().replace(torch.full((1,), 1.5).numpy().tobytes(), b"\0\0\0\x40", 1))
    assert read_state(path)["weight"][0] == 2.0
