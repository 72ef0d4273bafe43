"""Paths of corpora: file, volumes or member of an archive, one file or one per language, format.

A path may be `archive.tar.gz::member/name`, and `name.tar.gz.00` stands for all its volumes, as
`train-*.parquet` does for all its pieces. What the path alone shows to be wrong is said by
`locate`, `format_of`, `tsv_columns` and `named_columns`, which look at no file: an experiment is
checked with them when it is read.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from accord.config.schema import Format
from accord.errors import AccordError
from accord.files import expand, names_in, reading_errors

COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst")
_SHORT_TAR = {".tgz": ".gz", ".txz": ".xz", ".tbz": ".bz2", ".tbz2": ".bz2", ".tzst": ".zst"}
_SPLITTABLE = (*COMPRESSIONS, *_SHORT_TAR, ".tar", ".zip")
COLUMN_FORMATS = ("parquet", "arrow")
_PIECES = tuple(f".{kind}" for kind in COLUMN_FORMATS)


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
        if "*" in place.name and place.name.endswith(_PIECES):
            return _pieces(place)
        if not place.file.exists():
            raise _missing(place)
        if not place.file.is_file():
            directory = place.file.is_dir()
            raise AccordError(
                f"this is a {'directory' if directory else 'pipe or device'}, not a file",
                where=str(place.file.absolute()),
                fix=_inside(place.file) if directory else "write what it gives to a file first",
            )
        return [place.file] if place.volume is None else _volumes(place.file, place.volume)


def _inside(directory: Path) -> str:
    for ending in _PIECES:
        found = sorted(path.name for path in directory.glob(f"*{ending}"))
        if found:
            stem = re.sub(r"\d{5}-of-\d{5}", "*", found[0])
            return f"name what lies in it: {directory / stem}"
    return "name a file in it"


def _pieces(place: Place) -> list[Path]:
    """All files that `*` stands for, sorted; where they number themselves, none may be missing."""
    pattern = re.compile(".*".join(map(re.escape, place.name.split("*"))))
    folder = place.file.parent
    names = names_in(folder)
    files = [folder / name for name in names if pattern.fullmatch(name)]
    if not files:
        near = difflib.get_close_matches(place.name, names, 1, 0.0)
        raise AccordError(
            f"no file is named like {place.name}",
            where=str(folder.absolute()),
            fix=f"the nearest name is {near[0]}" if near else "the directory is empty or not there",
        )
    numbered: dict[tuple[str, int, str], set[int]] = {}
    for file in files:
        if number := re.fullmatch(r"(.*?)(\d{5})-of-(\d{5})(.*)", file.name):
            key = (number[1], int(number[3]), number[4])
            numbered.setdefault(key, set()).add(int(number[2]))
    for (stem, count, ending), found in numbered.items():
        missing = sorted(set(range(count)) - found)
        if missing:
            raise AccordError(
                f"{len(found)} of {count} pieces are there; the first that is missing is "
                f"{stem}{missing[0]:05d}-of-{count:05d}{ending}",
                where=str(folder.absolute()),
                fix="fetch or copy the missing ones: a part of a corpus is none",
            )
    if len(numbered) > 1:
        stems = ", ".join(f"{stem}*{ending}" for stem, _, ending in sorted(numbered))
        raise AccordError(
            f"{place.name} stands for several sets: {stems}",
            where=str(folder.absolute()),
            fix="name one of them, or list several under `train`",
        )
    return files


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


# --- The format of a corpus, and what must be so in its path for it.


_SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tmx": "tmx",
    ".sgm": "sgm",
    ".sgml": "sgm",
    ".xml": "sgm",
    ".parquet": "parquet",
    ".arrow": "arrow",
}
# Formats whose one file holds both languages; of these, some only make sense as a pair.
ONE_FILE = ("tsv", "jsonl", "tmx", *COLUMN_FORMATS)
_ONLY_PAIRS = ("tsv", "tmx")
_FILE_PER_LANGUAGE = ("text", "iwslt")


def fill(path: str, language: str) -> str:
    """The path of one language's file. Of a zip as OPUS has them, that is what ends in it."""
    return _written_out(path).replace("{lang}", language)


