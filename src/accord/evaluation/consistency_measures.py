"""Zero-shot consistency, measured: the paper's Definition 1, and agreement without references.

Definition 1 calls a model zero-shot consistent if the largest expected loss over zero-shot
directions (kappa) goes to zero with the largest over supervised ones (epsilon). One model gives
one point of that curve: both numbers and their ratio, with cross-entropy as the loss.

Agreement asks what the training objective asks: translate two parallel sentences into a third
language. A consistent model says the same twice, and finds each of its translations likely given
the other sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from accord.evaluation.records import (
    Agreement,
    AgreementScores,
    Bounds,
    Consistency,
    DirectionScores,
    ParallelText,
)
from accord.evaluation.translations import Chain, Given
from accord.graph import KINDS, Direction, TranslationGraph
from accord.inference.results import Loss


def consistency(rows: Sequence[DirectionScores]) -> Consistency | None:
    """The bounds over directions whose cross-entropy is known; None where a kind has none."""
    per_token = _bounds(rows, lambda row: row.cross_entropy)
    per_sentence = _bounds(rows, lambda row: row.cross_entropy_per_sentence)
    return Consistency(per_token, per_sentence) if per_token and per_sentence else None


def _bounds(
    rows: Sequence[DirectionScores], loss: Callable[[DirectionScores], float | None]
) -> Bounds | None:
    found = {
        kind: [
            (value, row.direction)
            for row in rows
            if row.kind == kind and (value := loss(row)) is not None
        ]
        for kind in KINDS
    }
    if not all(found.values()):
        return None
    epsilon, supervised = max(found["supervised"])
    kappa, zero_shot = max(found["zero-shot"])
    return Bounds(epsilon, supervised, kappa, zero_shot, kappa / epsilon)


@dataclass(frozen=True)
class Triple:
    """Parallel sentences in two languages that are both translated into a third."""

    languages: tuple[str, str]
    target: str
    kind: str
    sides: tuple[tuple[str, ...], tuple[str, ...]]

    def chains(self) -> tuple[Chain, Chain]:
        """What must be searched for."""
        one, other = self.languages
        into = (self.target,)
        return Chain(self.sides[0], one, into), Chain(self.sides[1], other, into)


@dataclass(frozen=True)
class AgreementTask:
    """A triple with the translations of both its sides."""

    triple: Triple
    translations: tuple[tuple[str, ...], tuple[str, ...]]

    def crossed(self) -> tuple[Given, Given]:
        """Each side's translation, given the sentences of the other side."""
        (one, other), target = self.triple.sides, self.triple.target
        first, second = self.triple.languages
        return (
            Given(other, self.translations[0], second, target),
            Given(one, self.translations[1], first, target),
        )


def triples(sets: Mapping[Direction, ParallelText], graph: TranslationGraph) -> list[Triple]:
    """Every pair of languages that has a test set, with every third language."""
    found = []
    for one, other in combinations(graph.languages, 2):
        test_set = sets.get(Direction(one, other))
        for target in graph.languages if test_set else ():
            if test_set and target not in (one, other):
                known = [graph.is_supervised(side, target) for side in (one, other)]
                kind = "supervised" if all(known) else "zero-shot"
                sides = (test_set.sources, test_set.references)
                found.append(Triple((one, other), target, kind, sides))
    return found


def agreement_scores(
    task: AgreementTask, bleu: float, crossed: tuple[Loss, Loss] | None
) -> AgreementScores:
    """The row of one triple; `crossed` is None where the model gives no likelihood."""
    triple = task.triple
    entropy = crossed and (crossed[0].per_token + crossed[1].per_token) / 2
    return AgreementScores(
        triple.languages, triple.target, triple.kind, len(triple.sides[0]), bleu, entropy
    )


def agreement_of(rows: Sequence[AgreementScores]) -> Agreement | None:
    """All rows with their means by kind and over all; None where no triple has a test set."""
    if not rows:
        return None
    kinds = {
        "supervised": [row for row in rows if row.kind == "supervised"],
        "zero_shot": [row for row in rows if row.kind == "zero-shot"],
        "all": list(rows),
    }
    return Agreement(
        tuple(rows),
        {kind: float(np.mean([row.bleu for row in some])) for kind, some in kinds.items() if some},
        {
            kind: float(np.mean(known))
            for kind, some in kinds.items()
            if (known := [row.cross_entropy for row in some if row.cross_entropy is not None])
        },
    )
