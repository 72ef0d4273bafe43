"""Alignments: which part of the source each part of a translation looked at."""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from accord.inference.results import Translation
from accord.inference.text import mended
from accord.inference.training_text import is_byte


class Subwords(Protocol):
    """The part of a vocabulary that shows how a sentence was read."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Subword ids of each text."""

    def pieces(self) -> list[str]:
        """All subwords, in the order of their ids."""


class Tracer:
    """Follows alignments back to the source, through pivots as well."""

    def __init__(self, vocabulary: Subwords) -> None:
        self._vocabulary = vocabulary
        self._pieces = vocabulary.pieces()

    def tokens(self, text: str) -> list[str]:
        """The subwords in which the model reads a text."""
        return [self._pieces[i] for i in self.read(text)[0]]

    def read(self, text: str) -> tuple[list[int], int]:
        """The ids in which the model reads a text, and how many characters it sees."""
        seen = mended(text)
        [ids] = self._vocabulary.encode([seen])
        return ids, len(seen)

    def trace(self, found: Translation) -> tuple[list[str], list[int]]:
        """The source's subwords, and for each target subword its place among them or -1."""
        read = self.tokens(found.source if found.pivot is None else found.pivot.text)
        best = found.hypotheses[0]
        # In the model's input the tag is 0, and the end of sentence comes last. A phrase-based
        # system tells no alignment at all.
        near = [i - 1 if i <= len(read) else -1 for i in best.alignment] or [-1] * len(best.tokens)
        if found.pivot is None:
            return read, near
        source, far = self.trace(found.pivot)
        written = _places(read, found.pivot.hypotheses[0].tokens)
        return source, [-1 if i < 0 or written[i] < 0 else far[written[i]] for i in near]

    def characters(self, found: Translation) -> list[int]:
        """For each character of a translation the character of the source it looks at, or -1."""
        source, alignment = self.trace(found)
        read = _stretches(source, found.source)
        links = [-1] * len(found.text)
        stretches = _stretches(found.hypotheses[0].tokens, found.text)
        for (start, end), place in zip(stretches, alignment, strict=False):
            if 0 <= place < len(read):
                # The middle of a subword is in its word even where the text was mended a little.
                links[start:end] = [sum(read[place]) // 2] * (end - start)
        return links


def _stretches(tokens: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Where each subword stands in the text that they spell, in characters."""
    at = [i for i, character in enumerate(text) for _ in range(len(character.encode()))]
    sizes = [_bytes(piece) for piece in tokens]
    if sizes and tokens[0].startswith("\u2581"):
        sizes[0] -= 1  # the space before the first word is not written
    total = sum(sizes)
    # Of the same length as a rule; else (text that was mended for the model) in proportion.
    ends = [size * len(at) // max(total, 1) for size in itertools.accumulate(sizes)]
    at.append(len(text))
    return [(at[start], at[end]) for start, end in itertools.pairwise([0, *ends])]


def _places(read: Sequence[str], written: Sequence[str]) -> list[int]:
    """For each subword as read, the one that stands at its place in the same text as written.

    A model may spell a pivot sentence in other subwords than those it is read in.
    """
    ends = list(itertools.accumulate(_bytes(piece) for piece in written))
    if not ends:
        return [-1] * len(read)
    starts = itertools.accumulate((_bytes(piece) for piece in read), initial=0)
    return [
        min(bisect_right(ends, start + (_bytes(piece) - 1) / 2), len(ends) - 1)
        for start, piece in zip(starts, read, strict=False)
    ]


def _bytes(piece: str) -> int:
    """Bytes of text that a subword stands for; ▁ is a space, and <0x41> is one byte."""
    if is_byte(piece):
        return 1
    return len(piece.replace("▁", " ").encode())
