"""What `stelmo bench` measures: the baseline must compute the same, and figures must add up."""

import numpy as np
import pytest
import torch

from stelmo import benchmark as speed
from stelmo.model.bilm import BiLM


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(speed, "SIZES", {"small": (8, 4, 1)})
    monkeypatch.setattr(speed, "SENTENCES", {"small": 40})
    monkeypatch.setattr(speed, "FILTERS", ((1, 2), (2, 3)))
    monkeypatch.setattr(speed, "BASELINE_SENTENCES", 34)


def test_the_baseline_computes_the_layers_that_the_engine_does(monkeypatch):
    model, sentences, found = speed.random_model("small"), speed.zipf_text(34), []
    plain = BiLM.forward

    def watched(self, x_BTP, lengths_B, state):
        layers_LBTD, end = plain(self, x_BTP, lengths_B, state)
        found.extend(layers_LBTD[:, row, 1 : length - 1] for row, length in enumerate(lengths_B.tolist()))
        return layers_LBTD, end

    monkeypatch.setattr(BiLM, "forward", watched)
    speed.baseline(model, sentences)
    for ours, right in zip(found, model.layers(sentences), strict=True):
        np.testing.assert_allclose(ours.numpy(), right, atol=1e-5)


def test_sentences_are_as_long_as_in_real_text_and_repeat_their_words():
    text = speed.zipf_text(2000)
    lengths = [len(words) for words in text]
    words = [word for sentence in text for word in sentence]
    assert 20 < np.mean(lengths) < 24
    assert max(lengths) <= 60
    assert len(set(words)) < 0.5 * len(words)


def test_a_measurement_has_every_figure_and_leaves_the_threads_alone():
    threads = torch.get_num_threads()
    found = speed.measure("small", rounds=1)
    assert all(rate > 0 for rate in found.rates.values())
    assert found.peak > 10
    assert 0 < found.share < 1
    assert torch.get_num_threads() == threads
    *_, row = speed.table({"small": found})
    assert row.startswith("| small |")
    assert row.count("×") == 4


def test_rows_are_measured_one_by_one():
    assert list(speed.by_rows("small", 1, rows=(1, 3))) == [1, 3]
