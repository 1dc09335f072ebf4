"""`stelmo embed` over many processes: shards, the merge, what cannot go together; and Parquet as input."""

import commands
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny


@pytest.fixture
def stelmo(monkeypatch, capsys):
    return lambda *arguments: commands.run(monkeypatch, capsys, *arguments)


@pytest.fixture
def model(tmp_path):
    return tiny.folder(tmp_path / "tiny")


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.tok"
    path.write_text("the bank .\n\na river\n" * 4)
    return path


def test_shards_and_merge_make_the_file_of_one_command(stelmo, model, corpus, tmp_path):
    stelmo("embed", corpus, "--model", model, "-o", tmp_path / "whole.hdf5")
    for shard in ("1/2", "2/2"):
        done = stelmo("embed", corpus, "--model", model, "-o", tmp_path / "v.hdf5", "--shard", shard)
        assert done.code == 0
    assert f"stelmo embed --merge -o {tmp_path / 'v.hdf5'}" in done.out
    merged = stelmo("embed", "--merge", "-o", tmp_path / "v.hdf5")
    assert merged.out == f"{tmp_path / 'v.hdf5'}: 12 sentences; the parts are not needed any more\n"
    assert (tmp_path / "v.hdf5").read_bytes() == (tmp_path / "whole.hdf5").read_bytes()


def test_a_merge_of_named_parts_says_what_is_missing(stelmo, model, corpus, tmp_path):
    stelmo("embed", corpus, "--model", model, "-o", tmp_path / "v.npz", "--shard", "2/3")
    done = stelmo("embed", "--merge", tmp_path / "v.npz.2-of-3", "-o", tmp_path / "other.npz")
    assert done.code == 2
    assert "shard 1/3, 3/3 is missing" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shard", "1/2", "--ray", "local", "-o", "v.parquet"], "--shard and --ray: one of them at a time"),
        (["--merge", "--shard", "1/2", "-o", "v.npz"], "--shard and --merge: one of them"),
        (["--shard", "1/2"], "--shard writes to disk; name the output"),
        (["--ray", "local", "-o", "-"], "--ray writes to disk"),
        (["--workers", "2", "-o", "v.npz"], "--workers is of --ray"),
        (["--shard", "3/2", "-o", "v.npz"], "expected I/N"),
        (["--ray", "local", "-o", "v.hdf5"], "folder of Parquet files"),
        (["--shard", "1/2", "-o", "v.npz", "--state", "carry"], "carry"),
    ],
)
def test_what_cannot_be_spread_is_refused_in_one_line(options, said, stelmo, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = stelmo("embed", "The bank .", "--model", model, *options)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny"]


@pytest.mark.parametrize(
    "columns",
    [{"text": ["We sat. It rained.", "", "Yes."], "id": [1, 2, 3]}, {"tokens": [["We", "sat"], [], ["Yes"]]}],
    ids=["text", "tokens"],
)
def test_parquet_is_read_as_the_same_rows_in_jsonl(columns, stelmo, model, tmp_path):
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "c.parquet", row_group_size=2)
    lines = [str(row).replace("'", '"') for row in table.select([0]).to_pylist()]
    (tmp_path / "c.jsonl").write_text("\n".join(lines) + "\n")
    found = [stelmo("embed", tmp_path / name, "--model", model, "-o", "-").out for name in ("c.parquet", "c.jsonl")]
    assert found[0] == found[1]
    assert found[0].count("\n") == 3


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"body": ["a"]}, "no column tokens or text; it has body"),
        ({"text": [1]}, "c.parquet:1: int 1; expected text"),
        ({"tokens": [[b"a"]]}, "c.parquet:1: token 0 is"),
        ({"text": ["a", None]}, "c.parquet:2: nothing is there; expected text"),
    ],
)
def test_a_table_without_text_is_refused(columns, said, stelmo, model, tmp_path):
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    done = stelmo("embed", tmp_path / "c.parquet", "--model", model, "-o", tmp_path / "v.npz")
    assert done.code == 2
    assert said in done.err


def test_a_file_that_is_no_parquet_is_refused(stelmo, model, tmp_path):
    (tmp_path / "c.parquet").write_text("text")
    done = stelmo("embed", tmp_path / "c.parquet", "--model", model)
    assert done.code == 2
    assert "cannot be read as Parquet" in done.err
