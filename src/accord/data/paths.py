"""Where an input lies: a file, a file split in volumes, or a member of an archive.

A path may be `archive.tar.gz::member/name`, and `name.tar.gz.00` stands for all its volumes.
"""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from accord.errors import AccordError
from accord.files import expand, names_in, reading_errors

COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst")
_SHORT_TAR = {".tgz": ".gz", ".txz": ".xz", ".tbz": ".bz2", ".tbz2": ".bz2", ".tzst": ".zst"}
_SPLITTABLE = (*COMPRESSIONS, *_SHORT_TAR, ".tar", ".zip")


@dataclass(frozen=True)
class Place:
    """A path taken apart: the file (or its first volume) and the member wanted of it."""

    path: str  # as the user wrote it, for messages
    file: Path
    name: str  # the file's name without the number of its volume
    volume: str | None
    member: str | None

    @property
    def is_zip(self) -> bool:
        """Zip archives must be seekable, all others are read as a stream."""
        return self.name.lower().endswith(".zip")

    @property
    def is_archive(self) -> bool:
        """Whether the file holds members."""
        return self.is_zip or without_compression(self.name.lower()).endswith((".tar", *_SHORT_TAR))


def compression(name: str) -> str | None:
    """The ending of COMPRESSIONS that a name stands for."""
    suffix = Path(name).suffix.lower()
    suffix = _SHORT_TAR.get(suffix, suffix)
    return suffix if suffix in COMPRESSIONS else None


def without_compression(name: str) -> str:
    """`corpus.tsv.gz` is by its contents a `corpus.tsv`."""
    return str(Path(name).with_suffix("")) if name.lower().endswith(COMPRESSIONS) else name


def bare_name(path: str) -> str:
    """The name that tells the format: of the member if there is one, without compression."""
    place = locate(path)
    return without_compression(place.name if place.member is None else Path(place.member).name)


def locate(path: str) -> Place:
    """Takes a path apart and checks that its parts go together; looks at no file yet."""
    archive, mark, member = expand(path).partition("::")
    file = Path(archive)
    split = re.fullmatch(r"(.+)\.(\d{2,})", file.name)
    name, volume = file.name, None
    if split and split[1].lower().endswith(_SPLITTABLE):
        name, volume = split[1], split[2]
    place = Place(path, file, name, volume, member.removeprefix("./") if mark else None)
    _check_member(place)
    _check_volume(place)
    return place


def input_files(path: str) -> list[Path]:
    """The physical files behind a path: one file, or all volumes of a split one."""
    place = locate(path)
    with reading_errors(place.file):
        if not place.file.exists():
            raise _missing(place)
        if not place.file.is_file():
            directory = place.file.is_dir()
            raise AccordError(
                f"this is a {'directory' if directory else 'pipe or device'}, not a file",
                where=str(place.file.absolute()),
                fix="name a file in it" if directory else "write what it gives to a file first",
            )
        return [place.file] if place.volume is None else _volumes(place.file, place.volume)


def _check_member(place: Place) -> None:
    if place.member is None:
        if place.is_archive:
            raise AccordError(
                "an archive holds texts but is none itself",
                where=place.path,
                fix=f"write {place.path}::name/of/the/member",
            )
    elif not place.is_archive:
        raise AccordError(
            f"'::' asks for a member, but {place.file.name} is not an archive",
            where=place.path,
            fix="archives end in .zip, .tar, .tgz or .tar with .gz, .xz, .bz2 or .zst",
        )
    elif not place.member or "::" in place.member:
        raise AccordError(
            f"{place.member!r} is not the name of a member",
            where=place.path,
            fix="write archive::member; unpack an archive that lies inside another one",
        )


def _check_volume(place: Place) -> None:
    if place.volume is None:
        return
    if place.is_zip:
        raise AccordError(
            "a split zip archive cannot be read",
            where=place.path,
            fix=f"join its volumes first: cat {place.name}.* > {place.name}",
        )
    if int(place.volume) != 0:
        raise AccordError(
            f"{place.file.name} is a later volume of a split file",
            where=place.path,
            fix=f"name the first volume, {place.name}.{'0' * len(place.volume)}",
        )


def _volumes(first: Path, number: str) -> list[Path]:
    stem = first.name.removesuffix(number)
    later = re.compile(re.escape(stem) + rf"(\d{{{len(number)},}})")
    found = (later.fullmatch(file.name) for file in first.parent.iterdir())
    numbers = sorted(int(match[1]) for match in found if match)
    files = [first.with_name(f"{stem}{index:0{len(number)}d}") for index in range(len(numbers))]
    for expected, file in zip(numbers, files, strict=True):
        if file.name != f"{stem}{expected:0{len(number)}d}":
            raise AccordError(
                f"the volume {file.name} is missing, although later ones are there",
                where=str(first.absolute()),
                fix="fetch the missing volume: all are needed, without a gap",
            )
    return files


def _missing(place: Place) -> AccordError:
    file = place.file.absolute()
    folder, wanted = file.parent, file.name
    while not folder.is_dir():
        folder, wanted = folder.parent, folder.name
    names = names_in(folder)
    # The same name with or without .gz is a better guess than that of the other language.
    akin = [name for name in names if f"{name}.".startswith(f"{wanted}.")] or [
        name for name in names if wanted.startswith(f"{name}.")
    ]
    nearest = difflib.get_close_matches(wanted, akin or names, 1, 0.0)
    kind = f"an archive that holds {place.member}" if place.member else "a file of this name"
    gone = "" if folder == file.parent else f"{folder} has no {wanted}; "
    hint = (
        f"the nearest name in {folder} is {nearest[0]}"
        if nearest
        else f"{folder} is empty or may not be listed"
    )
    return AccordError(
        "the file does not exist", where=str(file), fix=f"expected {kind}; {gone}{hint}"
    )
