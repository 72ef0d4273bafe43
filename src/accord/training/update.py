"""One update of the weights: gradients of all micro-batches, clipping, optimiser."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from accord.config.objectives import ConsistencyConfig
from accord.models.base import Seq2Seq
from accord.models.tensor_batch import TensorBatch
from accord.objectives.agreement.inputs import AgreementInputs
from accord.objectives.agreement.loss import SUMS, AgreementSettings, agreement
from accord.objectives.consistency import consistent_likelihood
from accord.objectives.likelihood import composite_likelihood
from accord.ops.linear_cross_entropy import Likely
from accord.training.adafactor import Adafactor
from accord.training.gradients import FlatGradients, GraphedLosses, MicroBatch, Synthetic, graphed

# What is added up over target tokens; those of agreement (`SUMS`) follow.
LOSSES = ("loss", "nll", "consistency_loss", "consistency_tokens")


@dataclass(frozen=True)
class Outcome:
    """What an update did. `sums_K` is this process's, on the device: `LOSSES`, then what agreement
    adds up (`SUMS`). `synthetic_2` are loss and nll of synthetic pairs, if any."""

    sums_K: Tensor
    gradient_norm: float
    applied: bool
    synthetic_2: Tensor | None = None


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
        agreement: AgreementSettings | None = None,
        consistency: ConsistencyConfig | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.label_smoothing = label_smoothing
        self.clip = clip
        self.bf16 = bf16
        self.world_size = world_size
        self.gradients = FlatGradients(model, apart=agreement is not None)
        self.device = self.gradients.flat.device
        self.agreement = agreement and agreement.to(self.device)
        self.consistency = consistency
        # Weights of agreement and of encoder agreement; tensors, so that graphs see them change.
        self._weights_2 = torch.zeros(2, device=self.device)
        # Weight of a pair's likelihood: 1 but for synthetic pairs.
        self._weight = torch.ones((), device=self.device)
        self._losses: Callable[[MicroBatch], Tensor] = self._eager_losses
        self._step: Callable[[], object] = optimizer.step
        if graphs:
            count = len(LOSSES) + len(SUMS)
            self._losses = GraphedLosses(self._eager_losses, self.gradients, count)
            if isinstance(optimizer, Adafactor):  # hundreds of small kernels; Adam's are fused
                self._step = graphed(optimizer.step)

    def update(
        self,
        batches: Sequence[MicroBatch],
        update_tokens: int,
        update_rows: int = 1,
        weights: tuple[float, float] = (0.0, 0.0),
        synthetic: Synthetic | None = None,
    ) -> Outcome:
        """One step along the mean gradient over the tokens of all micro-batches and processes.

        `weights` are those of agreement and encoder agreement, which are means over the rows of
        the update where the likelihood is a mean over its tokens. The loss of synthetic pairs is a
        mean over their own tokens, so that it counts the same however many there are. A step whose
        loss or gradient is not finite is left out. All processes see the same gradient and so
        decide alike.
        """
        for weight_1, weight in zip(self._weights_2, weights, strict=True):
            weight_1.fill_(weight * update_tokens / update_rows)
        sums_K = self.accumulate(batches)
        self.gradients.spoil(sums_K[: len(LOSSES)])
        synthetic_2 = None
        if synthetic is not None:
            synthetic_2 = self._add(synthetic, update_tokens)
            self.gradients.spoil(synthetic_2)
        if self.world_size > 1:
            self.gradients.exchange()
        if self.agreement is not None and any(weights):
            # Its last two sums are the squared lengths of the gradients of agreement and the rest.
            sums_K[-2:] = self.gradients.join(self.agreement.gradient_limit)
        norm = float(self.gradients.scale_and_clip(1 / update_tokens, self.clip))
        applied = math.isfinite(norm)
        if applied:
            self._step()
        return Outcome(sums_K, norm, applied, synthetic_2)

    def accumulate(self, batches: Sequence[MicroBatch]) -> Tensor:
        """Gradients of the summed losses of this process's micro-batches; the sums themselves."""
        self.gradients.zero()
        return torch.stack([self._losses(batch) for batch in batches]).sum(dim=0)

    def _add(self, synthetic: Synthetic, update_tokens: int) -> Tensor:
        """Add the gradients of synthetic pairs, on the scale of those summed over gold tokens."""
        self._weight.fill_(synthetic.weight * update_tokens / synthetic.update_tokens)
        sums_2 = torch.stack([self._losses(batch)[:2] for batch in synthetic.parts]).sum(dim=0)
        self._weight.fill_(1.0)
        return sums_2

    def _eager_losses(self, batch: MicroBatch) -> Tensor:
        batch = batch.to(self.device)
        if batch.consistent:
            losses_K = self._consistency(batch.pairs)
        else:
            losses_K = self._likelihood(batch.pairs, batch.likely)
        if batch.agreement is None:
            return torch.cat([losses_K, losses_K.new_zeros(len(SUMS))])
        # After the likelihood's backward pass, so that its dropout and memory are those of Basic.
        return torch.cat([losses_K, self._agreement(batch.agreement)])

    def _agreement(self, inputs: AgreementInputs) -> Tensor:
        if self.agreement is None:
            raise ValueError("inputs for agreement, but no settings of it")
        before = self.gradients.flat.clone()
        with self._autocast():
            terms = agreement(self.model, inputs, self.agreement)
        weighted = terms.loss * self._weights_2[0] + terms.encoder_loss * self._weights_2[1]
        weighted.backward()  # type: ignore[no-untyped-call]
        self.gradients.set_apart(before)
        return terms.sums_K.float()

    def _likelihood(self, pairs: TensorBatch, likely: Likely | None) -> Tensor:
        with self._autocast():
            terms = composite_likelihood(
                self.model, pairs, label_smoothing=self.label_smoothing, likely=likely
            )
        if terms.loss.requires_grad:
            (terms.loss * self._weight).backward()  # type: ignore[no-untyped-call]
        zero = torch.zeros_like(terms.nll)
        return torch.stack([terms.loss.detach(), terms.nll, zero, zero]).float()

    def _consistency(self, pairs: TensorBatch) -> Tensor:
        """The likelihood and, from the same pass, consistency; both are means over tokens."""
        if self.consistency is None:
            raise ValueError("a batch for consistency, but no settings of it")
        with self._autocast():
            terms, found = consistent_likelihood(
                self.model,
                pairs,
                divergence=self.consistency.divergence,
                label_smoothing=self.label_smoothing,
            )
        weighted = terms.loss * self._weight + found.loss * self.consistency.weight
        weighted.backward()  # type: ignore[no-untyped-call]
        sums = (terms.loss, terms.nll, found.loss, found.tokens)
        return torch.stack([value.detach().float() for value in sums])

    def _autocast(self) -> torch.autocast:
        # Graphs cannot use autocast's cache of cast weights, which would not be part of them.
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False
        )
