"""Parallel text in a directory: which files belong together, in which languages and formats.

Names say most of it (file_names.py); of files that hold several languages the beginning is read,
and language identification tells what no name says. What cannot be found out is an error or a note
that says what to do.
"""

import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from accord.config.paths import ONE_FILE, bare_name, format_by_name, format_of, locate
from accord.config.schema import Format
from accord.data.file_names import Role, grouped_by_language, is_code, pair_in, role_of
from accord.data.formats import read_side
from accord.data.language_id import LanguageGuesser, identifiable
from accord.data.markup import tmx_languages
from accord.data.parquet import STRUCT, first_texts
from accord.data.streams import open_bytes, read_lines
from accord.errors import AccordError
from accord.files import reading_errors

_SAMPLE = 200  # lines from which a language is guessed
_MOST_FILES = 10_000
# Endings of files that are no text of one sentence per line.
_NO_TEXT = frozenset(
    f".{ending}"
    for ending in (
        *("bin", "cfg", "css", "doc", "docx", "gif", "htm", "html", "ids", "ini", "ipynb", "jpg"),
        *("js", "json", "lock", "log", "md", "model", "npy", "npz", "odt", "offsets", "pdf", "png"),
        *("pptx", "pt", "py", "rst", "safetensors", "sh", "svg", "toml", "vocab", "xls", "xlsx"),
        *("yaml", "yml"),
    )
)
_PAPERS = re.compile(r"(readme|licen[cs]e|copying|changelog|authors|info)\b.*", re.IGNORECASE)
_PIECE = re.compile(r"\d{5}-of-\d{5}(?=\.(?:parquet|arrow)$)")


@dataclass(frozen=True)
class FoundText:
    """Text in two languages or more, as an experiment file names it."""

    path: str
    languages: tuple[str, ...]
    format: Format
    columns: tuple[tuple[str, int | str], ...] = ()

    @property
    def role(self) -> Role:
        """What it is for, by its name."""
        return role_of(self.path)


@dataclass(frozen=True)
class Discovery:
    """What was found, and what its user should know about it."""

    texts: tuple[FoundText, ...]
    notes: tuple[str, ...]


def discover(paths: Sequence[Path]) -> Discovery:
    """All parallel text in these files and directories."""
    notes: list[str] = []
    names = list(_files(paths, notes))
    found: list[FoundText] = []
    loose: list[str] = []
    for name in names:
        kind = format_by_name(name)
        if kind not in ONE_FILE:
            loose.append(name)
            continue
        try:
            format_of(name, "auto")
        except AccordError as error:
            notes.append(f"{name}: left out: {error.what}; {error.fix}")
        else:
            found += _one_file(name, kind, notes)
    groups, alone = grouped_by_language(loose)
    for group in groups:
        pair = group.pair
        if pair is not None and len(group.files) > 2:
            notes.append(f"{group.pattern}: taken as {'-'.join(pair)}, of which its name speaks")
        languages = pair or tuple(sorted(group.files))
        found.append(FoundText(group.pattern, languages, format_by_name(group.pattern)))
    found = _once(found, notes)
    alone = [path for path in alone if _is_text(path)]
    if not found:
        raise _nothing(paths, alone, notes)
    notes += _left_out(alone)
    notes += _mislabelled(found)
    return Discovery(tuple(sorted(found, key=lambda text: text.path)), tuple(notes))


# --- Which files there are.


def _files(paths: Sequence[Path], notes: list[str]) -> Iterator[str]:
    """The files, archives' members among them, as an experiment file names them."""
    seen: set[str] = set()
    for path in paths:
        with reading_errors(path):
            exists, directory = path.exists(), path.is_dir()
        if not exists:
            raise AccordError(
                "there is no such file or directory",
                where=str(path),
                fix=f"fetch it first: accord fetch {path}"
                if str(path).startswith("hf:")
                else "check the path",
            )
        for file in _walk(path) if directory else [path.as_posix()]:
            for name in _members(file, notes):
                name = _PIECE.sub("*", name)
                if name not in seen:
                    seen.add(name)
                    yield name