def _written_out(path: str) -> str:
    """`corpus.zip` alone means the two texts in it, `corpus.zip::*.{lang}`."""
    return f"{path}::*.{{lang}}" if path.lower().endswith(".zip") and "::" not in path else path


def format_of(path: str, given: Format) -> Format:
    """The format of a corpus by its name or as given; a path that cannot be of it is refused."""
    if path.startswith("hf:"):
        raise AccordError(
            "datasets of the Hugging Face hub are read from the disk only",
            where=path,
            fix=f"fetch it: accord fetch {path}; then name its files, as data/NAME/train-*.parquet",
        )
    path = _written_out(path) if given in ("auto", "text") else path
    braces = expand(path).replace("{lang}", "")
    if "{" in braces or "}" in braces:
        raise AccordError(
            "the path has braces other than {lang}",
            where=path,
            fix="{lang} is the only placeholder; write everything else out",
        )
    kind = format_by_name(path) if given == "auto" else given
    if kind in ONE_FILE and _written_out(path) != path:
        locate(path)  # which says that an archive is no text
    if kind in COLUMN_FORMATS and (
        "::" in path or path.lower().endswith((*COMPRESSIONS, *_SHORT_TAR))
    ):
        raise AccordError(
            f"a {kind} file must lie on the disk as it is: its parts are read where they stand",
            where=path,
            fix="unpack it; its contents are compressed inside",
        )
    if "{lang}" in path and kind in ONE_FILE:
        raise AccordError(
            f"a {kind} file holds both languages, but the path asks for one file each",
            where=path,
            fix="name the one file without {lang}, or set another format",
        )
    if "{lang}" not in path and kind in _FILE_PER_LANGUAGE:
        known = f"a format can be one of {', '.join(get_args(Format)[1:])}; "
        raise AccordError(
            f"the path has no {{lang}}, but a corpus of the format {kind} is one file per language",
            where=path,
            fix=(known if given == "auto" else "")
            + "for one file per language write {lang} in place of the language, as in corpus.{lang}"
            + (", for one file with both set its format" if given == "auto" else ""),
        )
    return kind


def format_by_name(path: str) -> Format:
    """What the name of a file, compression aside, tells about its format."""
    name = bare_name(path)
    if name.startswith("train.tags."):
        return "iwslt"
    return _SUFFIXES.get(Path(name).suffix.lower(), "text")


def format_of_side(path: str, given: Format) -> Format:
    """The same for a set that is parallel in many languages, which are read one by one."""
    kind = format_of(path, given)
    if kind in _ONLY_PAIRS:
        raise AccordError(
            f"a {kind} file can only be read as a pair of languages",
            where=path,
            fix="list it under its pair, or make one file per language and write {lang}",
        )
    return kind


def tsv_columns(
    path: str, languages: tuple[str, str], kind: Format, columns: Mapping[str, int | str] | None
) -> tuple[int, int]:
    """The columns of the two languages, counted from 0; only tsv files may number them."""
    if columns is None or kind in COLUMN_FORMATS:
        return 0, 1
    if kind != "tsv":
        raise AccordError(
            f"columns were given, but the format is {kind}",
            where=path,
            fix="leave columns out, or set format: tsv",
        )
    numbers = {name: column for name, column in columns.items() if isinstance(column, int)}
    for language in languages:
        if numbers.get(language, -1) < 0:
            raise AccordError(
                f"columns does not say which column is {language}: {dict(columns)}",
                where=path,
                fix=f"give a number for each language, counted from 0, such as {language}: 1",
            )
    return numbers[languages[0]], numbers[languages[1]]


def named_columns(
    path: str, languages: Sequence[str], kind: Format, columns: Mapping[str, int | str] | None
) -> list[str] | None:
    """The names of the languages' columns in a parquet or arrow file, where they are given."""
    if columns is None or kind not in COLUMN_FORMATS:
        return None
    for language in languages:
        if not isinstance(columns.get(language), str):
            raise AccordError(
                f"columns does not name the column of {language}: {dict(columns)}",
                where=path,
                fix=f"give a name for each language, such as {language}: translation.{language}",
            )
    return [str(columns[language]) for language in languages]
