"""A corpus → an index of word uses, with search, maps and clusters. Knows no HTTP and no terminal."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stelmo.explore.standalone import show as show

__all__ = ["show"]


def __getattr__(name: str) -> Any:
    """`stelmo.explore.show`, imported when first used."""
    if name != "show":
        raise AttributeError(f"module 'stelmo.explore' has no attribute {name!r}")
    from stelmo.explore.standalone import show

    return show
