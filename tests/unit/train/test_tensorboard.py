"""TensorBoard is told where it is installed, and not missed where it is not."""

import sys
from unittest.mock import Mock

from stelmo.train import tensorboard


def test_where_it_is_installed_it_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(tensorboard, "find_spec", lambda name: object())
    module = Mock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    tensorboard.events(tmp_path)(7, {"loss": 1.5})
    module.SummaryWriter.assert_called_once_with(str(tmp_path))
    module.SummaryWriter().add_scalar.assert_called_once_with("loss", 1.5, 7)


def test_where_it_is_absent_nothing_happens(monkeypatch, tmp_path):
    monkeypatch.setattr(tensorboard, "find_spec", lambda name: None)
    tensorboard.events(tmp_path / "t")(7, {"loss": 1.5})
    assert not (tmp_path / "t").exists()
