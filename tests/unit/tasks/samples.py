"""Small files of three tasks in each layout they are read from, for the suite that all tasks share."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from stelmo.tasks.ner import data as ner
from stelmo.tasks.srl import data as srl
from stelmo.tasks.sst5 import data as sst5


class Task(NamedTuple):
    """`wrong` is what a system answers that errs somewhere in the sample, in a well-formed way."""

    name: str
    data: ModuleType
    score: ModuleType
    file: str
    text: str
    examples: int
    wrong: Callable[[Any], Any]

    def write(self, folder: Path) -> Path:
        path = folder / self.file
        path.write_text(self.text, encoding="utf-8")
        return path


NER_2003 = """-DOCSTART- -X- -X- O

Berta NNP I-NP I-PER
Quell NNP I-NP I-PER
left VBD I-VP O
Oslo NNP I-NP I-LOC
Bergen NNP I-NP B-LOC
. . O O

# NN I-NP O
9 CD I-NP O
"""

NER_COLUMNS = """# a comment
Berta\tB-PER
Quell\tI-PER
left\tO
Oslo\tB-LOC
Bergen\tB-LOC

\t
#\tO
Acme\tB-ORG
"""

SRL_JSON = "".join(
    json.dumps(line) + "\n"
    for line in (
        {
            "words": ["Kim", "said", "we", "won"],
            "frames": [
                {"predicate": 1, "lemma": "say", "tags": ["B-ARG0", "B-V", "B-ARG1", "I-ARG1"]},
                {"predicate": 3, "lemma": "win", "tags": ["O", "O", "B-ARG0", "B-V"]},
            ],
        },
        {"words": ["Quiet", "!"], "frames": []},
        {"words": ["Rain", "fell"], "frames": [{"predicate": 1, "tags": ["B-ARG1", "B-V"]}]},
    )
)

SRL_PROPBANK = """doc-1\t0\tKim\tNNP\t(S*\t-\t-\t(ARG0*)\t*
doc-1\t1\tsaid\tVBD\t*\tsay\tsay.01\t(V*)\t*
doc-1\t2\twe\tPRP\t*\t-\t-\t(ARG1*\t(ARG0*)
doc-1\t3\twon\tVBD\t*)\twin\twin.01\t*)\t(V*)

doc-2\t0\tQuiet\tJJ\t(S*\t-\t-
doc-2\t1\t!\t.\t*)\t-\t-

doc-3\t0\tRain\tNN\t(S*\t-\t-\t(ARG1*)
doc-3\t1\tfell\tVBD\t*)\t-\t-\t(V*)
"""

SRL_2012 = """#begin document (nw/made/up); part 000
nw/made/up  0  0    Kim  NNP  (S*   -   -  -  A  (PERSON)  (ARG0*)  *        (1)
nw/made/up  0  1   said  VBD    *  say  01  1  A     *     (V*)     *          -
nw/made/up  0  2     we  PRP    *   -   -  -  A     *     (ARG1*    (ARG0*)  (1)
nw/made/up  0  3    won  VBD   *)  win  01  1  A     *     *)       (V*)       -

nw/made/up  0  0  Quiet  JJ   (S*   -   -  -  A     *     -
nw/made/up  0  1    !    .     *)   -   -  -  A     *     -

nw/made/up  0  0   Rain  NN   (S*   -   -  -  A     *     (ARG1*)   -
nw/made/up  0  1   fell  VBD   *)   -   -  -  A     *     (V*)      -

#end document
"""

SST5 = """(3 (2 It) (4 (4 (2 simply) (4 shines)) (2 .)))
(0 (1 -LRB-) (0 (0 dull) (2 -RRB-)))
(2 so\\/so)
"""


def without_the_first_span(example):
    tags = list(example.tags)
    start = next((index for index, tag in enumerate(tags) if tag.startswith("B-")), None)
    while start is not None and start < len(tags) and tags[start] != "O":
        tags[start], start = "O", start + 1
    return tuple(tags)


def with_one_role_for_all(example):
    return tuple("B-V" if tag == "B-V" else "B-ARG0" for tag in example.tags)


def one_more(example):
    return (example.label + 1) % 5 if example.label else 0


TASKS = (
    Task("ner of CoNLL-2003", ner, ner, "eng.train", NER_2003, 2, without_the_first_span),
    Task("ner in two columns", ner, ner, "train.tsv", NER_COLUMNS, 2, without_the_first_span),
    Task("srl in JSON lines", srl, srl, "train.jsonl", SRL_JSON, 3, with_one_role_for_all),
    Task("srl of PropBank", srl, srl, "train.conll", SRL_PROPBANK, 3, with_one_role_for_all),
    Task("srl of CoNLL-2012", srl, srl, "train.v4_gold_conll", SRL_2012, 3, with_one_role_for_all),
    Task("sst5", sst5, sst5, "train.txt", SST5, 3, one_more),
)
