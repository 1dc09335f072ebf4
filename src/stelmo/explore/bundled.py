"""The text that comes with the package → its index, computed at first use. Knows no file format."""

import os
from collections.abc import Iterator
from pathlib import Path

from stelmo.embed.model import Model
from stelmo.errors import OutputError
from stelmo.explore.index import Index, build
from stelmo.jobs.run import Advance
from stelmo.store.atomic import reason
from stelmo.text.files import LineReader

TEXT = Path(__file__).parents[1] / "bundled" / "uses" / "sentences.tok.xz"
CREDIT = "sentences of the English Wikipedia (CC BY-SA 3.0)"
PER_WORD = 200  # uses of a word: enough for any map, and "the" does not fill half of the disk


def open_bundled(model: Model, cache: Path | None = None, advance: Advance = lambda tokens: None) -> Index:
    """The index of the bundled text by this model. Whatever the cache folder lacks is computed first."""
    folder = (cache or cache_folder()) / f"uses-{model.saved().fingerprint()[:16]}-{model.settings.state}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OutputError(f"{folder.parent}: {reason(problem)}; set XDG_CACHE_HOME to another cache folder") from None
    return build(model, sentences(), folder, per_word=PER_WORD, advance=advance)


def sentences() -> Iterator[list[str]]:
    """The bundled sentences; each contains at least one ambiguous word."""
    with LineReader(TEXT) as reader:
        for _, line in reader:
            yield line.split()


def cache_folder() -> Path:
    """The user's cache folder for stelmo (XDG Base Directory)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stelmo"