def _walk(directory: Path) -> Iterator[str]:
    count = 0
    for folder, folders, files in os.walk(directory):
        # Stores and runs of Accord hold text as well, but not the user's.
        if "stamps.json" in files or {"experiment.yaml", "environment.json"} <= set(files):
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        for name in sorted(files):
            if not name.startswith(".") and Path(_bare(name)).suffix.lower() not in _NO_TEXT:
                count += 1
                if count > _MOST_FILES:
                    raise AccordError(
                        f"more than {_MOST_FILES:,} files", where=str(directory), fix="name some"
                    )
                if not _PAPERS.fullmatch(name):
                    yield Path(os.path.normpath(Path(folder) / name)).as_posix()


def _bare(name: str) -> str:
    """The name without compression; archives keep theirs."""
    try:
        return bare_name(name)
    except AccordError:
        return name


def _members(file: str, notes: list[str]) -> Iterator[str]:
    try:
        locate(file)
    except AccordError:
        if not file.lower().endswith(".zip"):
            notes.append(f"{file}: left out; unpack it, or name its members by hand (::)")
            return
        try:
            with zipfile.ZipFile(file) as archive:
                inside = [info.filename for info in archive.infolist() if not info.is_dir()]
        except (OSError, zipfile.BadZipFile) as error:
            raise AccordError(
                f"this is no zip archive that can be read: {error}",
                where=file,
                fix="fetch or copy it again, or move it away",
            ) from None
        kept = [name for name in inside if Path(_bare(name)).suffix.lower() not in _NO_TEXT]
        yield from (f"{file}::{name}" for name in kept if not _PAPERS.fullmatch(Path(name).name))
        return
    if file.lower().endswith(".csv"):
        notes.append(f"{file}: left out; .csv is not read, save it with tabs as .tsv")
        return
    yield file


def _is_text(path: str) -> bool:
    """Whether it can be a text of one sentence a line: no zero bytes at its start."""
    try:
        with open_bytes(path) as stream:
            start = stream.peek(1024)[:1024]
    except AccordError:
        return False
    return bool(start) and b"\0" not in start


# --- One file with several languages: its beginning says which.


def _one_file(path: str, kind: Format, notes: list[str]) -> list[FoundText]:
    if kind == "tsv":
        text = _tsv(path, notes)
    elif kind == "jsonl":
        text = FoundText(path, _jsonl_languages(path), kind)
    elif kind == "tmx":
        tags = {re.split("[-_]", tag.lower())[0] for tag in tmx_languages(path)}
        text = FoundText(path, tuple(sorted(filter(is_code, tags))), kind)
    else:
        text = _table(path, kind)
    if len(text.languages) < 2:
        notes.append(
            f"{path}: left out, since fewer than two languages could be found in it; list it under "
            "`corpora` by hand"
        )
        return []
    return [text]


def _tsv(path: str, notes: list[str]) -> FoundText:
    rows = [line.split("\t") for line in islice(read_lines(path), _SAMPLE) if line]
    if rows and sum(is_code(cell.strip().lower()) for cell in rows[0]) > 1:
        notes.append(
            f"{path}: its first line looks like a heading; take it out, it is read as text"
        )
    width = min((len(row) for row in rows), default=0)
    columns = {place: [row[place] for row in rows] for place in range(width)}
    guessed = _guessed(path, columns)
    return FoundText(path, tuple(guessed), "tsv", tuple(guessed.items()))


def _guessed(path: str, columns: Mapping[Any, Sequence[str]]) -> dict[str, int | str]:
    """The columns that are sentences, by the language that they are in; none if it is not clear."""
    said = pair_in(path)
    prose = {place: texts for place, texts in columns.items() if _is_prose(texts)}
    if said and len(columns) == 2:  # whatever they hold
        prose = dict(columns)
    if len(prose) != 2:
        return {}
    guesses = {place: guess_language(texts, said) for place, texts in prose.items()}
    if len(set(guesses.values())) == 2:
        return {guess: place for place, guess in guesses.items()}
    # Sentences too short or languages too close to be told apart: the name's order is what is left.
    return dict(zip(said, prose, strict=True)) if said else {}


def _is_prose(texts: Sequence[str]) -> bool:
    letters = sum(character.isalpha() for text in texts for character in text)
    size = sum(len(text) for text in texts)
    return letters > size / 2 and len(set(texts)) > len(texts) / 4 and not _are_links(texts)


def _are_links(texts: Sequence[str]) -> bool:
    return sum("://" in text for text in texts) > len(texts) / 2


