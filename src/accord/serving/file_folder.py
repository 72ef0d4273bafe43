"""Translated files that wait to be fetched: under names that cannot be guessed, for a while."""

import re
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from accord.files import atomic_write, clear_leftovers, exclusive
from accord.serving.settings import FILE_KEPT, MAX_KEPT

_NAME = re.compile(r"[0-9a-f]{32}\.[\w-][\w.-]{0,120}")
_ODD = re.compile(r"[^\w-]+")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for as long as a server runs; what killed servers left is cleared up first."""
    place = Path(tempfile.gettempdir()) / "accord-files"
    clear_leftovers(place)
    with (
        tempfile.TemporaryDirectory(prefix=f".{place.name}.") as made,
        exclusive(Path(made), "accord keeping translated files"),
    ):
        yield Path(made)


class FileFolder:
    """A folder that several workers may share."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, name: str, target: str, content: bytes) -> str:
        """Keep a file that was sent under a name; returns the name to fetch it by."""
        sent = PurePath(name.replace("\\", "/")).name
        stem = _ODD.sub("_", PurePath(sent).stem)[:80].strip("_.") or "file"
        kept = f"{secrets.token_hex(16)}.{stem}_{target}{PurePath(sent).suffix.lower()}"
        with atomic_write(self._path / kept, "wb") as file:
            file.write(content)
        self.sweep()
        return kept

    def get(self, name: str) -> tuple[str, bytes] | None:
        """What it is to be called and the content; None where there is no such file (any more)."""
        if not _NAME.fullmatch(name):  # so it has no way out of the folder in it, either
            return None
        try:
            return name.partition(".")[2], (self._path / name).read_bytes()
        except OSError:
            return None

    def sweep(self) -> None:
        """Delete files that have waited too long, and the oldest where there are too many."""
        found = []
        for path in self._path.glob("[!.]*"):
            with suppress(OSError):  # another worker was faster
                state = path.stat()
                found.append((state.st_mtime, state.st_size, path))
        total = 0
        for made, size, path in sorted(found, reverse=True):
            total += size
            if total > MAX_KEPT or time.time() - made > FILE_KEPT:
                path.unlink(missing_ok=True)
