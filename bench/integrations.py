"""What scikit-learn, spaCy and a file of words cost beside `model.embed`. Run: integrations.py [MODEL]

The 2,000 sentences are random (Zipf) and given as tokens, so that no tokeniser is on the clock; making spaCy's docs is.
Every way runs once before the clock starts: models are read, common words are known. Rounds alternate; the median of a
way is compared with the median of `model.embed`. Start it on an idle machine.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import spacy
from spacy.tokens import Doc

import stelmo
import stelmo.integrations.spacy
from stelmo.benchmark import zipf_text
from stelmo.integrations.sklearn import ElmoVectorizer
from stelmo.jobs import words
from stelmo.text.formats import Sentence

SENTENCES, WORDS, ROUNDS = 2000, 50_000, 5


def ways(name: str | None, sentences: list[list[str]], folder: Path) -> dict[str, Callable[[], object]]:
    model = stelmo.load(name)
    vectorizer = ElmoVectorizer(name).fit(sentences)
    nlp = spacy.blank("en")
    nlp.add_pipe("stelmo", config={"model": name})
    corpus = [Sentence(tokens, "random", number) for number, tokens in enumerate(sentences, 1)]

    def docs() -> list[Doc]:
        made = [Doc(nlp.vocab, words=tokens) for tokens in sentences]
        return list(nlp.pipe(made))

    return {
        "model.embed": lambda: model.embed(sentences),
        "ElmoVectorizer.transform": lambda: vectorizer.transform(sentences),
        "nlp.pipe": docs,
        "write_averages, .bin": lambda: words.write_averages(model, corpus, folder / "words.bin", overwrite=True),
    }


def seconds(way: Callable[[], object]) -> float:
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def main(name: str | None = None) -> None:
    sentences = zipf_text(SENTENCES, vocabulary=WORDS)
    with tempfile.TemporaryDirectory() as folder:
        found = ways(name, sentences, Path(folder))
        rounds = [[seconds(way) for way in found.values()] for _ in range(ROUNDS + 1)][1:]
    medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
    tokens = sum(map(len, sentences))
    print(f"{name or 'bundled model'}, {SENTENCES:,} sentences, {tokens:,} tokens")
    print("| way | seconds | tokens/s | beside model.embed |")
    print("|---|---|---|---|")
    for way, median in zip(found, medians, strict=True):
        print(f"| {way} | {median:.2f} | {tokens / median:,.0f} | {median / medians[0] - 1:+.1%} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
