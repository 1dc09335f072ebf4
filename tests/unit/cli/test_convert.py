"""`stelmo convert`: formats and back, and the old spelling of the format."""


def test_convert_and_info_go_there_and_back(call, tmp_path):
    assert call("convert", "model", "published", "--format", "bilm", "--token-embeddings").code == 0
    assert call("convert", "published", "again", "--dtype", "float16").code == 0
    done = call("info", "again")
    assert "stelmo folder" in done.out
    assert "float16" in done.out
    assert "3 layers of 12 numbers" in done.out
    assert "bilm HDF5" in call("info", "published").out
    assert (tmp_path / "published" / "token_embeddings.hdf5").is_file()


def test_the_format_s_old_spelling_works_with_a_note(call, tmp_path):
    done = call("convert", "model", "published", "--to", "bilm")
    assert done.code == 0
    assert done.err == (
        "note: --to FORMAT is now called --format FORMAT; the old spelling will stop working in the next release\n"
    )
    assert (tmp_path / "published" / "weights.hdf5").is_file()
