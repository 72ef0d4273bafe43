"""Second pass: the vocabulary is trained on the lines that stayed, and they become token ids."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, compress, islice
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from accord.config.schema import Cleaning, Corpus
from accord.data.cleaning import Cleaner
from accord.data.dedup import Hashes, Mask, Matching, hash_lines, lowest, priority
from accord.data.formats import read_pair
from accord.data.language_id import LanguageGuesser
from accord.data.store import IDS, OFFSETS
from accord.data.vocabulary import Vocabulary
from accord.files import writing_errors
from accord.progress import Progress

# --- First pass over a corpus: read, clean, hash, and set the clean lines down for the second
# pass.


_SPOOL_BLOCK = 5000  # lines between two reports


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
            while block := list(islice(raw, _SPOOL_BLOCK)):
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


_BLOCK = 20_000  # lines encoded at once
BUCKET = 10  # width of a bar of the length histogram, in subwords


@dataclass(frozen=True)
class Encoded:
    """What encoding one corpus did."""

    keep: Mask
    """The lines of the spool that were written."""
    too_long: int
    tokens: dict[str, int]
    histogram: dict[str, list[int]]
    """Per language: how many lines have 0-9 subwords, 10-19 subwords, and so on."""

    @property
    def lines(self) -> int:
        """How many were written."""
        return int(self.keep.sum())


def sample_sizes(available: dict[str, int], total: int, temperature: float) -> dict[str, int]:
    """How many sentences each language gives: in proportion to its size to the 1/temperature.

    No sentence is taken twice: what a small language cannot give goes to the others.
    """
    sizes: dict[str, int] = {}
    rest, left = dict(available), total
    while rest:
        # Decimals: floating-point powers may differ between machines in the last place.
        exponent = 1 / Decimal(temperature)
        weights = {language: Decimal(n) ** exponent for language, n in rest.items()}
        scale = left / sum(weights.values(), Decimal(0))
        full = [language for language, n in rest.items() if n <= weights[language] * scale]
        if not full:
            return sizes | {language: int(w * scale) for language, w in weights.items()}
        for language in full:
            sizes[language] = rest.pop(language)
            left -= sizes[language]
    return sizes


def vocabulary_sample(
    spools: Sequence[Spool], keeps: Sequence[Mask], total: int, temperature: float, seed: int
) -> Iterator[str]:
    """The sentences that the vocabulary is trained on: filtered training text, each once."""
    sides: dict[str, list[tuple[Spool, Mask, Hashes]]] = {}
    for spool, keep in zip(spools, keeps, strict=True):
        hashes = spool.hashes("exact")
        for language, side in zip(spool.corpus.languages, hashes, strict=True):
            order = priority(side, seed, "vocabulary", spool.corpus.pair)
            sides.setdefault(language, []).append((spool, keep, order))
    available = {
        language: sum(int(keep.sum()) for _, keep, _ in parts) for language, parts in sides.items()
    }
    sizes = sample_sizes(available, total, temperature)
    for language in sorted(sides):
        parts = sides[language]
        chosen = lowest(np.concatenate([order[keep] for _, keep, order in parts]), sizes[language])
        start = 0
        for spool, keep, _ in parts:
            mask, count = keep.copy(), int(keep.sum())
            mask[keep] = chosen[start : start + count]
            start += count
            yield from spool.lines(language, mask)


class _SideWriter:
    """Appends the sentences of one side to its two files."""

    def __init__(self, ids: IO[bytes], offsets: IO[bytes]) -> None:
        self._ids, self._offsets = ids, offsets
        self._end = 0
        self._bars: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        offsets.write(np.zeros(1, dtype=OFFSETS).tobytes())

    def write(self, rows: Sequence[Sequence[int]]) -> None:
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        flat = np.fromiter(chain.from_iterable(rows), dtype=IDS, count=int(lengths.sum()))
        self._ids.write(flat.tobytes())
        self._offsets.write((self._end + np.cumsum(lengths)).astype(OFFSETS).tobytes())
        self._end += len(flat)
        bars = np.bincount(lengths // BUCKET, minlength=len(self._bars))
        bars[: len(self._bars)] += self._bars
        self._bars = bars

    @property
    def tokens(self) -> int:
        return self._end

    @property
    def histogram(self) -> list[int]:
        return [int(count) for count in self._bars]


def encode_corpus(
    spool: Spool,
    keep: Mask,
    vocabulary: Vocabulary,
    directory: Path,
    *,
    max_subwords: int | None,
    threads: int,
    progress: Progress,
) -> Encoded:
    """Write the marked lines of a corpus as token ids, leaving out those of too many subwords."""
    pair, languages = spool.corpus.pair, spool.corpus.languages
    lines = zip(*(spool.lines(language, keep) for language in languages), strict=True)
    longest = max_subwords if max_subwords is not None else np.iinfo(np.int64).max
    fits: list[Mask] = [np.zeros(0, dtype=np.bool_)]
    seen = 0
    with writing_errors(directory):
        names = [
            f"{pair}.{language}.{kind}" for language in languages for kind in ("ids", "offsets")
        ]
        files = [(directory / name).open("wb") for name in names]
        try:
            writers = (_SideWriter(files[0], files[1]), _SideWriter(files[2], files[3]))
            while block := list(islice(lines, _BLOCK)):
                first, second = (
                    vocabulary.encode(side, threads=threads) for side in zip(*block, strict=True)
                )
                fit = [
                    len(a) <= longest and len(b) <= longest
                    for a, b in zip(first, second, strict=True)
                ]
                for writer, side in zip(writers, (first, second), strict=True):
                    writer.write(list(compress(side, fit)))
                fits.append(np.array(fit))
                seen += len(block)
                progress.reach(seen)
        finally:
            for file in files:
                file.close()
    written = keep.copy()
    written[keep] = np.concatenate(fits)
    return Encoded(
        written,
        seen - int(written.sum()),
        {language: writer.tokens for language, writer in zip(languages, writers, strict=True)},
        {language: writer.histogram for language, writer in zip(languages, writers, strict=True)},
    )
