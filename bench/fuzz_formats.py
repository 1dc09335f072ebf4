"""N mutated files of every format → a table of what reading them gave. Run: fuzz_formats.py [N] [SEED]

Batches of files are read in processes of their own with bounded memory and time, on systems that can bound them.

 refused    one sentence of ours
 same       the model that the whole file holds
 different  another model with finite numbers (not every format has checksums)
 other      anything else: another exception, a crash, memory or time used up
"""

import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
BATCH = 50  # files of one process
SECONDS, BYTES = 10, 8 << 30  # for a file; address space of a process, of which torch alone takes some GB
OUTCOMES = ("tried", "refused", "same", "different", "other")


def main(files: int = 100, seed: int = 0) -> None:
    sys.path[:0] = [str(TESTS), str(TESTS / "unit" / "formats")]
    from test_fuzz import FORMATS

    print("| format | " + " | ".join(OUTCOMES) + " |\n|---|" + "---|" * len(OUTCOMES))
    for name in FORMATS:
        found: Counter[str] = Counter()
        for start in range(0, files, BATCH):
            found += batch(name, seed + start, min(BATCH, files - start))
        print(f"| {name} | " + " | ".join(f"{found[outcome]:,}" for outcome in OUTCOMES) + " |", flush=True)


def batch(name: str, seed: int, files: int) -> Counter[str]:
    """A process that stops early is one file of the kind `other`; the rest of the batch is read by the next one."""
    found: Counter[str] = Counter()
    while found["tried"] < files:
        first = seed + found["tried"]
        command = [sys.executable, __file__, "--read", name, str(first), str(files - found["tried"])]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        outcomes = [json.loads(line) for line in lines]
        if len(outcomes) < files - found["tried"]:
            print(f"{name}: seed {first + len(outcomes)} stopped the process", file=sys.stderr)
            outcomes.append("other")
        found.update(outcomes)
        found["tried"] += len(outcomes)
    return found


def read(name: str, seed: int, files: int) -> None:
    """Print the outcome of each file as a line."""
    sys.path[:0] = [str(TESTS), str(TESTS / "unit" / "formats")]
    import test_fuzz

    bounded = bound_memory()
    with tempfile.TemporaryDirectory() as folder:
        path = test_fuzz.FORMATS[name](Path(folder))
        parts = sorted(file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
        whole = outcome(path)
        for number in range(seed, seed + files):
            chance = random.Random(f"{name} {number}")
            file = chance.choice(parts)
            content = file.read_bytes()
            file.write_bytes(test_fuzz.mutated(content, chance))
            if bounded:
                bounded(SECONDS)
            found = outcome(path)
            kind = found if found in ("refused", "other") else "same" if found == whole else "different"
            print(json.dumps(kind), flush=True)
            if kind == "other":
                print(f"{name}: seed {number}, {file.name}", file=sys.stderr)
            file.write_bytes(content)


def outcome(path: Path) -> str:
    """The model's fingerprint, "refused" or "other"."""
    import torch

    from stelmo.errors import StelmoError
    from stelmo.formats import models

    try:
        saved = models.read(path)
        if saved.read_softmax is not None:
            saved.read_softmax()
    except StelmoError as problem:
        return "other" if "\n" in str(problem) else "refused"
    except Exception:  # noqa: BLE001 the kind of outcome that is counted
        return "other"
    finite = all(bool(torch.isfinite(tensor).all()) for tensor in saved.bilm.state_dict().values())
    return saved.fingerprint() if finite else "other"


def bound_memory():
    """Limit this process's memory; returns what limits the time of the next file, or None where systems cannot."""
    try:
        import resource
        import signal
    except ImportError:
        return None
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    return getattr(signal, "alarm", None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main(*map(int, sys.argv[1:]))
