import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from shared import DATA, needs_data
from unit.probes.toys import contextual, static

from stelmo.probes import wsd, wsd_data
from stelmo.probes.wsd_data import AnnotatedSentence, Instance

BANK, SHORE, HOUSE = ("bank", "NOUN"), "bank%1:17:01::", "bank%1:14:00::"
FIRST = {BANK: SHORE, ("see", "VERB"): "see%2:39:00::"}


def use(number, text, *gold, lemma=BANK):
    """A sentence whose first word is the instance."""
    return AnnotatedSentence(tuple(text.split()), (Instance(f"t{number}", lemma, 0, 1, gold),), "toy")


TRAIN = [
    use(0, "bank river", SHORE),
    use(1, "bank river river", SHORE),
    use(2, "bank river x", SHORE),
    use(3, "bank money", HOUSE),
    use(4, "bank money money", HOUSE),
]
TEST = [
    use(5, "bank river x x", SHORE),
    use(6, "bank money x x", HOUSE),
    use(7, "saw river", "z", lemma=("see", "VERB")),
]
GOLD = [instance for sentence in TEST for instance in sentence.instances]


def answers(embed, **options):
    means, examples = wsd.Averages(), wsd.Examples()
    wsd.learn(wsd.tagged(TRAIN, embed), means, examples)
    choices = {
        "means": means.nearest,
        "nearest": examples.of(1),
        "three": examples.of(3),
        "prior": means.with_prior(9.0),
    }
    return wsd.answer(wsd.tagged(TEST, embed, **options), choices, FIRST)


@pytest.mark.parametrize("method", ["means", "nearest", "three"])
def test_context_tells_the_senses_apart(method):
    assert answers(contextual)[method] == {"t5": (SHORE,), "t6": (HOUSE,), "t7": ("see%2:39:00::",)}


@pytest.mark.parametrize("method", ["means", "nearest", "three", "prior"])
def test_without_context_the_more_frequent_sense_is_the_answer(method):
    assert answers(static)[method] == {"t5": (SHORE,), "t6": (SHORE,), "t7": ("see%2:39:00::",)}


@pytest.mark.parametrize("seed", range(8))
def test_rounding_does_not_choose_between_means_of_the_same_vector(seed):
    vector_D = np.random.default_rng(seed).normal(size=50).astype(np.float32)
    means = wsd.Averages()
    for key in ["rare", *["frequent"] * 7, "rare", "rare"]:
        means.add(Instance("", BANK, 0, 1, (key,)), vector_D)
    assert means.nearest(GOLD[0], vector_D) == "frequent"


def test_a_heavy_prior_outweighs_context():
    assert answers(contextual)["prior"]["t6"] == (SHORE,)


def test_blocks_change_no_answer():
    assert answers(contextual, block=1) == answers(contextual)


def test_a_lemma_nobody_knows_stays_unanswered():
    unknown = [use(0, "grok x", "grok%2::", lemma=("grok", "VERB"))]
    assert wsd.answer(wsd.tagged(unknown, static), {"means": wsd.Averages().nearest}, FIRST) == {"means": {}}
    assert wsd.first_sense(unknown[0].instances, FIRST) == {}


def test_the_same_lemma_of_another_part_of_speech_is_another_word():
    means = wsd.Averages()
    wsd.learn(wsd.tagged(TRAIN, contextual), means)
    assert means.nearest(Instance("v", ("bank", "VERB"), 0, 1, ()), np.ones(4, np.float32)) is None


def test_an_instance_with_two_gold_keys_counts_for_both():
    means, examples = wsd.Averages(), wsd.Examples()
    wsd.learn(
        wsd.tagged([use(0, "bank river", SHORE, HOUSE), use(1, "bank money", HOUSE)], contextual), means, examples
    )
    instance, (vector_TD,) = GOLD[0], contextual([("bank", "river")])
    assert means.nearest(instance, vector_TD[0]) == SHORE
    assert means.likeliest(instance, vector_TD[0], weight=5.0) == HOUSE  # 1 of 3 against 2 of 3
    assert examples.vote(instance, vector_TD[0], k=3) == HOUSE


@given(
    vectors_ND=arrays(np.float32, (6, 3), elements=st.floats(-2, 2, width=16)),
    query_D=arrays(np.float32, 3, elements=st.floats(-2, 2, width=16)),
)
def test_the_nearest_mean_agrees_with_the_definition(vectors_ND, query_D):
    keys = ["a", "b", "c", "a", "b", "a"]
    means = wsd.Averages()
    for key, vector_D in zip(keys, vectors_ND, strict=True):
        means.add(Instance("", BANK, 0, 1, (key,)), vector_D)

    def cosine(key):
        mean_D = vectors_ND[[k == key for k in keys]].astype(np.float64).mean(0)
        return mean_D @ query_D / ((np.linalg.norm(mean_D) or 1) * (np.linalg.norm(query_D) or 1))

    chosen = means.nearest(GOLD[0], query_D)
    assert cosine(chosen) >= max(cosine(key) for key in "abc") - 1e-4


