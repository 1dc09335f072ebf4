"""A task's training examples → a file of their sentences, for a biLM to be tuned on. Knows no biLM."""

from pathlib import Path

from stelmo.paper.cells import Setup, folder_of
from stelmo.store import atomic
from stelmo.tasks import splits
from stelmo.tasks.splits import Skipped
from stelmo.tasks.table import named


def write(setup: Setup, task: str) -> Path:
    """Each distinct sentence once, tokens between spaces; a file that is there stays."""
    path = setup.to / "texts" / f"{task}.txt"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    read = named(task)
    file = splits.find(folder_of(setup.data, task), read.data.FILES)["train"]
    found = dict.fromkeys(
        sentence for example in read.data.read(file, Skipped()) for sentence in read.model.sentences(example)
    )
    with atomic.new_file(path) as draft:
        draft.write_text("".join(f"{' '.join(sentence)}\n" for sentence in found), encoding="utf-8")
    return path
