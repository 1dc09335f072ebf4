"""A file or folder is whole or absent: written beside its place, then renamed. Knows no format."""

import errno
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stelmo.errors import OutputError


@contextmanager
def new_file(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """A draft to write; it takes its place when the block ends well and vanishes when it does not."""
    refuse_existing(path, overwrite)
    with _reported(path), _draft(path, _make_file) as draft:
        yield draft
        _flush_to_disk(draft)
        draft.replace(path)


@contextmanager
def new_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """The same for a folder. Overwriting never takes away a file that the new folder does not have."""
    refuse_existing(path, overwrite)
    with _reported(path), _draft(path, _make_folder) as draft:
        yield draft
        for file in draft.iterdir():
            _flush_to_disk(_readable(file, 0o666))
        if path.exists():
            _refuse_loss(path, draft)
            _swap(draft, path)
        else:
            draft.replace(path)


def refuse_existing(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists; choose another name or allow overwriting (--overwrite)")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent} to write in; make it first")


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise OutputError(f"{path}: {reason(problem)}; nothing was written there") from problem


def reason(problem: OSError) -> str:
    """Why the system refused to write, in the user's words."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the disk is full or a size limit was reached"
    return f"cannot be written ({problem.strerror or problem})"


@contextmanager
def _draft(path: Path, make: Callable[[Path], Path]) -> Iterator[Path]:
    draft = make(path)
    try:
        yield draft
    finally:
        remove(draft)


def remove(path: Path) -> None:
    """Whatever is there, gone; nothing there is fine."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _make_file(path: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix=_prefix(path), suffix=f".partial{path.suffix}", dir=path.parent)
    os.close(handle)
    return _readable(Path(name), 0o666)


def _make_folder(path: Path) -> Path:
    return _readable(Path(tempfile.mkdtemp(prefix=_prefix(path), suffix=".partial", dir=path.parent)), 0o777)


def _prefix(path: Path) -> str:
    """Names the process that writes the draft."""
    return f".{path.name}.{socket.gethostname()}-{os.getpid()}-"


def remove_dead_drafts(path: Path) -> None:
    """Delete drafts of `path` left by processes of this machine that were killed."""
    if os.name != "posix":  # elsewhere, asking whether a process is alive can end it
        return
    ours = re.compile(rf"{re.escape(f'.{path.name}.{socket.gethostname()}-')}(\d+)-[^-]*\.partial.*", re.DOTALL)
    for entry in path.absolute().parent.iterdir():
        found = ours.fullmatch(entry.name)
        if found and not _is_alive(int(found[1])):
            remove(entry)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it belongs to another user
        return True
    return True


def _readable(path: Path, mode: int) -> Path:
    """Drafts are made private; the finished file has the permissions any other new file has."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(mode & ~mask)
    return path


def _flush_to_disk(path: Path) -> None:
    with path.open("rb") as handle:
        os.fsync(handle.fileno())


def _refuse_loss(old: Path, new: Path) -> None:
    lost = sorted({entry.name for entry in old.iterdir()} - {entry.name for entry in new.iterdir()})
    if lost:
        raise OutputError(f"{old}: overwriting would delete {', '.join(lost[:3])}; choose another folder")


def _swap(draft: Path, path: Path) -> None:
    aside = _make_folder(path)
    path.replace(aside)
    draft.replace(path)
    remove(aside)
