"""A task, a preset and what the user changes → all that decides what a run turns out, but the data. Knows no files."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from stelmo.config import ElmoSettings, Settings, TaskSettings, parse
from stelmo.errors import ConfigError
from stelmo.tasks.table import Task, named
from stelmo.train.presets import parse_words

RANDOM, TRAINED, NONE = "random", "trained", "none"  # static vectors that come from no file


class Plan(NamedTuple):
    task: Task
    preset: str
    size: Settings
    train: TaskSettings
    elmo: ElmoSettings
    vectors: str = RANDOM  # a path, or one of the words above
    fraction: float = 1.0  # of the training examples

    def described(self) -> dict[str, Any]:
        """As JSON; a run of another description is another run."""
        return {
            "task": self.task.name,
            "preset": self.preset,
            "size": self.size.model_dump(mode="json"),
            "train": self.train.model_dump(mode="json"),
            "elmo": self.elmo.model_dump(mode="json"),
            "vectors": self.vectors,
            "fraction": self.fraction,
        }


def make(
    name: str,
    preset: str = "cpu",
    elmo: Mapping[str, Any] | None = None,
    words: Iterable[str] = (),
    vectors: str = RANDOM,
    fraction: float = 1.0,
) -> Plan:
    """The preset's settings, overridden by words like lr=0.002 or size.hidden=50; of ELMo the paper's for the task."""
    task = named(name)
    if not 0 < fraction <= 1:
        raise ConfigError(f"--fraction {fraction}: expected a share of the training examples, above 0 and at most 1")
    size = task.size(preset).model_dump()
    changes = parse_words(words)
    size |= _part(changes.pop("size", {}))
    recipe = {**task.model.RECIPES[preset]}
    if vectors == RANDOM:
        recipe["tuned_vectors"] = True  # chance says nothing of a word until it is learned
    chosen = parse(ElmoSettings, {**task.model.ELMO, **(elmo or {})}, "ELMo", ConfigError)
    if vectors == NONE and chosen.placement in ("none", "output"):
        raise ConfigError(f"--vectors none with ELMo at {chosen.placement}: the network would read nothing; drop one")
    return Plan(
        task,
        preset,
        parse(task.model.Size, size, f"--set size (of {name})", ConfigError),
        parse(TaskSettings, recipe | changes, "--set", ConfigError),
        chosen,
        vectors,
        fraction,
    )


def remembered(described: Mapping[str, Any]) -> Plan:
    """Back from `described`."""
    task = named(described["task"])
    return Plan(
        task,
        described["preset"],
        parse(task.model.Size, described["size"], "size", ConfigError),
        parse(TaskSettings, described["train"], "train", ConfigError),
        parse(ElmoSettings, described["elmo"], "elmo", ConfigError),
        described["vectors"],
        described["fraction"],
    )


def _part(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ConfigError(f"--set size={values}: expected a part of the size, such as size.hidden=50")
    return values
