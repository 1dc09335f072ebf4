"""Static vectors: every layout gives the same words and rows, a flawed file is refused in one sentence, and what is
written is read back bit by bit, by ourselves and by gensim."""

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from shared import DATA, needs_data

from stelmo.errors import DataError, OutputError
from stelmo.store import static

WORDS = ["the", "bank", "über", "日本", "U.S."]
VECTORS_VD = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float16).astype(np.float32)


def rows(words=WORDS, vectors_VD=VECTORS_VD, end="\n"):
    lines = (f"{word} {' '.join(map(repr, map(float, row)))}{end}" for word, row in zip(words, vectors_VD, strict=True))
    return "".join(lines).encode()


def binary(words=WORDS, vectors_VD=VECTORS_VD, end=b"\n"):
    head = f"{len(words)} {vectors_VD.shape[1]}\n".encode()
    return head + b"".join(w.encode() + b" " + v.tobytes() + end for w, v in zip(words, vectors_VD, strict=True))


def write_array(folder, words=WORDS, vectors_VD=VECTORS_VD):
    folder.mkdir(exist_ok=True)
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words))
    np.save(folder / "vectors.npy", vectors_VD)
    return folder


FILES = {
    "glove": rows(),
    "glove without a last line feed": rows().removesuffix(b"\n"),
    "glove in gzip": gzip.compress(rows()),
    "word2vec text, a space at the end": b"5 3\n" + rows(end=" \n"),
    "word2vec binary": binary(),
    "word2vec binary without line feeds": binary(end=b""),
    "word2vec binary in gzip": gzip.compress(binary()),
    "carriage returns": rows(end="\r\n"),
}


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_every_file_gives_the_same_words_and_rows(data, tmp_path):
    (tmp_path / "vectors").write_bytes(data)
    found = static.read(tmp_path / "vectors")
    assert found.words == WORDS
    np.testing.assert_array_equal(found.vectors_VD, VECTORS_VD)
    assert found.vectors_VD.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_array_with_its_words_gives_them_too_by_folder_or_by_file(dtype, tmp_path):
    folder = write_array(tmp_path / "glove", vectors_VD=VECTORS_VD.astype(dtype))
    for path in (folder, folder / "vectors.npy"):
        found = static.read(path)
        assert found.words == WORDS
        assert found.vectors_VD.dtype == np.float32
        np.testing.assert_array_equal(found.vectors_VD, VECTORS_VD)


def test_a_float32_array_stays_on_the_disk(tmp_path):
    assert isinstance(static.read(write_array(tmp_path)).vectors_VD, np.memmap)


@pytest.mark.parametrize("kind", ["text", "binary", "array"])
def test_only_the_words_asked_for_are_read_and_their_lower_cased_forms(kind, tmp_path):
    write_array(tmp_path)
    (tmp_path / "text").write_bytes(rows())
    (tmp_path / "binary").write_bytes(binary())
    found = static.read(tmp_path if kind == "array" else tmp_path / kind, only={"The", "日本", "absent"})
    assert found.words == ["the", "日本"]
    np.testing.assert_array_equal(found.of(["The", "日本"]), VECTORS_VD[[0, 3]])


@pytest.mark.parametrize("byte", [b"\x0b", b"\x0c", b" ", b"\n", b"\t"])
def test_a_binary_number_that_begins_like_a_readable_one_is_binary(byte, tmp_path):
    numbers = b"7" + byte + b"\x4f\xbe" + b"\x01\x02\x03\x3e" * 3
    (tmp_path / "v.bin").write_bytes(b"1 4\nthe " + numbers + b"\n")
    found = static.read(tmp_path / "v.bin")
    assert found.of(["the"]).tobytes() == numbers


def test_a_text_file_whose_first_word_has_a_space_is_text(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"2 3\nNew York 1 2 3\nthe 4 5 6\n")
    np.testing.assert_array_equal(static.read(tmp_path / "v.txt").of(["New York"]), [[1, 2, 3]])


def test_a_text_file_whose_first_number_is_damaged_is_text(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"2 3\nthe 1,0 2 3\nof 4 5 6\n")
    with pytest.raises(DataError, match="'1,0'"):
        static.read(tmp_path / "v.txt")


