"""Figures of a run → TensorBoard's event files, where TensorBoard is installed. Knows no training."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

Write = Callable[[int, Mapping[str, float]], None]


def events(folder: Path) -> Write:
    """A function to be told of a step's figures."""
    if find_spec("tensorboard") is None:
        return lambda step, figures: None
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))

    def write(step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return write
