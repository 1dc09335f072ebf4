"""What `stelmo info` tells of folders that keep vectors."""

import tiny

import stelmo
from stelmo.cli.describe import describe
from stelmo.explore import index

SENTENCES = [["The", "bank", "."], ["a", "river", "bank"]]


def test_an_index_of_uses_is_described(tmp_path):
    index.build(tiny.model(), SENTENCES, tmp_path / "uses")
    lines = dict(describe(tmp_path / "uses"))
    assert lines["format"] == "index of word uses"
    assert lines["uses"] == "5 in 2 sentences"  # the full stop is no word
    assert lines["vectors"] == "3 layers of 12 numbers, float16"


def test_precomputed_layers_are_described(tmp_path):
    stelmo.precompute(tiny.model(), SENTENCES, tmp_path / "layers")
    lines = dict(describe(tmp_path / "layers"))
    assert lines["format"] == "precomputed layers"
    assert lines["sentences"] == "2, 6 tokens"
