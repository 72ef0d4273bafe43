"""Writing that never loses or half-writes data: temporary name, fsync, rename; locks; checksums."""

import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

from accord.errors import AccordError

_REMEDIES = {
    errno.ENOSPC: ("no space left on the disk", "free some space or choose another directory"),
    errno.EDQUOT: ("the disk quota is used up", "free some space or choose another directory"),
    errno.EROFS: ("the file system is read-only", "choose a directory that you may write to"),
    errno.EACCES: ("permission denied", "choose a directory that you may write to"),
    errno.EPERM: ("operation not permitted", "choose a directory that you may write to"),
    errno.ENOENT: (
        "a part of the path is not there and cannot be made",
        "choose another directory",
    ),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
    errno.ENOTDIR: ("a part of the path is a file, not a directory", "choose another directory"),
    errno.EFBIG: ("the file would be larger than allowed here", "raise the limit (ulimit -f)"),
    errno.EMFILE: ("too many files are open", "raise the limit (ulimit -n)"),
    errno.EEXIST: ("something else has this name", "choose another name or move it away"),
    errno.EISDIR: ("this is a directory", "name a file"),
    errno.ENOTEMPTY: ("this directory is not empty", "choose another name or move it away"),
    errno.EBUSY: ("it is in use", "choose another name"),
    errno.ELOOP: ("its symbolic links lead in a circle", "mend the links or choose another name"),
    errno.EIO: ("the disk reports an error", "choose another disk"),
}


