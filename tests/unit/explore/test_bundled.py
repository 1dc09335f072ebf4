"""The text that comes with the package, and its index in the user's cache."""

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
import tiny

from stelmo.errors import OutputError
from stelmo.explore import bundled

SENTENCES = list(bundled.sentences())


def test_the_text_is_some_thousand_sentences_and_small():
    assert 3000 < len(SENTENCES) < 5000
    assert len({tuple(tokens) for tokens in SENTENCES}) == len(SENTENCES)
    assert bundled.TEXT.stat().st_size < 400_000
    assert "Attribution-ShareAlike" in bundled.TEXT.with_name("README.md").read_text()


def test_its_ambiguous_words_have_many_uses():
    counts = Counter(token for tokens in SENTENCES for token in tokens)
    words = bundled.TEXT.with_name("README.md").read_text().split("\n\n")[2].split()
    assert len(words) == 55
    assert all(counts[word] >= 50 for word in words)
    assert not any(word.capitalize() in counts for word in words)


def test_bank_is_there_in_both_senses():
    near = [set(tokens[max(0, at - 6) : at + 6]) for tokens in SENTENCES for at in places(tokens, "bank")]
    rivers = sum(bool(words & {"River", "river", "Rhine", "Thames", "Seine", "canal"}) for words in near)
    money = sum(bool(words & {"money", "central", "account", "accounts", "loan", "card", "credit"}) for words in near)
    assert len(near) >= 60
    assert rivers >= 20
    assert money >= 20


def places(tokens, word):
    return [at for at, token in enumerate(tokens) if token == word]


@pytest.fixture
def short_text(monkeypatch):
    monkeypatch.setattr(bundled, "sentences", lambda: islice(SENTENCES, 20))


def test_the_index_is_computed_once_for_each_model_and_state(tmp_path, short_text):
    told = []
    first = bundled.open_bundled(tiny.model(), tmp_path / "cache", told.append)
    assert sum(told) == sum(map(len, SENTENCES[:20]))
    assert first.folder.parent == tmp_path / "cache"
    size = (first.folder / "vectors.bin").stat().st_size
    assert len(bundled.open_bundled(tiny.model(), tmp_path / "cache")) == len(first)
    assert (first.folder / "vectors.bin").stat().st_size == size
    assert bundled.open_bundled(tiny.model(state="fresh"), tmp_path / "cache").folder != first.folder


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert bundled.cache_folder() == Path("/somewhere/stelmo")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert bundled.cache_folder() == Path("/home/someone/.cache/stelmo")


def test_a_cache_that_cannot_be_made_is_said_with_the_way_out(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot be written .* set XDG_CACHE_HOME to another cache folder"):
        bundled.open_bundled(tiny.model(), tmp_path / "file" / "cache")
