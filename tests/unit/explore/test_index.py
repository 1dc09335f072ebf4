"""An index of word uses: the words of the corpus with the model's layers, through additions, deletions and kills."""

import re
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

import stelmo
from stelmo.errors import ConfigError, DataError, OutputError
from stelmo.explore import index
from stelmo.explore.mixing import Mix, mixed
from stelmo.store import uses as store
from stelmo.text import formats

SENTENCES = [
    ["The", "bank", "."],
    [],
    ["a", "river", "bank", "and", "a", "Bank"],
    ["über", "日本", "12", "3rd"],
    ["...", "--"],
]
MODEL = tiny.model()


def build(folder, sentences=SENTENCES, model=MODEL, **options):
    return index.build(model, sentences, folder, **({"block_tokens": 5} | options))


def contents(found):
    return {(use.tokens, use.position) for word in found.words for use in found.uses(word)}


def counting(monkeypatch):
    """The sentences computed from here on."""
    computed, original = [], MODEL.layers

    def count(sentences, *rest):
        computed.extend(map(tuple, sentences))
        return original(sentences, *rest)

    monkeypatch.setattr(MODEL, "layers", count)
    return computed


# What is indexed


def test_every_token_with_a_letter_is_a_use_of_its_lower_cased_word(tmp_path):
    found = build(tmp_path / "i")
    assert dict(found.words) == {"bank": 3, "a": 2, "3rd": 1, "and": 1, "river": 1, "the": 1, "über": 1, "日本": 1}
    assert list(found.words) == sorted(found.words, key=lambda word: (-found.words[word], word))
    assert [use.word for use in found.uses("BANK")] == ["bank", "bank", "Bank"]
    assert len(found) == sum(found.words.values())


def test_the_layers_are_those_of_the_model_to_half_a_step_of_8_bits(tmp_path):
    found = build(tmp_path / "i")
    by_sentence = {tuple(tokens): layers for tokens, layers in zip(SENTENCES, MODEL.layers(SENTENCES), strict=True)}
    uses = [use for word in found.words for use in found.uses(word)]
    expected_NLD = np.stack([by_sentence[use.tokens][:, use.position] for use in uses])
    layers_NLD = found.layers([use.id for use in uses])
    assert layers_NLD.dtype == np.float32
    step_NL1 = np.abs(expected_NLD).max(2, keepdims=True) / 127
    assert (np.abs(layers_NLD - expected_NLD) <= step_NL1 * 0.501).all()
    assert np.abs(layers_NLD).max() > 0.1


def test_no_block_depends_on_words_remembered_from_another(tmp_path):
    model = tiny.model()
    model.embed(SENTENCES)
    remembered = tiny.counting_words(model)
    build(tmp_path / "uses", model=model, block_tokens=3)
    assert len(remembered) > 1
    assert set(remembered) == {0}


def test_the_index_says_what_it_is_of(tmp_path):
    found = build(tmp_path / "i")
    assert (found.depth, found.width) == (MODEL.config.depth, MODEL.config.width)
    assert found.fingerprint == MODEL.saved().fingerprint()
    index.refuse_other_model(found, MODEL)


def test_chosen_words_alone_are_indexed_whatever_their_case(tmp_path):
    found = build(tmp_path / "i", words=["Bank", "12"])
    assert dict(found.words) == {"bank": 3, "12": 1}


def test_of_a_word_with_many_uses_the_first_are_kept(tmp_path):
    found = build(tmp_path / "i", [["bank", str(number)] for number in range(9)], per_word=4)
    assert [use.tokens[1] for use in found.uses("bank")] == ["0", "1", "2", "3"]


def test_an_unknown_word_has_no_use(tmp_path):
    assert build(tmp_path / "i").uses("unheard-of") == []


@pytest.mark.parametrize("id", [-1, 10, 10**12])
def test_an_unknown_use_is_refused(id, tmp_path):
    found = build(tmp_path / "i", [["bank"]] * 2)
    with pytest.raises(DataError, match=f"no use with id {id}; it was deleted or never existed"):
        found.use(id)
    with pytest.raises(DataError, match=f"no use with id {id}"):
        found.layers([0, id])


