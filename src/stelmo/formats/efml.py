"""A folder of ELMoForManyLangs, or a zip of one (as the NLPL repository has them) ↔ a model. Knows no other format.

config.json           of the training run; `config_path` names the architecture, often with a path of its authors
<architecture>.json   sizes of the model
word.dic, char.dic    a symbol, a tab and its id on each line, if the model reads words, characters
token_embedder.pkl    word and character tables, convolution, highways, projection
encoder.pkl           the LSTMs
classifier.pkl        its softmax over sampled words, which is not read: it does not predict a whole vocabulary

A quirk: the symbol U+3000, which some tools strip from its line.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from stelmo.config import CodePointInput, ModelConfig, parse
from stelmo.errors import ConfigError, ModelError
from stelmo.formats import efml_tensors as theirs
from stelmo.formats.untrusted import archives
from stelmo.store.atomic import read_json
from stelmo.store.saved import SavedModel, filled_bilm
from stelmo.text.ids import MOST_BYTES, Alphabet, Vocabulary

FORMAT = "ELMoForManyLangs"
EMBEDDER, ENCODER = "token_embedder.pkl", "encoder.pkl"
TEXTS = (".json", "word.dic", "char.dic")
INCOMPLETE = "the model folder is incomplete, copy it again"
IDEOGRAPHIC_SPACE = "\u3000"
DROPOUT = 0.1  # of the training; the original software requires the key, although it is not used for embedding


def recognises(path: Path) -> bool:
    """A folder with a pickle of these models, or a zip with one."""
    if path.is_dir():
        return any((path / name).is_file() for name in (EMBEDDER, ENCODER))
    try:
        return archives.is_zip(path) and bool(_homes(path))
    except ModelError:  # a damaged zip of another format, perhaps
        return False


def read(path: Path) -> SavedModel:
    if path.is_dir():
        return _read_folder(path, path)
    home, *others = _homes(path)
    if others:
        raise ModelError(f"{path}: {1 + len(others)} folders with {EMBEDDER} or {ENCODER}; expected one model")
    with archives.unpacked_folder(path, lambda name: _is_read(name, home), lambda name: name.endswith(TEXTS)) as folder:
        return replace(_read_folder(folder, path), format=f"{FORMAT} zip")


def _homes(path: Path) -> list[PurePosixPath]:
    """The places of a model in a zip: the top, or one folder."""
    names = [PurePosixPath(name) for name in archives.zip_names(path)]
    found = {name.parent for name in names if name.name in (EMBEDDER, ENCODER) and name.parts[0] != "__MACOSX"}
    return sorted(home for home in found if len(home.parts) <= 1)


def _is_read(name: str, home: PurePosixPath) -> bool:
    member = PurePosixPath(name)
    return member.parent == home and (member.name in (EMBEDDER, ENCODER) or name.endswith(TEXTS))


def _read_folder(path: Path, where: Path) -> SavedModel:
    """`where` is the path shown in messages."""
    architecture, source = _read_architecture(path)
    embedder, encoder = (_section(architecture, name, source) for name in ("token_embedder", "encoder"))
    _refuse_kinds(embedder, encoder, source)
    words = Vocabulary(_read_dic(path / "word.dic"), str(where / "word.dic")) if embedder.get("word_dim") else None
    alphabet = Alphabet(_read_dic(path / "char.dic"), str(where / "char.dic")) if embedder.get("char_dim") else None
    lstm = {
        "cells": encoder.get("dim"),
        "projection": encoder.get("projection_dim"),
        "layers": encoder.get("n_layers"),
        "cell_clip": encoder.get("cell_clip") or None,
        "projection_clip": encoder.get("proj_clip") or None,
        "skip": True,
    }
    values = {"input": _input_values(embedder, words, alphabet), "lstm": lstm}
    config = parse(ModelConfig, values, source, ModelError)
    if config.lstm.cells == config.lstm.projection:  # they always project; our LSTM has no square projection
        raise ModelError(
            f"{source}: dim and projection_dim are both {config.lstm.cells}; only a smaller projection_dim is supported"
        )
    tensors = theirs.our_embedder(theirs.read(path / EMBEDDER, theirs.embedder_shapes(config)), config)
    tensors |= theirs.our_lstms(theirs.read(path / ENCODER, theirs.encoder_shapes(config)), config)
    return SavedModel(filled_bilm(config, tensors, str(path)), FORMAT, words, alphabet=alphabet)


def write(saved: SavedModel, folder: Path) -> None:
    """For the original software with torch 1.6 or later; the format has no softmax and no warm state."""
    config = saved.config
    _refuse_foreign(config)
    if saved.vocabulary is not None:
        _write_dic(folder / "word.dic", saved.vocabulary.words)
    if saved.alphabet is not None:
        _write_dic(folder / "char.dic", saved.alphabet.symbols)
    tensors = saved.bilm.state_dict()
    theirs.write(theirs.their_embedder(tensors, config), folder / EMBEDDER)
    theirs.write(theirs.their_lstms(tensors, config), folder / ENCODER)
    architecture = _architecture_of(config)
    sizes = architecture["token_embedder"] | architecture["encoder"]
    name = "cnn_{char_dim}_{word_dim}_{projection_dim}_{dim}.json".format(**sizes)
    (folder / name).write_text(json.dumps(architecture, indent=2) + "\n")
    (folder / "config.json").write_text(json.dumps({"config_path": name}) + "\n")


# The architecture

# The architecture of all published models; many of their archives lack the file.
_PUBLISHED_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
_PUBLISHED = {
    "encoder": {
        "name": "elmo", "dim": 4096, "projection_dim": 512, "n_layers": 2, "cell_clip": 3, "proj_clip": 3,
    },
    "token_embedder": {
        "name": "cnn", "word_dim": 100, "char_dim": 50, "n_highway": 2, "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "max_characters_per_token": 50,
    },
}  # fmt: skip


def _read_architecture(folder: Path) -> tuple[Any, str]:
    """The architecture and the name of its file."""
    about = folder / "config.json"
    named = _section(read_json(about, ModelError, INCOMPLETE), None, str(about)).get("config_path")
    if not isinstance(named, str) or not named:
        raise ModelError(f"{about}: no config_path; expected the name of the architecture's file")
    base = PureWindowsPath(named).name  # splits at both kinds of slash
    given = folder / named.replace("\\", "/")
    inside = given.is_relative_to(folder) and ".." not in given.relative_to(folder).parts
    for path in (given, folder / base) if inside else (folder / base,):
        if _is_file(path) and path.name != about.name:
            return read_json(path, ModelError, INCOMPLETE), str(path)
    # The named file is missing: the only one that can be the architecture, or that of every published model.
    others = []
    for path in sorted(folder.glob("*.json")):
        with suppress(ModelError, TypeError):  # another file, or not JSON
            if {"encoder", "token_embedder"} <= set(read_json(path, ModelError)):
                others.append(path)
    if len(others) == 1:
        return read_json(others[0], ModelError, INCOMPLETE), str(others[0])
    if not others and base in _PUBLISHED_NAMES:
        return _PUBLISHED, f"{folder} (the published {base})"
    found = f"{len(others)} other files could be it" if others else "no other file could be it"
    raise ModelError(
        f"{folder}: the architecture {base[:80]!r} named in config.json is missing, and {found}; copy it there"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, for example
        return False


def _section(values: Any, name: str | None, where: str) -> dict[str, Any]:
    """One part of a JSON file, or all of it."""
    found = values if name is None else values.get(name) if isinstance(values, dict) else None
    if not isinstance(found, dict):
        raise ModelError(f"{where}: no section {name or 'at all'}; expected a JSON file of ELMoForManyLangs")
    return found


def _refuse_kinds(embedder: Mapping[str, Any], encoder: Mapping[str, Any], where: str) -> None:
    if str(encoder.get("name")).lower() != "elmo":
        raise ModelError(
            f"{where}: the encoder is {encoder.get('name')!r:.40}; only 'elmo', the projected LSTM, is supported"
        )
    if str(embedder.get("name")).lower() != "cnn":
        raise ModelError(
            f"{where}: the token embedder is {embedder.get('name')!r:.40}; only 'cnn', the convolution, is supported"
        )


def _input_values(embedder: Mapping[str, Any], words: Vocabulary | None, alphabet: Alphabet | None) -> dict[str, Any]:
    table = None if words is None else {"rows": len(words), "width": embedder["word_dim"]}
    convolution = (
        None
        if alphabet is None
        else {
            "rows": len(alphabet),
            "embedding": embedder["char_dim"],
            "filters": embedder.get("filters"),
            "highways": embedder.get("n_highway") or 0,
            "activation": embedder.get("activation"),
        }
    )
    width = embedder.get("max_characters_per_token", 50)
    return {"kind": "codepoints", "word_table": table, "convolution": convolution, "max_characters": width}


def _refuse_foreign(config: ModelConfig) -> None:
    if not config.has_state:
        raise ConfigError(
            f"an ELMoForManyLangs folder holds LSTMs, not a {config.encoder.kind}; choose a stelmo folder or ONNX"
        )
    if not isinstance(config.input, CodePointInput):
        reads = "the bytes of words" if config.input.kind == "chars" else "word ids without a projection"
        raise ConfigError(
            f"an ELMoForManyLangs folder holds a model that reads code points, but this one reads {reads}; "
            "choose another format"
        )
    if config.lstm.cells == config.lstm.projection or not config.lstm.skip:
        raise ConfigError(
            "ELMoForManyLangs always has a projection and skip connections, this model does not; choose another format"
        )


def _architecture_of(config: ModelConfig) -> dict[str, Any]:
    assert isinstance(config.input, CodePointInput)
    lstm, words, cnn = config.lstm, config.input.word_table, config.input.convolution
    return {
        "encoder": {
            "name": "elmo",
            "dim": lstm.cells,
            "projection_dim": lstm.projection,
            "n_layers": lstm.layers,
            "cell_clip": lstm.cell_clip,
            "proj_clip": lstm.projection_clip,
        },
        "token_embedder": {
            "name": "cnn",
            "word_dim": 0 if words is None else words.width,
            "char_dim": 0 if cnn is None else cnn.embedding,
            "filters": [] if cnn is None else [list(pair) for pair in cnn.filters],
            "n_highway": 0 if cnn is None else cnn.highways,
            "activation": "relu" if cnn is None else cnn.activation,
            "max_characters_per_token": config.input.max_characters,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": DROPOUT,
    }


# .dic files


def _read_dic(path: Path) -> tuple[str, ...]:
    """The symbols in the order of their ids 0, 1, 2, …; the lines may have any order."""
    symbols: dict[int, str] = {}
    for number, line in enumerate(_lines(path), 1):
        # Only the last tab and line feeds separate: any other separator may be the symbol itself.
        symbol, _, digits = line.rpartition("\t")
        digits = digits.strip()
        if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
            raise ModelError(f"{path}:{number}: the id is {digits[:20]!r}; expected a symbol, a tab and a number")
        if int(digits) in symbols:
            raise ModelError(f"{path}:{number}: id {digits} occurs twice; each symbol has its own")
        symbols[int(digits)] = symbol or IDEOGRAPHIC_SPACE
    blank = [number for number, symbol in symbols.items() if not symbol.strip()]
    if len(blank) == 1:  # the original strips the line and takes what is then without a symbol for U+3000
        symbols[blank[0]] = IDEOGRAPHIC_SPACE
    gap = next((number for number in range(len(symbols)) if number not in symbols), None)
    if gap is not None:
        raise ModelError(f"{path}: no symbol has id {gap}, but there are {len(symbols)} symbols; ids have no gaps")
    return tuple(symbols[number] for number in range(len(symbols)))


def _lines(path: Path) -> list[str]:
    try:
        if path.exists() and not path.is_file():  # a device has no end
            raise ModelError(f"{path}: not a regular file; {INCOMPLETE}")
        if path.stat().st_size > MOST_BYTES:
            raise ModelError(f"{path}: more than {MOST_BYTES:,} bytes; expected a symbol and its id on each line")
        lines = path.read_bytes().decode("utf-8").split("\n")
    except OSError as problem:
        raise ModelError(f"{path}: cannot be read ({problem.strerror}); {INCOMPLETE}") from None
    except UnicodeDecodeError as problem:
        raise ModelError(f"{path}: not UTF-8 (byte {problem.start})") from None
    return lines if lines[-1] else lines[:-1]


def _write_dic(path: Path, symbols: tuple[str, ...]) -> None:
    for symbol in symbols:
        if not symbol or "\n" in symbol:
            raise ModelError(f"the symbol {symbol!r} cannot be written as a line of {path.name}")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{symbol}\t{number}\n" for number, symbol in enumerate(symbols))
