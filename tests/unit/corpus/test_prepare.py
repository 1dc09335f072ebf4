"""Text → corpus folder: contents, counts, the held-out part, and a folder that is the same however it was made."""

import errno
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stelmo.corpus import assemble, chunks
from stelmo.corpus import folder as shards
from stelmo.corpus import prepare as module
from stelmo.corpus.prepare import prepare
from stelmo.corpus.windows import Sentences
from stelmo.errors import DataError, OutputError
from stelmo.settings import PrepareSettings
from stelmo.store import atomic
from stelmo.text.sentences import tokenize

ALL = PrepareSettings(heldout=0)
TOKENS = PrepareSettings(format="tokens", heldout=0)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def contents(folder, part="train"):
    """The sentences of a corpus as words."""
    corpus = shards.read(folder)
    sentences = Sentences(getattr(corpus, part))
    return [corpus.words.words(sentences[number]) for number in range(len(sentences))]


def made(tmp_path, text, settings=TOKENS, name="corpus", **options):
    return prepare([write(tmp_path / "a.txt", text)], tmp_path / name, settings, **options).manifest


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_chunks(monkeypatch):
    """Many chunks and several shards out of little text."""
    monkeypatch.setattr(chunks, "CHUNK_CHARACTERS", 60)
    monkeypatch.setattr(assemble, "SHARD_TOKENS", 100)


LONG_TEXT = "".join(f"Line {n} of the text. It has two sentences, hasn't it?\n\n" for n in range(60))


# Contents


def test_raw_text_is_split_and_tokenised(tmp_path):
    text = "Don't go. We sat on the bank.\n\n \nStocks fell.\n"
    made(tmp_path, text, ALL)
    assert contents(tmp_path / "corpus") == tokenize("Don't go. We sat on the bank.") + tokenize("Stocks fell.")


def test_language_and_contractions_reach_the_tokeniser(tmp_path):
    made(tmp_path, "I don't.\n", PrepareSettings(heldout=0, contractions="moses"))
    assert contents(tmp_path / "corpus") == [["I", "don", "'t", "."]]


def test_tokenised_lines_are_taken_as_they_are(tmp_path):
    made(tmp_path, "Do n't go .\r\n\n  a   b \n")
    assert contents(tmp_path / "corpus") == [["Do", "n't", "go", "."], ["a", "b"]]


def test_what_wikiextractor_writes_is_recognised_and_its_marks_dropped(tmp_path):
    text = '<doc id="1" url="u" title="A > B">\nA\n\nIt is < 3.\n</doc>\n\n<doc id="2" url="u" title="C">\nC\n</doc>\n'
    made(tmp_path, text, ALL)
    assert contents(tmp_path / "corpus") == [["A"], ["It", "is", "<", "3", "."], ["C"]]


def test_a_mark_of_a_document_in_the_middle_of_raw_text_is_text(tmp_path):
    made(tmp_path, "One.\n</doc>\n", ALL)
    assert len(contents(tmp_path / "corpus")) == 2
    made(tmp_path, "One.\n</doc>\n", PrepareSettings(format="wiki", heldout=0), "wiki")
    assert contents(tmp_path / "wiki") == [["One", "."]]


def test_compressed_files_and_folders_are_read_in_order(tmp_path):
    write(tmp_path / "texts" / "AB" / "wiki_00", "three\n")
    (tmp_path / "texts" / "AA").mkdir()
    (tmp_path / "texts" / "AA" / "wiki_00.xz").write_bytes(lzma.compress(b"one\n"))
    (tmp_path / "texts" / "AA" / "wiki_01.gz").write_bytes(gzip.compress(b"two\n"))
    write(tmp_path / "texts" / ".hidden", "no\n")
    first = write(tmp_path / "z.txt", "zero\n")
    prepare([first, tmp_path / "texts"], tmp_path / "texts" / "corpus", TOKENS)
    assert contents(tmp_path / "texts" / "corpus") == [["zero"], ["one"], ["two"], ["three"]]
    assert not prepare([first, tmp_path / "texts"], tmp_path / "texts" / "corpus", TOKENS).made


