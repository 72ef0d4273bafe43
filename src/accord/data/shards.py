"""Shards: a corpus cut into pieces of 2^20 lines as they are read, cleaned, hashed and set down.

Where a corpus is cut follows from its files alone, never from who works on it. A shard is what one
task reads and writes; no more of it is held in memory than a few bytes per line.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

import numpy as np
import zstandard

from accord.config.schema import Cleaning, Corpus, Source
from accord.data.cleaning import Cleaner
from accord.data.dedup import Hashes, Mask, Matching, hash_lines
from accord.data.formats import Pair, read_sources, source_files
from accord.data.jobs import Facts, Report, written
from accord.data.language_id import LanguageGuesser
from accord.data.store import shard_files

SHARD_LINES = 1 << 20
CLEAN = "clean"  # the state of a shard before any choice: all lines are in
_GROUP_BYTES = 1 << 26  # smaller files are read one after the other, so that shards are not tiny
_BLOCK = 5000  # lines between two reports


@dataclass(frozen=True)
class Shard:
    """The clean lines of one shard, on disk: text of both sides, hashes, marks of what is kept."""

    folder: Path
    languages: tuple[str, str]
    number: int
    lines: int

    @property
    def name(self) -> str:
        """For example `en-de.00017`."""
        return f"{'-'.join(self.languages)}.{self.number:05d}"

    @property
    def text_file(self) -> Path:
        """Both sides, line about line, compressed."""
        return self.folder / "text" / f"{self.name}.zst"

    def hash_file(self, matching: Matching) -> Path:
        """Two hashes per line."""
        return self.folder / "hashes" / f"{self.name}.{matching}"

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The clean text."""
        return _read_pairs(self.text_file)

    def hashes(self, matching: Matching) -> tuple[Hashes, Hashes]:
        """A hash for each side of each line."""
        flat = np.fromfile(self.hash_file(matching), dtype="<u8")
        return flat[0::2], flat[1::2]

    def keep(self, state: str) -> Mask:
        """Which lines were left after a step."""
        if state == CLEAN:
            return np.ones(self.lines, dtype=np.bool_)
        return np.fromfile(self._keep_file(state), dtype=np.bool_)

    def write_keep(self, state: str, keep: Mask) -> None:
        """Set down which lines are left after a step."""
        with written(self._keep_file(state)) as file:
            file.write(keep.tobytes())

    def store_files(self, train: Path, language: str) -> tuple[Path, Path]:
        """Where the token ids and offsets of one side go."""
        return shard_files(train, "-".join(self.languages), language, self.number)

    def _keep_file(self, state: str) -> Path:
        return self.folder / "keep" / state / self.name


class _Writer(Protocol):
    def write(self, data: bytes, /) -> int: ...


@contextmanager
def _compressed(path: Path) -> Iterator[_Writer]:
    with (
        written(path) as file,
        # The fastest level: text becomes a third.
        zstandard.ZstdCompressor(level=1).stream_writer(file, closefd=False) as writer,
    ):
        yield writer


@contextmanager
def _passed_over(_: Path) -> Iterator[_Writer]:
    yield io.BytesIO()


def _joined(pairs: Sequence[tuple[str, str]]) -> bytes:
    text = "".join([f"{first}\n{second}\n" for first, second in pairs])
    if text.count("\n") != 2 * len(pairs):
        raise ValueError("a reader gave a sentence with a line break in it")
    return text.encode()


def _read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
        lines = io.TextIOWrapper(io.BufferedReader(reader, 1 << 17), "utf-8", newline="\n")
        for first in lines:
            yield first[:-1], next(lines)[:-1]


# --- Reading: one task per group of files, as compressed ones can only be read from their start.


