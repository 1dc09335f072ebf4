"""An index of a text: processor time, the model's share of it, and disk; beside an older version of stelmo, if given.

OMP_NUM_THREADS=1 python bench/index.py TEXT [CHARACTERS] [SOURCE] [ROUNDS]     200,000 characters; 2 rounds

SOURCE is the folder `src` of a check-out of the older version (`git worktree add --detach ../old 680e815`). Both run
their own command with the bundled model of this one, in turns, and the smallest processor time of the rounds counts.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import stelmo
from stelmo.explore import index

HERE = Path(__file__).parents[1] / "src"
MODEL = HERE / "stelmo" / "bundled" / "english"


def parts(text: str, folder: Path) -> None:
    """The time of an index in this process, and that of the model alone."""
    model = stelmo.load(threads=1)
    sentences = stelmo.tokenize(text)
    model.layers([["warm", "up"]])
    started = time.process_time()
    model.layers(sentences)
    alone = time.process_time() - started
    model.forget_words()
    started = time.process_time()
    made = index.build(model, sentences, folder / "parts", per_word=1000)
    took = time.process_time() - started
    tokens = sum(map(len, sentences))
    print(f"{tokens:,} tokens, {len(made):,} uses: {took:.1f} s of processor time; the model alone {alone:.1f} s")


def command(source: Path, text: Path, to: Path) -> tuple[float, int]:
    """Processor time of the whole command and bytes of the index. Both versions know this spelling."""
    arguments = ["-m", "stelmo", "explore", "--index", text, "--to", to, "--model", MODEL]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(source)}
    subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, sum(file.stat().st_size for file in to.iterdir())


def compare(versions: dict[str, Path], text: Path, folder: Path, rounds: int) -> None:
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in versions}
    for number in range(rounds):
        for name, source in versions.items():
            found[name].append(command(source, text, folder / f"{name}-{number}"))
    first_seconds, first_size = map(min, zip(*next(iter(found.values())), strict=True))
    print("| version | processor time | ratio | disk | ratio |\n|---|---|---|---|---|")
    for name, runs in found.items():
        seconds, size = map(min, zip(*runs, strict=True))
        times = " and ".join(f"{run[0]:.1f}" for run in runs)
        print(f"| {name} | {times} s | {first_seconds / seconds:.2f} | {size / 1e6:.0f} MB | {first_size / size:.2f} |")


def main(path: str, characters: str = "200000", older: str | None = None, rounds: str = "2") -> None:
    text = Path(path).read_text()[: int(characters)]
    with tempfile.TemporaryDirectory() as room:
        parts(text, Path(room))
        (Path(room) / "text.txt").write_text(text)
        versions = ({"older": Path(older).resolve()} if older else {}) | {"this": HERE}
        compare(versions, Path(room) / "text.txt", Path(room), int(rounds))


if __name__ == "__main__":
    main(*sys.argv[1:])
