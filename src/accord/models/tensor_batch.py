"""Batches as tensors on the device that computes."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from accord.data.batches import Batch
from accord.data.vocabulary import EOS, PAD
from accord.models.base import TensorMap

CPU = torch.device("cpu")


@dataclass(frozen=True)
class TensorBatch:
    """A padded batch on the device; nothing in it has to be read back to the host.

    `places_N` are the flat places b * T + t of the target tokens to be scored. Padding may be
    among them, where a fixed shape is wanted: it is not counted, neither in `target_tokens`.
    Languages are numbered as in the experiment; rows that only fill up a shape have 0.
    """

    source_BS: Tensor
    source_lengths_B: Tensor
    target_BT: Tensor
    target_lengths_B: Tensor
    source_language_B: Tensor
    target_language_B: Tensor
    places_N: Tensor
    target_tokens: int

    @staticmethod
    def from_numpy(batch: Batch, device: torch.device = CPU, pin: bool = False) -> "TensorBatch":
        """Send a batch; `pin` makes the transfer asynchronous on CUDA."""
        real_BT = np.arange(batch.target_BT.shape[1]) < batch.target_lengths_B[:, None]
        places_N = np.flatnonzero(real_BT)
        return _on_host(batch, places_N).to(device, pin)

    @staticmethod
    def of_shape(batch: Batch, rows: int, length: int) -> "TensorBatch":
        """A batch in pinned host memory, filled up to exactly this many rows and tokens a row.

        Rows that are added read an end of sentence and have no target.
        """
        more = rows - batch.rows
        source_BS = np.pad(batch.source_BS, ((0, more), (0, length - batch.source_BS.shape[1])))
        source_BS[batch.rows :, 0] = EOS
        filled = replace(
            batch,
            source_BS=source_BS,
            source_lengths_B=np.pad(batch.source_lengths_B, (0, more), constant_values=1),
            target_BT=np.pad(
                batch.target_BT,
                ((0, more), (0, length - batch.target_BT.shape[1])),
                constant_values=PAD,
            ),
            target_lengths_B=np.pad(batch.target_lengths_B, (0, more)),
            source_language_B=np.pad(batch.source_language_B, (0, more)),
            target_language_B=np.pad(batch.target_language_B, (0, more)),
        )
        return _on_host(filled, np.arange(rows * length)).pinned()

    def scored(self, values_BT: Tensor) -> Tensor:
        """What stands at the places to be scored [N, ...], of values for every place [B, T, ...].

        In a batch of a fixed shape these are all places: then nothing is copied.
        """
        values_N = values_BT.flatten(0, 1)
        everywhere = len(self.places_N) == len(values_N)
        return values_N if everywhere else values_N.index_select(0, self.places_N)

    def map_tensors(self, change: TensorMap) -> "TensorBatch":
        """The batch with `change` applied to every tensor."""
        changed: dict[str, Any] = {name: change(getattr(self, name)) for name in _TENSORS}
        return replace(self, **changed)

    def pinned(self) -> "TensorBatch":
        """The batch in memory that a GPU can read by itself."""
        return self.map_tensors(Tensor.pin_memory)

    def to(self, device: torch.device, pin: bool = False) -> "TensorBatch":
        """The batch on a device."""
        source = self.pinned() if pin else self
        return source.map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def copy_from(self, other: "TensorBatch") -> None:
        """Take over the contents of a batch of the same shape."""
        for name in _TENSORS:
            getattr(self, name).copy_(getattr(other, name), non_blocking=True)


_TENSORS = [field.name for field in fields(TensorBatch) if field.type is Tensor]


def _on_host(batch: Batch, places_N: npt.NDArray[np.integer]) -> TensorBatch:
    def tensor(array: npt.NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(np.asarray(array, dtype=np.int64))

    return TensorBatch(
        source_BS=tensor(batch.source_BS),
        source_lengths_B=tensor(batch.source_lengths_B),
        target_BT=tensor(batch.target_BT),
        target_lengths_B=tensor(batch.target_lengths_B),
        source_language_B=tensor(batch.source_language_B),
        target_language_B=tensor(batch.target_language_B),
        places_N=tensor(places_N),
        target_tokens=batch.target_tokens,
    )


def fitting_shape(batch: Batch, shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The first (rows, length) into which a batch fits; shapes are ordered by length."""
    length = max(batch.source_BS.shape[1], batch.target_BT.shape[1])
    return next(shape for shape in shapes if shape[0] >= batch.rows and shape[1] >= length)
