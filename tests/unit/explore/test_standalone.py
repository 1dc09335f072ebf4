"""One HTML file of some words: what it contains, what it never loads, and what is refused."""

import html
import json
import re

import pytest
import tiny

import stelmo.explore
from stelmo.errors import DataError, OutputError
from stelmo.explore import contexts, index, standalone
from stelmo.explore.maps import word_map
from stelmo.explore.mixing import of_layer
from stelmo.text import formats

NASTY = ["a", "bank", "</script><script>alert(1)</script>", "<!--", "\u2028", "日本"]
SENTENCES = [["the", "bank", "."], NASTY, ["a", "river", "bank", "."], ["the", "river", "."]]


@pytest.fixture(scope="module")
def uses(tmp_path_factory):
    return index.build(tiny.model(), SENTENCES, tmp_path_factory.mktemp("index") / "uses")


def data_of(document):
    return json.loads(re.search(r'id="data">(.*?)</script>', document, re.S)[1])


def test_the_file_has_every_layer_of_every_word(uses):
    data = data_of(standalone.page(uses, ["Bank", "river", "bank"], name="tiny", credit="ours").html)
    assert list(data["words"]) == ["bank", "river"]
    assert data["model"]["credit"] == "ours"
    bank = data["words"]["bank"]
    assert [use["tokens"] for use in bank["uses"]] == [list(use.tokens) for use in uses.uses("bank")]
    assert list(bank["maps"]) == ["0", "1", "2", "mean"]
    for layer, saved in bank["maps"].items():
        made = word_map(uses, "bank", [of_layer("mean" if layer == "mean" else int(layer), 3)], near=5)
        assert saved["points"] == made.maps[0].points_N2.round(4).tolist()
        assert saved["groups"] == made.groups_N.tolist()
        assert [[use for use, _ in near] for near in saved["near"]] == [
            [use for use, _ in near] for near in made.maps[0].near
        ]


def test_no_sentence_ends_the_element_that_contains_it(uses):
    document = standalone.page(uses, ["bank"]).html
    assert NASTY in [use["tokens"] for use in data_of(document)["words"]["bank"]["uses"]]
    assert "<script>alert" not in document


def test_the_file_refers_to_nothing_outside_itself(uses):
    document = standalone.page(uses, ["bank"]).html
    assert re.findall(r'(?:src|href)="(?!data:)', document) == []
    assert "default-src 'none'" in document
    imports = json.loads(re.search(r'type="importmap">(.*?)</script>', document, re.S)[1])["imports"]
    assert "file.js" in imports
    assert all(address.startswith("data:text/javascript") for address in imports.values())
    assert "main.js" not in imports


def test_a_sample_of_many_uses_is_counted_against_all(uses):
    bank = data_of(standalone.page(uses, ["bank"], limit=2).html)["words"]["bank"]
    assert (bank["total"], len(bank["uses"])) == (3, 2)


@pytest.mark.parametrize(
    ("words", "message"), [(["bnak"], "did you mean bank"), (["zzz"], "no use of 'zzz'"), ([], "no words")]
)
def test_a_word_that_is_not_there_is_refused(uses, words, message):
    with pytest.raises(DataError, match=message):
        standalone.page(uses, words)


def test_a_file_is_not_overwritten_unless_allowed(uses, tmp_path):
    page = standalone.page(uses, ["bank"])
    page.save(tmp_path / "bank.html")
    with pytest.raises(OutputError, match="exists"):
        page.save(tmp_path / "bank.html")
    page.save(tmp_path / "bank.html", overwrite=True)
    assert (tmp_path / "bank.html").read_text(encoding="utf-8") == page.html


@pytest.mark.parametrize("given", [SENTENCES, "The bank. A river bank."])
def test_a_notebook_gets_a_frame_with_the_page(given):
    shown = stelmo.explore.show(tiny.model(), given, "bank")
    frame = shown._repr_html_()
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == shown.html
    assert list(data_of(shown.html)["words"]) == ["bank"]


def test_sentences_without_the_word_are_refused():
    with pytest.raises(DataError, match="do not contain 'zeppelin'"):
        standalone.show(tiny.model(), SENTENCES, "zeppelin")


def test_groups_have_substitutes_if_there_is_a_model(uses):
    model = tiny.model()
    bank = data_of(standalone.page(uses, ["bank"], model=model).html)["words"]["bank"]
    made = word_map(uses, "bank", [of_layer("top", 3)], contexts=contexts.of_model(model))
    groups = [
        [use for use, of in zip(made.uses, made.groups_N, strict=True) if of == group]
        for group in range(len(made.labels))
    ]
    for saved in bank["maps"].values():
        assert [group["substitutes"] for group in saved["clusters"]] == contexts.substitutes(model, groups)
    assert (
        data_of(standalone.page(uses, ["bank"]).html)["words"]["bank"]["maps"]["0"]["clusters"][0]["substitutes"] == []
    )


def test_columns_of_the_data_are_in_the_file(tmp_path):
    tagged = [formats.Sentence(["the", "bank"], "file", 1, (("upos", ["DET", "NOUN"]),))]
    found = index.build(tiny.model(), tagged, tmp_path / "uses")
    (use,) = data_of(standalone.page(found, ["bank"]).html)["words"]["bank"]["uses"]
    assert use["columns"] == {"upos": "NOUN"}


def test_a_text_in_another_language_is_tokenised_by_its_rules():
    data = data_of(stelmo.explore.show(tiny.model(), "Voici l'eau.", "eau", language="fr").html)
    assert data["words"]["eau"]["uses"][0]["tokens"] == ["Voici", "l'", "eau", "."]