def test_a_line_of_ten_megabytes_is_a_line_like_any_other(tmp_path):
    manifest = made(tmp_path, "word " * (2 * 1024 * 1024) + "\nlast\n")
    assert (manifest.train.sentences, manifest.train.tokens) == (2, 2 * 1024 * 1024 + 1)


def test_markers_in_the_text_are_left_out_and_counted(tmp_path):
    manifest = made(tmp_path, "<S> the bank </S>\n<S> </S>\nthe <UNK>\n")
    assert contents(tmp_path / "corpus") == [["the", "bank"], ["the", "<UNK>"]]
    assert manifest.skipped_markers == 4
    assert manifest.train.unknown == 1


letters = st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"], exclude_characters="\ufeff")
words = st.text(letters, min_size=1, max_size=4).filter(lambda word: word not in ("<S>", "</S>"))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=12))
def test_words_and_counts_come_back(tmp_path_factory, small_chunks, sentences):
    folder = tmp_path_factory.mktemp("round")
    manifest = made(folder, "\n".join(map(" ".join, sentences)))
    assert contents(folder / "corpus") == sentences
    corpus = shards.read(folder / "corpus")
    frequency = Counter(word for sentence in sentences for word in sentence)
    ranked = sorted(frequency, key=lambda word: (-frequency[word], word))
    assert corpus.words.words(range(2, len(corpus.words))) == ranked
    assert manifest.train.tokens == frequency.total()
    assert list(corpus.vocabulary)[3:] == [word for word in ranked if word != "<UNK>"]


# The vocabulary


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 5}, ["a", "b"]),
        ({"min_count": 2}, ["a", "b", "c"]),
        ({"min_count": 2, "size": 4}, ["a"]),
        ({"size": 100}, ["a", "b", "c", "d"]),
    ],
)
def test_size_and_minimum_count_limit_the_vocabulary_not_the_types(tmp_path, options, words):
    manifest = made(tmp_path, "a a a b b c c d\n", PrepareSettings(format="tokens", heldout=0, **options))
    corpus = shards.read(tmp_path / "corpus")
    assert list(corpus.vocabulary) == ["<S>", "</S>", "<UNK>", *words]
    assert manifest.types == 6
    assert manifest.train.unknown == sum("aaabbccd".count(word) for word in "abcd" if word not in words)


def test_a_given_vocabulary_is_taken_as_it_is(tmp_path):
    vocabulary = write(tmp_path / "v.txt", "b\n<UNK>\n</S>\n<S>\nx\n")
    made(tmp_path, "a b\n", PrepareSettings(format="tokens", heldout=0, vocabulary=str(vocabulary)))
    corpus = shards.read(tmp_path / "corpus")
    assert list(corpus.vocabulary) == ["b", "<UNK>", "</S>", "<S>", "x"]
    assert dict(zip(corpus.words.words(range(4)), corpus.targets_S.tolist(), strict=True)) == {
        **{"<S>": 3, "</S>": 2, "a": 1, "b": 0}
    }


