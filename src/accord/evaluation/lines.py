"""What is scored: sentences, their translations and references in one direction."""

from collections.abc import Sequence
from dataclasses import dataclass

from accord.corpus.store import HeldOutSets
from accord.graph import Direction


@dataclass(frozen=True)
class ParallelText:
    """The sentences of one direction and what they should become."""

    name: str
    sources: tuple[str, ...]
    references: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class Lines:
    """One direction, translated directly, through the languages of `via`, or by an ensemble."""

    direction: Direction
    kind: str
    test_set: str
    sources: tuple[str, ...]
    hypotheses: tuple[str, ...]
    references: tuple[str, ...]
    via: tuple[str, ...] = ()
    nats: float | None = None
    """Negative log-likelihood of all references; there is none for a chain of translations."""
    tokens: int = 0
    """The subwords it was summed over, ends of sentence included."""
    ensemble: str = ""
    """What was searched with together, for example `direct,via:en`."""

    @property
    def name(self) -> str:
        """As in file names: `de-fr`, or `de-fr.via-en`."""
        return row_name(self.direction, self.via, self.ensemble)

    @property
    def is_direct(self) -> bool:
        """Whether the sentences were translated directly and alone."""
        return not self.via and not self.ensemble


def row_name(direction: Direction, via: Sequence[str], ensemble: str = "") -> str:
    """`de-fr` for a direct translation, `de-fr.via-en` for one through another language.

    That of an ensemble is `de-fr.ensemble-direct-via-en`.
    """
    if ensemble:
        return f"{direction}.ensemble-{ensemble.replace(',', '-').replace(':', '-')}"
    return f"{direction}.via-{'-'.join(via)}" if via else str(direction)


def find_sets(
    held_out: HeldOutSets, split: str, directions: Sequence[Direction], limit: int | None
) -> dict[Direction, ParallelText]:
    """The test set of every direction that has one, or its first `limit` sentences."""
    names = {
        (source, target): item.name
        for item in reversed(held_out.sets(split))  # the first that has both languages counts
        for source in item.languages
        for target in item.languages
    }
    found = {}
    for direction in directions:
        sources, references = held_out.pair(split, *direction)
        if sources:
            found[direction] = ParallelText(
                names[direction], tuple(sources[:limit]), tuple(references[:limit])
            )
    return found
