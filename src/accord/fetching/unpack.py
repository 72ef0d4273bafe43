"""Taking single files out of a .tar.gz that may be damaged or made with ill intent.

Nothing is extracted by the names in the archive: only wanted members are read, and they are
written under names that the catalogue gives. Links are never made; one that stands in for a wanted
file is followed inside the archive. An archive that tries more than that is refused as a whole.
"""

import gzip
import hashlib
import io
import os
import posixpath
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Self

from accord.errors import AccordError
from accord.fetching.catalogue import Member
from accord.files import writing_errors
from accord.progress import Progress

_CHUNK = 1 << 20
_MB = 10**6
_MOST_MEMBERS = 10_000
# Text shrinks to a quarter or so, rarely to a tenth; gzip can do a thousandth.
_MOST_RATIO = 100
_ALWAYS_FINE = 1 << 20
_LONGEST_CHAIN = 8
# Headers that are about the next member, such as its name: they are read into memory as a whole.
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_LONGEST_HEADER = 1 << 16


def unpack(
    volumes: Sequence[Path],
    members: Sequence[Member],
    into: Path,
    *,
    most: int,
    progress: Progress,
) -> dict[str, str]:
    """Write the members below `into` under their target names; returns the SHA-256 of each."""
    packed = sum(volume.stat().st_size for volume in volumes)
    reading = _Reading(volumes, into, min(most, max(_MOST_RATIO * packed, _ALWAYS_FINE)), progress)
    reading.run({name: member.target for member in members for name in member.names})
    missing = [member for member in members if member.target not in reading.sums]
    if missing:
        reading.run({reading.behind(member): member.target for member in missing})
    return reading.sums


class _Volumes(io.RawIOBase):
    """Files one after the other, as one."""

    def __init__(self, paths: Sequence[Path], progress: Progress) -> None:
        self._rest = list(paths)
        self._file: IO[bytes] | None = None
        self._progress = progress
        self._done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        while True:
            if self._file is None:
                if not self._rest:
                    return 0
                self._file = self._rest.pop(0).open("rb")
            data = self._file.read(len(buffer))
            if data:
                buffer[: len(data)] = data
                self._done += len(data)
                self._progress.reach(self._done // _MB)
                return len(data)
            self._file.close()
            self._file = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


class _Counted:
    """What comes out of the decompressor, up to a limit."""

    def __init__(self, source: gzip.GzipFile, most: int, where: str) -> None:
        self._source = source
        self._left = most
        self._where = where

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _suspicious("far more comes out of it than can be right", self._where)
        return data


class _Info(tarfile.TarInfo):
    """A member whose header is no larger than honest ones are."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        if info.type in _HEADERS and info.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {info.size:,} bytes")
        return info


@dataclass
class _Reading:
    """Passes over one archive, and what they found."""

    volumes: Sequence[Path]
    into: Path
    most: int
    progress: Progress
    sums: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    @property
    def where(self) -> str:
        """The archive, for messages."""
        return str(self.volumes[0])

    def run(self, wanted: Mapping[str, str]) -> None:
        """One pass from beginning to end, which also proves that the archive is whole."""
        packed = sum(volume.stat().st_size for volume in self.volumes)
        self.progress.start(f"unpacking {self.volumes[0].name} (MB)", -(-packed // _MB))
        raw = io.BufferedReader(_Volumes(self.volumes, self.progress), _CHUNK)
        try:
            with raw, gzip.GzipFile(fileobj=raw) as unzipped:
                counted = _Counted(unzipped, self.most, self.where)
                with tarfile.open(  # type: ignore[call-overload]
                    fileobj=counted, mode="r|", bufsize=_CHUNK, tarinfo=_Info
                ) as archive:
                    self._members(archive, wanted)
                while counted.read(_CHUNK):  # only at the very end gzip compares its checksum
                    pass
        except _DAMAGE as error:
            raise AccordError(
                f"the archive is damaged or cut short: {error}",
                where=self.where,
                fix="delete it and fetch it again",
            ) from error

    def _members(self, archive: tarfile.TarFile, wanted: Mapping[str, str]) -> None:
        count = 0
        while (info := archive.next()) is not None:
            # Else the headers of all members passed by would pile up.
            archive.members.clear()  # type: ignore[attr-defined]
            count += 1
            if count > _MOST_MEMBERS:
                raise _suspicious(f"it has more than {_MOST_MEMBERS:,} members", self.where)
            name = self._checked(info)
            if info.issym():
                self.links[name] = posixpath.join(posixpath.dirname(name), info.linkname)
            elif info.islnk():
                self.links[name] = info.linkname
            elif info.isfile():
                self.names.add(name)
                target = wanted.get(name)
                if target is not None and target not in self.sums:
                    self._write(archive, info, target)

    def _checked(self, info: tarfile.TarInfo) -> str:
        """The member's plain name; an error if no honest archive would have such a member."""
        path = PurePosixPath(info.name)
        if path.is_absolute() or ".." in path.parts or "\\" in info.name:
            raise _suspicious(f"its member {info.name!r} leads out of it", self.where)
        if not (info.isfile() or info.isdir() or info.issym() or info.islnk()):
            raise _suspicious(f"its member {info.name!r} is a device or pipe", self.where)
        if not 0 <= info.size <= self.most:
            raise _suspicious(f"its member {info.name!r} claims {info.size:,} bytes", self.where)
        return str(path)

    def _write(self, archive: tarfile.TarFile, info: tarfile.TarInfo, target: str) -> None:
        source = archive.extractfile(info)
        if source is None:  # not for a plain file
            raise tarfile.ReadError(f"no contents: {info.name}")
        path, digest = self.into / target, hashlib.sha256()
        with writing_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("wb")
        try:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                with writing_errors(path):
                    file.write(chunk)
        finally:
            with writing_errors(path), file:
                file.flush()
                os.fsync(file.fileno())
        self.sums[target] = digest.hexdigest()

    def behind(self, member: Member) -> str:
        """The plain file that a link with one of the member's names leads to."""
        for name in member.names:
            seen = name
            for _ in range(_LONGEST_CHAIN):
                if seen not in self.links:
                    break
                seen = posixpath.normpath(self.links[seen])
            if seen != name and seen in self.names:
                return seen
        linked = [name for name in member.names if name in self.links]
        what = (
            f"{linked[0]} in the archive is a link to {self.links[linked[0]]}, which is not in it"
            if linked
            else f"the archive has no {member.names[0]}"
        )
        raise AccordError(
            what,
            where=self.where,
            fix="it may have been reorganised: unpack it yourself and use --files with the folder",
        )


# The last two are what tarfile makes of headers that contradict themselves, or never end.
_DAMAGE = (EOFError, OSError, zlib.error, tarfile.TarError, ValueError, RecursionError)


def _suspicious(what: str, where: str) -> AccordError:
    return AccordError(
        f"the archive is refused: {what}",
        where=where,
        fix="this is not the archive that was published: delete it and look where it came from",
    )
