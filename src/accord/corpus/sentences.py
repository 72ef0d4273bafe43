"""Tokenised sentences as they lie on disk: flat token ids and offsets, memory-mapped."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint16]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sentences:
    """Sentence i is `ids[offsets[i]:offsets[i + 1]]`: subwords only, no tag, no end of sentence."""

    ids: Ids
    offsets: Offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[Ids]:
        return (self[index] for index in range(len(self)))

    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of subwords of every sentence."""
        return np.diff(self.offsets)

    @staticmethod
    def of(rows: Sequence[Sequence[int]]) -> "Sentences":
        """Sentences held in memory, for tests and small sets."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        flat = np.fromiter((i for row in rows for i in row), dtype=np.uint16, count=offsets[-1])
        return Sentences(flat, offsets)


@dataclass(frozen=True)
class ParallelCorpus:
    """One training corpus: line i of both sides is the same sentence.

    `directions` are the (source, target) languages that are trained on it: normally both.
    """

    languages: tuple[str, str]
    sides: tuple[Sentences, Sentences]
    directions: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if len(self.sides[0]) != len(self.sides[1]):
            raise ValueError(
                f"the sides of {self.name} have {len(self.sides[0])} and {len(self.sides[1])} lines"
            )

    def __len__(self) -> int:
        return len(self.sides[0])

    @property
    def name(self) -> str:
        """The pair as it is written everywhere, for example `en-de`."""
        return "-".join(self.languages)

    def side(self, language: str) -> Sentences:
        """The sentences of one of the two languages."""
        return self.sides[self.languages.index(language)]
