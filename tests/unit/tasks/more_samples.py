"""Small files of the other three tasks in each layout they are read from, for the suite that all tasks share."""

import json

from unit.tasks.samples import Task

from stelmo.tasks.coref import data as coref
from stelmo.tasks.coref import score as coref_score
from stelmo.tasks.snli import data as snli
from stelmo.tasks.squad import data as squad

SNLI_PARSED = "".join(
    json.dumps(line) + "\n"
    for line in (
        {
            "annotator_labels": ["neutral"],
            "captionID": "1.jpg#0",
            "gold_label": "neutral",
            "pairID": "1.jpg#0r1n",
            "sentence1": "A cat (asleep) purrs.",
            "sentence1_binary_parse": "( ( ( A cat ) ( -LRB- ( asleep -RRB- ) ) ) ( purrs . ) )",
            "sentence1_parse": "(ROOT …)",
            "sentence2": "It dreams.",
            "sentence2_binary_parse": "( It ( dreams . ) )",
            "sentence2_parse": "(ROOT …)",
        },
        {
            "gold_label": "contradiction",
            "pairID": "1.jpg#0r1c",
            "sentence1": "A cat (asleep) purrs.",
            "sentence1_binary_parse": "( ( ( A cat ) ( -LRB- ( asleep -RRB- ) ) ) ( purrs . ) )",
            "sentence2": "It is awake.",
            "sentence2_binary_parse": "( It ( ( is awake ) . ) )",
        },
    )
)

SNLI_PLAIN = "".join(
    json.dumps(
        {"gold_label": label, "sentence1": "Two men don't talk.", "sentence2": text, "pairID": f"train-{number}"}
    )
    + "\n"
    for number, (label, text) in enumerate(
        [("entailment", "Men are silent."), ("contradiction", "They chat."), ("neutral", "They are tired.")]
    )
)

SQUAD = json.dumps(
    {
        "version": "1.1",
        "data": [
            {
                "title": "Mills",
                "paragraphs": [
                    {
                        "context": "The mill by the 40-mile canal was built by Ada Moor. It burnt down in 1871.",
                        "qas": [
                            {
                                "id": "a1",
                                "question": "Who built the mill?",
                                "answers": [
                                    {"text": "Ada Moor", "answer_start": 43},
                                    {"text": "Moor", "answer_start": 47},
                                ],
                            },
                            {
                                "id": "a2",
                                "question": "How long is the canal?",
                                "answers": [{"text": "40", "answer_start": 16}],
                            },
                        ],
                    },
                    {
                        "context": "Flour was cheap — too cheap.",
                        "qas": [
                            {
                                "id": "b1",
                                "question": "What was cheap?",
                                "answers": [{"text": "Flour", "answer_start": 0}],
                            }
                        ],
                    },
                ],
            }
        ],
    }
)

COREF_2012 = """#begin document (nw/made/up); part 000
nw/made/up  0  0    The  DT   (S*   -   -  -  Ann  *  (ARG0*  *       (2
nw/made/up  0  1  baker  NN     *   -   -  -  Ann  *  *)      *        -
nw/made/up  0  2     of  IN     *   -   -  -  Ann  *  *       *        -
nw/made/up  0  3   Oslo  NNP    *   -   -  -  Ann  *  *       *     (0)|2)
nw/made/up  0  4   sold  VBD    *  sell 01 -  Ann  *  (V*)    *        -
nw/made/up  0  5    her  PRP$   *   -   -  -  Ann  *  *       *    (1|(2)
nw/made/up  0  6   shop  NN    *)   -   -  -  Ann  *  *       *       1)

nw/made/up  0  0     It  PRP  (S*   -   -  -  Bob  *  (1)
nw/made/up  0  1 closed  VBD   *)   -   -  -  Bob  *  -

#end document
#begin document (nw/made/up); part 001
nw/made/up  1  0   She  PRP  (S*)   -   -  -  Bob  *  (0)
nw/made/up  1  1  left  VBD  (S*)   -   -  -  Bob  *  -
nw/made/up  1  2   her  PRP  (S*)   -   -  -  Bob  *  (1|(0)
nw/made/up  1  3  town  PRP  (S*)   -   -  -  Bob  *  1)

#end document
"""

COREF_LITBANK = "\n".join(
    [
        "#begin document (12_made_up_brat); part 0",
        *("\t".join(["12_made_up_brat", "0", str(i), word, *"________", cell]) for i, (word, cell) in enumerate(
            [("The", "(0"), ("old", ""), ("friend", "0)|(1"), ("and", ""), ("foe", "1)"), ("laughed", "")]
        )),
        "",
        *("\t".join(["12_made_up_brat", "0", str(i), word, *"________", cell]) for i, (word, cell) in enumerate(
            [("He", "(0)"), ("met", ""), ("himself", "(0)"), (".", "")]
        )),
        "",
        "#end document",
        "",
    ]
)  # fmt: skip


def always_neutral(example):
    return "neutral"


def the_whole_passage(example):
    return example.passage.text


def without_the_last_mention(example):
    """The first cluster loses a mention, which becomes a cluster of its own; the last cluster is missed."""
    first, *others = example.clusters
    last = max(first)
    clusters = [first - {last}, frozenset({last}), *others[:-1]]
    return tuple(sorted((cluster for cluster in clusters if cluster), key=min))


TASKS = (
    Task("snli with parses", snli, snli, "snli_1.0_train.jsonl", SNLI_PARSED, 2, always_neutral),
    Task("snli as text", snli, snli, "train.jsonl", SNLI_PLAIN, 3, always_neutral),
    Task("squad", squad, squad, "train-v1.1.json", SQUAD, 3, the_whole_passage),
    Task("coref of CoNLL-2012", coref, coref_score, "train.v4_gold_conll", COREF_2012, 2, without_the_last_mention),
    Task("coref of LitBank", coref, coref_score, "train.conll", COREF_LITBANK, 1, without_the_last_mention),
)
