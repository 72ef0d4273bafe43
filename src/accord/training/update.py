"""One update of the weights: gradients of all objectives, clipping, optimiser."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from accord.models.base import Seq2Seq
from accord.objectives.base import GRADIENT_SQUARES, Inputs, Objective, Work
from accord.training.gradients import FlatGradients, Losses, RecordedLosses, graphed
from accord.training.optim import Adafactor


@dataclass(frozen=True)
class Outcome:
    """What an update did. `sums` are this process's, on the device: one vector per objective that
    did something, in the order of its `sums`."""

    sums: Mapping[str, Tensor]
    gradient_norm: float
    applied: bool


class Updater:
    """Turns work into updates; in `world_size` processes, each brings its share of it."""

    def __init__(
        self,
        model: Seq2Seq,
        optimizer: torch.optim.Optimizer,
        objectives: Sequence[Objective[Any]],
        *,
        clip: float,
        bf16: bool,
        graphs: bool,
        world_size: int = 1,
        exchange: torch.dtype = torch.float32,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.objectives = objectives
        self.clip = clip
        self.bf16 = bf16
        self.world_size = world_size
        self.exchange = exchange
        apart = [objective.name for objective in objectives if objective.apart]
        self.gradients = FlatGradients(model, len(apart))
        self.device = self.gradients.flat.device
        self._buffers = {name: 1 + k for k, name in enumerate(apart)}
        # What losses are multiplied with; tensors, so that graphs see them change.
        self._scales: dict[str, Tensor] = {}
        self._scaled: dict[str, tuple[float, ...]] = {}
        self._losses: Losses = self._eager_losses
        self._step: Callable[[], object] = optimizer.step
        if graphs:
            self._losses = RecordedLosses(self._eager_losses, self.gradients)
            if isinstance(optimizer, Adafactor):  # hundreds of small kernels; Adam's are fused
                self._step = graphed(optimizer.step)

    def update(self, work: Sequence[Work[Any]], update_tokens: int) -> Outcome:
        """One step along the gradient of all that the objectives do, by `Updater.objectives`.

        It is divided by the gold target tokens of all micro-batches and processes. A step whose
        loss or gradient is not finite is left out. All processes see the same gradient and so
        decide alike.
        """
        sums = self.accumulate(work)
        for objective in self.objectives:
            if objective.name in sums:
                self.gradients.spoil(sums[objective.name][: len(objective.losses)])
        if self.world_size > 1:
            self.gradients.exchange(self.exchange)
        for objective in self.objectives:
            if objective.apart and objective.name in sums:
                buffer = self._buffers[objective.name]
                squares_2 = self.gradients.join(objective.gradient_limit, buffer)
                sums[objective.name][-len(GRADIENT_SQUARES) :] = squares_2
        norm = float(self.gradients.scale_and_clip(1 / update_tokens, self.clip))
        applied = math.isfinite(norm)
        if applied:
            self._step()
        return Outcome(sums, norm, applied)

    def accumulate(self, work: Sequence[Work[Any]]) -> dict[str, Tensor]:
        """Gradients of this process's micro-batches; their sums, by the objectives' names."""
        self.gradients.zero()
        found = {}
        for objective, done in zip(self.objectives, work, strict=True):
            if done.parts:
                self._scale(objective.scorer, done.scales)
                sums = [self._losses(objective.scorer, part) for part in done.parts]
                found[objective.name] = torch.stack(sums).sum(dim=0)
        return found

    def _scale(self, objective: Objective[Any], scales: tuple[float, ...]) -> None:
        if objective.name not in self._scales:
            self._scales[objective.name] = torch.ones(len(objective.losses), device=self.device)
        if self._scaled.get(objective.name) != scales:
            for scale_1, scale in zip(self._scales[objective.name], scales, strict=True):
                scale_1.fill_(scale)
            self._scaled[objective.name] = scales

    def _eager_losses(self, objective: Objective[Any], inputs: Inputs) -> Tensor:
        before = self.gradients.flat.clone() if objective.apart else None
        with self._autocast():
            terms = objective.loss(self.model, inputs.to(self.device))
        scales = self._scales[objective.name]
        losses = [terms.losses[name] * scales[k] for k, name in enumerate(objective.losses)]
        weighted = sum(losses[1:], start=losses[0])
        if weighted.requires_grad:
            self.gradients.add(weighted)
        if before is not None:
            self.gradients.set_apart(before, self._buffers[objective.name])
        unknown_yet = dict.fromkeys(GRADIENT_SQUARES, torch.zeros_like(weighted))
        known = {**terms.losses, **terms.counts, **unknown_yet}
        return torch.stack([known[name].detach().float() for name in objective.sums])

    def _autocast(self) -> torch.autocast:
        # Graphs cannot use autocast's cache of cast weights, which would not be part of them.
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False
        )