def test_a_word_is_looked_up_as_it_is_then_lower_cased():
    found = static.StaticVectors(["bank", "Bank", "the"], np.eye(3, dtype=np.float32))
    assert [found.row(word) for word in ("bank", "Bank", "BANK", "The", "x")] == [0, 1, 0, 2, None]
    np.testing.assert_array_equal(found.of(["x", "The"]), [[0, 0, 0], [0, 0, 1]])
    assert found.of([]).shape == (0, 3)


def test_a_word_may_hold_spaces_of_every_kind(tmp_path):
    words = ["the", ". . .", "at name@domain.com", "1\u00a02", "\u2028", "\x85", "#"]
    vectors_VD = np.arange(14, dtype=np.float32).reshape(7, 2)
    (tmp_path / "glove.txt").write_bytes(rows(words, vectors_VD))
    found = static.read(tmp_path / "glove.txt")
    assert found.words == words
    np.testing.assert_array_equal(found.vectors_VD, vectors_VD)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=4))
def test_binary_and_text_agree_whatever_the_numbers(numbers):
    vectors_VD = np.array([numbers], np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in {"binary": binary(["w"], vectors_VD), "text": rows(["w"], vectors_VD)}.items():
            (path := Path(folder) / name).write_bytes(data)
            np.testing.assert_array_equal(static.read(path).vectors_VD, vectors_VD)


MANY = binary([str(number) for number in range(999)], np.random.default_rng(1).normal(size=(999, 3)).astype(np.float32))
WRONG = {
    "too few numbers": (b"the 1 2 3\nbank 1 2\n", r"vectors:2: 2 numbers; expected 3 after the word"),
    "too many numbers": (b"the 1 2 3\nbank 1 2 3 4\n", r"vectors:2: 4 numbers; expected 3"),
    "another width than the first line says": (b"1 2\nthe 1 2 3\n", r"vectors:2: 3 numbers; expected 2"),
    "a blank line": (b"the 1 2\n\nbank 1 2\n", r"vectors:2: 0 numbers; expected 2"),
    "no number": (b"the 1 2\nbank 1 x\n", r"vectors:2: 'x' after 'bank'; expected 2 numbers"),
    "a word alone": (b"the\n", r"vectors:1: 0 numbers; expected some"),
    "a word twice": (b"the 1 2\nbank 1 2\nthe 3 4\n", r"vectors:3: the word 'the' was already in .*vectors:1"),
    "a binary word twice": (binary(["a", "a"], VECTORS_VD[:2]), r"word 2: the word 'a' was already in .*word 1"),
    "an empty file": (b"", "vectors: no vectors"),
    "a first line alone": (b"0 3\n", "vectors: no vectors"),
    "fewer words than promised": (b"3 2\nthe 1 2\nbank 1 2\n", "vectors: 2 words; its first line says 3"),
    "a binary file that breaks off": (binary()[:-8], "vectors: 4 words; its first line says 5"),
    "more words than promised": (binary() + b"more" + bytes(13), r"vectors: more words than its first line says \(5\)"),
    "a gzip file that breaks off": (gzip.compress(rows())[:-9], "gzip data are incomplete"),
    "a binary gzip file that breaks off": (gzip.compress(MANY)[:-9], "damaged after word"),
    "numbers without end": (b"the 1 2\nbank nan 2\n", "the vector of 'bank' is not finite"),
    "a word that is not UTF-8": (binary().replace(b"the", b"t\xffe"), "word 1: .* is not UTF-8"),
    "a line that is not UTF-8": (rows().replace(b"the", b"t\xffe"), "vectors:1: byte 0xff"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), WRONG.values(), ids=WRONG)
def test_a_flawed_file_is_refused(data, message, tmp_path):
    (tmp_path / "vectors").write_bytes(data)
    with pytest.raises(DataError, match=message):
        static.read(tmp_path / "vectors")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"absent\.txt: No such file"):
        static.read(tmp_path / "absent.txt")


def test_words_and_rows_must_be_as_many(tmp_path):
    with pytest.raises(DataError, match=r"words\.txt: 4 words; expected 5, one for each row of vectors\.npy"):
        static.read(write_array(tmp_path, words=WORDS[:4]))


