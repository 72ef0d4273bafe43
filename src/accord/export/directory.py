"""An exported directory on its way to disk: all of it is there under its name, or nothing."""

from contextlib import AbstractContextManager
from pathlib import Path

from accord.errors import AccordError
from accord.files import atomic_directory, check_writable, writing_errors
from accord.inference.backends.manifest import NAME, is_exported


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


def published(directory: Path, force: bool) -> AbstractContextManager[Path]:
    """A directory beside `directory` that takes its name at the end, if the place is still free."""
    return atomic_directory(directory, lambda: check_place(directory, force))
