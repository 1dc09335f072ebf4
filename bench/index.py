"""An index of a text: processor time, the model's share of it, and disk, beside the same index in float16.

OMP_NUM_THREADS=1 python bench/index.py TEXT [CHARACTERS]        the first 200,000 characters
"""

import sys
import tempfile
import time
from pathlib import Path

import stelmo
from stelmo.explore import index
from stelmo.store import uses as store


def main(path: str, characters: str = "200000") -> None:
    model = stelmo.load(threads=1)
    sentences = stelmo.tokenize(Path(path).read_text()[: int(characters)])
    model.layers([["warm", "up"]])
    started = time.process_time()
    model.layers(sentences)
    alone = time.process_time() - started
    model.forget_words()
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room) / "uses"
        started = time.process_time()
        made = index.build(model, sentences, folder, per_word=1000)
        took = time.process_time() - started
        size = sum(file.stat().st_size for file in folder.iterdir())
        manifest = store.read_manifest(folder)
        old = manifest.model_copy(update={"vectors": "float16"})
        before = size + len(made) * (old.use_bytes - manifest.use_bytes)
    tokens = sum(map(len, sentences))
    print(f"{tokens:,} tokens, {len(made):,} uses: {took:.1f} s of processor time; the model alone {alone:.1f} s")
    print(f"{size / 1e6:.1f} MB; in float16 {before / 1e6:.1f} MB, ratio {before / size:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
