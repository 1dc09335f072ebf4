"""Probes of several sources: each part measured once, kept, and shown in one table."""

import numpy as np
import pytest
import tiny
from unit.probes.test_coarse import folder as coarse_folder
from unit.probes.toys import contextual, of, static

from stelmo.embed.transformer import digest
from stelmo.errors import ConfigError, DataError
from stelmo.probes import embedding, measure
from stelmo.probes.run import Row
from stelmo.store.static import StaticVectors

COARSE = {"limit": None}


class Counting:
    """A source's embed that counts the sentences it was asked for."""

    def __init__(self, embed):
        self.embed, self.sentences = embed, 0

    def __call__(self, sentences):
        self.sentences += len(sentences)
        return self.embed(sentences)


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    return coarse_folder(tmp_path / "data")


def test_a_kept_part_is_not_measured_again(data, tmp_path):
    embed, other = Counting(contextual), Counting(static)
    one, two = of(embed, "one", lambda: "1"), of(other, "two", lambda: "2")
    first = measure.measure("coarse", data, [one], COARSE, tmp_path / "cache")
    both = measure.measure("coarse", data, [one, two], COARSE, tmp_path / "cache")
    assert (embed.sentences, other.sentences) == (5, 5)
    assert both == measure.measure("coarse", data, [one, two], COARSE)
    assert [row for row in both if row.vectors != "two"] == first


def changed_model(data):
    return data, of(contextual, "one", lambda: "another"), COARSE


def changed_options(data):
    return data, of(contextual, "one", lambda: "1"), {"limit": 2}


def changed_data(data):
    (data / "bank" / "test.gold.txt").write_text("0\n0\n")
    return data, of(contextual, "one", lambda: "1"), COARSE


@pytest.mark.parametrize("change", [changed_model, changed_options, changed_data])
def test_what_decides_a_figure_decides_where_it_is_kept(change, data, tmp_path):
    measure.measure("coarse", data, [of(contextual, "one", lambda: "1")], COARSE, tmp_path / "cache")
    folder, source, options = change(data)
    embed = Counting(source.embed)
    again = measure.measure("coarse", folder, [source._replace(embed=embed)], options, tmp_path / "cache")
    assert embed.sentences > 0
    assert again == measure.measure("coarse", folder, [source], options)


def test_a_source_of_unknown_identity_is_measured_every_time(data, tmp_path):
    embed = Counting(contextual)
    for _ in range(2):
        measure.measure("coarse", data, [of(embed)], COARSE, tmp_path / "cache")
    assert embed.sentences == 10
    assert not (tmp_path / "cache").exists()


def test_a_damaged_part_is_refused_with_its_name(data, tmp_path):
    source = of(contextual, "one", lambda: "1")
    measure.measure("coarse", data, [source], COARSE, tmp_path)
    (kept,) = tmp_path.glob("coarse-*.json")
    for text in ("{", "[]", '{"rows": [[1]]}'):
        kept.write_text(text)
        with pytest.raises(DataError, match=r"not the rows of a probe .*; delete it"):
            measure.measure("coarse", data, [source], COARSE, tmp_path)


def test_two_sources_of_one_name_are_refused(data):
    with pytest.raises(ConfigError, match="two sources of vectors are called 'toy'"):
        measure.measure("coarse", data, [of(static), of(contextual)], COARSE)


def test_progress_counts_over_all_sources(data, tmp_path):
    shares = []
    sources = [of(static, "one", lambda: "1"), of(contextual, "two", lambda: "2")]
    for _ in range(2):
        measure.measure("coarse", data, sources, COARSE, tmp_path / "c", lambda tokens, share: shares.append(share))
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        shares.clear()


# Identities


def test_a_model_is_known_by_its_weights_and_its_state():
    model = tiny.model()
    first = embedding.of_model(model).identity()
    assert first == embedding.of_model(tiny.model()).identity()
    model.warm_up([["the", "bank"]])
    assert embedding.of_model(model).identity() != first


def test_a_file_is_known_by_its_content(tmp_path):
    (tmp_path / "glove.txt").write_text("bank 1 0\n")
    first = embedding.read_static(tmp_path / "glove.txt").identity()
    (tmp_path / "glove.txt").write_text("bank 0 1\n")
    assert embedding.read_static(tmp_path / "glove.txt").identity() != first


def test_a_folder_is_known_by_names_and_contents(tmp_path):
    contents = [{"a": "xy", "b": ""}, {"a": "x", "b": "y"}, {"a": "xy", "c": ""}]
    found = set()
    for number, files in enumerate(contents):
        (tmp_path / str(number) / "in").mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / str(number) / "in" / name).write_text(text)
        found.add(digest(tmp_path / str(number)))
    assert len(found) == 3


def test_vectors_in_memory_have_no_identity():
    assert embedding.of_static(StaticVectors(["a"], np.ones((1, 2), np.float32)), "toy").identity is None


# Folders


def test_folders_are_found_by_name_wherever_they_are(tmp_path):
    for name in ("wsd", "pos/treebank", "polysemy/coarsewsd20", "polysemy/wic"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "pos" / "treebank" / "x-train.conllu").touch()
    assert measure.find(tmp_path, list(measure.PROBES)) == {
        "wsd": tmp_path / "wsd",
        "pos": tmp_path / "pos" / "treebank",
        "wic": tmp_path / "polysemy" / "wic",
        "coarse": tmp_path / "polysemy" / "coarsewsd20",
    }


def test_a_folder_without_any_of_them_is_refused(tmp_path):
    with pytest.raises(DataError, match="nowhere: no such folder"):
        measure.find(tmp_path / "nowhere", ["wsd"])
    with pytest.raises(DataError, match="none of the folders wsd, scws below it"):
        measure.find(tmp_path, ["wsd", "scws"])


# Tables


def test_one_table_has_every_headline_figure():
    found = {
        "wsd": [Row("first sense", "", {"F1": 65.2}), Row("sense averages", "layer 1", {"F1": 61.25, "NOUN": 1.0})],
        "scws": [Row("cosine", "layer 1", {"spearman": 42.0}), Row("cosine", "a|b", {"spearman": 1.0})],
    }
    summary = measure.summary(found)
    assert summary.head == ("percent", "no vectors", "layer 1", "a|b")
    assert summary.rows == (
        ("word senses, first sense: F1", "65.2", "", ""),
        ("word senses, sense averages: F1", "", "61.2", ""),
        ("SCWS, cosine: spearman", "", "42.0", "1.0"),
    )
    head, rule, *lines = summary.markdown().splitlines()
    assert head == "| percent | no vectors | layer 1 | a\\|b |"
    assert rule == "| --- | ---: | ---: | ---: |"
    assert len(lines) == 3


def test_every_probe_has_a_title_a_folder_and_headlines():
    assert set(measure.PROBES) == set(measure.TITLES) == set(measure.FOLDERS) == set(measure.HEADLINES)
