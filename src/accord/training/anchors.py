"""Judging zero-shot directions without their references.

A pair with data has parallel dev sentences, say English and German. English into French has data as
well, so that its translation can stand in for the reference of German into French, for which there
may be none. Only one of the two sides is ever zero-shot: where both are, both may drift into the
same wrong language, and agree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accord.corpus.store import HeldOutSets
from accord.graph import Direction, TranslationGraph
from accord.scoring import bleu

Translate = Callable[[Sequence[str], str], list[str]]


@dataclass(frozen=True)
class Anchor:
    """A zero-shot direction, its dev sentences, and the same in a language with data into its
    target."""

    direction: Direction
    sources: tuple[str, ...]
    language: str
    others: tuple[str, ...]


def anchors(held_out: HeldOutSets, graph: TranslationGraph, sentences: int) -> list[Anchor]:
    """All that the dev sets of pairs with data give, at most so many sentences each."""
    found = []
    for direction in graph.zero_shot:
        source, target = direction
        for other in graph.languages:
            if graph.linked(source, other) and graph.is_supervised(other, target):
                mine, theirs = held_out.pair("dev", source, other)
                if mine[:sentences]:
                    sides = tuple(mine[:sentences]), tuple(theirs[:sentences])
                    found.append(Anchor(direction, sides[0], other, sides[1]))
    return found


def agreement(found: Sequence[Anchor], translate: Translate) -> float | None:
    """BLEU between the translations of both sides, either way round; the mean over all anchors."""
    scores = []
    for anchor in found:
        target = anchor.direction.target
        one, other = translate(anchor.sources, target), translate(anchor.others, target)
        scores += [bleu(one, other, target), bleu(other, one, target)]
    return float(np.mean(scores)) if scores else None
