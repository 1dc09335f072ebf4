"""The English model that comes with the package; docs/bundled-model.md tells how it was made."""

from pathlib import Path

from stelmo.store import folder
from stelmo.store.saved import SavedModel

ENGLISH = Path(__file__).parents[1] / "bundled" / "english"


def english() -> SavedModel:
    return folder.read(ENGLISH)
