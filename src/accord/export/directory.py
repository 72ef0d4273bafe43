"""An exported directory on its way to disk: all of it is there under its name, or nothing."""

import glob
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from accord.errors import AccordError
from accord.files import check_writable, exclusive, sync_directory, writing_errors
from accord.inference.backends.manifest import NAME, is_exported

_TASK = "accord export"


def check_place(directory: Path, force: bool) -> None:
    """Refuse a place that is taken or cannot be written to.

    What is there is only ever replaced if it is an export itself.
    """
    with writing_errors(directory):
        free = not directory.exists()
    if free:
        check_writable(directory)
    elif not is_exported(directory):
        raise AccordError(
            f"something else has this name: there is no {NAME} in it",
            where=str(directory),
            fix="choose another name with --output",
        )
    elif not force:
        raise AccordError(
            "there is an exported model here already",
            where=str(directory),
            fix="replace it with --force, or choose another name with --output",
        )


def clear_leftovers(directory: Path) -> None:
    """Delete what killed exports to `directory` left beside it; one at work holds its own."""
    directory = directory.resolve()
    with writing_errors(directory):
        for work in directory.parent.glob(f".{glob.escape(directory.name)}.{'?' * 8}"):
            if _is_ours(work):
                with suppress(AccordError), exclusive(work, _TASK):
                    _drop(work, directory)


@contextmanager
def published(directory: Path, force: bool) -> Iterator[Path]:
    """A directory beside `directory` that takes its name at the end, if all went well.

    The place is looked at again then: somebody else may have taken it in the meantime.
    """
    directory = directory.resolve()
    with writing_errors(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
        try:
            with exclusive(work, _TASK):
                fresh = work / "fresh"
                fresh.mkdir()
                yield fresh
                sync_directory(fresh)
                check_place(directory, force)
                if directory.exists():
                    directory.rename(work / "old")
                fresh.rename(directory)
                sync_directory(directory.parent)
        finally:
            _drop(work, directory)


def _is_ours(work: Path) -> bool:
    """Whether an export worked here. It says so only once it holds the lock: never too early."""
    try:
        return (work / ".lock").read_bytes().startswith(_TASK.encode())
    except OSError:
        return False


def _drop(work: Path, directory: Path) -> None:
    """Delete it; what it had moved aside and not yet replaced goes back first."""
    old = work / "old"
    if old.exists() and not directory.exists():  # interrupted between the two
        old.rename(directory)
    shutil.rmtree(work, ignore_errors=True)
