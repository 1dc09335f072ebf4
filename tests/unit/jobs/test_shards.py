"""A corpus spread over shards: the parts together are one run, and nothing else passes for it."""

import json
import shutil

import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from stelmo.errors import ConfigError, DataError, OutputError
from stelmo.jobs import run, shards
from stelmo.jobs.shards import Shard
from stelmo.settings import OutputSettings
from stelmo.text.formats import Sentence

LINES = ["The bank .", "", "a/b river", "The bank .", "über 日本 bank"] * 5
SENTENCES = [Sentence(line.split(), "corpus.txt", number) for number, line in enumerate(LINES, 1)]
SMALL_BLOCKS = OutputSettings(block_tokens=7)
MODEL = tiny.model()


def embed_all(path, of, sentences=SENTENCES, wanted=SMALL_BLOCKS):
    shown = [shards.embed_shard(MODEL, sentences, path, wanted, Shard(number, of)) for number in range(1, of + 1)]
    return [part.folder for part in shown]


@pytest.fixture
def parts(tmp_path):
    return embed_all(tmp_path / "v.npz", 3)


words = st.lists(st.sampled_from(["the", "bank", "über", "日本", "x" * 60]), max_size=9)


@settings(max_examples=25)
@given(
    texts=st.lists(words, min_size=1, max_size=12),
    of=st.integers(1, 9),
    block_tokens=st.integers(1, 30),
    layer=st.sampled_from(["mean", "all", 0]),
    sentence_vectors=st.booleans(),
)
def test_any_number_of_shards_merges_to_the_bytes_of_one_run(
    tmp_path_factory, texts, of, block_tokens, layer, sentence_vectors
):
    folder = tmp_path_factory.mktemp("shards")
    sentences = [Sentence(tokens, "text", number) for number, tokens in enumerate(texts, 1)]
    wanted = OutputSettings(block_tokens=block_tokens, layer=layer, sentence_vectors=sentence_vectors)
    run.embed_to_file(MODEL, sentences, folder / "whole.npz", wanted)
    embed_all(folder / "v.npz", of, sentences, wanted)
    assert shards.merge([], folder / "v.npz") == (len(sentences), True)
    assert (folder / "v.npz").read_bytes() == (folder / "whole.npz").read_bytes()


@pytest.mark.parametrize("ending", [".hdf5", ".parquet", ".jsonl"])
def test_every_format_comes_out_of_the_merge_as_out_of_one_run(ending, tmp_path):
    run.embed_to_file(MODEL, SENTENCES, tmp_path / f"whole{ending}", SMALL_BLOCKS)
    embed_all(tmp_path / f"v{ending}", 2)
    shards.merge([], tmp_path / f"v{ending}")
    assert (tmp_path / f"v{ending}").read_bytes() == (tmp_path / f"whole{ending}").read_bytes()


