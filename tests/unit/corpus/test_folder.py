"""Corpus folders: what is written is read back, and what is torn, foreign or changed is refused."""

import json

import numpy as np
import pytest

from stelmo.cli.info import describe
from stelmo.corpus import folder as shards
from stelmo.corpus.prepare import prepare
from stelmo.errors import DataError
from stelmo.settings import PrepareSettings

TEXT = "the bank of the river\nthe river\nüber <UNK> bank\nthe 日本 bank\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.tok").write_text(TEXT, encoding="utf-8")
    prepare([tmp_path / "a.tok"], tmp_path / "corpus", PrepareSettings(heldout=0, size=6))
    return tmp_path / "corpus"


def change_manifest(folder, **fields):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | fields))


def test_types_are_the_markers_then_words_by_falling_frequency(folder):
    corpus = shards.read(folder)
    assert corpus.words.words(range(len(corpus.words))) == [
        *("<S>", "</S>", "the", "bank", "river", "<UNK>", "of", "über", "日本")
    ]
    assert corpus.words.bytes_of(np.array([8, 2])) == ["日本".encode(), b"the"]


def test_targets_are_lines_of_the_vocabulary_or_that_of_the_unknown_word(folder):
    corpus = shards.read(folder)
    assert corpus.vocabulary.words == ("<S>", "</S>", "<UNK>", "the", "bank", "river")
    assert corpus.targets_S.tolist() == [0, 1, 3, 4, 5, 2, 2, 2, 2]


def test_sentences_lie_end_to_end(folder):
    (shard,) = shards.read(folder).train
    assert shard.types_N.tolist() == [2, 3, 6, 2, 4, 2, 4, 7, 5, 3, 2, 8, 3]
    assert shard.ends_S.tolist() == [5, 7, 10, 13]
    assert (shard.types_N.dtype, shard.ends_S.dtype) == (np.uint32, np.int64)


def test_equal_corpora_have_equal_fingerprints_wherever_they_come_from(folder, tmp_path):
    (tmp_path / "b.tok").write_text(TEXT, encoding="utf-8")
    (tmp_path / "c.tok").write_text(TEXT + "more\n", encoding="utf-8")
    settings = PrepareSettings(heldout=0, size=6)
    same = prepare([tmp_path / "b.tok"], tmp_path / "same", settings)
    prepare([tmp_path / "c.tok"], tmp_path / "other", settings)
    assert same.manifest.fingerprint() == shards.read(folder).fingerprint()
    assert shards.read(tmp_path / "other").fingerprint() != shards.read(folder).fingerprint()


def test_a_folder_without_a_manifest_is_refused(folder):
    (folder / "manifest.json").unlink()
    with pytest.raises(DataError, match="not a finished corpus"):
        shards.read(folder)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        shards.read(tmp_path / "corpus")


def test_text_in_place_of_a_corpus_is_refused_with_the_command_that_makes_one(tmp_path):
    (tmp_path / "text.txt").write_text("A bank .")
    with pytest.raises(DataError, match=r"text\.txt: a file; expected a corpus folder, made by `stelmo prepare .*text"):
        shards.read(tmp_path / "text.txt")


@pytest.mark.parametrize("version", [0, 2, "1"])
def test_another_version_is_refused(folder, version):
    change_manifest(folder, corpus=version)
    with pytest.raises(DataError, match=rf"version {version}; this stelmo reads version 1"):
        shards.read(folder)


@pytest.mark.parametrize("text", ["[]", "{", '{"stelmo": 1}', '{"corpus": 1}'])
def test_a_manifest_of_something_else_is_refused(folder, text):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json"):
        shards.read(folder)


@pytest.mark.parametrize(
    "name",
    ["train-00000.ids.npy", "train-00000.ends.npy", "types.bin", "types.offsets.npy", "targets.npy", "vocab.txt"],
)
def test_a_torn_file_is_refused(folder, name):
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-1])
    with pytest.raises(DataError, match=rf"{name}: .* bytes, manifest\.json says"):
        shards.read(folder)
    (folder / name).unlink()
    with pytest.raises(DataError, match=rf"{name}: .*prepare the text again"):
        shards.read(folder)


@pytest.mark.parametrize("name", ["train-00000.ids.npy", "targets.npy"])
def test_a_damaged_header_is_refused(folder, name):
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(b"\0" * 64 + whole[64:])
    with pytest.raises(DataError, match=rf"{name}: cannot be read"):
        shards.read(folder)


def test_an_array_of_other_numbers_is_refused(folder):
    same_size = np.load(folder / "train-00000.ids.npy").view(np.int32)
    np.save(folder / "train-00000.ids.npy", same_size)
    with pytest.raises(DataError, match="1 axes of int32, expected 1 of uint32"):
        shards.read(folder)


def test_a_changed_vocabulary_is_refused(folder):
    (folder / "vocab.txt").write_text((folder / "vocab.txt").read_text().replace("bank", "knab"))
    with pytest.raises(DataError, match="not the vocabulary that the shards were made with"):
        shards.read(folder)


def test_counts_at_odds_with_the_shards_are_refused(folder):
    change_manifest(folder, train={"sentences": 5, "tokens": 13, "unknown": 0, "shards": 1})
    with pytest.raises(DataError, match=r"4 sentences and 13 tokens of train, manifest\.json says 5 and 13"):
        shards.read(folder)


def test_tables_at_odds_with_the_manifest_are_refused(folder):
    change_manifest(folder, types=8)
    with pytest.raises(DataError, match="8 types"):
        shards.read(folder)


def test_a_corpus_is_described_in_lines(folder):
    lines = dict(describe(folder))
    assert lines["train"] == "4 sentences, 13 tokens, 4 (30.77%) unknown"
    assert lines["vocabulary"] == "6 words"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<S>\n</S>\nthe\n", "no line <UNK>"),
        ("<s>\n</S>\n<UNK>\n", "no line <S>"),
        ("<S>\n</S>\n<UNK>\nthe\nbank\nthe\n", r"v\.txt:6: 'the' occurs twice"),
        ("", "no line <S>"),
    ],
)
def test_a_vocabulary_a_softmax_cannot_use_is_refused(tmp_path, text, message):
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        shards.read_vocabulary(tmp_path / "v.txt")
