import gzip
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared import DATA, needs_data

from stelmo.errors import DataError
from stelmo.probes import wsd_data
from stelmo.probes.wsd_data import Files, Instance

XML = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="toy">
<text id="d0">
<sentence id="d0.s0">
<wf lemma="the" pos="DET">The</wf>
<instance id="d0.s0.t0" lemma="tea_party" pos="NOUN">tea  party</instance>
<instance id="d0.s0.t1" lemma="take_place" pos="VERB">took place</instance>
<wf lemma="&amp;" pos=".">&amp;</wf>
</sentence>
<sentence id="d0.s1">
<wf lemma="yes" pos="X">Yes</wf>
</sentence>
</text>
</corpus>
"""
KEYS = "d0.s0.t0 tea_party%1:14:00::\nd0.s0.t1 take_place%2:30:00:: take_place%2:30:01::\n"
TREE = "corpus > text > sentence > wf or instance"
INDEX = """bank%1:14:00:: 08420278 2 20
bank%1:17:01:: 09213565 1 25
bank%2:40:00:: 02343595 1 0
calm%3:00:00:: 00512261 2 4
calm%5:00:01:composed:00 00532147 1 6
"""


def files(folder, xml=XML, keys=KEYS, name="toy"):
    data, gold = folder / f"{name}.data.xml", folder / f"{name}.gold.key.txt"
    data.write_text(xml)
    gold.write_text(keys)
    return Files(data, gold)


def refusal(folder, xml=XML, keys=KEYS):
    with pytest.raises(DataError) as caught:
        wsd_data.read(files(folder, xml, keys))
    return str(caught.value).replace(f"{folder}/", "")


def test_expressions_are_split_into_words_and_keep_their_place(tmp_path):
    first, second = wsd_data.read(files(tmp_path))
    assert first.tokens == ("The", "tea", "party", "took", "place", "&")
    assert first.instances == (
        Instance("d0.s0.t0", ("tea_party", "NOUN"), 1, 3, ("tea_party%1:14:00::",)),
        Instance("d0.s0.t1", ("take_place", "VERB"), 3, 5, ("take_place%2:30:00::", "take_place%2:30:01::")),
    )
    assert (second.tokens, second.instances) == (("Yes",), ())
    assert [sentence.where.rpartition(":")[2] for sentence in (first, second)] == ["4", "10"]


def test_one_line_of_xml_is_read_as_many(tmp_path):
    joined = XML.replace("\n", "")
    assert [s.tokens for s in wsd_data.read(files(tmp_path, joined))] == [
        s.tokens for s in wsd_data.read(files(tmp_path))
    ]


def test_compressed_files_are_read(tmp_path):
    plain = files(tmp_path)
    packed = Files(tmp_path / "toy.xml.gz", plain.keys)
    packed.data.write_bytes(gzip.compress(XML.encode()))
    assert [s.instances for s in wsd_data.stream(packed)] == [s.instances for s in wsd_data.stream(plain)]


def test_a_sentence_is_given_before_the_rest_is_read(tmp_path):
    sentences = wsd_data.stream(files(tmp_path, XML.replace('<wf lemma="yes"', "<broken")))
    assert next(sentences).tokens[0] == "The"


def test_a_doctype_is_refused_before_its_entities(tmp_path):
    bomb = '<!DOCTYPE corpus [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>\n<corpus'
    message = refusal(tmp_path, XML.replace("<corpus", bomb))
    assert message == "toy.data.xml:2: a DOCTYPE, which may define unlimited entities; remove the line"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("took place</instance>", "took place</wf>", "toy.data.xml:7: not XML (mismatched tag); copy the file again"),
        ("</corpus>\n", "", "toy.data.xml:14: not XML (no element found); copy the file again"),
        ("&amp;</wf>", "&b;</wf>", "toy.data.xml:8: not XML (undefined entity); copy the file again"),
        ('id="d0.s0.t1" ', "", "toy.data.xml:7: an <instance> without id; expected id, lemma and pos"),
        ('"VERB"', '"VRB"', "toy.data.xml:7: part of speech 'VRB' of an <instance>; expected NOUN, VERB, ADJ, ADV"),
        (">Yes<", "> <", "toy.data.xml:11: an empty <wf>; expected a word in it"),
        ("<text", "<sentence", f"toy.data.xml:3: <sentence> inside <corpus>; expected {TREE}"),
        ("<corpus", "<html", f"toy.data.xml:2: <html> outermost; expected {TREE}"),
        (
            "d0.s0.t1",
            "d0.s0.t0",
            "toy.data.xml:7: instance 'd0.s0.t0' has no line in toy.gold.key.txt, or occurs twice here; "
            "the two files must match",
        ),
    ],
)
def test_flawed_xml_is_refused_with_its_line(tmp_path, old, new, message):
    assert refusal(tmp_path, XML.replace(old, new)) == message


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (KEYS + "d9 x%1::\n", "toy.gold.key.txt:3: instance 'd9' is not in toy.data.xml; the two files must match"),
        (KEYS * 2, "toy.gold.key.txt:3: instance 'd0.s0.t0' occurs twice; expected one line for each"),
        ("d0.s0.t0\n", "toy.gold.key.txt:1: 'd0.s0.t0'; expected an instance id and one or more sense keys"),
        (
            KEYS.splitlines()[0],
            "toy.data.xml:7: instance 'd0.s0.t1' has no line in toy.gold.key.txt, or occurs twice here; "
            "the two files must match",
        ),
    ],
)
def test_keys_that_do_not_match_are_refused(tmp_path, keys, message):
    assert refusal(tmp_path, keys=keys) == message


@given(junk=st.text(st.sampled_from("<>&;/ \"'=!-[]?acorpustexnwfi\n"), max_size=40), at=st.integers(0, len(XML)))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_either_harmless_or_a_data_error(tmp_path, junk, at):
    damaged = files(tmp_path, XML[:at] + junk + XML[at:])
    with suppress(DataError):
        assert sum(len(sentence.instances) for sentence in wsd_data.stream(damaged)) == 2


def test_files_are_found_wherever_they_lie(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    expected = files(tmp_path / "a" / "b", name="semcor")
    (tmp_path / "semcor.data.xml").write_text("without keys")
    assert wsd_data.find(tmp_path, "semcor") == expected


def test_missing_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"no ALL\.data\.xml with ALL\.gold\.key\.txt beside it"):
        wsd_data.find(tmp_path, "ALL")
    with pytest.raises(DataError, match=r"no index\.sense; copy the one of WordNet 3\.0"):
        wsd_data.find_index(tmp_path)


def test_the_first_sense_is_number_one_whatever_the_order_and_satellites_are_adjectives(tmp_path):
    (tmp_path / "index.sense").write_text(INDEX)
    assert wsd_data.read_first_senses(wsd_data.find_index(tmp_path)) == {
        ("bank", "NOUN"): "bank%1:17:01::",
        ("bank", "VERB"): "bank%2:40:00::",
        ("calm", "ADJ"): "calm%5:00:01:composed:00",
    }


@pytest.mark.parametrize(
    "line", ["bank%1:14:00:: 08420278 2", "bank%1:14:00:: x 2 20", "bank 1 2 3", "bank%9:1 1 2 3", ""]
)
def test_a_flawed_index_is_refused(tmp_path, line):
    path = tmp_path / "index.sense"
    path.write_text(f"{INDEX}{line}\n")
    with pytest.raises(DataError, match=r"index\.sense:6: "):
        wsd_data.read_first_senses(path)


KEY = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z", "Cf"]), min_size=1, max_size=8)


@given(answers=st.dictionaries(KEY, st.lists(KEY, min_size=1, max_size=3).map(tuple)))
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_answers_come_back_as_they_were_written(tmp_path, answers):
    wsd_data.write_answers(tmp_path / "answers.txt", answers, overwrite=True)
    assert wsd_data.read_keys(tmp_path / "answers.txt") == answers


@needs_data
def test_the_parts_of_all_are_the_five_data_sets():
    merged = [
        instance for sentence in wsd_data.read(wsd_data.find(DATA / "wsd", "ALL")) for instance in sentence.instances
    ]
    parts = {
        f"{name}.{instance.id}": instance.gold
        for name in wsd_data.TESTS
        for sentence in wsd_data.stream(wsd_data.find(DATA / "wsd", name))
        for instance in sentence.instances
    }
    assert {instance.id: instance.gold for instance in merged} == parts
    assert len(merged) == 7253


@needs_data
def test_semcor_is_read_whole():
    counts = [(len(s.tokens), len(s.instances)) for s in wsd_data.stream(wsd_data.find(DATA / "wsd", "semcor"))]
    assert (len(counts), sum(instances for _, instances in counts)) == (37087, 225774)
