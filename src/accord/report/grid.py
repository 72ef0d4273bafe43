"""Plain tables of text: written once, shown as HTML and as Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """A table; its first column names the rows."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    prose: bool = False
    """Whether cells are words, which stand on the left; numbers stand on the right."""


def grid(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, prose: bool = False
) -> Grid:
    """A table of any rows."""
    return Grid(caption, tuple(head), tuple(tuple(row) for row in rows), prose)
