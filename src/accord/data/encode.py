"""Second pass: the lines that stayed give the vocabulary its sample, and become token ids."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import compress, islice
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from accord.data.dedup import Mask
from accord.data.jobs import Facts, Report, written
from accord.data.shards import Shard
from accord.data.store import IDS, OFFSETS
from accord.data.thresholds import Cut, RankTask
from accord.data.vocabulary import Vocabulary
from accord.data.word_cache import Encoder

_BLOCK = 20_000  # lines encoded at once
BUCKET = 10  # width of a bar of the length histogram, in subwords

# --- The sample that the vocabulary is trained on.


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


@dataclass(frozen=True)
class SampleTask:
    """A shard whose lines were ranked, and where the sample ends on each side."""

    ranked: RankTask
    cuts: tuple[Cut, Cut]

    @property
    def name(self) -> str:
        """For notes."""
        return self.ranked.name

    def file(self, side: int) -> Path:
        """The sentences of one side that are in the sample."""
        return self.ranked.file(side).with_name(f"{self.name}.{side}.txt")


def sample_shard(task: SampleTask, report: Report) -> Facts:
    """Set down the sentences that are in the sample, each side by itself."""
    shard = task.ranked.shard
    keep = shard.keep(task.ranked.state)
    for side, (cut, column) in enumerate(zip(task.cuts, task.ranked.priorities(), strict=True)):
        mask = keep.copy()
        mask[keep] = cut.chosen(column)
        with written(task.file(side)) as file:
            for pair in compress(shard.pairs(), mask.tolist()) if mask.any() else ():
                file.write(f"{pair[side]}\n".encode())
    report(len(keep))
    return {}


def read_sample(tasks: Sequence[SampleTask]) -> Iterator[str]:
    """The sentences of the sample: language by language, then in the order of corpora and lines."""
    for language in sorted({name for task in tasks for name in task.ranked.shard.languages}):
        for task in tasks:
            if language in task.ranked.shard.languages:
                path = task.file(task.ranked.shard.languages.index(language))
                with path.open(encoding="utf-8", newline="\n") as file:
                    yield from (line[:-1] for line in file)


# --- Token ids.


@dataclass(frozen=True)
class EncodeTask:
    """A shard that becomes files of the store."""

    shard: Shard
    before: str
    after: str
    vocabulary: Path
    languages: tuple[str, ...]
    directory: Path
    max_subwords: int | None

    @property
    def name(self) -> str:
        """For notes."""
        return self.shard.name


class _SideWriter:
    """Writes the sentences of one side to its two files."""

    def __init__(self, ids: IO[bytes], offsets: IO[bytes]) -> None:
        self._ids, self._offsets = ids, offsets
        self._bars: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._tokens = 0
        offsets.write(np.zeros(1, dtype=OFFSETS).tobytes())

    def write(self, rows: Sequence[bytes], lengths: npt.NDArray[np.int64]) -> None:
        """Append sentences, each given as the bytes of its ids, of so many subwords each."""
        self._ids.writelines(rows)
        self._offsets.write((self._tokens + np.cumsum(lengths)).astype(OFFSETS).tobytes())
        self._tokens += int(lengths.sum())
        bars = np.bincount(lengths // BUCKET, minlength=len(self._bars))
        bars[: len(self._bars)] += self._bars
        self._bars = bars

    def facts(self) -> Facts:
        """How many lines have 0-9 subwords, 10-19 subwords, and so on; and all subwords."""
        return {"tokens": self._tokens, "histogram": self._bars.tolist()}


@lru_cache(maxsize=1)
def _encoder(model: bytes, languages: tuple[str, ...]) -> Encoder:
    """Kept from one shard to the next, with the words that it has come to know."""
    return Encoder(Vocabulary(model, languages))


def encode_shard(task: EncodeTask, report: Report) -> Facts:
    """Write the lines that are still in as token ids, leaving out those of too many subwords."""
    shard = task.shard
    keep = shard.keep(task.before)
    encoder = _encoder(task.vocabulary.read_bytes(), task.languages)
    longest = task.max_subwords if task.max_subwords is not None else np.iinfo(np.int64).max
    paths = [shard.store_files(task.directory, language) for language in shard.languages]
    fits: list[Mask] = [np.zeros(0, dtype=np.bool_)]
    pairs, seen = compress(shard.pairs(), keep.tolist()), 0
    with (
        written(paths[0][0]) as a,
        written(paths[0][1]) as b,
        written(paths[1][0]) as c,
        written(paths[1][1]) as d,
    ):
        writers = (_SideWriter(a, b), _SideWriter(c, d))
        while block := list(islice(pairs, _BLOCK)):
            rows = [encoder.encode(side) for side in zip(*block, strict=True)]
            lengths = [
                np.fromiter(map(len, side), dtype=np.int64, count=len(side)) // IDS.itemsize
                for side in rows
            ]
            fit: Mask = np.maximum(*lengths) <= longest
            for writer, side, length in zip(writers, rows, lengths, strict=True):
                writer.write(list(compress(side, fit.tolist())), length[fit])
            fits.append(fit)
            seen += len(block)
            report(seen)
    after = keep.copy()
    after[keep] = np.concatenate(fits)
    shard.write_keep(task.after, after)
    return {
        "lines": int(after.sum()),
        "too_long": seen - int(after.sum()),
        "sides": [writer.facts() for writer in writers],
    }
