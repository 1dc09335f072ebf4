"""The text that comes with the package → its index, made when first asked for. Knows no file format."""

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
PER_WORD = 200  # uses: enough of any word, and "the" does not take half of the disk


def ready(model: Model, cache: Path | None = None, advance: Advance = lambda tokens: None) -> Index:
    """The index by this model. What the cache folder lacks of it is computed: at first all, later nothing."""
    folder = (cache or cache_folder()) / f"uses-{model.saved().fingerprint()[:16]}-{model.settings.state}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OutputError(f"{folder.parent}: {reason(problem)}; name another cache by XDG_CACHE_HOME") from None
    return build(model, sentences(), folder, per_word=PER_WORD, advance=advance)


def sentences() -> Iterator[list[str]]:
    """Each holds at least one word of many meanings."""
    with LineReader(TEXT) as reader:
        for _, line in reader:
            yield line.split()


def cache_folder() -> Path:
    """Where a user's programs keep what they can make again (XDG Base Directory)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stelmo"
