"""The pairs of a round as batches, as large as gold ones, made ready in the background."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from accord.data.batches import Batch, BatchStream, Position
from accord.data.prefetch import Prefetcher
from accord.models.tensor_batch import TensorBatch
from accord.objectives.base import Cut, tensors_of
from accord.objectives.distillation.soft_targets import LikelyTargets, Targets
from accord.objectives.distillation.whole_softmax import TaughtInputs, TaughtSentences
from accord.objectives.likelihood import PairInputs
from accord.ops.linear_cross_entropy import Likely

Taught = Targets | TaughtSentences | None
"""What the teacher says beside its translations: likely tokens, or all, which it reads again."""


@dataclass(frozen=True)
class SyntheticBatch:
    """This process's micro-batches of a batch of synthetic pairs."""

    parts: list[PairInputs]
    tokens: int
    """Target tokens in this process."""
    update_tokens: int
    """Target tokens over all processes."""


Batches = Prefetcher[tuple[Position, SyntheticBatch]]


def prefetched(stream: BatchStream, uses: int, taught: Taught, cut: Cut) -> Batches:
    """The batches of so many epochs, from where the stream stands."""
    return Prefetcher(_first(stream, uses), transform=partial(_ready, taught, cut))


def _first(stream: BatchStream, epochs: int) -> Iterator[tuple[Position, Batch]]:
    """The batches of the first epochs of a stream, from where it stands."""
    batches = iter(stream)
    while stream.position.epoch < epochs:
        yield next(batches)


def _ready(
    targets: Taught, cut: Cut, item: tuple[Position, Batch]
) -> tuple[Position, SyntheticBatch]:
    """Runs in the background: what the device will need of a batch."""
    position, batch = item
    taught = targets.beside(batch) if isinstance(targets, TaughtSentences) else batch
    widths = (each.shape[1] for each in (batch.source_BS, batch.target_BT, taught.source_BS))
    width = max(widths)
    rows, length = next(shape for shape in cut.shapes if shape[1] >= width)
    count = max(1, -(-batch.rows // rows))
    shape = (rows, length) if cut.fixed else None
    ready: list[PairInputs] = []
    for k in range(count):
        part = batch.part(k, count)
        pairs = tensors_of(part, shape)
        if isinstance(targets, TaughtSentences):
            read = tensors_of(taught.part(k, count), shape)
            ready.append(TaughtInputs(pairs, taught=read))
        else:
            soft = _soft_targets(targets.of(part), pairs) if targets is not None else None
            ready.append(PairInputs(pairs, soft))
    return position, SyntheticBatch(ready, batch.target_tokens, batch.update_target_tokens)


def _soft_targets(wanted: LikelyTargets, pairs: TensorBatch) -> Likely:
    """For the same places as those of a batch, which may be filled up."""
    rows, length = pairs.target_BT.shape
    more = [(0, rows - len(wanted.token_BTK)), (0, length - wanted.token_BTK.shape[1]), (0, 0)]
    token_BTK = torch.from_numpy(np.pad(wanted.token_BTK, more))
    share_BTK = torch.from_numpy(np.pad(wanted.share_BTK, more))
    found = Likely(token_BTK.flatten(0, 1), share_BTK.flatten(0, 1))
    return found.pinned() if pairs.target_BT.is_pinned() else found
