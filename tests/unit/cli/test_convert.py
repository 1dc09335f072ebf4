"""`stelmo convert`: formats and back, centring, and the old spelling of the format."""

import corpora
import numpy as np
import tiny

import stelmo


def test_convert_and_info_go_there_and_back(call, tmp_path):
    assert call("convert", "model", "published", "--format", "bilm", "--token-embeddings").code == 0
    assert call("convert", "published", "again", "--dtype", "float16").code == 0
    done = call("info", "again")
    assert "stelmo folder" in done.out
    assert "float16" in done.out
    assert "3 layers of 12 dimensions" in done.out
    assert "bilm HDF5" in call("info", "published").out
    assert (tmp_path / "published" / "token_embeddings.hdf5").is_file()


def test_a_format_without_a_warm_state_is_announced(call, tmp_path):
    warmed = stelmo.load(tmp_path / "model")
    warmed.warm_up([["the", "bank"]])
    warmed.save(tmp_path / "warmed")
    done = call("convert", "warmed", "published", "--format", "bilm")
    assert done.code == 0
    assert done.err.startswith("note: published: this format has no warm state, so that sentences start from zeros")
    assert call("convert", "warmed", "again").err == ""
    assert call("convert", "published", "back").err == ""


def test_the_format_s_old_spelling_works_with_a_note(call, tmp_path):
    done = call("convert", "model", "published", "--to", "bilm")
    assert done.code == 0
    assert done.err.startswith(
        "note: --to FORMAT is now called --format FORMAT; the old spelling will stop working in the next release\n"
    )
    assert (tmp_path / "published" / "weights.hdf5").is_file()


def test_a_model_is_centred_on_a_corpus(call, tmp_path):
    corpora.make(tmp_path / "corpus", list(corpora.FOUR), heldout=1)
    assert call("convert", "model", "centred", "--centre", "corpus").code == 0
    before, after = (stelmo.load(tmp_path / name, state="fresh") for name in ("model", "centred"))
    words = [line.split() for line in (tmp_path / "corpus.tok").read_text().splitlines()]
    moved = np.concatenate([a[0] - b[0] for a, b in zip(before.layers(words), after.layers(words), strict=True)])
    np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-5)
    assert np.abs(moved).max() > 0.1
    for one, other in zip(before.layers(words), after.layers(words), strict=True):
        np.testing.assert_allclose(one[1:], other[1:], atol=1e-5)


def test_an_encoder_that_cannot_be_centred_is_refused(call, tmp_path):
    corpora.make(tmp_path / "corpus", list(corpora.FOUR), heldout=1)
    tiny.folder(tmp_path / "transformer", config=tiny.ENCODERS["transformer"])
    done = call("convert", "transformer", "centred", "--centre", "corpus")
    assert done.code == 2
    assert "only LSTM models whose layer 0 ends with a bias can be centred" in done.err
    assert not (tmp_path / "centred").exists()


def test_the_license_of_a_model_is_kept(call, tmp_path):
    card = tmp_path / "model" / "README.md"
    assert "license" not in card.read_text()
    card.write_text(card.read_text().replace("tags:", "license: cc-by-sa-3.0\ntags:", 1))
    assert call("convert", "model", "again", "--dtype", "float16").code == 0
    lines = (tmp_path / "again" / "README.md").read_text().split("---\n")[1].splitlines()
    assert lines[:2] == ["library_name: stelmo", "license: cc-by-sa-3.0"]
    card.write_bytes(b"\xff\n")
    assert call("convert", "model", "third").code == 0
    assert "license" not in (tmp_path / "third" / "README.md").read_text()
