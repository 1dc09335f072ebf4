"""Devices and precisions that are not there, or do not fit each other, are refused."""

import pytest
import tiny
import torch

from stelmo.engine.devices import available
from stelmo.errors import ConfigError


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta-physics"])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(ConfigError, match=f"device: {device!r} is not available here .*; cpu always is"):
        tiny.model(device=device)


def test_a_card_number_is_for_a_gpu_without_one():
    assert available("cpu", card=3) == torch.device("cpu")
    with pytest.raises(ConfigError, match="device: 'cuda:99'"):
        available("cuda:99", card=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precision": "bfloat16"}, "precision: bfloat16 requires a GPU"),
        ({"precision": "int8", "device": "meta"}, "int8 runs only on the CPU, not on meta"),
    ],
)
def test_a_precision_that_does_not_fit_the_device_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        tiny.model(**settings)
