"""Our model folder ↔ a model. Knows no other format; `docs/formats.md` describes the files.

config.json        the manifest: format version, architecture, which of the other files exist
model.safetensors  the biLM, and the fixed start state if there is one
vocab.txt, alphabet.json, softmax.safetensors, README.md
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from stelmo.config import ModelConfig, Settings, parse
from stelmo.errors import ModelError
from stelmo.model.bilm import Softmax, State
from stelmo.store import atomic
from stelmo.store.saved import Mix, SavedModel, check, describe_encoder, describe_input, filled_bilm, filled_softmax
from stelmo.text.ids import MAXTERMID, Alphabet, read_vocabulary, write_vocabulary

FORMAT = "stelmo folder"
VERSION = 1
START = ("start.h", "start.c")
ENGLISH = Path(__file__).parents[1] / "bundled" / "english"  # docs/bundled-model.md describes how it was made


class Manifest(Settings):
    model_type: Literal["stelmo"] = Field("stelmo", description="how Hugging Face's AutoModel recognises the folder")
    stelmo: int = Field(description="version of the folder's format")
    model: ModelConfig
    vocabulary: int | None = Field(None, description="lines of vocab.txt, if it exists")
    alphabet: int | None = Field(None, description="symbols in alphabet.json, if it exists")
    softmax: bool = Field(False, description="whether softmax.safetensors exists")


def recognises(folder: Path) -> bool:
    """config.json is a common name; ours contains `stelmo`."""
    try:
        return "stelmo" in atomic.read_json(folder / "config.json", ModelError)
    except (ModelError, TypeError):
        return False


def english() -> SavedModel:
    """The English model that comes with the package."""
    return read(ENGLISH)


def read(folder: Path) -> SavedModel:
    manifest = _read_manifest(folder / "config.json")
    path = folder / "model.safetensors"
    tensors = read_safetensors(path)
    weights = {name: tensor for name, tensor in tensors.items() if not name.startswith(("start.", "mixes."))}
    bilm = filled_bilm(manifest.model, weights, str(path))
    vocabulary = None
    if manifest.vocabulary is not None:
        vocabulary = read_vocabulary(folder / "vocab.txt")
        if len(vocabulary) != manifest.vocabulary:
            raise ModelError(f"{vocabulary.name}: {len(vocabulary)} words; config.json says {manifest.vocabulary}")
    return SavedModel(
        bilm,
        FORMAT,
        vocabulary,
        read_softmax=partial(_read_softmax, folder, manifest.model) if manifest.softmax else None,
        start=_start(tensors, manifest.model, path),
        mixes=tuple(_mixes(tensors, manifest.model, path)),
        alphabet=None if manifest.alphabet is None else _read_alphabet(folder / "alphabet.json", manifest.alphabet),
        license=_license(folder / "README.md"),
    )


def _license(card: Path) -> str:
    """What the front matter of a model card says; empty if it says nothing."""
    with suppress(OSError, UnicodeDecodeError):
        front = re.match(r"---\n(.*?)\n---\n", card.read_text(encoding="utf-8"), re.DOTALL)
        found = front and re.search(r"^license: *([\w.-]+)$", front[1], re.MULTILINE)
        return found[1] if found else ""
    return ""


def write(saved: SavedModel, folder: Path) -> None:
    """All files; the manifest last."""
    tensors = dict(saved.bilm.state_dict())
    if saved.start is not None:
        tensors |= dict(zip(START, saved.start, strict=True))
    for number, mix in enumerate(saved.mixes):
        tensors |= {f"mixes.{number}.logits": mix.logits_L, f"mixes.{number}.scale": mix.scale}
    write_safetensors(tensors, folder / "model.safetensors")
    if saved.vocabulary is not None:
        for word in saved.vocabulary:  # other formats allow words that a line of vocab.txt cannot hold
            if "\n" in word or word.endswith("\r") or word == MAXTERMID:
                raise ModelError(f"{saved.vocabulary.name}: the word {word!r} cannot be written as a line of vocab.txt")
        write_vocabulary(saved.vocabulary, folder / "vocab.txt")
    if saved.alphabet is not None:  # as JSON: a symbol may be any separator
        (folder / "alphabet.json").write_text(json.dumps(saved.alphabet.symbols) + "\n")
    if saved.read_softmax is not None:
        write_safetensors(saved.read_softmax().state_dict(), folder / "softmax.safetensors")
    (folder / "README.md").write_text(model_card(saved), encoding="utf-8")
    manifest = Manifest(
        stelmo=VERSION,
        model=saved.config,
        vocabulary=None if saved.vocabulary is None else len(saved.vocabulary),
        alphabet=None if saved.alphabet is None else len(saved.alphabet),
        softmax=saved.read_softmax is not None,
    )
    (folder / "config.json").write_text(manifest.model_dump_json(indent=2) + "\n")


def _read_manifest(path: Path) -> Manifest:
    values = atomic.read_json(path, ModelError, "the model folder is incomplete, copy it again")
    version = values.get("stelmo") if isinstance(values, dict) else None
    if version != VERSION:
        raise ModelError(f"{path}: format version {version!r:.40}; this stelmo reads version {VERSION}, update it")
    if "transformers_version" in values:  # AutoModel adds keys of its own to a folder that it saves
        values = {name: value for name, value in values.items() if name in Manifest.model_fields}
    return parse(Manifest, values, str(path), ModelError)


def _read_alphabet(path: Path, expected: int) -> Alphabet:
    symbols = atomic.read_json(path, ModelError, "the model folder is incomplete, copy it again")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise ModelError(f"{path}: not a list of strings; expected the symbols in the order of their ids")
    if len(symbols) != expected:
        raise ModelError(f"{path}: {len(symbols)} symbols; config.json says {expected}")
    return Alphabet(tuple(symbols), str(path))


def _start(tensors: Mapping[str, Tensor], config: ModelConfig, path: Path) -> State | None:
    if not set(START) <= set(tensors):
        return None
    if not config.has_state:
        raise ModelError(f"{path}: a start state, but the model's {config.encoder.kind} has none; the file is damaged")
    state = State(*(tensors[name] for name in START))
    for name, tensor, width in zip(START, state, (config.lstm.projection, config.lstm.cells), strict=True):
        check(tensor, (2, config.lstm.layers, 1, width), f"{path}: tensor {name}")
    return state


def _mixes(tensors: Mapping[str, Tensor], config: ModelConfig, path: Path) -> Iterator[Mix]:
    for number in count():
        name = f"mixes.{number}"
        if f"{name}.logits" not in tensors:
            return
        mix = Mix(tensors[f"{name}.logits"], tensors.get(f"{name}.scale", torch.empty(0)))
        for tensor, shape in zip(mix, ((config.depth,), ()), strict=True):
            check(tensor, shape, f"{path}: tensor {name}")
        yield mix


def _read_softmax(folder: Path, config: ModelConfig) -> Softmax:
    path = folder / "softmax.safetensors"
    tensors = read_safetensors(path)
    if set(tensors) != {"weight", "bias"}:
        raise ModelError(f"{path}: tensors {', '.join(sorted(tensors))}; expected weight and bias")
    return filled_softmax(tensors["weight"], tensors["bias"], config, str(path))


def read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise ModelError(f"{path}: no such file; the model folder is incomplete, copy it again")
    with path.open("rb") as file:
        start = file.read(4)
    try:
        return load_file(path)
    except (SafetensorError, ValueError, OSError) as problem:
        pickled = start[:1] == b"\x80" or start == b"PK\x03\x04"
        found = "a pickle, which is never opened" if pickled else str(problem)
        raise ModelError(f"{path}: not a safetensors file ({found})") from None


def write_safetensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """In a folder of its own first: the library leaves a file of a random name behind if the process is killed."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".partial", dir=path.parent) as folder:
        draft = Path(folder, "tensors")
        try:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft)
        except SafetensorError as problem:  # an error of the operating system, as text
            number = re.search(r"os error (\d+)", str(problem))
            raise OSError(int(number[1]) if number else None, str(problem)) from None
        draft.replace(path)


def model_card(saved: SavedModel) -> str:
    """The README.md of the folder."""
    config, (kind, size) = saved.config, describe_encoder(saved.config.encoder)
    start = "yes" if saved.start else "computed when first used" if config.has_state else "none: it carries no state"
    parameters = sum(parameter.numel() for parameter in saved.bilm.parameters())
    license = f"license: {saved.license}\n" if saved.license else ""
    return f"""---
library_name: stelmo
{license}tags: [elmo, bilm, contextual-word-vectors]
---
# An ELMo biLM

| | |
|---|---|
| reads | {describe_input(config.input)} |
| layers | {config.depth}, the token layer included |
| vector | {config.width} dimensions per word |
| {kind} | {size} |
| parameters | {parameters:,} without the softmax |
| vocabulary | {"none" if saved.vocabulary is None else f"{len(saved.vocabulary):,} words"} |
| language-model head | {"yes" if saved.read_softmax else "no"} |
| start state for `warm` | {start} |

```python
import stelmo

model = stelmo.load("this folder")
vectors = model.embed(stelmo.tokenize("They fell in love."))
```
"""
