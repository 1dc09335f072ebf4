"""N mutated files, spread over every format that is read → a table of what reading them gave.

Run: fuzz_formats.py [N] [SEED] [FORMAT ...], on a system that has fork. Files are read in batches by forked processes
that may take 2 GB more memory than they start with, and 20 seconds for a file.

 refused    one sentence of ours
 same       what the whole file gives
 different  something else that is in order: for a model, finite numbers of one precision, and vectors
 other      anything else: another exception, a crash, a file written, memory or time used up
"""

import gzip
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tarfile
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "unit" / "formats")]

import corpora  # noqa: E402 the helpers of the tests
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import test_fuzz  # noqa: E402
import tiny  # noqa: E402
import torch  # noqa: E402

from stelmo.corpus import folder as corpus_folder  # noqa: E402
from stelmo.embed.model import Model  # noqa: E402
from stelmo.errors import StelmoError  # noqa: E402
from stelmo.explore import index  # noqa: E402
from stelmo.formats import models  # noqa: E402
from stelmo.jobs import run, shards  # noqa: E402
from stelmo.jobs.precompute import precompute  # noqa: E402
from stelmo.settings import LoadSettings, OutputSettings  # noqa: E402
from stelmo.store import containers, layers  # noqa: E402
from stelmo.text import formats  # noqa: E402
from stelmo.text.files import LineReader  # noqa: E402
from stelmo.text.formats import Sentence  # noqa: E402

BATCH = 100  # files of one process
SECONDS, BYTES = 20, 2 << 30  # for a file; for a process beyond what it has when it starts
OUTCOMES = ("tried", "refused", "same", "different", "other")
MODEL = tiny.model()
TEXT = [line.split() for line in corpora.FOUR * 3]
SENTENCES = [Sentence(tokens, "t", line) for line, tokens in enumerate(TEXT, 1)]
OUTPUT = OutputSettings(block_tokens=16)


class Case(NamedTuple):
    make: Callable[[Path], Path]  # makes the files in an empty folder → what is read
    read: Callable[[Path], str]  # → a digest of what was found
    writes: bool = False  # whether reading may write beside the files


# Reading


def digest(*parts: Any) -> str:
    return hashlib.sha256(
        b"".join(part if isinstance(part, bytes) else repr(part).encode() for part in parts)
    ).hexdigest()


def read_model(path: Path) -> str:
    saved = models.read(path)
    head = saved.read_softmax() if saved.read_softmax is not None else None
    tensors = [*saved.bilm.state_dict().values(), *(head.state_dict().values() if head is not None else ())]
    assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors)
    assert len({tensor.dtype for tensor in saved.bilm.state_dict().values()}) == 1
    vectors = Model(saved, LoadSettings()).embed([["the", "bank"], ["."]])
    assert all(np.isfinite(vector).all() for vector in vectors)
    return saved.fingerprint()


def reading_text(format: str) -> Callable[[Path], str]:
    def read(path: Path) -> str:
        with LineReader(path) as reader:
            return digest(*formats.read(reader, "t", format, tokenizer=lambda text: [text.split()]))

    return read


def read_parquet(path: Path) -> str:
    return digest(
        *(formats.of_value(value, "t", lambda text: [text.split()]) for _, value in containers.text_values(path))
    )


def read_merged(path: Path) -> str:
    output = path.with_name("merged.npz")
    shards.merge(sorted(path.iterdir()), output)
    return digest(output.read_bytes())


def read_resumed(path: Path) -> str:
    run.embed_to_file(MODEL, SENTENCES, path, OUTPUT)
    return digest(path.read_bytes())


def read_index(path: Path) -> str:
    found = index.open(path)
    return digest(found.words, *map(found.use, found.ids.tolist()), found.layers(found.ids).tobytes())


def read_layers(path: Path) -> str:
    found = layers.LayerFolder(path, layers.read_manifest(path))
    return digest(len(found), found.tokens, *(found[key].tobytes() for key in found._places))


def read_corpus(path: Path) -> str:
    found = corpus_folder.read(path)
    numbers = [array.tobytes() for shard in (*found.train, *found.heldout) for array in shard]
    return digest(found.manifest, list(found.vocabulary), *numbers)


# Making


