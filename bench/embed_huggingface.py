"""AutoModel, SentenceTransformer and ONNX against the model itself, CPU seconds. Run: embed_huggingface.py [MODEL]

2,000 random sentences (Zipf), one thread, words met before forgotten between rounds. Rounds alternate; read the ratios.
Each row is compared with the call it stands for: all layers, or sentence vectors from raw text.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

import stelmo
from stelmo.benchmark import zipf_text
from stelmo.integrations import onnx
from stelmo.integrations.huggingface import StelmoModel, StelmoTokenizer
from stelmo.integrations.sentence_transformers import StelmoTransformer
from stelmo.text import chars

SENTENCES, WORDS, ROUNDS, BATCH = 2_000, 50_000, 3, 192  # as many rows as `model.layers` takes at a time


def batches(sentences: list[list[str]]) -> Iterator[list[list[str]]]:
    ordered = sorted(sentences, key=len)
    yield from (ordered[place : place + BATCH] for place in range(0, len(ordered), BATCH))


def seconds(run: Callable[[], Any]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


def through_auto_model(model: stelmo.Model, sentences: list[list[str]]) -> None:
    theirs, tokenizer = StelmoModel.of(model), StelmoTokenizer()
    for batch in batches(sentences):
        theirs(**tokenizer(batch), output_hidden_states=True)


def through_encoder(model: stelmo.Model, texts: list[str]) -> None:
    words = StelmoTransformer(model)
    pooling = Pooling(words.get_embedding_dimension(), "mean")
    SentenceTransformer(modules=[words, pooling], device="cpu").encode(texts, batch_size=BATCH)


def through_onnx(session: Any, sentences: list[list[str]]) -> None:
    for batch in batches(sentences):
        session.run(None, {onnx.INPUT: chars.encode_sentences(batch)})


def opened(model: stelmo.Model) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        onnx.export(model, Path(folder) / "m.onnx")
        return onnxruntime.InferenceSession(str(Path(folder) / "m.onnx"), options)


def main(name: str | None = None) -> None:
    torch.set_num_threads(1)
    model, sentences = stelmo.load(name), zipf_text(SENTENCES, vocabulary=WORDS)
    session, texts = opened(model), [" ".join(tokens) for tokens in sentences]
    ways: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "AutoModel, ids and all layers": (
            lambda: through_auto_model(model, sentences),
            lambda: model.layers(sentences),
        ),
        "SentenceTransformer.encode": (
            lambda: through_encoder(model, texts),
            lambda: model.sentence_vectors(tokens for words in texts for tokens in stelmo.tokenize(words)),
        ),
        "ONNX, all layers": (lambda: through_onnx(session, sentences), lambda: model.layers(sentences)),
    }
    print("| way | CPU s | the model itself | ratio |\n|---|---|---|---|")
    for way, (theirs, ours) in ways.items():
        pairs = []
        for _ in range(ROUNDS):
            model.forget_words()
            pairs.append((seconds(ours), seconds(theirs)))
        own, other = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(theirs_ / ours_ for ours_, theirs_ in pairs)
        print(f"| {way} | {other:.1f} | {own:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
