"""When agreement is on, how much it counts, and what of a batch it needs."""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from accord.config.objectives import AgreementConfig
from accord.config.schema import Experiment
from accord.data.batches import Batch, Int16s, Position
from accord.data.store import Store
from accord.graph import TranslationGraph
from accord.objectives.agreement.inputs import AgreementInputs, AuxiliaryLanguages
from accord.objectives.agreement.loss import AgreementSettings, weight_at
from accord.ops.distributed import World
from accord.training.optim import is_due
from accord.training.run import token_counts


class Agreeing:
    """Agreement as an experiment asks for it, in one of several processes."""

    def __init__(
        self,
        config: AgreementConfig,
        graph: TranslationGraph,
        store: Store,
        *,
        seed: int,
        rank: int,
        world_size: int,
    ) -> None:
        self.config = config
        self.settings = AgreementSettings(
            decoding=config.decoding,
            measure=config.measure,
            normalize=config.normalize,
            max_length=config.max_length,
            relative_length=config.relative_length,
            temperature=config.temperature,
            dropout=config.dropout,
            feedback_gradient=config.feedback_gradient,
            # Where only every n-th update computes agreement, its gradient is n times as long.
            gradient_limit=config.gradient_limit and config.gradient_limit * config.every,
            distinct_bigrams=config.distinct_bigrams,
            least_length=config.least_length,
            translations=config.weight > 0,
            encodings=config.encoder_weight > 0,
            unigrams_LV=_unigrams(store),
        )
        self.languages = AuxiliaryLanguages(
            graph, store.vocabulary.tags, law=config.auxiliary, protect=config.protect
        )
        self._seed, self._rank, self._world_size = seed, rank, world_size

    def weights(self, step: int) -> tuple[float, float]:
        """The weights of agreement and of encoder agreement in an update.

        Where only every n-th update computes them, they count n times as much there: in the mean
        over updates their gradient is that of all.
        """
        share = weight_at(step, weight=1.0, start=self.config.start, ramp=self.config.ramp)
        due = is_due(step, start=self.config.start, every=self.config.every)
        share *= self.config.every if due else 0
        return self.config.weight * share, self.config.encoder_weight * share

    def is_on(self, step: int) -> bool:
        """Whether anything has to be computed; otherwise the run is Basic, bit for bit."""
        return any(self.weights(step))

    def draw(self, batch: Batch, position: Position) -> Int16s:
        """A third language for every row."""
        return self.languages.draw(
            batch,
            seed=self._seed,
            position=position,
            rank=self._rank,
            world_size=self._world_size,
        )

    def inputs(
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


def agreeing_of(experiment: Experiment, store: Store, world: World) -> Agreeing | None:
    """None where the experiment is Basic."""
    config = experiment.objective.agreement
    if config is None or not (config.weight or config.encoder_weight):
        return None
    return Agreeing(
        config,
        experiment.graph,
        store,
        seed=experiment.training_seed,
        rank=world.rank,
        world_size=world.size,
    )


def _unigrams(store: Store) -> Tensor:
    """Log-probabilities [L, V] of tokens in each language's training text, smoothed a little."""
    counts = token_counts(store)
    counts_LV = np.stack([counts[language] for language in store.languages]) + 0.1
    p_LV = counts_LV / counts_LV.sum(axis=1, keepdims=True)
    return torch.from_numpy(np.log(p_LV)).float()
