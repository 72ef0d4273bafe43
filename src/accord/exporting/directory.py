"""An exported directory on its way to disk: all of it is there under its name, or nothing."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accord.errors import AccordError
from accord.exported.manifest import NAME, is_exported
from accord.files import check_writable, sync_directory, writing_errors


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


@contextmanager
def published(directory: Path, force: bool) -> Iterator[Path]:
    """A directory beside `directory` that takes its name at the end, if all went well.

    The place is looked at again then: somebody else may have taken it in the meantime.
    """
    directory = directory.resolve()
    with writing_errors(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
        fresh, old = work / "fresh", work / "old"
        try:
            fresh.mkdir()
            yield fresh
            sync_directory(fresh)
            check_place(directory, force)
            if directory.exists():
                directory.rename(old)
            fresh.rename(directory)
            sync_directory(directory.parent)
        finally:
            if old.exists() and not directory.exists():  # interrupted between the two
                old.rename(directory)
            shutil.rmtree(work, ignore_errors=True)
