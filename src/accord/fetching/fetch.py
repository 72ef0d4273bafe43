"""`accord fetch`: what is missing of a dataset is downloaded or taken from a folder, and unpacked.

Files appear in the dataset's folder whole or not at all, and what is there is never overwritten.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from accord.errors import AccordError
from accord.fetching.catalogue import Archive, Dataset, Member, Part
from accord.fetching.download import Refusal, download, unlike
from accord.fetching.unpack import unpack
from accord.files import (
    atomic_write,
    exclusive,
    reading_errors,
    sha256_of,
    sync_directory,
    writing_errors,
)
from accord.progress import Progress, Silent

# --- fetched.json: what was fetched, with size and SHA-256, so that it is known again later.


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


_DOWNLOADS = "downloads"


@dataclass(frozen=True)
class Fetched:
    """The dataset's folder, and what had to be brought there."""

    directory: Path
    new: tuple[str, ...]
    unconfirmed: tuple[str, ...]
    """Archives whose checksum nobody has published: taken on trust, and recorded."""


def missing(dataset: Dataset, to: Path) -> tuple[str, ...]:
    """The files of a dataset that are not there yet."""
    directory = to / dataset.name
    return tuple(m.target for m in dataset.members if not (directory / m.target).exists())


def fetch(
    dataset: Dataset,
    to: Path,
    *,
    source: Path | None = None,
    progress: Progress | None = None,
) -> Fetched:
    """Bring what is missing to `to`/NAME, from the catalogue's addresses or from `source`."""
    if source is not None and not source.is_dir():
        raise AccordError(
            "this is no directory",
            where=str(source),
            fix="name the one with the files: --files DIR",
        )
    directory = to / dataset.name
    with exclusive(directory, "accord fetch"):
        return _Fetch(dataset, directory, source, progress or Silent()).run()