@contextmanager
def writing_errors(path: Path) -> Iterator[None]:
    """Turn what an operating system says about a failed write into an error with a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REMEDIES:
            raise
        what, fix = _REMEDIES[error.errno]
        raise AccordError(f"cannot write: {what}", where=str(path), fix=fix) from error


@contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Turn what an operating system says about a failed read into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise AccordError(
            f"cannot be read: {error.strerror or error}",
            where=str(error.filename or path),
            fix="check that it is there and that you may read it and enter its directory",
        ) from error


def names_in(directory: Path) -> list[str]:
    """The names in a directory, for hints in messages; none where it may not be listed."""
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 (the names, not paths)
    except OSError:
        return []


@contextmanager
def atomic_write(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` that takes its place only when all of it is on disk.

    A symbolic link stays one: what it points to is replaced. Devices and pipes are written to.
    """
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    with writing_errors(path):
        if _is_special(path):
            with path.open(mode, **text) as file:  # type: ignore[call-overload]
                yield file
            return
        path = path.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_files(path)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        lock = _locked_copy(handle)
        try:
            with os.fdopen(handle, mode, **text) as file:  # type: ignore[call-overload]
                yield file
                file.flush()
                os.fsync(file.fileno())
            # mkstemp makes private files; a data file should follow the user's umask.
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
            sync_directory(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
            os.close(lock)


def _locked_copy(handle: int) -> int:
    """Another handle on the file, which holds it until it has its name, or its writer is dead."""
    with suppress(OSError):  # file systems without locks: then nothing is ever cleared up there
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return os.dup(handle)


def _clear_files(path: Path) -> None:
    """Delete what killed writers of a file left beside it; one at work holds its own."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'?' * 8}"):
        with suppress(OSError):
            handle = os.open(left, os.O_RDWR | os.O_NOFOLLOW)  # a directory is none of ours
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(handle).st_size or not _just_made(left):
                    left.unlink()
            finally:
                os.close(handle)


def _just_made(left: Path) -> bool:
    """Whether its writer may not have got to lock it yet: that takes no second."""
    return time.time() - left.stat().st_mtime < 2


# --- Whole directories.


_OURS = "accord"


@contextmanager
def atomic_directory(path: Path, check: Callable[[], None] | None = None) -> Iterator[Path]:
    """A directory beside `path` that takes its name at the end, if all went well.

    What has the name is replaced as a whole; `check` may still object to that when all is written,
    as somebody else may have taken the place in the meantime. Whoever writes into the directory
    brings each file to disk. What a killed process leaves behind waits for `clear_leftovers`.
    """
    path = path.resolve()
    with writing_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            with exclusive(work, f"{_OURS} writing {path.name}"):
                fresh = work / "fresh"
                fresh.mkdir()
                yield fresh
                sync_directory(fresh)
                if check:
                    check()
                put_in_place(fresh, path, aside=work / "old")
        finally:
            _drop(work, path)


def put_in_place(fresh: Path, path: Path, *, aside: Path) -> None:
    """Give a finished directory its name; what has the name is moved aside first."""
    if path.exists():
        path.rename(aside)
    fresh.rename(path)
    sync_directory(path.parent)


def clear_leftovers(path: Path) -> None:
    """Delete what killed writers of `path` left beside it; one at work holds its own.

    A directory that one of them had moved aside, and not yet replaced, gets its name back.
    """
    path = path.resolve()
    _clear_directories(path.parent, glob.escape(path.name))


def clear_leftovers_in(directory: Path) -> None:
    """The same for everything that was ever written into a directory of Accord's."""
    if directory.is_dir():
        _clear_directories(directory.resolve(), "*")


def _clear_directories(parent: Path, name: str) -> None:
    with writing_errors(parent):
        for work in parent.glob(f".{name}.{'?' * 8}"):
            if _is_ours(work):
                with suppress(AccordError), exclusive(work, f"{_OURS} clearing up"):
                    _drop(work, parent / work.name[1:-9])


def _is_ours(work: Path) -> bool:
    """Whether a directory was written here. It says so only under its lock: never too early.

    One that holds nothing yet, for longer than it takes to lock it, is of a killed process, too.
    """
    try:
        if said := (work / ".lock").read_bytes():
            return said.startswith(_OURS.encode())
    except FileNotFoundError:
        pass
    except OSError:
        return False
    with suppress(OSError):
        return not set(os.listdir(work)) - {".lock"} and not _just_made(work)  # noqa: PTH208
    return False


def _drop(work: Path, path: Path) -> None:
    """Delete it; what it had moved aside and not yet replaced goes back first."""
    old = work / "old"
    if old.exists() and not path.exists():  # interrupted between the two
        old.rename(path)
    for inner in (old, work / "fresh", work):  # its lock last, by which it is known as ours
        shutil.rmtree(inner, ignore_errors=True)


def _is_special(path: Path) -> bool:
    """Whether a rename must not take the place of what is there: a device, pipe or directory."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def check_writable(path: Path) -> None:
    """Say before long work, rather than after it, that its result cannot be written to `path`."""
    with writing_errors(path):
        special = _is_special(path)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        place = path.resolve() if special else existing_parent(path.resolve().parent)
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def existing_parent(path: Path) -> Path:
    """The directory itself or, where it is still to be made, the nearest one above it."""
    path = path.resolve()
    return next(place for place in (path, *path.parents) if place.exists())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync_directory(directory: Path) -> None:
    """Make renames and new names inside `directory` survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# What NumPy may raise over an .npz file that is not what it wrote.
NPZ_ERRORS = (OSError, EOFError, ValueError, LookupError, RuntimeError, BadZipFile, zlib.error)


def read_checked(path: Path, sha256: str | None, fix: str) -> bytes:
    """The bytes of a file, if they are those whose checksum was noted; None: none was."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise AccordError("the file is missing", where=str(path), fix=fix) from None
    except OSError as error:
        raise AccordError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix=fix
        ) from None
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise AccordError(
            "the file was altered: its checksum is not the one noted", where=str(path), fix=fix
        )
    return data


def sealed(entries: dict[str, Any]) -> dict[str, Any]:
    """Plain data with a checksum over all of its other entries, by which it is known unaltered."""
    bare = {key: value for key, value in entries.items() if key != "seal"}
    text = json.dumps(bare, sort_keys=True)
    return bare | {"seal": hashlib.sha256(text.encode()).hexdigest()}


@contextmanager
def exclusive(directory: Path, task: str) -> Iterator[None]:
    """Hold `directory` for one process; the kernel lets go of it even after kill -9."""
    lock = directory / ".lock"
    with writing_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        file = lock.open("a+", encoding="utf-8")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise AccordError(
                f"another process is working here: {file.read().strip() or 'unknown'}",
                where=str(directory),
                fix="wait until it has ended, or choose another directory",
            ) from error
        file.truncate(0)
        file.write(f"{task}, process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def expand(path: str) -> str:
    """The path with `~` and environment variables filled in; an unset variable is an error."""
    full = os.path.expandvars(path)
    if unset := re.search(r"\$(\w+|\{\w+\})", full):
        raise AccordError(
            f"the environment variable {unset[1].strip('{}')} is not set",
            where=path,
            fix="set it, or write the path out",
        )
    return os.path.expanduser(full)  # noqa: PTH111 (Path would fold the slashes of a member)