def test_the_parts_may_be_named_in_any_order_and_stay(parts, tmp_path):
    run.embed_to_file(MODEL, SENTENCES, tmp_path / "whole.npz", SMALL_BLOCKS)
    shards.merge(parts[::-1], tmp_path / "other.npz")
    assert (tmp_path / "other.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert all(part.is_dir() for part in parts)


def test_shards_share_the_work(tmp_path):
    done = [shards.embed_shard(MODEL, SENTENCES, tmp_path / "v.npz", SMALL_BLOCKS, Shard(n, 3)) for n in (1, 2, 3)]
    assert sum(part.sentences for part in done) == len(SENTENCES)
    assert min(part.sentences for part in done) > 4


class PulledPlugError(Exception):
    """Stands for anything that ends a run in the middle."""


def interrupted():
    yield from SENTENCES[:20]
    raise PulledPlugError


def test_an_interrupted_shard_goes_on_with_its_finished_blocks(tmp_path, monkeypatch):
    with pytest.raises(PulledPlugError):
        shards.embed_shard(MODEL, interrupted(), tmp_path / "v.npz", SMALL_BLOCKS, Shard(1, 2))
    computed = []
    original = MODEL.run
    monkeypatch.setattr(MODEL, "run", lambda found, *r, **o: computed.extend(found) or original(found, *r, **o))
    done = shards.embed_shard(MODEL, SENTENCES, tmp_path / "v.npz", SMALL_BLOCKS, Shard(1, 2))
    assert 0 < len(computed) < done.sentences
    assert [entry.name for entry in tmp_path.iterdir()] == ["v.npz.1-of-2"]


def test_a_shard_without_a_block_is_a_part_like_any_other(tmp_path):
    folders = embed_all(tmp_path / "v.npz", 4, SENTENCES[:1])
    assert list(folders[3].glob("*.npz")) == []
    assert shards.merge([], tmp_path / "v.npz") == (1, True)


def test_a_missing_shard_is_named(parts, tmp_path):
    shutil.rmtree(parts[1])
    with pytest.raises(DataError, match=r"shard 2/3 is missing"):
        shards.merge([], tmp_path / "v.npz")
    assert not (tmp_path / "v.npz").exists()


def test_a_shard_goes_in_once(parts, tmp_path):
    shutil.copytree(parts[0], tmp_path / "copy")
    with pytest.raises(DataError, match="both are shard 1"):
        shards.merge([*parts, tmp_path / "copy"], tmp_path / "v.npz")


@pytest.mark.parametrize(
    ("sentences", "wanted", "of", "said"),
    [
        (SENTENCES[:-1], SMALL_BLOCKS, 3, "another text"),
        (SENTENCES, OutputSettings(block_tokens=7, dtype="float16"), 3, "another dtype"),
        (SENTENCES, OutputSettings(block_tokens=7, layer=0), 3, "another layer"),
        (SENTENCES, SMALL_BLOCKS, 4, "another number of shards"),
    ],
)
def test_parts_of_different_runs_do_not_mix(sentences, wanted, of, said, parts, tmp_path):
    other = shards.embed_shard(MODEL, sentences, tmp_path / "o.npz", wanted, Shard(3, of)).folder
    with pytest.raises(DataError, match=said):
        shards.merge([*parts[:2], other], tmp_path / "v.npz")


def test_parts_of_another_model_do_not_mix(parts, tmp_path):
    model = tiny.model(tiny.WORD_CONFIG)
    other = shards.embed_shard(model, SENTENCES, tmp_path / "o.npz", SMALL_BLOCKS, Shard(3, 3)).folder
    with pytest.raises(DataError, match="another model"):
        shards.merge([*parts[:2], other], tmp_path / "v.npz")


def test_a_lost_block_is_named(parts, tmp_path):
    (parts[1] / "000001.npz").unlink()
    with pytest.raises(DataError, match=r"2-of-3/000001\.npz is missing"):
        shards.merge([], tmp_path / "v.npz")


def test_a_torn_block_is_named_and_leaves_no_file(parts, tmp_path):
    (parts[1] / "000001.npz").write_bytes(b"torn")
    with pytest.raises(DataError, match=r"000001\.npz: cannot be read"):
        shards.merge([], tmp_path / "v.npz")
    assert not (tmp_path / "v.npz").exists()


def test_blocks_that_changed_places_are_noticed(parts, tmp_path):
    first, second = parts[0] / "000000.npz", parts[1] / "000001.npz"
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    with pytest.raises(DataError, match="do not match the text"):
        shards.merge([], tmp_path / "v.npz")
    assert not (tmp_path / "v.npz").exists()


def test_a_folder_that_is_no_part_is_refused(tmp_path):
    (tmp_path / "odd").mkdir()
    with pytest.raises(DataError, match="not a finished shard"):
        shards.merge([tmp_path / "odd"], tmp_path / "v.npz")
    (tmp_path / "odd" / "part.json").write_text(json.dumps({"shard": 0}))
    with pytest.raises(DataError, match="shard"):
        shards.merge([tmp_path / "odd"], tmp_path / "v.npz")


def test_no_part_at_all_says_how_to_make_one(tmp_path):
    with pytest.raises(DataError, match=r"v\.npz\.1-of-8"):
        shards.merge([], tmp_path / "v.npz")


@pytest.mark.parametrize("text", ["0/3", "4/3", "2", "a/b", "1/0", "-1/2", "1/2/3", ""])
def test_a_shard_that_cannot_be_is_refused(text):
    with pytest.raises(ConfigError, match="I/N"):
        Shard.parse(text)


def test_carry_cannot_be_spread(tmp_path):
    with pytest.raises(ConfigError, match="carry"):
        shards.embed_shard(tiny.model(state="carry"), SENTENCES, tmp_path / "v.npz", SMALL_BLOCKS, Shard(1, 2))


def test_an_empty_text_leaves_nothing(tmp_path):
    with pytest.raises(DataError, match="no sentence"):
        shards.embed_shard(MODEL, [], tmp_path / "v.npz", SMALL_BLOCKS, Shard(1, 2))
    assert list(tmp_path.iterdir()) == []


def test_a_finished_part_is_kept_and_overwritten_only_when_asked(parts, tmp_path):
    with pytest.raises(OutputError, match="exists"):
        shards.embed_shard(MODEL, SENTENCES[:2], tmp_path / "v.npz", SMALL_BLOCKS, Shard(1, 3))
    with pytest.raises(OutputError, match="exists"):
        shards.embed_shard(MODEL, SENTENCES, tmp_path / "v.npz", OutputSettings(layer="top"), Shard(1, 3))
    shards.embed_shard(MODEL, SENTENCES[:2], tmp_path / "v.npz", SMALL_BLOCKS, Shard(1, 3), overwrite=True)
    assert json.loads((parts[0] / "part.json").read_text())["sentences"] == 2


def test_a_finished_shard_or_merge_that_is_repeated_does_nothing(parts, tmp_path):
    again = shards.embed_shard(MODEL, SENTENCES, tmp_path / "v.npz", SMALL_BLOCKS, Shard(1, 3))
    assert again.folder == parts[0]
    assert not again.made
    assert [shards.merge([], tmp_path / "v.npz").made for _ in range(2)] == [True, False]
    assert not run.embed_to_file(MODEL, SENTENCES, tmp_path / "v.npz", SMALL_BLOCKS).made