def test_votes_are_those_of_the_k_nearest():
    examples = wsd.Examples()
    for degrees, key in [(1, "near"), (10, "far"), (11, "far"), (60, "other"), (61, "other"), (62, "other")]:
        angle = np.radians(degrees)
        examples.add(Instance("", BANK, 0, 1, (key,)), np.array([np.cos(angle), np.sin(angle)], np.float32))
    query_D = np.array([1, 0], np.float32)
    assert [examples.vote(GOLD[0], query_D, k) for k in (1, 2, 3, 5, 6, 99)] == [
        "near", "near", "far", "far", "other", "other",
    ]  # fmt: skip


def test_examples_may_be_added_after_a_question():
    examples = wsd.Examples()
    wsd.learn(wsd.tagged(TRAIN[:3], contextual), examples)
    (instance, vector_D), *_ = wsd.tagged(TEST[1:], contextual)
    assert examples.vote(instance, vector_D, 1) == SHORE
    wsd.learn(wsd.tagged(TRAIN[3:], contextual), examples)
    assert examples.vote(instance, vector_D, 1) == HOUSE


def test_the_prior_is_weighed_on_development_uses():
    means = wsd.Averages()
    wsd.learn(wsd.tagged(TRAIN, contextual), means)
    right = list(wsd.tagged(TEST[:2], contextual))
    misleading = list(wsd.tagged([use(8, "bank money x x x", SHORE)], contextual))
    assert wsd.tune(means, right, FIRST) == 0.0
    heavier = wsd.tune(means, misleading, FIRST)
    assert heavier > 0
    assert means.likeliest(*misleading[0], weight=heavier) == SHORE


# The score


def instances(*ids, pos="NOUN"):
    return [Instance(id, ("w", pos), 0, 1, ("gold", "also gold")) for id in ids]


def test_precision_and_recall_differ_where_an_instance_is_unanswered():
    # 4 instances, 3 answered, 2 right: P = 2/3, R = 2/4, F1 = 2 · (2/3 · 1/2) / (2/3 + 1/2) = 4/7
    given_answers = {"a": ("gold",), "b": ("also gold",), "c": ("wrong",)}
    assert wsd.f1(given_answers, instances("a", "b", "c", "d")) == pytest.approx(400 / 7)


def test_an_answer_of_several_keys_is_right_by_its_share():
    assert wsd.f1({"a": ("gold", "wrong"), "b": ("gold", "also gold")}, instances("a", "b")) == 75.0


def test_no_right_answer_is_zero():
    assert wsd.f1({}, instances("a")) == wsd.f1({"a": ("wrong",)}, instances("a")) == 0.0


def test_the_score_is_broken_down_by_data_set_and_part_of_speech():
    group = instances("senseval2.d0", "semeval2007.d0") + instances("senseval2.d1", "semeval2007.d1", pos="VERB")
    given_answers = {"senseval2.d0": ("gold",), "senseval2.d1": ("wrong",), "semeval2007.d0": ("gold",)}
    assert wsd.score(given_answers, group) == {
        "F1": pytest.approx(2 * 2 / 7 * 100),  # P = 2/3, R = 2/4
        "without semeval2007": 50.0,
        "senseval2": 50.0,
        "semeval2007": pytest.approx(2 / 3 * 100),  # P = 1, R = 1/2
        "NOUN": 100.0,
        "VERB": 0.0,
    }


def test_a_single_data_set_has_no_parts():
    assert list(wsd.score({}, instances("d000.s000.t000"))) == ["F1", "NOUN"]


def test_gold_scored_against_gold_is_perfect():
    assert set(wsd.score({i.id: i.gold for i in GOLD}, GOLD).values()) == {100.0}


def test_answers_written_and_read_back_score_the_same(tmp_path):
    given_answers = answers(contextual)["means"]
    wsd_data.write_answers(tmp_path / "answers.key.txt", given_answers)
    assert wsd.score(wsd_data.read_keys(tmp_path / "answers.key.txt"), GOLD) == wsd.score(given_answers, GOLD)


@needs_data
def test_the_first_sense_baseline_has_its_published_figures():
    folder = DATA / "wsd"
    gold = [instance for sentence in wsd_data.stream(wsd_data.find(folder, "ALL")) for instance in sentence.instances]
    first = wsd_data.read_first_senses(wsd_data.find_index(folder))
    scores = wsd.score(wsd.first_sense(gold, first), gold)
    assert {name: round(value, 1) for name, value in scores.items()} == {
        "F1": 65.2,
        "without semeval2007": 65.9,
        "senseval2": 66.8,
        "senseval3": 66.2,
        "semeval2007": 55.2,
        "semeval2013": 63.0,
        "semeval2015": 67.8,
        "NOUN": 67.6,
        "VERB": 50.3,
        "ADJ": 74.3,
        "ADV": 80.9,
    }
