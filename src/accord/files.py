"""Writing that never loses or half-writes data: temporary name, fsync, rename; locks; checksums."""

import errno
import fcntl
import hashlib
import os
import re
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

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
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
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
        target = path.resolve()
        place = target if special else next(p for p in target.parents if p.exists())
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


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
