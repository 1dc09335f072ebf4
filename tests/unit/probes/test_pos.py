"""The linear probe: agrees with scikit-learn, sees nothing but what is there, and the reader refuses flawed files."""

import numpy as np
import pytest
from shared import DATA, needs_data
from sklearn.linear_model import LogisticRegression

from stelmo.errors import ConfigError, DataError
from stelmo.probes import pos
from stelmo.probes.pos import TaggedSentence


def clouds(count, seed=0, spread=1.4):
    """Points of four classes that overlap, in 6 dimensions of very different scale."""
    random = np.random.default_rng(seed)
    labels_N = random.integers(4, size=count)
    centres_CD = np.random.default_rng(99).normal(size=(4, 6)) * 1.5
    points_ND = centres_CD[labels_N] + spread * random.normal(size=(count, 6))
    return (points_ND * [1, 10, 0.1, 1, 100, 1] + [0, 5, 0, -3, 0, 1]).astype(np.float32), labels_N


TRAIN, DEV, TEST = clouds(4000, 1), clouds(800, 2), clouds(2000, 3)


def test_the_classifier_is_as_good_as_scikit_learns_and_mostly_says_the_same():
    ours_N = pos.fit(*TRAIN, *DEV).predict(TEST[0])
    mean_D, scale_D = TRAIN[0].mean(0), TRAIN[0].std(0)
    theirs = LogisticRegression(C=1e6).fit((TRAIN[0] - mean_D) / scale_D, TRAIN[1])
    theirs_N = theirs.predict((TEST[0] - mean_D) / scale_D)
    assert 70 < pos.accuracy(theirs_N, TEST[1]) < 98  # neither hopeless nor without errors
    assert abs(pos.accuracy(ours_N, TEST[1]) - pos.accuracy(theirs_N, TEST[1])) < 1.0
    assert pos.accuracy(ours_N, theirs_N) > 97


def test_the_same_words_give_the_same_classifier_bit_for_bit():
    for ours, again in zip(pos.fit(*TRAIN, *DEV), pos.fit(*TRAIN, *DEV), strict=True):
        np.testing.assert_array_equal(ours, again)


def test_the_scale_of_the_vectors_and_a_constant_dimension_change_nothing():
    (train_ND, train_N), (dev_ND, dev_N), (test_ND, _) = TRAIN, DEV, TEST
    plain = pos.fit(train_ND, train_N, dev_ND, dev_N)
    wider = [np.c_[8 * x_ND, np.ones(len(x_ND), np.float32)] for x_ND in (train_ND, dev_ND, test_ND)]
    scaled = pos.fit(wider[0], train_N, wider[1], dev_N)
    assert pos.accuracy(scaled.predict(wider[2]), plain.predict(test_ND)) > 99.5


def test_few_words_are_gone_through_until_they_are_learned():
    noise_ND = np.random.default_rng(0).normal(size=(60, 50)).astype(np.float32)
    labels_N = np.arange(60) % 3
    classifier = pos.fit(noise_ND, labels_N, noise_ND[::-1].copy(), labels_N[::-1].copy())
    assert pos.accuracy(classifier.predict(noise_ND), labels_N) == 100.0


def test_learning_stops_where_the_dev_words_no_longer_gain():
    """With labels at random, whatever is learned of the training words makes others worse."""
    random = np.random.default_rng(0)
    train_ND, dev_ND = (random.normal(size=(400, 300)).astype(np.float32) for _ in range(2))
    train_N, dev_N = (random.integers(2, size=400) for _ in range(2))
    kept = pos.fit(train_ND, train_N, dev_ND, dev_N)
    by_heart = pos.fit(train_ND, train_N, train_ND, train_N)
    assert pos.accuracy(by_heart.predict(train_ND), train_N) == 100.0
    assert kept.loss(dev_ND, dev_N) < by_heart.loss(dev_ND, dev_N) / 2


TOY = [
    TaggedSentence(("the", "bank", "lends"), ("DET", "NOUN", "VERB"), "toy"),
    TaggedSentence(("a", "bank", "the", "bank"), ("DET", "VERB", "DET", "NOUN"), "toy"),
]


def test_words_keep_their_order_over_blocks():
    def embed(sentences):
        return [np.array([[[len(word)]] for word in words], np.float32) for words in sentences]

    words = pos.embed_words(TOY * 200, pos.classes_of(TOY), embed)
    assert words.vectors_NKD[:, 0, 0].tolist() == [3, 4, 5, 1, 4, 3, 4] * 200
    assert words.labels_N.tolist() == [0, 1, 2, 0, 2, 0, 1] * 200


def test_a_tag_that_training_lacks_is_never_right():
    unseen = [TaggedSentence(("x",), ("INTJ",), "toy")]
    assert pos.labels(unseen, pos.classes_of(TOY)).tolist() == [-1]


def test_the_baseline_knows_each_words_most_frequent_tag():
    test = [TaggedSentence(("bank", "lends", "unheard"), ("NOUN", "VERB", "X"), "toy")]
    classes = pos.classes_of(TOY)
    assert [classes[number] for number in pos.most_frequent(TOY, test, classes)] == ["NOUN", "VERB", "DET"]
    assert pos.is_unknown(TOY, test).tolist() == [False, False, True]


# The reader

CONLLU = """# text = Don't stop
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_
3\tstop\tstop\tVERB\tVB\t_\t0\troot\t_\t_

1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
"""


@pytest.mark.parametrize(("tags", "expected"), [("upos", ("AUX", "PART", "VERB")), ("xpos", ("VB", "RB", "VB"))])
def test_words_are_read_with_the_tags_asked_for(tags, expected, tmp_path):
    (path := tmp_path / "train.conllu").write_text(CONLLU)
    first, second = pos.read(path, tags)
    assert first == (("Do", "n't", "stop"), expected, f"{path}:3")
    assert second.tokens == ("#",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tword\tx\n", r"train\.conllu:1: 3 columns; CoNLL-U has 10"),
        (CONLLU.replace("\tRB\t", "\t_\t"), r"train\.conllu:4: word \"n't\", xpos '_'; .* choose upos"),
        ("# nothing\n\n", r"train\.conllu: no sentences"),
    ],
)
def test_flawed_files_are_refused(text, message, tmp_path):
    (path := tmp_path / "train.conllu").write_text(text)
    with pytest.raises(DataError, match=message):
        pos.read(path, "xpos")


def test_unknown_tags_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="'ptb' is not one of upos, xpos"):
        pos.read(tmp_path / "train.conllu", "ptb")


def test_the_parts_of_a_treebank_are_found_by_name(tmp_path):
    names = {"train": "en_ewt-ud-train.conllu", "dev": "dev.conllu", "test": "en_ewt-ud-test.conllu.gz"}
    for name in names.values():
        (tmp_path / name).touch()
    assert pos.find(tmp_path) == {split: tmp_path / name for split, name in names.items()}
    (tmp_path / "dev.conllu").unlink()
    with pytest.raises(DataError, match=r"no dev\.conllu; expected one file each"):
        pos.find(tmp_path)


@needs_data
def test_the_real_treebank_has_its_published_size():
    parts = {split: pos.read(path, "xpos") for split, path in pos.find(DATA / "pos" / "ud_ewt").items()}
    assert [len(part) for part in parts.values()] == [12_544, 2_001, 2_077]
    classes = pos.classes_of(parts["train"])
    assert {"NN", "VBZ", "WP$"} <= set(classes)
    right = pos.accuracy(pos.most_frequent(parts["train"], parts["test"], classes), pos.labels(parts["test"], classes))
    assert 83 < right < 90