def guess_language(texts: Iterable[str], among: Sequence[str] | None = None) -> str:
    """The likeliest language of some lines, of all that can be told apart or of those given."""
    known = [code for code in among or () if code.split("_")[0] in identifiable()]
    # One that cannot be identified leaves nothing to choose from.
    choice = known if among and len(known) == len(among) else sorted(identifiable())
    guesser = LanguageGuesser(choice)
    found = guesser.guess("\n".join(texts)[:20_000])
    return next((code for code in choice if code.split("_")[0] == found), found)


def _jsonl_languages(path: str) -> tuple[str, ...]:
    line = next((line for line in read_lines(path) if line), None)
    try:
        record = json.loads(line or "{}")
    except ValueError as error:
        raise AccordError(
            f"the first line is not valid JSON: {error}", where=path, fix="mend the file"
        ) from None
    inner = record.get("translation", record) if isinstance(record, dict) else {}
    texts = inner.items() if isinstance(inner, dict) else ()
    return tuple(key for key, value in texts if is_code(key) and isinstance(value, str))


def _table(path: str, kind: Format) -> FoundText:
    columns = first_texts(path, kind)
    for prefix in (f"{STRUCT}.", ""):
        names = [name.removeprefix(prefix) for name in columns if name.startswith(prefix)]
        languages = tuple(filter(is_code, names))
        if len(languages) > 1:
            return FoundText(path, languages, kind)
    guessed = _guessed(path, columns)
    return FoundText(path, tuple(guessed), kind, tuple(guessed.items()))


# --- What its user should know.


def _once(found: Sequence[FoundText], notes: list[str]) -> list[FoundText]:
    """Of a text that lies there plain and compressed, one."""
    kept: dict[str, FoundText] = {}
    for text in sorted(found, key=lambda text: len(text.path)):
        bare = re.sub(r"\.(gz|xz|bz2|zst)$", "", text.path)
        if bare in kept:
            notes.append(f"{text.path}: left out, since {kept[bare].path} is there as well")
        kept.setdefault(bare, text)
    return list(kept.values())


def _left_out(alone: Sequence[str]) -> Iterator[str]:
    for path in alone[:20]:
        yield (
            f"{path}: left out, since no file has the same name in another language; name both "
            "sides alike but for the code, as in corpus.en and corpus.de, and compress them alike"
        )
    if len(alone) > 20:
        yield f"{len(alone) - 20} more files were left out for the same reason"


def _mislabelled(found: Sequence[FoundText]) -> Iterator[str]:
    """Files whose text looks like another language than the one their name says."""
    languages = sorted({language for text in found for language in text.languages})
    if not all(language.split("_")[0] in identifiable() for language in languages):
        return
    for text in found:
        if "{lang}" not in text.path:
            continue
        for language in text.languages:
            lines = islice(read_side(text.path, language, format=text.format), _SAMPLE)
            guess = guess_language((line for line in lines if line), languages)
            if guess.split("_")[0] != language.split("_")[0]:
                yield (
                    f"{text.path.replace('{lang}', language)} looks like {guess}, not {language}: "
                    "if so, rename it before you go on"
                )


def _nothing(paths: Sequence[Path], alone: Sequence[str], notes: Sequence[str]) -> AccordError:
    where = ", ".join(map(str, paths))
    if not alone:
        return AccordError(
            f"no parallel text was found{''.join(f'; {note}' for note in notes[:5])}",
            where=where,
            fix="give one file per language, named alike but for the code (corpus.en, corpus.de), "
            "or one of both: .tsv, .jsonl, .tmx, .parquet, .arrow, or a zip as OPUS has them",
        )
    guesses = {}
    for path in alone[:10]:
        guesses[path] = guess_language(line for line in islice(read_lines(path), _SAMPLE) if line)
    listed = ", ".join(f"{path} looks like {guess}" for path, guess in guesses.items())
    moves = "; ".join(f"mv {path} corpus.{guess}" for path, guess in guesses.items())
    example = f", for example: {moves}" if len(set(guesses.values())) == len(guesses) > 1 else ""
    return AccordError(
        f"no two files have the same name but for the language: {listed}",
        where=where,
        fix=f"name the two sides of a corpus alike, with the code of the language{example}",
    )
