"""A task's name → its files, network and score. Knows no training."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from stelmo.config import Settings, choose
from stelmo.tasks.coref import data as coref_data
from stelmo.tasks.coref import model as coref_model
from stelmo.tasks.coref import score as coref_score
from stelmo.tasks.ner import data as ner_data
from stelmo.tasks.ner import model as ner_model
from stelmo.tasks.ner import score as ner_score
from stelmo.tasks.snli import data as snli_data
from stelmo.tasks.snli import model as snli_model
from stelmo.tasks.snli import score as snli_score
from stelmo.tasks.splits import Skipped
from stelmo.tasks.squad import data as squad_data
from stelmo.tasks.squad import model as squad_model
from stelmo.tasks.squad import score as squad_score
from stelmo.tasks.srl import data as srl_data
from stelmo.tasks.srl import model as srl_model
from stelmo.tasks.srl import score as srl_score
from stelmo.tasks.sst5 import data as sst5_data
from stelmo.tasks.sst5 import model as sst5_model
from stelmo.tasks.sst5 import score as sst5_score

Example = Any  # each task has its own, of strings and numbers
Prediction = Any


class Task(NamedTuple):
    """`model` has Net, Size, SIZES, RECIPES, ELMO, METRIC, sentences and inventory; `data` reads and writes files."""

    name: str
    data: ModuleType
    model: ModuleType
    score: Callable[[Sequence[Prediction], Sequence[Example]], dict[str, float]]

    @property
    def metric(self) -> str:
        metric: str = self.model.METRIC
        return metric

    def read_train(self, path: Path, skipped: Skipped | None) -> list[Example]:
        """What to learn from; sentiment trees give their phrases, too."""
        read = getattr(self.data, "read_train", self.data.read)
        examples: list[Example] = read(path, skipped)
        return examples

    def headline(self, figures: dict[str, float]) -> float:
        return figures[self.metric]

    def size(self, preset: str) -> Settings:
        choose("--size", preset, tuple(self.model.SIZES))
        size: Settings = self.model.SIZES[preset]
        return size


TASKS = {
    task.name: task
    for task in (
        Task("squad", squad_data, squad_model, squad_score.score),
        Task("snli", snli_data, snli_model, snli_score.score),
        Task("srl", srl_data, srl_model, srl_score.score),
        Task("coref", coref_data, coref_model, coref_score.score),
        Task("ner", ner_data, ner_model, ner_score.score),
        Task("sst5", sst5_data, sst5_model, sst5_score.score),
    )
}


def named(name: str) -> Task:
    choose("task", name, tuple(TASKS))
    return TASKS[name]
