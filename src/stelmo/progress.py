"""How long-running work reports its progress. Knows no screen: a caller decides what is shown and where."""

from typing import Protocol, TypeVar

Report_contra = TypeVar("Report_contra", contravariant=True)


class ProgressCallback(Protocol[Report_contra]):
    """Receives reports while work is running; each kind of work defines what its report contains."""

    def update(self, report: Report_contra) -> None:
        """Called often, for example after every training step; it should return quickly."""

    def message(self, text: str) -> None:
        """Something the user should read once, in one sentence."""


class NoProgress:
    """Ignores every report; the default where nobody is watching."""

    def update(self, report: object) -> None: ...

    def message(self, text: str) -> None: ...
