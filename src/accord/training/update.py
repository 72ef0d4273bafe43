"""One update of the weights: gradients of all micro-batches, clipping, optimiser."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from accord.model.protocol import Seq2Seq
from accord.model.tensors import TensorBatch
from accord.objective.likelihood import composite_likelihood
from accord.training.adafactor import Adafactor
from accord.training.gradients import FlatGradients
from accord.training.graphs import GraphedLosses, graphed


@dataclass(frozen=True)
class Outcome:
    """What an update did. `losses_2` holds this process's summed loss and nll, on the device."""

    losses_2: Tensor
    gradient_norm: float
    applied: bool


class Updater:
    """Turns batches into updates; in `world_size` processes, each brings its share of a batch."""

    def __init__(
        self,
        model: Seq2Seq,
        optimizer: torch.optim.Optimizer,
        *,
        label_smoothing: float,
        clip: float,
        bf16: bool,
        graphs: bool,
        world_size: int = 1,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.label_smoothing = label_smoothing
        self.clip = clip
        self.bf16 = bf16
        self.world_size = world_size
        self.gradients = FlatGradients(model)
        self.device = self.gradients.flat.device
        self._losses: Callable[[TensorBatch], Tensor] = self._eager_losses
        self._step: Callable[[], object] = optimizer.step
        if graphs:
            self._losses = GraphedLosses(self._eager_losses, self.gradients)
            if isinstance(optimizer, Adafactor):  # hundreds of small kernels; Adam's are fused
                self._step = graphed(optimizer.step)

    def update(self, batches: Sequence[TensorBatch], update_tokens: int) -> Outcome:
        """One step along the mean gradient over the tokens of all micro-batches and processes.

        A step whose loss or gradient is not finite is left out. All processes see the same
        gradient and so decide alike.
        """
        losses_2 = self.accumulate(batches)
        self.gradients.spoil(losses_2)
        if self.world_size > 1:
            self.gradients.exchange()
        norm = float(self.gradients.scale_and_clip(1 / update_tokens, self.clip))
        applied = math.isfinite(norm)
        if applied:
            self._step()
        return Outcome(losses_2, norm, applied)

    def accumulate(self, batches: Sequence[TensorBatch]) -> Tensor:
        """Gradients of the summed loss of this process's micro-batches; summed loss and nll."""
        self.gradients.zero()
        return torch.stack([self._losses(batch) for batch in batches]).sum(dim=0)

    def _eager_losses(self, batch: TensorBatch) -> Tensor:
        batch = batch.to(self.device)
        # Graphs cannot use autocast's cache of cast weights, which would not be part of them.
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False
        ):
            terms = composite_likelihood(self.model, batch, label_smoothing=self.label_smoothing)
        if terms.loss.requires_grad:
            terms.loss.backward()  # type: ignore[no-untyped-call]
        return torch.stack([terms.loss.detach(), terms.nll]).float()