def test_threads_can_read_one_index(tmp_path):
    found = build(tmp_path / "i")
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: [found.use(id) for id in found.ids.tolist()], range(8)))
    assert all(answer == answers[0] for answer in answers)


# Growing and forgetting


def test_the_same_text_again_computes_nothing(tmp_path, monkeypatch):
    first = build(tmp_path / "i")
    computed = counting(monkeypatch)
    second = build(tmp_path / "i")
    assert computed == []
    assert [second.use(id) for id in second.ids.tolist()] == [first.use(id) for id in first.ids.tolist()]


def test_a_sentence_that_comes_twice_is_there_once(tmp_path):
    assert build(tmp_path / "i", [["bank"], ["bank"]]).words == {"bank": 1}


def test_more_words_of_a_sentence_that_is_there_are_added(tmp_path):
    build(tmp_path / "i", words=["river"])
    assert contents(build(tmp_path / "i")) == contents(build(tmp_path / "j"))


def test_an_id_stays_its_uses_own_while_others_come_and_go(tmp_path):
    before = build(tmp_path / "i", SENTENCES[:3])
    kept = {use.id: use for use in before.uses("bank") if "river" in use.tokens}
    assert index.delete(tmp_path / "i", lambda tokens: "The" in tokens) == 2
    after = build(tmp_path / "i", [["another", "bank"]])
    assert all(after.use(id) == use for id, use in kept.items())
    np.testing.assert_array_equal(after.layers(list(kept)), before.layers(list(kept)))
    assert after.words["bank"] == 3
    assert "the" not in after.words


def test_what_was_deleted_can_be_added_again(tmp_path):
    before = build(tmp_path / "i")
    assert index.delete(tmp_path / "i", lambda tokens: True) == len(before)
    assert len(index.open(tmp_path / "i")) == 0
    assert contents(build(tmp_path / "i")) == contents(before)


def test_nothing_to_delete_changes_no_byte(tmp_path):
    build(tmp_path / "i")
    before = {file.name: file.read_bytes() for file in (tmp_path / "i").iterdir()}
    assert index.delete(tmp_path / "i", lambda tokens: False) == 0
    assert {file.name: file.read_bytes() for file in (tmp_path / "i").iterdir()} == before


words = st.sampled_from(["bank", "Bank", "river", "a", ".", "日本"])
changes = st.lists(st.tuples(st.booleans(), st.lists(st.lists(words, max_size=3), max_size=3)), max_size=5)