@pytest.mark.parametrize("text", ["a\nb\n", "<S>\n</S>\n<UNK>\na\na\n"])
def test_a_flawed_vocabulary_is_refused_before_any_work(tmp_path, text):
    vocabulary = write(tmp_path / "v.txt", text)
    with pytest.raises(DataError, match=r"v\.txt"):
        made(tmp_path, "a b\n", PrepareSettings(vocabulary=str(vocabulary)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "v.txt"]


def test_words_that_readers_of_vocabularies_take_for_something_else_stay_out(tmp_path):
    made(tmp_path, "!!!MAXTERMID a <UNK>\n")
    assert list(shards.read(tmp_path / "corpus").vocabulary) == ["<S>", "</S>", "<UNK>", "a"]


# The held-out part


@pytest.mark.parametrize(("heldout", "sentences"), [(0.1, 12), (7, 8), (1, 2), (0, 0)])
def test_a_share_or_a_number_of_sentences_is_held_out_in_whole_lines(tmp_path, small_chunks, heldout, sentences):
    manifest = made(tmp_path, LONG_TEXT, PrepareSettings(heldout=heldout))
    assert manifest.heldout.sentences == sentences
    assert manifest.train.sentences == 120 - sentences
    train, held = contents(tmp_path / "corpus"), contents(tmp_path / "corpus", "heldout")
    assert sorted(train + held) == sorted(tokenize(LONG_TEXT))
    numbers = [sentence[1] for sentence in held if sentence[0] == "Line"]
    assert 2 * len(numbers) == len(held), "both sentences of a line"


def test_the_seed_chooses_who_is_held_out(tmp_path):
    for seed in (0, 1):
        made(tmp_path, LONG_TEXT, PrepareSettings(heldout=10, seed=seed), f"seed-{seed}")
    assert contents(tmp_path / "seed-0", "heldout") != contents(tmp_path / "seed-1", "heldout")


def test_words_of_the_held_out_part_alone_are_types_but_not_vocabulary(tmp_path):
    made(tmp_path, LONG_TEXT, PrepareSettings(heldout=10))
    corpus = shards.read(tmp_path / "corpus")
    unseen = {word for words in contents(tmp_path / "corpus", "heldout") for word in words if word.isdigit()}
    assert unseen
    assert not unseen & set(corpus.vocabulary)
    assert corpus.manifest.heldout.unknown == len(unseen)


def test_a_corpus_of_one_line_needs_all_of_it(tmp_path):
    with pytest.raises(DataError, match="--heldout 0"):
        made(tmp_path, "One. Two.\n", PrepareSettings())


# The input files


def parts_by_input(folder, part):
    """The sentences of each input, by the manifest's counts."""
    corpus = shards.read(folder)
    sentences, first, found = Sentences(getattr(corpus, part)), 0, []
    for sizes in corpus.manifest.by_input:
        size = getattr(sizes, part)
        own = sentences.part(first, size.sentences)
        assert (len(own), own.tokens) == (size.sentences, size.tokens)
        found.append([corpus.words.words(own[number]) for number in range(len(own))])
        first += size.sentences
    assert first == len(sentences)
    return found


@pytest.mark.parametrize("heldout", [0, 0.3])
def test_the_manifest_says_which_sentences_come_from_which_input(tmp_path, small_chunks, heldout):
    """The first word of every line names its file; one file is empty."""
    names = ["b", "empty", "a", "c"]
    texts = {name: "".join(f"{name} {'word ' * (n % 7)}\n" for n in range(50)) for name in names} | {"empty": "\n"}
    files = [write(tmp_path / f"{name}.tok", text) for name, text in texts.items()]
    prepare(files, tmp_path / "corpus", PrepareSettings(format="tokens", heldout=heldout))
    found = {part: parts_by_input(tmp_path / "corpus", part) for part in shards.SPLITS}
    for number, (name, text) in enumerate(texts.items()):
        own = [sentence for part in shards.SPLITS for sentence in found[part][number]]
        assert sorted(own) == sorted(line.split() for line in text.splitlines() if line), name
    assert [bool(own) for own in found["heldout"]] == [heldout > 0 and name != "empty" for name in names]


def test_a_manifest_of_an_earlier_version_is_read_and_is_the_same_corpus(tmp_path):
    manifest = made(tmp_path, LONG_TEXT, PrepareSettings())
    path = tmp_path / "corpus" / shards.MANIFEST
    values = json.loads(path.read_text())
    del values["by_input"]
    path.write_text(json.dumps(values))
    old = shards.read(tmp_path / "corpus")
    assert old.manifest.by_input is None
    assert old.fingerprint() == manifest.fingerprint()
    assert not prepare([tmp_path / "a.txt"], tmp_path / "corpus", PrepareSettings()).made


# The report


def test_repeated_lines_are_counted_and_the_most_frequent_named(tmp_path, small_chunks, monkeypatch):
    monkeypatch.setattr(assemble, "_HASHES_AT_ONCE", 7)
    lines = ["once", *["See also"] * 4, "twice", *(f"number {n}" for n in range(30)), "twice"]
    manifest = made(tmp_path, "\n\n".join(lines))
    assert (manifest.lines, manifest.duplicate_lines) == (37, 4)
    assert [(line.where.rpartition(":")[2], line.times) for line in manifest.most_repeated] == [("3", 4), ("11", 2)]


def test_words_that_a_model_cuts_are_counted_in_bytes(tmp_path):
    manifest = made(tmp_path, f"{'x' * 48} {'x' * 49} {'ü' * 24} {'ü' * 25} {'ü' * 25}\n")
    assert manifest.long_tokens == 3


# Parallel, interrupted, repeated


def test_the_number_of_processes_changes_no_byte(tmp_path, small_chunks):
    text = write(tmp_path / "a.txt", LONG_TEXT)
    for processes in (1, 2):
        prepare([text], tmp_path / f"by-{processes}", PrepareSettings(heldout=0.1), processes=processes)
    assert files_of(tmp_path / "by-1") == files_of(tmp_path / "by-2")
    assert shards.read(tmp_path / "by-1").manifest.train.shards > 3


@pytest.mark.parametrize(("name", "kept"), [("000000.npz", False), ("notes.md", True)])
def test_a_finished_run_that_is_repeated_removes_what_a_kill_has_left(name, kept, tmp_path):
    made(tmp_path, LONG_TEXT, PrepareSettings(), "corpus")
    left = write(tmp_path / "corpus.partial" / name, "left")
    assert not prepare([tmp_path / "a.txt"], tmp_path / "corpus", PrepareSettings()).made
    assert left.exists() == kept


def test_an_interrupted_run_goes_on_and_ends_in_the_same_bytes(tmp_path, small_chunks, monkeypatch):
    made(tmp_path, LONG_TEXT, PrepareSettings(), "whole")
    calls = []

    def failing(lines, settings):
        calls.append(lines)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return chunks.number_words(lines, settings)

    monkeypatch.setattr(module, "number_words", failing)
    arguments = [tmp_path / "a.txt"], tmp_path / "corpus", PrepareSettings()
    with pytest.raises(KeyboardInterrupt):
        prepare(*arguments)
    assert len(list((tmp_path / "corpus.partial").glob("*.npz"))) == 8
    first = len(calls)
    prepare(*arguments)
    assert len(calls) == len({(lines.file, *lines.numbers) for lines in calls}) + 1, "only the failed chunk is repeated"
    assert len(calls) > first
    assert files_of(tmp_path / "corpus") == files_of(tmp_path / "whole")
    assert not (tmp_path / "corpus.partial").exists()


def test_a_damaged_chunk_is_made_again(tmp_path, small_chunks, monkeypatch):
    made(tmp_path, LONG_TEXT, PrepareSettings(), "whole")
    with monkeypatch.context() as patch:
        patch.setattr(module, "assemble", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path, LONG_TEXT, PrepareSettings())
    os.utime(tmp_path / "a.txt", ns=(0, shards.read(tmp_path / "whole").manifest.inputs[0].modified))
    kept = sorted((tmp_path / "corpus.partial").glob("*.npz"))
    kept[0].write_bytes(kept[0].read_bytes()[:100])
    kept[1].write_bytes(kept[2].read_bytes())
    prepare([tmp_path / "a.txt"], tmp_path / "corpus", PrepareSettings())
    assert files_of(tmp_path / "corpus") == files_of(tmp_path / "whole")


def test_chunks_left_of_a_text_that_was_changed_are_not_used(tmp_path, small_chunks, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module, "assemble", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path, "one\ntwo\n" * 30)
    made(tmp_path, "one\nTWO\n" * 20)
    assert contents(tmp_path / "corpus") == [["one"], ["TWO"]] * 20


KILLED = """
import sys
from pathlib import Path
from stelmo.settings import PrepareSettings
from stelmo.corpus import chunks
from stelmo.corpus.prepare import prepare
if __name__ == "__main__":
    chunks.CHUNK_CHARACTERS = 2000
    prepare([sys.argv[1]], Path(sys.argv[2]), PrepareSettings(), processes=2)
"""


def test_a_killed_run_goes_on_and_leaves_no_process_behind(tmp_path, monkeypatch):
    text, script = write(tmp_path / "a.txt", LONG_TEXT * 60), write(tmp_path / "run.py", KILLED)
    process = subprocess.Popen([sys.executable, script, text, tmp_path / "corpus"], start_new_session=True)
    while not list((tmp_path / "corpus.partial").glob("[0-9]*.npz")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "corpus").exists()
    deadline = time.monotonic() + 60
    while _alive(process.pid):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)
    monkeypatch.setattr(chunks, "CHUNK_CHARACTERS", 2000)
    for name in ("corpus", "whole"):
        prepare([text], tmp_path / name, PrepareSettings())
    assert files_of(tmp_path / "corpus") == files_of(tmp_path / "whole")


