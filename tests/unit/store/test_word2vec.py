"""Files of word vectors: what is written is read back bit by bit, by ourselves and by gensim."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from stelmo.errors import DataError, OutputError
from stelmo.store import static, word2vec

ENDINGS = [".vec", ".txt", ".bin"]
WORDS = ["the", "1990", "-0.5", "über", "日本", "U.S.", '"', "a" * 300, "</s>"]
VECTORS_VD = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
VECTORS_VD[0] = [0, -0.0, np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal]


def written(folder, ending, words=WORDS, vectors_VD=VECTORS_VD):
    path = Path(folder) / f"words{ending}"
    word2vec.write(path, len(words), vectors_VD.shape[1], zip(words, vectors_VD, strict=True))
    return path


@pytest.mark.parametrize("ending", ENDINGS)
def test_our_reader_finds_the_same_bits(tmp_path, ending):
    found = static.read(written(tmp_path, ending))
    assert found.words == WORDS
    assert found.vectors_VD.tobytes() == VECTORS_VD.tobytes()


@pytest.mark.parametrize("ending", ENDINGS)
@given(
    words=st.lists(st.text(st.characters(exclude_categories=())).filter(word2vec.writable), min_size=1, unique=True),
    data=st.data(),
)
def test_any_words_and_numbers_come_back(ending, words, data):
    finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
    vectors_VD = data.draw(arrays.arrays(np.float32, (len(words), 3), elements=finite))
    with tempfile.TemporaryDirectory() as folder:
        found = static.read(written(folder, ending, words, vectors_VD))
    assert found.words == words
    np.testing.assert_array_equal(found.vectors_VD, vectors_VD)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of a GloVe file, gensim leaves one handle open
@pytest.mark.parametrize(("ending", "how"), [(".vec", {}), (".txt", {"no_header": True}), (".bin", {"binary": True})])
def test_gensim_reads_them(tmp_path, ending, how):
    models = pytest.importorskip("gensim.models", reason="gensim is not installed; pip install 'stelmo[baselines]'")
    found = models.KeyedVectors.load_word2vec_format(str(written(tmp_path, ending)), **how)
    assert found.index_to_key == WORDS
    assert found.vectors.tobytes() == VECTORS_VD.tobytes()


def test_the_bytes_of_each_kind(tmp_path):
    words, vectors_VD = ["a", "ü"], np.array([[0.1, -2], [1e-20, 3e30]])
    contents = [written(tmp_path, ending, words, vectors_VD).read_bytes() for ending in ENDINGS]
    lines = "a 0.1 -2.0\nü 1e-20 3e+30\n".encode()
    a, b = (row.astype("<f4").tobytes() for row in vectors_VD)
    assert contents == [b"2 2\n" + lines, lines, b"2 2\na " + a + "ü ".encode() + b]


@pytest.mark.parametrize("word", ["", "New York", "a\tb", "a\nb", "a\xa0b", "a\u2028b", "\ufeffa", "\ud800"])
def test_a_word_that_readers_would_not_find_is_not_writable(word):
    assert not word2vec.writable(word)


def test_a_file_is_whole_or_absent(tmp_path):
    def rows():
        yield "a", VECTORS_VD[0]
        raise DataError("broken off")

    with pytest.raises(DataError, match="broken off"):
        word2vec.write(tmp_path / "words.vec", 2, 4, rows())
    with pytest.raises(DataError, match="no words"):
        word2vec.write(tmp_path / "words.vec", 0, 4, [])
    assert not list(tmp_path.iterdir())


def test_a_name_of_no_kind_and_a_file_that_is_there_are_refused(tmp_path):
    for name in ("words.csv", "words", "words.vec.gz"):
        with pytest.raises(OutputError, match=r"words go to \.vec"):
            word2vec.refuse_output(tmp_path / name, overwrite=True)
    path = written(tmp_path, ".txt")
    with pytest.raises(OutputError, match="exists"):
        written(tmp_path, ".txt")
    word2vec.write(path, 1, 4, [("b", VECTORS_VD[0])], overwrite=True)
    assert static.read(path).words == ["b"]
