"""Token vectors of a Transformer (BERT and similar models), to compare a biLM with. Knows no probe and no task.

B sentences, S sub-tokens, T words, D width.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from stelmo.errors import ConfigError, ModelError

Vectors = NDArray[np.float32]
TOGETHER = 16  # sentences in one batch


class TransformerVectors:
    """The last layer of a Transformer in a local folder (Hugging Face's layout), such as a sentence-transformer's.

    A word's vector is the mean over its sub-tokens. A sentence that is too long is read in several parts.
    """

    depth = 1

    def __init__(self, folder: Path) -> None:
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError:
            raise ConfigError("--transformer requires transformers; pip install 'stelmo[huggingface]'") from None
        if not (folder / "config.json").is_file():
            raise ModelError(f"{folder}: no config.json; expected the folder of a Transformer in Hugging Face's layout")
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, use_fast=True)
            self._network = AutoModel.from_pretrained(str(folder), local_files_only=True).eval()
        except (OSError, ValueError, KeyError) as problem:
            raise ModelError(f"{folder}: cannot be read as a Transformer ({str(problem).splitlines()[0]})") from None
        self.folder = folder
        # A byte-level tokenizer expects words to begin with the space before them.
        self._before_word = " " if "ByteLevel" in repr(self._tokenizer.backend_tokenizer.pre_tokenizer) else ""
        self._longest = min(self._tokenizer.model_max_length, _positions(self._network)) - 2  # without the two markers

    @property
    def width(self) -> int:
        return int(self._network.config.hidden_size)

    def fingerprint(self) -> str:
        return digest(self.folder)

    def layers(self, sentences: Sequence[Sequence[str]]) -> list[Vectors]:
        """(1, T, D) of each sentence, as a biLM of one layer would give."""
        pieces = [
            (number, part)
            for number, words in enumerate(sentences)
            for part in self._parts([self._before_word + word for word in words])
        ]
        # Similar lengths in a batch: little padding.
        order = sorted(range(len(pieces)), key=lambda place: len(pieces[place][1]))
        found: dict[int, Vectors] = {}
        for first in range(0, len(order), TOGETHER):
            places = order[first : first + TOGETHER]
            found |= zip(places, self._vectors([pieces[place][1] for place in places]), strict=True)
        rows: list[list[Vectors]] = [[np.empty((0, self.width), np.float32)] for _ in sentences]
        for place, (number, _) in enumerate(pieces):
            rows[number].append(found[place])
        return [np.concatenate(of_sentence)[None] for of_sentence in rows]

    def _parts(self, words: Sequence[str]) -> Iterator[list[str]]:
        """As many words at a time as fit, at least one."""
        if not words:
            return
        read = self._tokenizer(list(words), is_split_into_words=True, add_special_tokens=False, verbose=False)
        sizes = np.bincount(np.array(read.word_ids(), np.int64), minlength=len(words)).tolist()
        part: list[str] = []
        room = self._longest
        for word, size in zip(words, sizes, strict=True):
            if part and size > room:
                yield part
                part, room = [], self._longest
            part.append(word)
            room -= size
        yield part

    def _vectors(self, batch: list[list[str]]) -> Iterator[Vectors]:
        """(T, D) of each part."""
        longest = self._longest + 2
        read = self._tokenizer(
            batch, is_split_into_words=True, return_tensors="pt", truncation=True, max_length=longest, padding=True
        )
        with torch.inference_mode():
            hidden_BSD = self._network(**read).last_hidden_state.numpy()
        zero_D = np.zeros(self.width, np.float32)  # of a word without sub-tokens, such as a control character
        for row, (words, hidden_SD) in enumerate(zip(batch, hidden_BSD, strict=True)):
            owners = np.array([-1 if owner is None else owner for owner in read.word_ids(row)])
            yield np.stack(
                [hidden_SD[owners == n].mean(0) if (owners == n).any() else zero_D for n in range(len(words))]
            )


def _positions(network: Any) -> int:
    """The positions that a text may use; RoBERTa and its relatives count them from the one after the padding's."""
    tables = (part for name, part in network.named_modules() if name.endswith("position_embeddings"))
    padding = getattr(next(tables, None), "padding_idx", None)
    return int(network.config.max_position_embeddings) - (0 if padding is None else padding + 1)


def digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files below a folder."""
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            found.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as content:
                while part := content.read(1 << 20):
                    found.update(part)
    return found.hexdigest()