class _Fetch:
    """One run of `fetch`, with the folder to itself."""

    def __init__(
        self, dataset: Dataset, directory: Path, source: Path | None, progress: Progress
    ) -> None:
        self.dataset = dataset
        self.directory = directory
        self.source = source
        self.progress = progress
        self.record = Record.read(directory)
        self.unconfirmed: list[str] = []

    def run(self) -> Fetched:
        """Check what is there, bring what is not."""
        for leftover in self.directory.glob(".unpacking-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        self._check_present()
        wanted = missing(self.dataset, self.directory.parent)
        if self.source is not None:
            self._take(self.source)
        else:
            for archive in self.dataset.archives:
                self._download(archive)
        return Fetched(self.directory, wanted, tuple(self.unconfirmed))

    def _check_present(self) -> None:
        for member in self.dataset.members:
            path = self.directory / member.target
            if not path.exists():
                continue
            if member.target in self.record.files:
                self.record.check(member.target)
                continue
            self.progress.note(f"{path}: was there already and is taken as it is")
            with reading_errors(path):
                self.record.note(member.target, sha256_of(path), "was there already")
        if self.record.files:
            self.record.write()

    def _lacking(self, members: Sequence[Member]) -> list[Member]:
        return [m for m in members if not (self.directory / m.target).exists()]

    def _download(self, archive: Archive) -> None:
        members = self._lacking(archive.members)
        if not members:
            return
        folder = self.directory / _DOWNLOADS
        with writing_errors(folder):
            folder.mkdir(exist_ok=True)
        paths = [folder / part.name for part in archive.parts]
        origins = [
            self._arrival(archive, part, path)
            for part, path in zip(archive.parts, paths, strict=True)
        ]
        self._install(archive, members, paths, origins)
        with writing_errors(folder):
            for path in paths:
                path.unlink(missing_ok=True)
            if not any(folder.iterdir()):
                folder.rmdir()

    def _arrival(self, archive: Archive, part: Part, path: Path) -> str:
        """Where a part came from, now or in an earlier run that was interrupted after it."""
        if path.exists():
            return part.urls[0]
        try:
            return download(part, path, most=archive.most, progress=self.progress)
        except Refusal as refusal:
            raise self._unavailable(archive, part, refusal) from refusal

    def _unavailable(self, archive: Archive, part: Part, refusal: Refusal) -> AccordError:
        others = [url for other in self._substitutes(archive) for url in other.parts[0].urls]
        hints = [
            "run again to go on where it stopped, if the network was to blame",
            f"if it has moved, see {self.dataset.homepage}",
            *([f"the same texts are in {', '.join(others)}"] if others else []),
            *([self.dataset.elsewhere] if self.dataset.elsewhere else []),
            f"files that you have: accord fetch {self.dataset.argument or self.dataset.name} "
            "--files DIR",
        ]
        return AccordError(f"cannot be fetched: {refusal}", where=part.name, fix="; ".join(hints))

    def _substitutes(self, archive: Archive) -> list[Archive]:
        wanted = {member.target for member in archive.members}
        return [o for o in self.dataset.others if wanted & {m.target for m in o.members}]

    def _confirm(self, part: Part, path: Path, origin: str) -> Seen:
        """Compare an archive with the catalogue, or else with what came under its name before."""
        with reading_errors(path):
            problem = unlike(part, path)
            found = Seen(path.stat().st_size, sha256_of(path), origin)
        if problem:
            raise AccordError(
                f"this is not the published file: {problem}",
                where=str(path),
                fix=f"delete it and fetch it again; see {self.dataset.homepage}",
            )
        if part.checksum is not None:
            return found
        seen = self.record.downloads.get(part.name, found)
        if seen.sha256 != found.sha256:
            raise AccordError(
                f"the file has changed: sha256 {found.sha256}, but {seen.sha256} when it first "
                f"came, from {seen.origin}",
                where=str(path),
                fix="find out why; to accept it, delete this file, and its entry under "
                f"`downloads` in {self.directory / NAME}",
            )
        self.unconfirmed.append(part.name)
        return seen

    def _install(
        self,
        archive: Archive,
        members: Sequence[Member],
        paths: Sequence[Path],
        origins: Sequence[str],
    ) -> None:
        """Unpack aside, and move into place when everything has proved to be whole."""
        seen = {
            part.name: self._confirm(part, path, origin)
            for part, path, origin in zip(archive.parts, paths, origins, strict=True)
        }
        with self._aside() as aside:
            if archive.packed:
                sums = unpack(paths, members, aside, most=archive.most, progress=self.progress)
            else:
                sums = {members[0].target: _copy(paths[0], aside / members[0].target)}
            # Only now: a damaged archive must not be what a good one is compared with.
            self.record.downloads |= seen
            self._publish(aside, sums, origins[0])

    @contextmanager
    def _aside(self) -> Iterator[Path]:
        with writing_errors(self.directory):
            aside = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=self.directory))
        try:
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _publish(self, aside: Path, sums: dict[str, str], origin: str) -> None:
        with writing_errors(self.directory):
            for target, sha256 in sums.items():
                (aside / target).replace(self.directory / target)
                self.record.note(target, sha256, origin)
            sync_directory(self.directory)
        self.record.write()

    def _take(self, source: Path) -> None:
        """Everything from a folder: files that lie there unpacked, else the archives."""
        packed = [m for a in self.dataset.archives if a.packed for m in a.members]
        for member in self._lacking(packed):
            found = _lying_in(source, member)
            if found is not None:
                self.progress.note(f"{member.target}: from {found}")
                with self._aside() as aside:
                    sums = {member.target: _copy(found, aside / member.target)}
                    self._publish(aside, sums, str(found))
        for archive in (*self.dataset.archives, *self.dataset.others):
            members = self._lacking(archive.members)
            paths = [source / part.name for part in archive.parts]
            if members and all(path.is_file() for path in paths):
                self._install(archive, members, paths, [str(path) for path in paths])
        for archive in self.dataset.archives:
            if members := self._lacking(archive.members):
                raise self._not_in(source, archive, members)

    def _not_in(self, source: Path, archive: Archive, members: Sequence[Member]) -> AccordError:
        names = [part.name for part in archive.parts if not (source / part.name).is_file()]
        others = [part.name for other in self._substitutes(archive) for part in other.parts]
        also = f", or {', '.join(others)}" if others else ""
        loose = f", or unpacked: {members[0].names[0]} and so on" if archive.packed else ""
        more = f" and {len(members) - 1} more" if len(members) > 1 else ""
        return AccordError(
            f"nothing here gives {members[0].target}{more}",
            where=str(source),
            fix=f"put {', '.join(names)} there{also}{loose}; see {self.dataset.homepage}",
        )


def _lying_in(source: Path, member: Member) -> Path | None:
    """A wanted file that is not packed: below its name in the archive, or right in the folder."""
    for name in (*member.names, *(Path(name).name for name in member.names), member.target):
        if (source / name).is_file():
            return source / name
    return None


def _copy(source: Path, target: Path) -> str:
    with reading_errors(source):
        file = source.open("rb")
    with file, atomic_write(target, "wb") as out:
        shutil.copyfileobj(file, out, 1 << 20)
    return sha256_of(target)
