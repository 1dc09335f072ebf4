"""AllenNLP's `ElmoEmbedder`: lists of tokens → arrays, a file of sentences → HDF5. Knows no network.

B sentences, T tokens, L layers, P projection, D = 2P.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stelmo.compat.elmo_bilm import File, loaded
from stelmo.compat.padded import padded
from stelmo.config import choose
from stelmo.embed.model import all_layers
from stelmo.engine.inputs import checked
from stelmo.errors import ConfigError, DataError
from stelmo.model.state import State
from stelmo.store import atomic, vectors
from stelmo.text.formats import Sentence

Array = NDArray[Any]
DEFAULT_BATCH_SIZE = 64
FORMATS: dict[str, Callable[[Array], Array]] = {
    "all": lambda layers_LTD: layers_LTD,
    "top": lambda layers_LTD: layers_LTD[-1],
    "average": lambda layers_LTD: layers_LTD.mean(0),
}


class ElmoEmbedder:
    """Lists of tokens → arrays (3, T, 1024), or what the model's sizes are. `model` is the stelmo model behind it."""

    def __init__(
        self, options_file: File = None, weight_file: File = None, cuda_device: int = -1, *, stateful: bool = False
    ) -> None:
        device = "cpu" if cuda_device < 0 else f"cuda:{cuda_device}"
        self.model = loaded(options_file, weight_file, device=device)
        self.cuda_device, self.stateful = cuda_device, stateful
        self.state: State | None = None

    def reset_states(self) -> None:
        """Forget what came before; the next batch starts from zeros."""
        self.state = None

    def embed_sentence(self, sentence: Sequence[str]) -> Array:
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Sequence[str]]) -> list[Array]:
        """An array (L+1, T, 2P) each; of an empty sentence (L+1, 0, 2P)."""
        found = checked(batch)
        if not self.stateful or (len(found) == 1 and not found[0]):  # AllenNLP does not run an empty sentence alone
            return self.model.run(found, all_layers, "warm")[0]
        layers, self.state = self.model.carry(found, self.state)
        return layers

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[Array]:
        """One array after another, of any number of sentences."""
        if batch_size < 1:
            raise ConfigError(f"batch_size {batch_size}: expected at least 1")
        remaining = iter(sentences)
        while batch := list(islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def batch_to_embeddings(self, batch: Iterable[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """(B, L+1, T, 2P) and the mask (B, T) of ones and zeros, on the model's device."""
        arrays = self.embed_batch(batch)
        layers_BLTD = torch.from_numpy(padded(arrays))
        lengths_B = torch.tensor([array.shape[1] for array in arrays])
        mask_BT = (torch.arange(layers_BLTD.shape[2]) < lengths_B[:, None]).long()
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
        """A file of one tokenised sentence a line → HDF5, one dataset a line: "all" layers, "top", or their "average".

        Keys are line numbers from 0, and `sentence_to_index` leads from a sentence to its key (the last of equal ones).
        Blank lines are refused, and so are sentences that HDF5 cannot have as a key (`use_sentence_keys`).
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


def _refuse_lines(lines: Sequence[str], as_keys: bool) -> None:
    blank = [number for number, line in enumerate(lines) if not line]
    if blank:
        raise DataError(f"the input has blank lines at {blank[:10]} (from 0), {len(blank)} in all; remove them")
    if not as_keys:
        return
    first: dict[str, int] = {}
    for number, line in enumerate(lines):
        vectors.refuse_as_key(line, f"line {number} (from 0)")
        if first.setdefault(line, number) != number:
            raise DataError(
                f"lines {first[line]} and {number} (from 0) are the same sentence, and a key is there once; "
                "leave use_sentence_keys out"
            )