@dataclass(frozen=True)
class ReadTask:
    """Files that are read one after the other and cut into blocks, which become shards."""

    folder: Path
    languages: tuple[str, str]
    group: int
    sources: tuple[Source, ...]
    shard_lines: int

    @property
    def name(self) -> str:
        """For example `en-de.00002`."""
        return f"{'-'.join(self.languages)}.{self.group:05d}"

    def block(self, number: int) -> Path:
        """The file of a block, as it was read."""
        return self.folder / "raw" / f"{self.name}.{number:05d}.zst"

    def pairs(self) -> Iterator[Pair]:
        """Everything there is."""
        return read_sources(self.sources, self.languages)


def read_tasks(corpus: Corpus, folder: Path, shard_lines: int) -> list[ReadTask]:
    """The files of a corpus in groups; a large one is a group of its own."""
    groups: list[list[Source]] = []
    size = 0
    for source in corpus.train:
        files = source_files(source.path, corpus.languages, format=source.format)
        own = sum(path.stat().st_size for path in files)
        if not groups or size + own > _GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(source)
        size += own
    return [
        ReadTask(folder, corpus.languages, number, tuple(group), shard_lines)
        for number, group in enumerate(groups)
    ]


def read_source(task: ReadTask, report: Report) -> Facts:
    """Cut a group of files into blocks; those that an ended run has finished stay as they are."""
    pairs = task.pairs()
    blocks: list[Facts] = []
    read = 0
    first = next(pairs, None)
    while first is not None or not blocks:
        path = task.block(len(blocks))
        rows = chain([first] if first else [], islice(pairs, task.shard_lines - 1))
        lines, too_long = 0, list[int]()
        with (_passed_over if path.exists() else _compressed)(path) as file:
            while part := list(islice(rows, _BLOCK)):
                whole = [(a, b) if a is not None and b is not None else ("", "") for a, b in part]
                too_long += [lines + i for i, pair in enumerate(part) if None in pair]
                file.write(_joined(whole))
                lines += len(part)
                report(read + lines)
        read += lines
        blocks.append({"lines": lines, "too_long": too_long})
        first = next(pairs, None)
    return {"blocks": blocks}


# --- Cleaning and hashing, shard by shard.


@dataclass(frozen=True)
class CleanTask:
    """A block that becomes a shard."""

    shard: Shard
    block: Path
    too_long: tuple[int, ...]
    """Lines that were passed over while reading, above 1 MB."""
    languages: tuple[str, ...]
    """All languages of the experiment."""
    cleaning: Cleaning
    matching: Matching

    @property
    def name(self) -> str:
        """For notes."""
        return self.shard.name


def clean_shard(task: CleanTask, report: Report) -> Facts:
    """Mend and drop line by line, hash what stays, and set it down."""
    guesser = LanguageGuesser(task.languages) if task.cleaning.wrong_language else None
    cleaner = Cleaner(task.cleaning, task.shard.languages, guesser)
    kinds: list[Matching] = ["exact"] if task.matching == "exact" else ["exact", "normalised"]
    found: dict[Matching, list[Hashes]] = {kind: [] for kind in kinds}
    raw = _with_none(_read_pairs(task.block), frozenset(task.too_long))
    read = kept = 0
    with _compressed(task.shard.text_file) as file:
        while part := list(islice(raw, _BLOCK)):
            clean = [pair for lines in part if (pair := cleaner.clean(lines)) is not None]
            file.write(_joined(clean))
            both = [text for pair in clean for text in pair]
            for kind in kinds:
                found[kind].append(hash_lines(both, kind))
            read, kept = read + len(part), kept + len(clean)
            report(read)
    for kind, hashes in found.items():
        with written(task.shard.hash_file(kind)) as out:
            out.writelines(part.tobytes() for part in hashes)
    return {
        "read": read,
        "lines": kept,
        "mended": dict(cleaner.mended),
        "dropped": dict(cleaner.dropped),
    }


def _with_none(pairs: Iterator[tuple[str, str]], too_long: frozenset[int]) -> Iterator[Pair]:
    for number, pair in enumerate(pairs):
        yield (None, None) if number in too_long else pair
