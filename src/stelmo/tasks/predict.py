"""A trained task and a file of text → the answers, in the task's official format. Knows no training."""

from pathlib import Path

from stelmo.config import choose
from stelmo.errors import ModelError
from stelmo.tasks import loop, results, saved
from stelmo.tasks.saved import Network


def find(run: Path) -> Path:
    """The model of a run, of one of its seeds, or the folder itself; of several seeds the best on dev."""
    for folder in (run, run / "model"):
        if (folder / saved.NOTE).is_file():
            return folder
    if (run / results.RESULTS).is_file():
        found = results.read(run)
        best = max(zip(found.dev, found.seeds, strict=True))[1]
        return run / f"seed-{best}" / "model"
    seeds = sorted(run.glob(f"seed-*/model/{saved.NOTE}"))
    if not seeds:
        raise ModelError(f"{run}: no trained task there; name the folder that `stelmo task … --to` wrote")
    return seeds[0].parent


def file(network: Network, source: Path, to: Path) -> int:
    """Answers for every example of the file; how many there were."""
    task = network.plan.task
    examples = task.data.read_new(source)
    task.data.write(to, examples, loop.predict(network.net, task, examples, network.plan.train.batch))
    return len(examples)


def read(run: Path, task: str, bilm: str | None = None) -> Network:
    network = saved.read(find(run), bilm)
    choose(f"the task of {run}", task, (network.plan.task.name,))
    return network
