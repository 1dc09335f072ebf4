"""Curves: TensorBoard's files where it is installed, and nothing where it is not."""

import sys
import types

from stelmo.train import curves


class Writer:
    """In place of TensorBoard's writer: keeps what it is given in a file, once it is flushed."""

    def __init__(self, folder):
        self._path, self._lines = f"{folder}/events", []

    def add_scalar(self, name, value, step):
        self._lines.append(f"{step} {name} {value}")

    def flush(self):
        with open(self._path, "w") as file:  # noqa: PTH123
            file.write("\n".join(self._lines))


def test_with_tensorboard_every_figure_is_on_disk_after_each_call(monkeypatch, tmp_path):
    monkeypatch.setattr(curves, "find_spec", lambda name: object())
    module = types.SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    write = curves.tensorboard(tmp_path)
    write(7, {"loss": 1.5})
    assert (tmp_path / "events").read_text() == "7 loss 1.5"
    write(8, {"loss": 1.25, "lr": 0.1})
    assert (tmp_path / "events").read_text() == "7 loss 1.5\n8 loss 1.25\n8 lr 0.1"


def test_without_tensorboard_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(curves, "find_spec", lambda name: None)
    curves.tensorboard(tmp_path / "t")(7, {"loss": 1.5})
    assert not (tmp_path / "t").exists()
