"""First pass over a corpus: read, clean, hash, and set the clean lines down for the second pass."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from accord.config import Cleaning, Corpus
from accord.corpus.cleaning import Cleaner
from accord.corpus.language_id import LanguageGuesser
from accord.corpus.matching import Hashes, Mask, Matching, hash_lines
from accord.corpus.readers import read_pair
from accord.files import writing_errors

_BLOCK = 5000  # lines between two reports


@dataclass(frozen=True)
class Task:
    """What one worker needs to know to spool one corpus."""

    corpus: Corpus
    languages: tuple[str, ...]
    cleaning: Cleaning
    matching: Matching
    directory: Path


@dataclass(frozen=True)
class Spool:
    """The clean lines of a corpus in two plain files, with 16 bytes of hashes a line beside."""

    corpus: Corpus
    directory: Path
    matching: Matching
    read: int
    mended: dict[str, int]
    dropped: dict[str, int]

    def text_file(self, language: str) -> Path:
        """The clean lines of one language."""
        return self.directory / f"{self.corpus.pair}.{language}.txt"

    def hashes(self, matching: Matching) -> tuple[Hashes, Hashes]:
        """A hash for each side of each line."""
        flat = np.fromfile(_hash_file(self.directory, self.corpus.pair, matching), dtype="<u8")
        return flat[0::2].copy(), flat[1::2].copy()

    def lines(self, language: str, keep: Mask) -> Iterator[str]:
        """The lines of one language that are marked."""
        with self.text_file(language).open(encoding="utf-8", newline="\n") as file:
            for line, kept in zip(file, keep, strict=True):
                if kept:
                    yield line[:-1]


def _hash_file(directory: Path, pair: str, matching: Matching) -> Path:
    return directory / f"{pair}.{matching}.hashes"


def spool_corpus(task: Task, report: Callable[[int], None]) -> Spool:
    """Stream the corpus through cleaning; memory does not grow with its size."""
    corpus = task.corpus
    guesser = LanguageGuesser(task.languages) if task.cleaning.wrong_language else None
    cleaner = Cleaner(task.cleaning, corpus.languages, guesser)
    kinds: list[Matching] = ["exact"] if task.matching == "exact" else ["exact", "normalised"]
    paths = [task.directory / f"{corpus.pair}.{language}.txt" for language in corpus.languages]
    paths += [_hash_file(task.directory, corpus.pair, kind) for kind in kinds]
    read = 0
    raw = (
        pair
        for source in corpus.train
        for pair in read_pair(
            source.path, corpus.languages, format=source.format, columns=source.columns
        )
    )
    with writing_errors(task.directory):
        files = [path.open("wb") for path in paths]
        try:
            while block := list(islice(raw, _BLOCK)):
                read += len(block)
                clean = [pair for lines in block if (pair := cleaner.clean(lines)) is not None]
                for side in (0, 1):
                    files[side].write("".join(f"{pair[side]}\n" for pair in clean).encode())
                both = [text for pair in clean for text in pair]
                for file, kind in zip(files[2:], kinds, strict=True):
                    file.write(hash_lines(both, kind).tobytes())
                report(read)
        finally:
            for file in files:
                file.close()
    return Spool(
        corpus, task.directory, task.matching, read, dict(cleaner.mended), dict(cleaner.dropped)
    )
