"""fetched.json: what was fetched, with size and SHA-256, so that it is known again later."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from accord.errors import AccordError
from accord.files import atomic_write, reading_errors, sha256_of

NAME = "fetched.json"


@dataclass(frozen=True)
class Seen:
    """A file as it was when it was seen first."""

    bytes: int
    sha256: str
    origin: str
    """The address or directory it came from, or how else it came here."""
    modified: int = 0
    """Time of the file in nanoseconds: as long as it stays, nothing need be read again."""


@dataclass
class Record:
    """What is known about the files of one dataset's folder."""

    directory: Path
    downloads: dict[str, Seen] = field(default_factory=dict)
    """Archives as they came, by name: what they are compared with if they come again."""
    files: dict[str, Seen] = field(default_factory=dict)
    """What was unpacked, by its name in the folder."""

    @staticmethod
    def read(directory: Path) -> "Record":
        """The record in `directory`; an empty one where there is none."""
        path = directory / NAME
        if not path.exists():
            return Record(directory)
        try:
            with reading_errors(path):
                data = json.loads(path.read_text(encoding="utf-8"))
            kinds = [
                {name: Seen(**seen) for name, seen in data[kind].items()}
                for kind in ("downloads", "files")
            ]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise AccordError(
                f"not a record that `accord fetch` wrote: {error!r}",
                where=str(path),
                fix="delete it: what is in the folder is then taken as it is",
            ) from None
        return Record(directory, *kinds)

    def write(self) -> None:
        """Replace the record on disk by this one."""
        data = {
            kind: {name: asdict(seen) for name, seen in sorted(entries.items())}
            for kind, entries in (("downloads", self.downloads), ("files", self.files))
        }
        with atomic_write(self.directory / NAME) as file:
            json.dump(data, file, indent=1)
            file.write("\n")

    def note(self, name: str, sha256: str, origin: str) -> None:
        """Take down a file of the folder that has just come."""
        status = (self.directory / name).stat()
        self.files[name] = Seen(status.st_size, sha256, origin, status.st_mtime_ns)

    def check(self, name: str) -> None:
        """An error if a file of the folder is no longer what it was."""
        path, seen = self.directory / name, self.files[name]
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) == (seen.bytes, seen.modified):
            return
        with reading_errors(path):
            sha256 = sha256_of(path)
        if sha256 != seen.sha256:
            raise AccordError(
                "the file was altered since it was fetched",
                where=str(path),
                fix="delete it to fetch it again, or move it away if the changes are yours",
            )
        self.note(name, sha256, seen.origin)
