"""How good the model is on the dev set: cross-entropy, BLEU and exact matches, per direction."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from accord.config import Experiment, ValidationSettings
from accord.corpus.store import Store
from accord.corpus.vocabulary import EOS, PAD, Vocabulary
from accord.graph import Direction
from accord.model.protocol import Seq2Seq
from accord.scoring import bleu, exact_match
from accord.search.decoding import translate
from accord.search.rows import padded, source_rows


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
                found, said = {}, []
                for direction, kind, sources, references in self.sets:
                    hypotheses = self._translate(model, direction, sources)
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

    def _translate(self, model: Seq2Seq, direction: Direction, sources: list[str]) -> list[str]:
        chosen = sources[: self.settings.sentences]
        if not chosen:
            return []
        return translate(model, self.vocabulary, chosen, direction.target, device=self.device)

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


@torch.no_grad()
def cross_entropy(
    model: Seq2Seq,
    vocabulary: Vocabulary,
    sources: Sequence[str],
    references: Sequence[str],
    target: str,
    device: torch.device,
    batch: int = 64,
) -> float:
    """Mean negative log-likelihood of the reference tokens by teacher forcing, in nats."""
    inputs = source_rows(vocabulary, sources, target)
    outputs = [[*row, EOS] for row in vocabulary.encode(references)]
    order = sorted(range(len(inputs)), key=lambda i: (len(outputs[i]), len(inputs[i])))
    total, tokens = 0.0, 0
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        source_BS, lengths_B = padded([inputs[i] for i in rows], device)
        target_BT, target_lengths_B = padded([outputs[i] for i in rows], device)
        memory = model.encode(source_BS, lengths_B)
        hidden_BTD = model.decode(memory, model.shifted_embeddings(target_BT))
        logits_NV = model.logits(hidden_BTD).flatten(0, 1).float()
        loss = functional.cross_entropy(
            logits_NV, target_BT.flatten(), ignore_index=PAD, reduction="sum"
        )
        total += float(loss)
        tokens += int(target_lengths_B.sum())
    return total / tokens