def written(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        (path / name).write_bytes(content)
        return path / name

    return make


def make_shards(path: Path) -> Path:
    (path / "parts").mkdir()
    for number in (1, 2):
        shards.embed_shard(MODEL, SENTENCES, path / "parts" / "v.npz", OUTPUT, shards.Shard(number, 2))
    return path / "parts"


def make_interrupted(path: Path) -> Path:
    """A run that stopped after all blocks but the last."""

    class StoppedError(Exception): ...

    def stop(_: int) -> None:
        if len(list(path.rglob("0*.npz"))) > 5:
            raise StoppedError

    try:
        run.embed_to_file(MODEL, SENTENCES, path / "v.npz", OUTPUT, advance=stop)
    except StoppedError:
        return path / "v.npz"
    raise AssertionError("the run was to be interrupted")


def make_index(path: Path) -> Path:
    return Path(index.build(MODEL, TEXT, path / "index", block_tokens=16).folder)


def make_layers(path: Path) -> Path:
    precompute(MODEL, TEXT, path / "layers", block_tokens=16)
    return path / "layers"


def make_parquet(path: Path) -> Path:
    pa, module = containers.pyarrow_modules()
    module.write_table(pa.table({"tokens": TEXT, "other": list(range(len(TEXT)))}), path / "t.parquet")
    return path / "t.parquet"


PLAIN = "".join(" ".join(tokens) + "\n" for tokens in TEXT).encode() + "日本 über “q”\n".encode()
CONLLU = "".join(
    "# text\n" + "".join(f"{n}\t{word}\t_\t_\t_\t_\t0\t_\t_\t_\n" for n, word in enumerate(tokens, 1)) + "\n"
    for tokens in TEXT
).encode()
COLUMNS = b"-DOCSTART- O\n\n" + "".join("".join(f"{word} NN O\n" for word in tokens) + "\n" for tokens in TEXT).encode()
JSONL = "".join(json.dumps({"tokens": t}) + "\n" + json.dumps({"text": " ".join(t)}) + "\n" for t in TEXT).encode()


def compressed() -> dict[str, bytes]:
    import lzma

    import zstandard

    return {"gzip": gzip.compress(PLAIN), "xz": lzma.compress(PLAIN), "zstd": zstandard.compress(PLAIN)}


CASES: dict[str, Case] = {name: Case(make, read_model) for name, make in test_fuzz.FORMATS.items()}
CASES |= {
    "shards": Case(make_shards, read_merged, writes=True),
    "interrupted embed": Case(make_interrupted, read_resumed, writes=True),
    "index": Case(make_index, read_index),
    "precomputed layers": Case(make_layers, read_layers),
    "corpus": Case(lambda path: corpora.make(path / "corpus", corpora.sentences(40)), read_corpus),
    "text": Case(written("t", PLAIN), reading_text("text")),
    "tokens": Case(written("t", PLAIN), reading_text("tokens")),
    "conllu": Case(written("t", CONLLU), reading_text("conllu")),
    "columns": Case(written("t", COLUMNS), reading_text("columns")),
    "jsonl": Case(written("t", JSONL), reading_text("jsonl")),
    "parquet": Case(make_parquet, read_parquet),
}
CASES |= {name: Case(written("t", content), reading_text("tokens")) for name, content in compressed().items()}


# Mutating: the bytes, or what they hold, with checksums that are right


def mutated(data: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return test_fuzz.mutated(data, chance)
    for applies, mutate in STRUCTURES:
        if applies(data):
            try:
                return mutate(data, chance)
            except Exception:  # noqa: BLE001 what cannot be taken apart is mutated as bytes
                break
    return test_fuzz.mutated(data, chance)


def in_zip(data: bytes, chance: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    chosen = chance.choice(sorted(members))
    members[chosen] = mutated(members[chosen], chance)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as new:
        for name, content in members.items():
            new.writestr("../out" if chance.random() < 0.02 else name, content)
    return packed.getvalue()


def in_gzip(data: bytes, chance: random.Random) -> bytes:
    return gzip.compress(mutated(gzip.decompress(data), chance), 1)


def in_tar(data: bytes, chance: random.Random) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=packed, mode="w") as new:
        files = [member for member in old.getmembers() if member.isfile()]
        chosen = chance.choice(files)
        for member in files:
            content = old.extractfile(member).read()  # type: ignore[union-attr]
            if member is chosen:
                content = mutated(content, chance)
                member.type = chance.choice(
                    [tarfile.REGTYPE] * 20 + [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE]
                )
                member.name = chance.choice([member.name] * 20 + ["../out", "/tmp/out"])
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    return packed.getvalue()


NASTY = [
    None,
    True,
    -1,
    0,
    1e308,
    10**400,
    float("nan"),
    "",
    "x" * 300,
    "\0",
    "\ud800",
    [],
    {},
    [[]],
    "/dev/zero",
    2**63,
    0.5,
]


def in_json(data: bytes, chance: random.Random) -> bytes:
    values = [json.loads(data)]
    places: list[tuple[Any, Any]] = [(values, 0)]
    for holder, key in places:  # grows while it is read
        inner = holder[key]
        places += [
            (inner, k)
            for k in (inner if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ())
        ]
    holder, key = chance.choice(places)
    kind = chance.random()
    if kind < 0.1 and isinstance(holder, dict):
        del holder[key]
    elif kind < 0.2:
        holder[key] = "DEEP"
    else:
        holder[key] = chance.choice(NASTY)
    deep = "[" * 100_000 + "]" * 100_000
    return json.dumps(values[0]).replace('"DEEP"', deep).encode()


def in_safetensors(data: bytes, chance: random.Random) -> bytes:
    (length,) = struct.unpack("<Q", data[:8])
    header = in_json(data[8 : 8 + length], chance)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def in_hdf5(data: bytes, chance: random.Random) -> bytes:
    with tempfile.NamedTemporaryFile() as copy:
        Path(copy.name).write_bytes(data)
        with h5py.File(copy.name, "r+") as file:
            names: list[str] = []
            file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            name = chance.choice(names)
            old = file[name][()]
            del file[name]
            match chance.randrange(8):
                case 0:
                    file[name] = np.full_like(old, chance.choice([np.nan, np.inf, 1e38, 0]))
                case 1:
                    file[name] = old.astype(chance.choice(["f8", "f2", "i4", "c8", "S4", "?"]))
                case 2:
                    file[name] = np.full(old.shape, 1e300)
                case 3:
                    file.create_dataset(name, (1 << 20, 1 << 20), "f4", chunks=(1024, 1024), compression="gzip")
                case 4:
                    file.create_dataset(name, old.shape, "f4", fillvalue=0.1)
                case 5:
                    file[name] = h5py.Empty("f4")
                case 6:
                    file.create_group(name)
                case _:
                    file[name] = (
                        h5py.ExternalLink("/dev/zero", "/x") if chance.random() < 0.5 else h5py.SoftLink(f"/{name}")
                    )
        return Path(copy.name).read_bytes()


def in_state(data: bytes, chance: random.Random) -> bytes:
    """A state of torch with one tensor replaced."""
    state = torch.load(io.BytesIO(data), weights_only=True)
    name = chance.choice(sorted(state))
    old = state[name]
    bomb: Any = ()
    for _ in range(60):
        bomb = (bomb, bomb)
    choices = [
        lambda: torch.full_like(old, chance.choice([float("nan"), float("inf"), 1e38])),
        lambda: old.to(
            chance.choice([torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int32, torch.bool])
        ),
        lambda: torch.full(old.shape, 1e300, dtype=torch.float64),
        lambda: old.flatten()[: chance.randrange(old.numel() + 1)],
        lambda: torch.zeros(1).expand(1 << 40),
        lambda: old.t() if old.dim() == 2 else old.to_sparse(),
        lambda: bomb,
        lambda: 10**5000,
    ]
    state[name] = chance.choice(choices)()
    packed = io.BytesIO()
    torch.save(state, packed, _use_new_zipfile_serialization=data[:2] == b"PK")
    return packed.getvalue()


STRANGE = [
    b"\0",
    b"\xff\xfe",
    b'"' * 2000,
    b"\r",
    b"\t",
    b"\xef\xbb\xbf",
    b'"\\ud800"',
    b"[" * 5000,
    b"\xc2\xa0",
    b"\xe2\x80\xa8",
]


def in_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    for _ in range(chance.randrange(1, 4)):
        number = chance.randrange(len(lines))
        place = chance.randrange(len(lines[number]) + 1)
        lines[number] = lines[number][:place] + chance.choice(STRANGE) + lines[number][place:]
    return b"\n".join(lines)


def is_json(data: bytes) -> bool:
    try:
        return data[:1] in b"{[" and isinstance(json.loads(data), dict | list)
    except (ValueError, RecursionError):
        return False


def is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


STRUCTURES: list[tuple[Callable[[bytes], bool], Callable[[bytes, random.Random], bytes]]] = [
    (
        lambda data: data[:2] == b"PK" and b"/data.pkl" in data[:200],
        lambda d, c: in_state(d, c) if c.random() < 0.5 else in_zip(d, c),
    ),
    (lambda data: data[:2] == b"PK", in_zip),
    (lambda data: data[:2] == b"\x1f\x8b", in_gzip),
    (lambda data: data[257:262] == b"ustar", in_tar),
    (lambda data: data[:8] == b"\x89HDF\r\n\x1a\n", in_hdf5),
    (lambda data: data[:1] == b"\x80", in_state),
    (lambda data: data[8:10] == b'{"', in_safetensors),
    (is_json, in_json),
    (is_text, in_lines),
]


# The table


def main(files: int = 1000, seed: int = 0, *names: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # torch warns of old pickles
    chosen = names or tuple(CASES)
    total: Counter[str] = Counter()
    print("| format | " + " | ".join(OUTCOMES) + " |\n|---|" + "---|" * len(OUTCOMES))
    for number, name in enumerate(chosen):
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder, "whole")
            whole.mkdir()
            path = CASES[name].make(whole).relative_to(whole)
            found: Counter[str] = Counter()
            wanted = files // len(chosen) + (number < files % len(chosen))
            while found["tried"] < wanted:
                found += batch(name, whole, path, seed + found["tried"], min(BATCH, wanted - found["tried"]))
        print(row(name, found), flush=True)
        total += found
    print(row("all", total))


def row(name: str, found: Counter[str]) -> str:
    return f"| {name} | " + " | ".join(f"{found[outcome]:,}" for outcome in OUTCOMES) + " |"


def batch(name: str, whole: Path, path: Path, seed: int, files: int) -> Counter[str]:
    """The outcomes of some files. A process that ends early counts its last file as `other`."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        with os.fdopen(writing, "w") as lines:
            read(name, whole, path, range(seed, seed + files), lines)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        outcomes = [line.strip() for line in lines]
    os.waitpid(process, 0)
    if len(outcomes) < files:
        print(f"{name}: seed {seed + len(outcomes)} stopped the process", file=sys.stderr, flush=True)
        outcomes.append("other")
    return Counter(outcomes) + Counter(tried=len(outcomes))


def read(name: str, whole: Path, path: Path, seeds: range, lines: Any) -> None:
    """Print the outcome of each file as a line."""
    work = whole.with_name("work")
    expected = fresh(whole, work) and outcome(CASES[name], work, path)[0]
    memory = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (memory + BYTES, memory + BYTES))
    for seed in seeds:
        chance = random.Random(f"{name} {seed}")
        file = chance.choice(fresh(whole, work))
        file.write_bytes(mutated(file.read_bytes(), chance))
        signal.alarm(SECONDS)
        kind, about = outcome(CASES[name], work, path)
        signal.alarm(0)
        kind = kind if kind in ("refused", "other") else "same" if kind == expected else "different"
        print(kind, file=lines, flush=True)
        if kind == "other":
            print(f"{name}: seed {seed}, {file.name}: {about}", file=sys.stderr, flush=True)


def fresh(whole: Path, work: Path) -> list[Path]:
    """Copies of the whole files."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(whole, work)
    return sorted(file for file in work.rglob("*") if file.is_file() and file.stat().st_size)


def outcome(case: Case, work: Path, path: Path) -> tuple[str, str]:
    """The digest of what was read, "refused" or "other"; and what happened."""
    before = sorted(work.parent.rglob("*"))
    try:
        found, about = case.read(work / path), ""
    except StelmoError as problem:
        found, about = "other" if "\n" in str(problem) else "refused", str(problem)
    except Exception as problem:  # noqa: BLE001 the kind of outcome that is counted
        where = traceback.extract_tb(problem.__traceback__)[-1]
        return "other", f"{type(problem).__name__} {str(problem)[:100]!r} at {where.filename}:{where.lineno}"
    if not case.writes and sorted(work.parent.rglob("*")) != before:
        return "other", "a file was written"
    return found, about


if __name__ == "__main__":
    counts, names = [int(word) for word in sys.argv[1:3]], sys.argv[3:]
    main(*counts, *names)
