"""Agreement as an objective: when it is on, how much it counts, and what of a batch it needs."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.config.objectives import AgreementConfig
from accord.data.batches import Batch, Int16s, Position
from accord.data.store import Store
from accord.graph import TranslationGraph
from accord.models.base import Seq2Seq
from accord.objectives.agreement.dials import degenerate, dials
from accord.objectives.agreement.inputs import NONE, AgreementInputs, AuxiliaryLanguages
from accord.objectives.agreement.loss import (
    COUNTS,
    AgreementSettings,
    agreement,
    weight_at,
)
from accord.objectives.base import Context, Cut, Objective, Shape, Tally, Terms, Work, is_due
from accord.ops.distributed import World


class AgreementObjective(Objective[AgreementInputs]):
    """Agreement as an experiment asks for it, in one of several processes."""

    name = "agreement"
    losses = ("loss", "encoder_loss")
    counts = COUNTS
    apart = True

    def __init__(
        self,
        config: AgreementConfig,
        graph: TranslationGraph,
        store: Store,
        *,
        seed: int,
        world: World,
    ) -> None:
        self.config = config
        # Where only every n-th update computes agreement, its gradient is n times as long.
        self.gradient_limit = config.gradient_limit and config.gradient_limit * config.every
        self.settings = AgreementSettings(
            decoding=config.decoding,
            measure=config.measure,
            normalize=config.normalize,
            max_length=config.max_length,
            relative_length=config.relative_length,
            fixed_length=config.fixed_length,
            temperature=config.temperature,
            dropout=config.dropout,
            feedback_gradient=config.feedback_gradient,
            distinct_bigrams=config.distinct_bigrams,
            least_length=config.least_length,
            encoder_measure=config.encoder_measure,
            encoder_temperature=config.encoder_temperature,
            translations=config.weight > 0,
            encodings=config.encoder_weight > 0,
            unigrams_LV=unigrams(store).to(world.device),
        )
        self.languages = AuxiliaryLanguages(
            graph, store.vocabulary.tags, law=config.auxiliary, protect=config.protect
        )
        self._seed, self._world = seed, world

    @staticmethod
    def of(config: AgreementConfig, context: Context) -> "AgreementObjective":
        """For one of the processes of a run."""
        return AgreementObjective(
            config,
            context.experiment.graph,
            context.store,
            seed=context.experiment.training_seed,
            world=context.world,
        )

    def weights(self, step: int) -> tuple[float, float]:
        """The weights of agreement and of encoder agreement in an update.

        Where only every n-th update computes them, they count n times as much there: in the mean
        over updates their gradient is that of all.
        """
        share = weight_at(step, weight=1.0, start=self.config.start, ramp=self.config.ramp)
        due = is_due(step, start=self.config.start, every=self.config.every)
        share *= self.config.every if due else 0
        return self.config.weight * share, self.config.encoder_weight * share

    def weight(self, step: int) -> float:
        """The weight of both together: 0 where nothing has to be computed."""
        return sum(self.weights(step))

    def inputs(
        self, step: int, position: Position, batch: Batch, cut: Cut
    ) -> list[AgreementInputs]:
        """Both sides of every pair, tagged with the languages drawn for them."""
        drawn_B = self.draw(batch, position)
        return [
            self.tagged(part, drawn_B[k :: cut.parts], shape)
            for k, (part, shape) in enumerate(cut(batch))
        ]

    def work(self, step: int, batch: Batch, inputs: list[AgreementInputs]) -> Work[AgreementInputs]:
        """Means over the rows of the update, where the likelihood is one over its tokens."""
        scale = batch.update_target_tokens / batch.update_rows
        one, other = self.weights(step)
        return Work(inputs, (one * scale, other * scale), batch.target_tokens)

    def loss(self, model: Seq2Seq, inputs: AgreementInputs) -> Terms:
        """Sums over pairs."""
        found = agreement(model, inputs, self.settings)
        losses = {"loss": found.loss, "encoder_loss": found.encoder_loss}
        return Terms(losses, found.counts)

    def metrics(self, tally: Tally, sentences: float) -> dict[str, float | None]:
        """How the auxiliary translations look, and how strong their gradient is."""
        return dials(tally.sums, sentences) if any(tally.sums.values()) else {}

    def largest(self, batch: Batch, shape: Shape | None) -> AgreementInputs:
        """The whole batch; which languages are drawn changes no shape."""
        return self.tagged(batch, np.full(batch.rows, NONE, dtype=np.int16), shape)

    def warning(self, values: Mapping[str, Any]) -> str | None:
        """What is wrong with the auxiliary translations."""
        problem = degenerate(values)
        return problem and (
            f"{problem}; watch the zero-shot scores, try objective.agreement.measure=kl, "
            "decoding=hard or a smaller weight"
        )

    def draw(self, batch: Batch, position: Position) -> Int16s:
        """A third language for every row."""
        return self.languages.draw(
            batch,
            seed=self._seed,
            position=position,
            rank=self._world.rank,
            world_size=self._world.size,
        )

    def tagged(
        self, part: Batch, drawn_B: Int16s, shape: tuple[int, int] | None = None
    ) -> AgreementInputs:
        """The rows of a batch, both sides tagged with the languages drawn for them.

        With a `fraction`, only its first rows, whose order is random; each then counts for more.
        """
        rows = math.ceil(part.rows * self.config.fraction)
        if shape is not None:
            shape = math.ceil(shape[0] * self.config.fraction), shape[1]
        found = AgreementInputs.of(part.first(rows), drawn_B[:rows], self.languages, shape)
        if rows < part.rows:
            found = replace(found, weight_B=found.weight_B * (part.rows / rows))
        return found.pinned() if shape is not None else found


def unigrams(store: Store) -> Tensor:
    """Log-probabilities [L, V] of tokens in each language's training text, smoothed a little."""
    counts = store.token_counts()
    counts_LV = np.stack([counts[language] for language in store.languages]) + 0.1
    p_LV = counts_LV / counts_LV.sum(axis=1, keepdims=True)
    return torch.from_numpy(np.log(p_LV)).float()
