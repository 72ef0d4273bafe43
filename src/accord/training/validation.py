"""How good the model is on the dev set: cross-entropy, BLEU and exact matches, per direction."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch

from accord.config import Experiment, ValidationSettings
from accord.corpus.store import Store
from accord.corpus.vocabulary import EOS, Vocabulary
from accord.graph import Direction
from accord.model.protocol import Seq2Seq
from accord.scoring import bleu, exact_match
from accord.search.decoding import Decoder
from accord.search.forced import cross_entropies
from accord.search.rows import source_rows


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
    """Without references: BLEU between the translations of parallel sentences into a third
    language, either way round, over the pairs with a zero-shot side."""

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
                kind = "supervised" if graph.is_supervised(*direction) else "zero-shot"
                self.sets.append((direction, kind, sources, references))

    def __call__(self, model: Seq2Seq) -> Scores:
        """The scores; the model is back in training mode afterwards."""
        model.eval()
        try:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
                # One for all directions: on a GPU it records its steps, which takes a while.
                decoder = Decoder(model, self.vocabulary, self.device)
                found, said = {}, []
                for direction, kind, sources, references in self.sets:
                    chosen = sources[: self.settings.sentences]
                    hypotheses = decoder.greedy(chosen, direction.target)
                    found[str(direction)] = self._direction(
                        model, direction, kind, sources, references, hypotheses
                    )
                    said.append((direction, kind, references, hypotheses))
        finally:
            model.train()
        counted = [
            scores
            for scores in found.values()
            if self.settings.directions == "all" or scores.kind == "supervised"
        ]
        return Scores(
            found,
            f"{self.settings.metric} over {self.settings.directions} directions",
            float(np.mean([scores.cross_entropy for scores in counted])),
            _mean([scores.bleu for scores in counted]),
            _mean([scores.exact for scores in counted]),
            agreement_bleu(said),
        )

    def _direction(
        self,
        model: Seq2Seq,
        direction: Direction,
        kind: str,
        sources: list[str],
        references: list[str],
        hypotheses: list[str],
    ) -> DirectionScores:
        entropy = cross_entropy(
            model, self.vocabulary, sources, references, direction.target, self.device
        )
        if not hypotheses:
            return DirectionScores(kind, entropy, None, None)
        references = references[: len(hypotheses)]
        return DirectionScores(
            kind,
            entropy,
            bleu(hypotheses, references, direction.target),
            exact_match(hypotheses, references),
        )


Said = tuple[Direction, str, list[str], list[str]]


def agreement_bleu(said: Sequence[Said]) -> float | None:
    """How far translations into the same language agree, of directions with the same references
    (that is, of parallel sources), at least one of them zero-shot; None where there are none."""
    found = []
    for one, other in combinations(said, 2):
        parallel = one[0].target == other[0].target and one[2] == other[2]
        if parallel and "zero-shot" in (one[1], other[1]) and one[3]:
            language = one[0].target
            found += [bleu(one[3], other[3], language), bleu(other[3], one[3], language)]
    return _mean(found)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def cross_entropy(
    model: Seq2Seq,
    vocabulary: Vocabulary,
    sources: Sequence[str],
    references: Sequence[str],
    target: str,
    device: torch.device,
    batch_tokens: int = 16_384,
) -> float:
    """Mean negative log-likelihood of the reference tokens by teacher forcing, in nats."""
    inputs = source_rows(vocabulary, sources, target)
    outputs = [[*row, EOS] for row in vocabulary.encode(references)]
    sums = cross_entropies(model, inputs, outputs, device=device, batch_tokens=batch_tokens)
    return sum(sums) / sum(map(len, outputs))