def test_an_array_of_another_kind_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"an array \(5,\) of float32; expected floats"):
        static.read(write_array(tmp_path, vectors_VD=VECTORS_VD[:, 0]))
    (tmp_path / "vectors.npy").write_bytes(b"no array")
    with pytest.raises(DataError, match=r"vectors\.npy: not a \.npy array"):
        static.read(tmp_path)


def test_a_folder_without_an_array_or_with_two_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"0 \.npy files, expected one"):
        static.read(tmp_path)
    np.save(write_array(tmp_path) / "more.npy", VECTORS_VD)
    with pytest.raises(DataError, match=r"2 \.npy files, expected one"):
        static.read(tmp_path)


@needs_data
def test_real_glove_knows_that_paris_is_a_city():
    glove = static.read(DATA / "vectors" / "glove.6B.100d")
    france, germany, berlin, paris, banana = glove.of(["France", "Germany", "Berlin", "Paris", "banana"])
    guess = berlin - germany + france
    assert len(glove.words) == 104_434
    assert guess @ paris > 2 * guess @ banana


# Writing

ENDINGS = [".vec", ".txt", ".bin"]
WRITTEN = ["the", "1990", "-0.5", "über", "日本", "U.S.", '"', "a" * 300, "</s>"]
WRITTEN_VD = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
WRITTEN_VD[0] = [0, -0.0, np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal]


def written(folder, ending, words=WRITTEN, vectors_VD=WRITTEN_VD):
    path = Path(folder) / f"words{ending}"
    static.write(path, len(words), vectors_VD.shape[1], zip(words, vectors_VD, strict=True))
    return path


@pytest.mark.parametrize("ending", ENDINGS)
def test_our_reader_finds_the_same_bits(tmp_path, ending):
    found = static.read(written(tmp_path, ending))
    assert found.words == WRITTEN
    assert found.vectors_VD.tobytes() == WRITTEN_VD.tobytes()


@pytest.mark.parametrize("ending", ENDINGS)
@given(
    words=st.lists(st.text(st.characters(exclude_categories=())).filter(static.writable), min_size=1, unique=True),
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
    assert found.index_to_key == WRITTEN
    assert found.vectors.tobytes() == WRITTEN_VD.tobytes()


def test_the_bytes_of_each_kind(tmp_path):
    words, vectors_VD = ["a", "ü"], np.array([[0.1, -2], [1e-20, 3e30]])
    contents = [written(tmp_path, ending, words, vectors_VD).read_bytes() for ending in ENDINGS]
    lines = "a 0.1 -2.0\nü 1e-20 3e+30\n".encode()
    a, b = (row.astype("<f4").tobytes() for row in vectors_VD)
    assert contents == [b"2 2\n" + lines, lines, b"2 2\na " + a + "ü ".encode() + b]


@pytest.mark.parametrize("word", ["", "New York", "a\tb", "a\nb", "a\xa0b", "a\u2028b", "\ufeffa", "\ud800"])
def test_a_word_that_readers_would_not_find_is_not_writable(word):
    assert not static.writable(word)


def test_a_file_is_whole_or_absent(tmp_path):
    def rows():
        yield "a", WRITTEN_VD[0]
        raise DataError("broken off")

    with pytest.raises(DataError, match="broken off"):
        static.write(tmp_path / "words.vec", 2, 4, rows())
    with pytest.raises(DataError, match="no words"):
        static.write(tmp_path / "words.vec", 0, 4, [])
    assert not list(tmp_path.iterdir())


def test_a_name_of_no_kind_and_a_file_that_is_there_are_refused(tmp_path):
    for name in ("words.csv", "words", "words.vec.gz"):
        with pytest.raises(OutputError, match=r"words are written to \.vec"):
            static.refuse_output(tmp_path / name, overwrite=True)
    path = written(tmp_path, ".txt")
    with pytest.raises(OutputError, match="exists"):
        written(tmp_path, ".txt")
    static.write(path, 1, 4, [("b", WRITTEN_VD[0])], overwrite=True)
    assert static.read(path).words == ["b"]
