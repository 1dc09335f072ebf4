"""Writes docs/results.md from the records in docs/results, and the page's layer weights with it.

python docs/write_results.py           # the tables, pictures and commands of results.md; its notes are kept
python docs/write_results.py REPORT    # before that, copies the records of a report of `stelmo paper`, without networks

Notes are what people wrote: the text before the first section, and in a section everything between the two marks.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stelmo.paper import cells, report
from stelmo.paper.cells import PAPER, Setup
from stelmo.paper.document import Command, Commands, markdown
from stelmo.paper.run import NOT_RUN
from stelmo.store.folder import ENGLISH
from stelmo.tasks.network import named

DOCUMENT = Path(__file__).with_name("results.md")
RECORDS = Path(__file__).with_name("results")
LEARNED = Path(__file__).parents[1] / "src" / "stelmo" / "serve" / "site" / "learned.json"
BEGIN, END = "<!-- notes: kept by docs/write_results.py -->\n", "<!-- end of the notes -->\n"
OF_RUN = ("results.json", "mixes.json", "log.jsonl")
OF_SEED = ("result.json", "task.json", "mixes.json", "counts.npz", "log.jsonl")
TRANSFORMER = "minilm/all-MiniLM-L6-v2"


def copy_records(source: Path, to: Path = RECORDS) -> None:
    """The results and times of finished cells and seeds. Paths become relative to the report's parent, where `data`
    may be a link."""
    runs = source / "runs"
    found = [path for path in runs.iterdir() if path.is_file()]
    found += [path for run in runs.iterdir() for path in map(run.joinpath, OF_RUN) if path.is_file()]
    for seed in (path.parent for path in runs.glob("*/seed-*/result.json")):
        found += [path for path in map(seed.joinpath, OF_SEED) if path.is_file()]
    names = {path.stem if path.parent == runs else path.relative_to(runs).parts[0] for path in found}
    found += [path for path in (source / "logs").glob("*.time.json") if path.name.removesuffix(".time.json") in names]
    for path in found:
        target = to / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        if path.suffix in (".json", ".txt"):
            parent, text = source.resolve().parent, target.read_text(encoding="utf-8")
            text = text.replace(f"{(parent / 'data').resolve()}/", "data/").replace(f"{parent}/", "")
            target.write_text(text, encoding="utf-8")


@contextmanager
def as_report() -> Iterator[Setup]:
    """The records as the folder `report` beside a folder `data`, whose files are empty: only their names are needed.

    A record with another folder of data is refused, so that no empty files are made there.
    """
    back = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(RECORDS, Path(folder, "report"))
        os.chdir(folder)
        try:
            for path in Path("report", "runs").glob("*/seed-0/task.json"):
                noted = json.loads(path.read_text())
                if Path(noted["data"]).is_absolute():  # its files would be taken for real ones
                    sys.exit(f"{path}: the data is {noted['data']}; expected a folder or link `data` beside the report")
                for pattern in (patterns[0] for patterns in named(noted["task"]).data.FILES.values()):
                    _touch(Path(noted["data"], pattern.replace("*", "")))
            _touch(Path("data", "pos", "ud_ewt", "train"))
            about = json.loads(Path("report", "report.json").read_text())
            shared = {"size": about["size"], "vectors": about["vectors"], "transformer": TRANSFORMER}
            yield Setup(Path("data"), Path("report"), parts=(*PAPER, "controls"), **shared)
        finally:
            os.chdir(back)


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def page(setup: Setup, before: str) -> str:
    """The document as it was → with the sections of the report, and the notes that it had."""
    blocks = []
    for block in report.report(setup):
        if isinstance(block, Commands):
            done = (command for command in block.commands if command.about != NOT_RUN)
            block = Commands(tuple(command._replace(line=_as_run(command)) for command in done))
        blocks.append(block)
    written = re.sub(r"\]\((\w[\w-]*\.svg)\)", r"](results-\1)", markdown(blocks))
    first, *sections = re.split(r"(?m)^(?=## )", before)
    notes = {_title(section): _notes(section) for section in sections}
    parts = [section.rstrip() + "\n\n" + notes.get(_title(section), "") for section in _sections(written)]
    return (first + "".join(parts)).rstrip() + "\n"


def _sections(text: str) -> list[str]:
    return re.split(r"(?m)^(?=## )", text)[1:]


def _title(section: str) -> str:
    """Text before the colon: it names the table or figure."""
    return re.split(r"[:\n]", section, maxsplit=1)[0]


def _notes(section: str) -> str:
    _, mark, rest = section.partition(BEGIN)
    return f"{BEGIN}{rest.partition(END)[0]}{END}\n" if mark else ""


def _as_run(command: Command) -> str:
    """The line with a short path of the bundled model, and with the number of seeds that the cell has."""
    line = command.line.replace(str(ENGLISH), "src/stelmo/bundled/english")
    seeds = re.match(r"seeds? ([\d, ]+);", command.about)
    return line if seeds is None else re.sub(r"--seeds \d+", f"--seeds {len(seeds[1].split(','))}", line)


def learned(setup: Setup) -> str:
    """Figure 2 for the page `layers` of the explorer."""
    about = (
        "Mean over the seeds of our own runs, with the model bundled with stelmo and networks of the size "
        f"“{setup.size}” (docs/results.md, Figure 2)."
    )
    tasks = []
    for task in setup.tasks:
        if (run := report.found(setup, cells.with_elmo(setup, task))) is not None:
            outputs = [
                {
                    "placement": place,
                    "weights": [round(share, 2) for share in mix["weights"]],
                    "gamma": round(mix["gamma"], 2),
                }
                for place, mix in run.mixes.items()
            ]
            tasks.append({"name": report.TITLES[task], "task": task, "outputs": outputs})
    return json.dumps({"about": about, "tasks": tasks}, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    if len(sys.argv) > 1:
        copy_records(Path(sys.argv[1]))
    with as_report() as setup:
        text = page(setup, DOCUMENT.read_text(encoding="utf-8"))
        for picture in re.findall(r"\]\(results-(\S+\.svg)\)", text):
            shutil.copyfile(setup.to / picture, DOCUMENT.with_name(f"results-{picture}"))
        DOCUMENT.write_text(text, encoding="utf-8")
        LEARNED.write_text(learned(setup), encoding="utf-8")


if __name__ == "__main__":
    main()
