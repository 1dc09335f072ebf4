"""Files and folders are complete or absent: written under a temporary name, then renamed. Locks, and bounded JSON.

Knows no format.
"""

import errno
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stelmo.errors import OutputError, StelmoError

MOST_JSON_BYTES = 64 << 20
MOST_JSON_LEVELS = 64  # our files and other people's options have at most five


@contextmanager
def new_file(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """A temporary file to write. It is renamed to `path` when the block succeeds and deleted when it fails."""
    refuse_existing(path, overwrite)
    with _reported(path):
        handle, name = tempfile.mkstemp(prefix=_prefix(path), suffix=f".partial{path.suffix}", dir=path.parent)
        os.close(handle)
        draft = Path(name)
        try:
            yield draft
            _flush_to_disk(_make_readable(draft, 0o666))
            draft.replace(path)
        finally:
            remove(draft)


@contextmanager
def new_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """The same for a folder. Overwriting never deletes a file that the new folder does not contain."""
    refuse_existing(path, overwrite)
    with _reported(path):
        draft = _make_folder(path)
        try:
            yield draft
            for file in draft.iterdir():
                _flush_to_disk(_make_readable(file, 0o666))
            if path.exists():
                _swap(draft, path)
            else:
                draft.replace(path)
        finally:
            remove(draft)


def refuse_existing(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists; choose another name or allow overwriting (--overwrite)")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent} to write in; create it first")


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise OutputError(f"{path}: {reason(problem)}; nothing was written there") from problem


def reason(problem: OSError) -> str:
    """Why the operating system could not write, as part of a message."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the disk is full or a size limit was reached"
    return f"cannot be written ({problem.strerror or problem})"


def remove(path: Path) -> None:
    """Delete a file or folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _make_folder(path: Path) -> Path:
    return _make_readable(Path(tempfile.mkdtemp(prefix=_prefix(path), suffix=".partial", dir=path.parent)), 0o777)


def _prefix(path: Path) -> str:
    """Names the process that writes the draft."""
    return f".{path.name}.{socket.gethostname()}-{os.getpid()}-"


def remove_dead_drafts(path: Path) -> None:
    """Delete drafts of `path` left by processes of this machine that were killed."""
    if os.name != "posix":  # on Windows, os.kill would end the process
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
        pass
    return True


def _make_readable(path: Path, mode: int) -> Path:
    """tempfile creates private files; the finished file gets the permissions of any other new file."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(mode & ~mask)
    return path


def _flush_to_disk(path: Path) -> None:
    with path.open("r+b") as handle:  # Windows refuses to flush a file that is open for reading only
        os.fsync(handle.fileno())


def _swap(draft: Path, path: Path) -> None:
    """Exchange the folder at `path` for the draft, unless a file would be lost."""
    lost = sorted({entry.name for entry in path.iterdir()} - {entry.name for entry in draft.iterdir()})
    if lost:
        raise OutputError(f"{path}: overwriting would delete {', '.join(lost[:3])}; choose another folder")
    aside = _make_folder(path)
    aside.rmdir()  # Windows does not replace a folder, not even an empty one
    path.replace(aside)
    draft.replace(path)
    remove(aside)


# One process at a time


@contextmanager
def locked(lock: Path, doing: str) -> Iterator[None]:
    """Hold the lock file during the block; a second process is refused at once, with the id of the first.

    The operating system releases the lock when the process ends, however it ends.
    """
    from filelock import FileLock, Timeout

    held = FileLock(lock, timeout=0)
    try:
        held.acquire()
    except Timeout:
        raise OutputError(
            f"{lock.parent}: {_holder(lock)} is {doing} in this folder; wait until it has finished"
        ) from None
    except OSError as problem:
        raise OutputError(f"{lock.parent}: {reason(problem)}; nothing was written there") from problem
    try:
        with suppress(OSError):  # the id is information for people, and Windows may refuse to write it
            lock.write_text(f"process {os.getpid()}")
        yield
    finally:
        held.release()


def _holder(lock: Path) -> str:
    try:
        return lock.read_text().strip() or "another process"
    except OSError:  # Windows refuses to read a locked file
        return "another process"


# JSON files that may come from anywhere


def read_json(path: Path, error: type[StelmoError], way_out: str = "copy it again") -> Any:
    """The values of a JSON file: a regular file of limited size and depth."""
    try:
        if path.exists() and not path.is_file():  # reading a device would never end
            raise ValueError("not a regular file")
        if path.stat().st_size > MOST_JSON_BYTES:
            raise ValueError(f"more than {MOST_JSON_BYTES:,} bytes")
        values = json.loads(path.read_bytes())
        _refuse_depth(values)
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror or problem}); {way_out}") from None
    except RecursionError:
        raise error(f"{path}: not JSON that can be read (nested too deeply); {way_out}") from None
    except ValueError as problem:
        raise error(f"{path}: not JSON that can be read ({problem}); {way_out}") from None
    return values


def _refuse_depth(values: Any) -> None:
    """Level by level, because following deep nesting by recursion is what fails."""
    level = [values] if isinstance(values, dict | list) else []
    for _ in range(MOST_JSON_LEVELS):
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        if not level:
            return
    raise RecursionError