def _alive(group):
    """Whether any process of the group is there still."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_death_of_a_worker_is_said():
    with pytest.raises(OutputError, match=r"a worker died, .* fewer --processes"), module._workers(2) as submit:
        submit(os._exit, 1).result()


def test_a_repeated_call_does_nothing(tmp_path):
    made(tmp_path, LONG_TEXT, ALL)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "corpus").iterdir()}
    again = prepare([tmp_path / "a.txt"], tmp_path / "corpus", ALL, processes=2)
    assert not again.made
    assert again.manifest == shards.read(tmp_path / "corpus").manifest
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "corpus").iterdir()} == before


# What is in the way


def test_a_folder_of_other_settings_is_refused_and_can_be_overwritten(tmp_path):
    made(tmp_path, LONG_TEXT, PrepareSettings(size=50, heldout=0.5))
    arguments = [tmp_path / "a.txt"], tmp_path / "corpus", PrepareSettings(size=60, heldout=0)
    with pytest.raises(OutputError, match=r"size 50, not 60; heldout 0\.5, not 0\.0; .*--overwrite"):
        prepare(*arguments)
    assert prepare(*arguments, overwrite=True).made
    assert shards.read(tmp_path / "corpus").manifest.settings.size == 60
    assert not (tmp_path / "corpus" / "heldout-00000.ids.npy").exists()


def test_changed_inputs_are_named(tmp_path):
    made(tmp_path, "a b\n")
    write(tmp_path / "b.txt", "c\n")
    with pytest.raises(OutputError, match=r"other inputs \(.*b\.txt\)"):
        prepare([tmp_path / "a.txt", tmp_path / "b.txt"], tmp_path / "corpus", TOKENS)
    with pytest.raises(OutputError, match=r"other inputs \(.*a\.txt\)"):
        made(tmp_path, "a b c\n")


def test_a_torn_corpus_is_refused_and_can_be_overwritten(tmp_path):
    made(tmp_path, "a b\n")
    (tmp_path / "corpus" / "types.bin").write_bytes(b"")
    with pytest.raises(DataError, match="--overwrite"):
        prepare([tmp_path / "a.txt"], tmp_path / "corpus", TOKENS)
    assert prepare([tmp_path / "a.txt"], tmp_path / "corpus", TOKENS, overwrite=True).made


def test_a_folder_of_something_else_is_never_replaced(tmp_path):
    write(tmp_path / "corpus" / "thesis.txt", "mine")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="is not a corpus"):
            made(tmp_path, "a\n", overwrite=overwrite)
    assert (tmp_path / "corpus" / "thesis.txt").read_text() == "mine"


def test_a_file_that_is_not_ours_stops_an_overwriting(tmp_path):
    made(tmp_path, "a\n")
    write(tmp_path / "corpus" / "notes.md", "mine")
    with pytest.raises(OutputError, match=r"would delete notes\.md"):
        made(tmp_path, "a\n", overwrite=True)


def test_a_working_folder_that_is_not_ours_is_left_alone(tmp_path):
    write(tmp_path / "corpus.partial" / "notes.md", "mine")
    with pytest.raises(OutputError, match=r"notes\.md"):
        made(tmp_path, "a\n")
    assert (tmp_path / "corpus.partial" / "notes.md").exists()


def test_a_link_to_a_folder_is_followed(tmp_path):
    (tmp_path / "disk" / "corpus").mkdir(parents=True)
    (tmp_path / "corpus").symlink_to(tmp_path / "disk" / "corpus")
    for overwrite in (False, True):
        assert made(tmp_path, "a\n", overwrite=overwrite).train.tokens == 1
        assert (tmp_path / "corpus").is_symlink()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["corpus"]


def test_the_current_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "corpus").mkdir()
    monkeypatch.chdir(tmp_path / "corpus")
    with pytest.raises(OutputError, match="a mount point or the current folder"):
        prepare([write(tmp_path / "a.txt", "a\n")], Path(), TOKENS)
    assert not (tmp_path / "corpus.partial").exists()


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "corpus").mkdir()
    assert made(tmp_path, "a\n").train.tokens == 1


# Bad input


@pytest.mark.parametrize(
    ("format", "text"),
    [("text", ""), ("text", "\n \n\t\n"), ("tokens", "<S> </S>\n"), ("wiki", '<doc id="1">\n</doc>\n')],
)
def test_an_empty_corpus_is_refused(tmp_path, format, text):
    with pytest.raises(DataError, match=r"a\.txt: no sentence found"):
        made(tmp_path, text, PrepareSettings(format=format))
    assert not (tmp_path / "corpus").exists()


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"fine\n\nnot \xff fine\n")
    with pytest.raises(DataError, match=r"a\.txt:3: byte 0xff"):
        prepare([tmp_path / "a.txt"], tmp_path / "corpus", TOKENS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["missing.txt"], r"missing\.txt: No such file"),
        (["-"], "standard input"),
        (["empty"], "no files found"),
        (["b.txt", "b.txt"], "named twice"),
        (["b.conllu"], "looks like a conllu file"),
    ],
)
def test_inputs_that_cannot_be_read_are_named(tmp_path, monkeypatch, inputs, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write(tmp_path / "b.txt", "b\n")
    write(tmp_path / "b.conllu", "1\tb\n")
    with pytest.raises(DataError, match=message):
        prepare(inputs, tmp_path / "corpus", ALL)
    assert not (tmp_path / "corpus.partial").exists()


def test_a_minimum_count_that_no_word_has_is_refused(tmp_path):
    with pytest.raises(DataError, match="no word occurs 3 times"):
        made(tmp_path, "a a b\n", PrepareSettings(format="tokens", heldout=0, min_count=3))


def test_no_folder_to_write_in_is_said(tmp_path):
    write(tmp_path / "a.txt", "a\n")
    with pytest.raises(OutputError, match="does not exist; create it first"):
        prepare([tmp_path / "a.txt"], tmp_path / "no" / "corpus", ALL)


def test_a_full_disk_is_said_and_the_work_kept(tmp_path, small_chunks, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shards, "write_shard", full)
        with pytest.raises(OutputError, match="disk is full"):
            made(tmp_path, LONG_TEXT, ALL)
    assert not (tmp_path / "corpus").exists()
    assert list((tmp_path / "corpus.partial").glob("*.npz"))
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "_flush_to_disk", full)
        with pytest.raises(OutputError, match="disk is full"):
            made(tmp_path, LONG_TEXT, ALL, "other")
    assert made(tmp_path, LONG_TEXT, ALL).train.sentences == 120
