"""AllenNLP's `ElmoEmbedder` and its command `allennlp elmo`: lists of tokens → arrays, a file of sentences → HDF5.

B sentences, T tokens, L layers, P projection, D = 2P.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.compat import File, loaded, padded, sentences_of
from stelmo.compat.elmo_bilm import ElmoLstm, ELMoTokenCharactersIndexer, _ElmoBiLm, inside
from stelmo.config import choose
from stelmo.embed.model import Model, all_layers
from stelmo.errors import ConfigError
from stelmo.model.bilm import State
from stelmo.settings import StatePolicy
from stelmo.store import atomic, vectors
from stelmo.text.formats import Sentence

Array = NDArray[Any]
_PUBLISHED = "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/"
DEFAULT_OPTIONS_FILE = f"{_PUBLISHED}elmo_2x4096_512_2048cnn_2xhighway_options.json"
DEFAULT_WEIGHT_FILE = f"{_PUBLISHED}elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5"
DEFAULT_BATCH_SIZE = 64
FORMATS: dict[str, Callable[[Array], Array]] = {
    "all": lambda layers_LTD: layers_LTD,
    "top": lambda layers_LTD: layers_LTD[-1],
    "average": lambda layers_LTD: layers_LTD.mean(0),
}


class ElmoEmbedder:
    """Lists of tokens → arrays (3, T, 1024), or the sizes of the model. `model` is the stelmo model inside.

    A URL, such as the defaults, stands for the file of that name in the current folder.
    """

    def __init__(
        self,
        options_file: File = DEFAULT_OPTIONS_FILE,
        weight_file: File = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
        *,
        stateful: bool = False,
        state: StatePolicy = "fresh",
    ) -> None:
        device = "cpu" if cuda_device < 0 else f"cuda:{cuda_device}"
        self._take_over(loaded(weight_file, options_file, device=device, state=state), stateful)
        self.cuda_device = cuda_device

    @classmethod
    def of(cls, model: Model, stateful: bool = False) -> "ElmoEmbedder":
        """Wraps a loaded model, which starts sentences as its settings say."""
        made = cls.__new__(cls)
        made._take_over(model, stateful)
        made.cuda_device = -1
        return made

    def _take_over(self, model: Model, stateful: bool) -> None:
        self.model, self.indexer = model, ELMoTokenCharactersIndexer()
        # The module AllenNLP computes with. Here it is a view of the model, whose engine is faster.
        self.elmo_bilm = _ElmoBiLm.of(model, ElmoLstm(stateful))

    @property
    def stateful(self) -> bool:
        return self.elmo_bilm.stateful

    @property
    def state(self) -> State | None:
        """The LSTM state that a stateful embedder carries to the next batch."""
        return self.elmo_bilm.state

    def reset_states(self) -> None:
        """Forget the previous batches; the next one starts from zeros."""
        self.elmo_bilm.reset_states()

    def embed_sentence(self, sentence: Sequence[str]) -> Array:
        """A list of tokens, or a string, whose characters are the tokens (proteins) → (L+1, T, 2P)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Sequence[str]]) -> list[Array]:
        """One array (L+1, T, 2P) per sentence; for an empty sentence (L+1, 0, 2P)."""
        found = sentences_of(batch)
        if not self.stateful or (len(found) == 1 and not found[0]):  # AllenNLP does not run an empty sentence alone
            return self.model.run(found, all_layers)[0]
        layers, self.elmo_bilm._elmo_lstm.state = self.model.carry(found, self.state)
        return layers

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[Array]:
        """One array after another, for any number of sentences."""
        if batch_size < 1:
            raise ConfigError(f"batch_size {batch_size}: expected at least 1")
        remaining = iter(sentences)
        while batch := list(islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def batch_to_embeddings(self, batch: Iterable[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """(B, L+1, T, 2P) and the mask (B, T) of ones and zeros, on the model's device."""
        arrays = self.embed_batch(batch)
        layers_BLTD = torch.from_numpy(padded(arrays))
        mask_BT = inside(torch.tensor([array.shape[1] for array in arrays]), layers_BLTD.shape[2])
        return layers_BLTD.to(self.model.settings.device), mask_BT.to(self.model.settings.device)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: str | Path,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """A file of one tokenised sentence per line → HDF5, whatever its name, one dataset per line.

        `output_format`: "all" layers, "top", or their "average". Keys are line numbers from 0, and `sentence_to_index`
        maps a sentence to its key (the last of equal ones). With `use_sentence_keys` a key is the sentence, and a
        slash in it makes groups: `file["and/or"]` finds it all the same. Blank lines are refused.
        """
        choose("output_format", output_format, tuple(FORMATS))
        with input_file:
            lines = [line.strip() for line in input_file]
        _refuse_lines(lines, use_sentence_keys)
        layers = self.model.config.depth if output_format == "all" else None
        shape = vectors.Shape(self.model.config.width, layers, True, "float32")
        about = {"forget_sentences": forget_sentences, "use_sentence_keys": use_sentence_keys}
        arrays = self.embed_sentences((line.split() for line in lines), batch_size)
        with (
            atomic.new_file(Path(output_file_path), overwrite=True) as draft,
            vectors.writing(draft, vectors.Hdf5Writer, shape, about) as file,
        ):
            for number, (line, layers_LTD) in enumerate(zip(lines, arrays, strict=True)):
                array = FORMATS[output_format](layers_LTD).astype(np.float32, copy=False)
                file.add(number, Sentence([line], "", number + 1), array)


def empty_embedding() -> Array:
    """What AllenNLP returns for an empty sentence, whatever the sizes of the model."""
    return np.zeros((3, 0, 1024))


def _refuse_lines(lines: Sequence[str], as_keys: bool) -> None:
    """By ConfigError, as AllenNLP does."""
    blank = [number for number, line in enumerate(lines) if not line]
    if blank:
        raise ConfigError(f"the input has blank lines at {blank[:10]} (from 0), {len(blank)} in all; remove them")
    if not as_keys:
        return
    numbers: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(lines):
        path = tuple(part for part in line.split("/") if part not in ("", "."))
        if not path or "\0" in line:
            raise ConfigError(
                f"line {number} (from 0): {line!r:.60} cannot be a key of HDF5; do not set use_sentence_keys"
            )
        if numbers.setdefault(path, number) != number:
            raise ConfigError(
                f"lines {numbers[path]} and {number} (from 0) are the same sentence, and keys are unique; "
                "do not set use_sentence_keys"
            )
    for path, number in numbers.items():
        for end in range(1, len(path)):
            if path[:end] in numbers:
                raise ConfigError(
                    f"line {number} (from 0): its key would lie inside that of line {numbers[path[:end]]}, because of "
                    "the slash; do not set use_sentence_keys"
                )


def main(prog: str | None = None, subcommand_overrides: Any = None, *, stateful: bool = False) -> None:
    """The program `allennlp` with its one command `elmo`; arguments come from `sys.argv`."""
    parser = argparse.ArgumentParser(prog=prog or "allennlp")
    commands = parser.add_subparsers(dest="command", required=True)
    elmo = commands.add_parser("elmo", description="Create word vectors using ELMo.")
    elmo.add_argument(
        "input_file", type=argparse.FileType("r", encoding="utf-8"), help="one tokenised sentence per line"
    )
    elmo.add_argument("output_file", help="HDF5 file, whatever its name; replaced if it exists")
    layers = elmo.add_mutually_exclusive_group(required=True)
    for name in FORMATS:
        layers.add_argument(f"--{name}", dest="output_format", action="store_const", const=name)
    elmo.add_argument("--options-file", default=DEFAULT_OPTIONS_FILE)
    elmo.add_argument("--weight-file", default=DEFAULT_WEIGHT_FILE)
    elmo.add_argument("--batch-size", type=int, default=DEFAULT_BATCH_SIZE)
    elmo.add_argument("--cuda-device", type=int, default=-1)
    elmo.add_argument("--forget-sentences", action="store_true")
    elmo.add_argument("--use-sentence-keys", action="store_true")
    elmo.add_argument("--vocab-path", help="not needed")
    elmo.add_argument("--file-friendly-logging", action="store_true", help="not needed")
    elmo.add_argument("--include-package", action="append", help="not needed")
    given = parser.parse_args()
    embedder = ElmoEmbedder(given.options_file, given.weight_file, given.cuda_device, stateful=stateful)
    embedder.embed_file(
        given.input_file,
        given.output_file,
        given.output_format,
        given.batch_size,
        given.forget_sentences,
        given.use_sentence_keys,
    )
