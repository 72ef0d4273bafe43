"""An exported directory on its way to disk: all of it is there under its name, or nothing."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accord.errors import AccordError
from accord.exported.manifest import NAME, is_exported
from accord.files import check_writable, sync_directory, writing_errors


def check_place(directory: Path, force: bool) -> None:
    """Refuse, before any work, a place that is taken or cannot be written to.

    What is there is only ever replaced if it is an export itself.
    """
    if not directory.exists():
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
def published(directory: Path) -> Iterator[Path]:
    """A directory beside `directory` that takes its name at the end, if all went well."""
    directory = directory.resolve()
    fresh, old = (directory.with_name(f".{directory.name}.{os.getpid()}{x}") for x in ("", ".old"))
    with writing_errors(directory):
        try:
            fresh.mkdir(parents=True)
            yield fresh
            sync_directory(fresh)
            if directory.exists():
                directory.replace(old)
            fresh.replace(directory)
            sync_directory(directory.parent)
        finally:
            for left in (fresh, old):
                shutil.rmtree(left, ignore_errors=True)
