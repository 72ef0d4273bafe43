"""Dual learning as an objective: when it is on, what of a batch it needs, and what it reports."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from accord.config.model_settings import ModelSettings
from accord.config.objectives import DualConfig
from accord.config.section import Location, Naming
from accord.data.batches import Batch, Int16s, Position
from accord.data.store import Store
from accord.errors import AccordError, traced_to
from accord.models.base import Seq2Seq
from accord.models.build import build_model
from accord.models.checkpoint import Checkpoint, find_checkpoint
from accord.objectives.agreement.inputs import NONE
from accord.objectives.agreement.objective import unigrams
from accord.objectives.base import (
    Context,
    Cut,
    Objective,
    Shape,
    Tally,
    Terms,
    Work,
    due_weight,
    other_run,
)
from accord.objectives.dual.inputs import DualInputs, RoundTrips
from accord.objectives.dual.loss import COUNTS, dual

_KEY: Location = ("objective", "dual", "language_model")

# Healthy translations are seldom the sentence itself, are in the language asked for, and are kept.
_MOST_COPIES = 0.2
_LEAST_RIGHT = 0.5
_MOST_DROPPED = 0.5


class DualObjective(Objective[DualInputs]):
    """Dual learning as an experiment asks for it, in one of several processes."""

    name = "dual"
    counts = COUNTS

    def __init__(self, config: DualConfig, context: Context) -> None:
        experiment, store = context.experiment, context.store
        self.config = config
        self.trips = RoundTrips(experiment.graph, store.vocabulary.tags)
        self.language_model, self._weights = _language_model(config, context)
        self._unigrams_LV = unigrams(store).to(context.world.device)
        self._seed, self._world = experiment.training_seed, context.world
        self._place = context.named(_KEY)

    def weight(self, step: int) -> float:
        """0 before the start, and in updates without it."""
        config = self.config
        return due_weight(step, weight=config.weight, start=config.start, every=config.every)

    def inputs(self, step: int, position: Position, batch: Batch, cut: Cut) -> list[DualInputs]:
        """One side of every pair and the language it is sent to; no parts without any."""
        drawn_B = self.trips.draw(
            batch,
            seed=self._seed,
            position=position,
            rank=self._world.rank,
            world_size=self._world.size,
        )
        found = [
            self._tagged(part, drawn_B[k :: cut.parts], shape)
            for k, (part, shape) in enumerate(cut(batch))
        ]
        return [part for part in found if part.weight_B.any()]

    def work(self, step: int, batch: Batch, inputs: list[DualInputs]) -> Work[DualInputs]:
        """A mean over the rows of the update, where the likelihood is one over its tokens."""
        scale = self.weight(step) * batch.update_target_tokens / batch.update_rows
        return Work(inputs, (scale,), batch.target_tokens)

    def loss(self, model: Seq2Seq, inputs: DualInputs) -> Terms:
        """Sums over sentences."""
        return dual(model, self.language_model, inputs, self.config, self._unigrams_LV)

    def metrics(self, tally: Tally, sentences: float) -> dict[str, float | None]:
        """Rewards in nats a token, over translations that were kept, and how these look."""
        of = tally.sums
        if not of.get("sentences"):
            return {}
        sent, kept = of["sentences"], of["kept"]
        rewards = ("reward", "fluency", "reconstruction")
        return {
            **{f"dual_{name}": of[name] / kept if kept else None for name in rewards},
            "dual_dropped": 1 - kept / sent,
            "dual_copies": of["copies"] / sent,
            "dual_right_language": of["right_language"] / sent,
            "dual_length": of["tokens"] / sent,
            "dual_length_ratio": of["tokens"] / of["reference_tokens"],
            "dual_sentences": sent / sentences,
        }

    def largest(self, batch: Batch, shape: Shape | None) -> DualInputs:
        """The whole batch; what is drawn changes no shape."""
        return self._tagged(batch, np.full(batch.rows, NONE, dtype=np.int16), shape)

    def warning(self, values: Mapping[str, Any]) -> str | None:
        """What is wrong with the translations that are rewarded."""
        if "dual_copies" not in values:
            return None
        copies, right = values["dual_copies"], values["dual_right_language"]
        dropped, problem, remedy = values["dual_dropped"], "", "a larger objective.dual.alpha"
        if copies > _MOST_COPIES:
            problem = f"{copies:.0%} of the round trips only copy their sentences"
        elif right < _LEAST_RIGHT:
            problem = f"only {right:.0%} of the round trips pass through the right language"
        elif dropped > _MOST_DROPPED:
            problem = f"{dropped:.0%} of the round trips repeat themselves, are short or endless"
            remedy = "a later objective.dual.start or a smaller weight"
        return f"{problem}; watch the zero-shot scores, try {remedy}" if problem else None

    def state(self) -> dict[str, Any]:
        """Which language model judges."""
        return {"language_model": self._weights}

    def restore(self, state: Mapping[str, Any], checkpoint: Path) -> None:
        """Refuse another judge than before: the run would not be the one it claims to be."""
        if state["language_model"] != self._weights:
            raise AccordError(
                f"{self.config.language_model} has other weights than when the run began",
                where=self._place,
                fix="give its run back as it was, or go on in another `run` that branches off "
                "this one (training.init_from)",
            )

    def _tagged(self, part: Batch, drawn_B: Int16s, shape: Shape | None) -> DualInputs:
        found = DualInputs.of(part, drawn_B, self.trips, self.config.max_length, shape)
        return found.pinned() if shape is not None else found


def find_language_model(
    config: DualConfig, store: Store, named: Naming
) -> tuple[ModelSettings, Checkpoint]:
    """What the language model is, and the checkpoint of its run that judges."""
    with traced_to(named(_KEY)):
        run = other_run(config.language_model, store, "the language model")
        model = run.experiment().model
        if model.translates:
            raise AccordError(
                f"this is the run of a {model.kind}, not of a language model",
                where=str(run.path),
                fix="name one of the same prepared data whose model.kind is language-model",
            )
        return model, find_checkpoint(run.path, "best")


def _language_model(config: DualConfig, context: Context) -> tuple[Seq2Seq, str]:
    """The model, which learns nothing here, and the checksum of its weights."""
    store = context.store
    settings, chosen = find_language_model(config, store, context.named)
    model = build_model(settings, len(store.vocabulary), 0, len(store.languages))
    chosen.load_model(model)
    model.eval().requires_grad_(False).to(context.world.device)
    return model, str(chosen.state["files"]["model.safetensors"])
