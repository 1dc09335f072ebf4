"""Recipes of `stelmo pretrain` on one corpus, at equal tokens: held-out perplexity and processor time of each.

python bench/recipes.py CORPUS VECTORS FOLDER [--tokens 640000] [--only NAME ...] [--print]

Every row is a run of its own in FOLDER, on one thread: a finished one is read, an interrupted one resumes. The
table has what is set, the perplexity after each fifth of the tokens, and the processor time of the command, the fit of
the encoder included. The picture shows the first three rows. `--print` runs nothing.
"""

import argparse
import json
import resource
import shlex
import subprocess
import sys
from pathlib import Path

from stelmo import plots

ROWS = 64
UNROLL = 20
POINTS = 5
MUON = ("optimizer=muon", "lr=0.002", "clip=1", "weight_decay=0.05")
# name → whether it starts from the vectors, and what is set
RECIPES: dict[str, tuple[bool | str, tuple[str, ...]]] = {
    "random start": (False, ("count_biases=false",)),
    "biases from counts": (False, ()),
    "warm start": (True, ()),
    "vectors trained on the corpus": ("trained", ()),
    "fit of 500 steps": (True, ("vectors.steps=500",)),
    "fit of 8,000 steps": (True, ("vectors.steps=8000",)),
    "fit to 20,000 words": (True, ("vectors.words=20000",)),
    "rows of 0.1": (True, ("vectors.rows=0.1",)),
    "rows of 0.5": (True, ("vectors.rows=0.5",)),
    "outputs of 0.5": (True, ("vectors.scale=0.5",)),
    "50 of 100 dimensions": (True, ("vectors.dimensions=50",)),
    "late decay": (True, ("decay=late",)),
    "batch 128": (True, ("batch=128",)),
    "2,048 negatives": (True, ("negatives=2048",)),
    "8,192 negatives": (True, ("negatives=8192",)),
    "P = 256": (True, ("lstm.projection=256",)),
    "Muon 0.005": (True, (*MUON, "matrix_lr=0.005")),
    "Muon 0.01": (True, (*MUON, "matrix_lr=0.01")),
    "Muon 0.005, late decay": (True, (*MUON, "matrix_lr=0.005", "decay=late")),
    "Muon 0.01, late decay": (True, (*MUON, "matrix_lr=0.01", "decay=late")),
}
DRAWN = ("random start", "biases from counts", "warm start")
NOTE = "processor.json"  # in each run: the processor time, and whether it is finished


def command(name: str, corpus: str, vectors: str, folder: str, tokens: int) -> list[str]:
    start, words = RECIPES[name]
    settings = {
        "tokens": str(tokens),
        "dropout": "0",
        "decay": "linear",
        "validate_tokens": "20000",
        "threads": "1",
        **({} if start is False else {"vectors.rows": "0.25", "vectors.words": "100000"}),
        **dict(word.split("=", 1) for word in words),
    }
    settings["validate_every"] = str(tokens // POINTS // (int(settings.get("batch", ROWS)) * UNROLL))
    given = () if start is False else ("--vectors", vectors if start is True else start)
    return [
        *("stelmo", "pretrain", "laptop", "--data", corpus, "--to", str(run_folder(folder, name)), *given),
        *(part for name, value in settings.items() for part in ("--set", f"{name}={value}")),
    ]


def settings_of(name: str) -> str:
    start, words = RECIPES[name]
    vectors = [] if start is False else ["--vectors VECTORS" if start is True else f"--vectors {start}"]
    return " ".join(f"`{part}`" for part in (*vectors, *words))


def run_folder(folder: str, name: str) -> Path:
    return Path(folder) / "".join(c if c.isalnum() else "-" for c in name.lower())


def run(words: list[str], folder: Path) -> None:
    """The command; the processor time that it took in all attempts is noted in its run."""
    print("$", shlex.join(words), flush=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = subprocess.run([sys.executable, "-m", *words]).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = noted(folder)["seconds"] + after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if folder.is_dir():
        (folder / NOTE).write_text(json.dumps({"seconds": spent, "finished": code == 0}))
    if code:
        sys.exit(code)


def noted(folder: Path) -> dict[str, float]:
    note = folder / NOTE
    return json.loads(note.read_text()) if note.is_file() else {"seconds": 0.0, "finished": False}


def curve(folder: Path) -> list[tuple[int, float]]:
    """(tokens, perplexity) of each validation after the start."""
    entries = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [(e["tokens"], e["perplexity"]) for e in entries if "perplexity" in e and e["tokens"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("vectors")
    parser.add_argument("folder")
    parser.add_argument("--tokens", type=int, default=640_000)
    parser.add_argument("--only", nargs="*", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--print", action="store_true")
    given = parser.parse_args()
    for name in given.only:
        folder = run_folder(given.folder, name)
        if not given.print and not noted(folder)["finished"]:
            run(command(name, given.corpus, given.vectors, given.folder, given.tokens), folder)
    done = {name: run_folder(given.folder, name) for name in RECIPES}
    done = {name: folder for name, folder in done.items() if noted(folder)["finished"]}
    curves = {name: curve(folder) for name, folder in done.items()}
    if not curves:
        sys.exit(f"{given.folder}: no recipe is finished; run without --print")
    head = " | ".join(f"{tokens // 1000}k" for tokens, _ in next(iter(curves.values())))
    print(f"\n| recipe | set | {head} | minutes |\n|{'---|' * (POINTS + 3)}")
    for name, points in curves.items():
        figures = " | ".join(f"{perplexity:.0f}" for _, perplexity in points)
        print(f"| {name} | {settings_of(name)} | {figures} | {noted(done[name])['seconds'] / 60:.1f} |")
    drawn = {name: [(t / 1000, p) for t, p in curves[name]] for name in DRAWN if name in curves}
    if not drawn:
        return
    picture = Path(given.folder) / "recipes.svg"
    plots.lines(picture, drawn, x="thousand tokens", y="held-out perplexity", title="Start of a run", log_y=True)
    print(f"\n{picture}")


if __name__ == "__main__":
    main()
