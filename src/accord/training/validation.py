"""How good the model is on the dev set: cross-entropy, BLEU and exact matches, per direction."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from accord.config.schema import Experiment, ValidationSettings
from accord.data.store import HeldOutSets, Store
from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph
from accord.inference.beam_search import TorchEngine
from accord.inference.results import Loss
from accord.inference.scoring import text_cross_entropies
from accord.inference.text import Decoder
from accord.metrics.bleu import bleu, mutual_bleu
from accord.metrics.rates import exact_match
from accord.models.base import Seq2Seq

# --- Judging zero-shot directions without their references.
#
# A pair with data has parallel dev sentences, say English and German. English into French has
# data as well, so that its translation can stand in for the reference of German into French, for
# which there may be none. Only one of the two sides is ever zero-shot: where both are, both may
# drift into the same wrong language, and agree.


# Texts, the language to translate into, and the language of the texts.
Translate = Callable[[Sequence[str], str, str], list[str]]


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
        for other in graph.anchors(source, target):
            mine, theirs = held_out.pair("dev", source, other)
            if mine[:sentences]:
                sides = tuple(mine[:sentences]), tuple(theirs[:sentences])
                found.append(Anchor(direction, sides[0], other, sides[1]))
    return found


def agreement(found: Sequence[Anchor], translate: Translate) -> float | None:
    """BLEU between the translations of both sides, either way round; the mean over all anchors."""
    scores = []
    for anchor in found:
        source, target = anchor.direction
        one = translate(anchor.sources, target, source)
        other = translate(anchor.others, target, anchor.language)
        scores.append(mutual_bleu(one, other, target))
    return float(np.mean(scores)) if scores else None


@dataclass(frozen=True)
class DirectionScores:
    """One direction on the dev set; BLEU and exact matches are of greedy translations."""

    kind: str
    cross_entropy: float
    """Nats a target token, ends of sentence included, without label smoothing."""
    bleu: float | None
    exact: float | None


@dataclass(frozen=True)
class Scores:
    """All directions, and the mean over those that the best checkpoint is chosen by."""

    directions: dict[str, DirectionScores]
    chosen_by: str
    cross_entropy: float
    bleu: float | None
    exact: float | None
    agreement: float | None = None
    """Without references: BLEU between zero-shot translations and those of the same sentences from
    a language with data, either way round."""

    def quality(self, metric: str) -> float:
        """What the best checkpoint is chosen by; higher is better.

        Agreement counts together with supervised BLEU, as their geometric mean: a model that says
        the same whatever it reads agrees with itself, but translates nothing.
        """
        if metric == "agreement" and self.agreement is not None and self.bleu is not None:
            return math.sqrt(self.agreement * self.bleu)
        return self.bleu if metric == "bleu" and self.bleu is not None else -self.cross_entropy

    def as_dict(self) -> dict[str, Any]:
        """Plain data for metrics.jsonl."""
        return asdict(self)


class Validator:
    """Measures a model on the dev sentences of a store."""

    def __init__(
        self, store: Store, experiment: Experiment, device: torch.device, bf16: bool
    ) -> None:
        self.settings: ValidationSettings = experiment.training.validation
        self.vocabulary = store.vocabulary
        self.device = device
        self.bf16 = bf16
        graph = experiment.graph
        everything = "all" in (self.settings.directions, self.settings.watch)
        self.sets: list[tuple[Direction, str, list[str], list[str]]] = []
        for direction in graph.directions if everything else graph.supervised_directions:
            sources, references = store.held_out.pair("dev", *direction)
            if sources:
                self.sets.append((direction, graph.kind(direction), sources, references))
        by_agreement = self.settings.metric == "agreement"
        self.anchors = (
            anchors(store.held_out, graph, self.settings.sentences)
            if everything or by_agreement
            else []
        )
        if by_agreement:
            self._check_agreement()

    def _check_agreement(self) -> None:
        """Say it now rather than at the first validation, if there is nothing to choose by."""
        if self.anchors and any(kind == "supervised" for _, kind, _, _ in self.sets):
            return
        raise AccordError(
            "no dev sentences to measure agreement on: it takes a dev set of a pair with training "
            "data, and a third language that only one of the two has data into",
            where="training.validation.metric",
            fix="add such a dev set and prepare again, or choose by cross_entropy or bleu",
        )

    def __call__(self, model: Seq2Seq) -> Scores:
        """The scores; the model is back in training mode afterwards."""
        model.eval()
        try:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
                # One for all directions: on a GPU it records its steps, which takes a while.
                decoder = Decoder(TorchEngine(model, self.device), self.vocabulary)
                # On a multi-parallel set the directions and agreement need the same translations.
                greedy = functools.cache(decoder.greedy)
                found = {}
                for direction, kind, sources, references in self.sets:
                    chosen = tuple(sources[: self.settings.sentences])
                    hypotheses = greedy(chosen, direction.target, direction.source)
                    found[str(direction)] = self._direction(
                        model, direction, kind, sources, references, hypotheses
                    )
                agreed = agreement(self.anchors, greedy)
        finally:
            model.train()
        counted = [
            scores
            for scores in found.values()
            if self.settings.directions == "all" or scores.kind == "supervised"
        ]
        return Scores(
            found,
            self._chosen_by(),
            float(np.mean([scores.cross_entropy for scores in counted])),
            _mean([scores.bleu for scores in counted]),
            _mean([scores.exact for scores in counted]),
            agreed,
        )

    def _chosen_by(self) -> str:
        if self.settings.metric == "agreement":
            return "agreement of zero-shot directions and BLEU of supervised ones"
        return f"{self.settings.metric} over {self.settings.directions} directions"

    def _direction(
        self,
        model: Seq2Seq,
        direction: Direction,
        kind: str,
        sources: list[str],
        references: list[str],
        hypotheses: list[str],
    ) -> DirectionScores:
        given = text_cross_entropies(
            model,
            self.vocabulary,
            sources,
            references,
            direction.target,
            device=self.device,
            source=direction.source,
        )
        entropy = Loss.total(given).per_token
        if not hypotheses:
            return DirectionScores(kind, entropy, None, None)
        references = references[: len(hypotheses)]
        return DirectionScores(
            kind,
            entropy,
            bleu(hypotheses, references, direction.target),
            exact_match(hypotheses, references),
        )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