@given(changes=changes)
@settings(max_examples=30)
def test_after_any_additions_and_deletions_the_uses_are_those_added_and_not_deleted(changes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any") / "i"
    build(folder, [])
    expected = set()
    for adding, sentences in changes:
        places = {(tuple(s), at) for s in sentences for at, word in enumerate(s) if index.is_word(word)}
        if adding:
            build(folder, sentences)
            expected |= places
        else:
            gone = index.delete(folder, lambda tokens, unwanted=sentences: list(tokens) in unwanted)
            assert gone == len(expected & places)
            expected -= places
        found = index.open(folder)
        assert contents(found) == expected
        assert len(found) == len(expected)


# Stopped

KILLED = """
import os, signal, sys
from stelmo.embed.load import load
from stelmo.explore import index
from stelmo.store import growing
left, kept = int(sys.argv[3]), growing.flush_to_disk
def flush(file):
    global left
    left -= 1
    if left < 0:
        file.flush()
        os.truncate(file.fileno(), os.fstat(file.fileno()).st_size - int(sys.argv[4]))
        os.kill(os.getpid(), signal.SIGKILL)
    kept(file)
growing.flush_to_disk = flush
index.build(load(sys.argv[1]), [[f"w{n}", "x", "y"] for n in range(8)], sys.argv[2], block_tokens=8, per_word=6)
"""


@pytest.mark.parametrize(("flushes", "torn"), [(1, 7), (6, 40)], ids=["in the journal", "in the vectors"])
def test_a_kill_while_indexing_leaves_whole_blocks_and_the_same_call_goes_on(flushes, torn, tmp_path):
    model, sentences = tiny.folder(tmp_path / "model"), [[f"w{n}", "x", "y"] for n in range(8)]
    whole = build(tmp_path / "whole", sentences, block_tokens=8, per_word=6)
    command = [sys.executable, "-c", KILLED, str(model), str(tmp_path / "i"), str(flushes), str(torn)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    left = index.open(tmp_path / "i")
    assert contents(left) == {place for place in contents(whole) if int(place[0][0][1:]) < flushes // 2 * 2}
    assert_same(left, whole, len(left))
    assert_same(build(tmp_path / "i", sentences, block_tokens=8, per_word=6), whole, len(whole))


def assert_same(found, expected, count):
    """The first uses with their layers, to one step of 8 bits: the last bit of a layer can depend on its batch."""
    assert found.ids.tolist() == expected.ids.tolist()[:count]
    assert [found.use(id) for id in found.ids.tolist()] == [expected.use(id) for id in found.ids.tolist()]
    found_NLD, expected_NLD = found.layers(found.ids), expected.layers(found.ids)
    assert (np.abs(found_NLD - expected_NLD) <= np.abs(expected_NLD).max(2, keepdims=True) / 126).all()


def test_an_interruption_keeps_the_blocks_that_were_finished(tmp_path):
    def stop(tokens):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "i", advance=stop)
    assert contents(index.open(tmp_path / "i")) < contents(build(tmp_path / "i"))


def test_progress_is_told_every_token(tmp_path):
    told = []
    build(tmp_path / "i", advance=told.append)
    build(tmp_path / "i", advance=told.append)
    assert sum(told) == 2 * sum(map(len, SENTENCES))
    assert len(told) > 2


def test_a_block_has_100_mb_of_layers_and_less_if_the_model_was_given_less_memory(monkeypatch):
    assert index._block_tokens(MODEL) * 4 * MODEL.config.depth * MODEL.config.width == pytest.approx(1e8, rel=1e-3)
    small = tiny.model(memory=360)
    assert index._block_tokens(small) == small.plan.block_tokens < index._block_tokens(MODEL)
    monkeypatch.setattr(index, "BLOCK_BYTES", 1)
    assert index._block_tokens(MODEL) == 1


# Refused


def test_another_model_is_refused_for_adding_and_for_asking(tmp_path):
    found = build(tmp_path / "i")
    saved = tiny.saved()
    saved.bilm.encoder.table[5, 0] += 1e-3
    other = type(MODEL)(saved)
    with pytest.raises(OutputError, match="an index by another model"):
        build(tmp_path / "i", model=other)
    with pytest.raises(ConfigError, match=r"made by another model .* choose that model with --model"):
        index.refuse_other_model(found, other)


def test_a_state_that_goes_from_sentence_to_sentence_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="with state 'carry'"):
        build(tmp_path / "i", model=tiny.model(state="carry"))
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize("sentences", ["a text", ["a text"], [["a", 1]]], ids=str)
def test_what_is_no_list_of_tokens_is_refused(sentences, tmp_path):
    with pytest.raises(DataError, match="tokens"):
        build(tmp_path / "i", sentences)


def test_layers_that_are_not_finite_are_refused_and_leave_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(MODEL, "layers", lambda sentences: [np.full((3, len(s), 12), np.inf) for s in sentences])
    with pytest.raises(DataError, match=r"reach inf; an index stores finite numbers"):
        build(tmp_path / "i")
    assert not (tmp_path / "i").exists()


def failing():
    yield from SENTENCES[:3]
    raise DataError("no such corpus")


def test_an_error_before_the_first_block_leaves_no_new_folder(tmp_path):
    with pytest.raises(DataError, match="no such corpus"):
        build(tmp_path / "i", failing(), block_tokens=1000)
    assert not (tmp_path / "i").exists()


def test_an_error_later_keeps_the_finished_blocks_and_an_index_that_was_there(tmp_path):
    with pytest.raises(DataError, match="no such corpus"):
        build(tmp_path / "i", failing(), block_tokens=1)
    assert len(index.open(tmp_path / "i"))
    build(tmp_path / "j", [])
    with pytest.raises(DataError, match="no such corpus"):
        build(tmp_path / "j", failing(), block_tokens=1000)
    assert len(index.open(tmp_path / "j")) == 0


@given(weights=st.tuples(*[st.sampled_from([0.0, 0.5, 1.0, -2.0])] * 3), gamma=st.sampled_from([1.0, 0.5]))
@settings(max_examples=20)
def test_mixing_in_the_index_is_mixing_its_layers(weights, gamma, shared_index):
    mix = Mix(weights, gamma)
    expected_ND = mixed(shared_index.layers(shared_index.ids), mix)
    np.testing.assert_array_equal(shared_index.mixed(shared_index.ids, mix), expected_ND)


@pytest.fixture(scope="module")
def shared_index(tmp_path_factory):
    return build(tmp_path_factory.mktemp("shared") / "i")


# The document


def test_the_documented_calls_run(tmp_path, monkeypatch):
    text = (Path(__file__).parents[3] / "docs" / "explorer.md").read_text()
    snippet = re.findall(r"```python\n(.*?)```", text.split("## The index")[1], re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stelmo, "load", lambda: MODEL)
    names = {}
    exec(snippet, names)
    assert [use.word for use in names["uses"]] == ["bank"] * 3
    assert names["points"].shape == (3, 2)
    assert len(names["hits"]) == 5
    assert len(index.open("uses").uses("bank")) == 2


BUNDLED = list(index.bundled_sentences())


def test_the_text_is_some_thousand_sentences_and_small():
    assert 3000 < len(BUNDLED) < 5000
    assert len({tuple(tokens) for tokens in BUNDLED}) == len(BUNDLED)
    assert index.BUNDLED_TEXT.stat().st_size < 400_000
    assert "Attribution-ShareAlike" in index.BUNDLED_TEXT.with_name("README.md").read_text()


def test_its_ambiguous_words_have_many_uses():
    counts = Counter(token for tokens in BUNDLED for token in tokens)
    words = index.BUNDLED_TEXT.with_name("README.md").read_text().split("\n\n")[2].split()
    assert len(words) == 55
    assert all(counts[word] >= 50 for word in words)
    assert not any(word.capitalize() in counts for word in words)


def test_bank_is_there_in_both_senses():
    near = [set(tokens[max(0, at - 6) : at + 6]) for tokens in BUNDLED for at in places(tokens, "bank")]
    rivers = sum(bool(words & {"River", "river", "Rhine", "Thames", "Seine", "canal"}) for words in near)
    money = sum(bool(words & {"money", "central", "account", "accounts", "loan", "card", "credit"}) for words in near)
    assert len(near) >= 60
    assert rivers >= 20
    assert money >= 20


def places(tokens, word):
    return [at for at, token in enumerate(tokens) if token == word]


@pytest.fixture
def short_text(monkeypatch):
    monkeypatch.setattr(index, "bundled_sentences", lambda: islice(BUNDLED, 20))


def test_the_index_is_computed_once_for_each_model_and_state(tmp_path, short_text):
    told = []
    first = index.open_bundled(tiny.model(), tmp_path / "cache", told.append)
    assert sum(told) == sum(map(len, BUNDLED[:20]))
    assert first.folder.parent == tmp_path / "cache"
    size = (first.folder / "vectors.bin").stat().st_size
    assert len(index.open_bundled(tiny.model(), tmp_path / "cache")) == len(first)
    assert (first.folder / "vectors.bin").stat().st_size == size
    assert index.open_bundled(tiny.model(state="fresh"), tmp_path / "cache").folder != first.folder


def test_a_complete_index_is_read_without_its_lock(tmp_path, short_text, monkeypatch):
    first = index.open_bundled(tiny.model(), tmp_path)
    before = {file: file.stat().st_mtime_ns for file in first.folder.iterdir()}

    def refused(folder):
        raise OutputError("another process is writing in this folder")

    monkeypatch.setattr(store, "writing", refused)
    assert index.open_bundled(tiny.model(), tmp_path).words == first.words
    assert {file: file.stat().st_mtime_ns for file in first.folder.iterdir()} == before


def test_an_index_of_another_bundled_text_or_without_all_uses_is_not_complete(tmp_path, short_text, monkeypatch):
    folder = index.open_bundled(tiny.model(), tmp_path).folder
    gone = index.delete(folder, lambda tokens: True)
    assert len(index.open_bundled(tiny.model(), tmp_path)) == gone > 0
    monkeypatch.setattr(index, "bundled_sentences", lambda: iter([["quite", "another"]]))
    assert "quite" not in index.open_bundled(tiny.model(), tmp_path).words
    monkeypatch.setattr(index, "BUNDLED_TEXT", Path(__file__))
    assert "quite" in index.open_bundled(tiny.model(), tmp_path).words


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert index.cache_folder() == Path("/somewhere/stelmo")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert index.cache_folder() == Path("/home/someone/.cache/stelmo")


def test_a_cache_that_cannot_be_made_is_said_with_the_way_out(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot be written .* set XDG_CACHE_HOME to another cache folder"):
        index.open_bundled(tiny.model(), tmp_path / "file" / "cache")


# Columns of the data


def test_columns_of_the_data_are_kept_with_the_uses(tmp_path):
    tagged = [
        formats.Sentence(["The", "bank", "."], "file", 1, (("upos", ["DET", "NOUN", "PUNCT"]),)),
        formats.Sentence(["They", "bank", "."], "file", 5, (("upos", ["PRON", "VERB", "PUNCT"]),)),
    ]
    found = build(tmp_path / "uses", [*tagged, ["a", "river", "bank"]])
    assert found.columns == ("upos",)
    assert found.values(found.ids_of("bank"), "upos") == ["NOUN", "VERB", ""]
    assert found.values(found.ids_of("the"), "upos") == ["DET"]
    assert found.values(found.ids_of("the"), "xpos") == [""]
    plain = build(tmp_path / "plain", [*(sentence.tokens for sentence in tagged), ["a", "river", "bank"]])
    assert plain.columns == ()
    np.testing.assert_array_equal(found.layers(found.ids), plain.layers(plain.ids))


def test_an_index_made_before_there_were_columns_grows_with_them(tmp_path):
    build(tmp_path / "uses", [["the", "bank"]])
    tagged = formats.Sentence(["a", "bank"], "file", 1, (("upos", ["DET", "NOUN"]),))
    found = build(tmp_path / "uses", [["the", "bank"], tagged])
    assert found.values(found.ids_of("bank"), "upos") == ["", "NOUN"]


# How the text was tokenised


def test_a_new_index_keeps_the_rules_of_its_text_and_an_old_one_is_english(tmp_path):
    french = index.Rules("fr", "moses")
    assert build(tmp_path / "new", rules=french).rules == index.rules_of(tmp_path / "new") == french
    assert build(tmp_path / "new", [["more"]]).rules == french
    assert build(tmp_path / "new", [["more"]], rules=french).rules == french
    assert build(tmp_path / "old").rules == index.rules_of(tmp_path / "old") == index.Rules("en", "ptb")
    assert build(tmp_path / "old", [["more"]], rules=french).rules == index.Rules("en", "ptb")


def test_text_by_other_rules_is_refused(tmp_path):
    build(tmp_path / "i", rules=index.Rules("fr"))
    with pytest.raises(OutputError, match=r"an index with other settings .*use the same ones"):
        build(tmp_path / "i", rules=index.Rules("de"))
    with pytest.raises(ConfigError, match="contractions 'x'"):
        build(tmp_path / "j", rules=index.Rules("en", "x"))
    assert not (tmp_path / "j").exists()


def test_half_a_character_becomes_a_replacement_character(tmp_path):
    tagged = formats.Sentence(["a\ud800b", "bank"], "file", 1, (("upos", ["\udfffX", "NOUN"]),))
    found = build(tmp_path / "i", [tagged])
    assert list(found.words) == ["a\ufffdb", "bank"]
    assert found.values(found.ids, "upos") == ["\ufffdX", "NOUN"]
