"""A few pairs, a small model, and its gradients."""

import numpy as np
import torch
from torch import Tensor

from accord.data.batches import Batch
from accord.models.gnmt import GNMT
from accord.models.tensor_batch import TensorBatch

V, D = 23, 8
PAIRS = [
    ([2, 5, 7, 9, 1], [10, 14, 1]),
    ([3, 11, 12, 1], [15, 16, 17, 18, 1]),
    ([4, 20, 1], [19, 1]),
    ([2, 21, 6, 8, 13, 1], [22, 10, 11, 1]),
]
Pairs = list[tuple[list[int], list[int]]]


def tensors(pairs: Pairs, extra: int = 0) -> TensorBatch:
    def pad(rows: list[list[int]]) -> np.ndarray:
        width = max(map(len, rows), default=0) + extra
        filled = [row + [0] * (width - len(row)) for row in rows]
        return np.array(filled, dtype=np.int32).reshape(len(rows), width)

    sources, targets = [list(rows) for rows in zip(*pairs, strict=True)] if pairs else ([], [])
    zeros = np.zeros(len(pairs), dtype=np.int16)
    batch = Batch(
        source_BS=pad(sources),
        source_lengths_B=np.array([len(row) for row in sources], dtype=np.int64),
        target_BT=pad(targets),
        target_lengths_B=np.array([len(row) for row in targets], dtype=np.int64),
        source_language_B=zeros,
        target_language_B=zeros,
        corpus_B=zeros,
        line_B=zeros.astype(np.int64),
        update_rows=len(pairs),
        update_target_tokens=sum(map(len, targets)),
    )
    return TensorBatch.from_numpy(batch, torch.device("cpu"))


def make(dtype: torch.dtype = torch.float64, **settings: float) -> GNMT:
    torch.manual_seed(0)
    return GNMT(V, D, dropout=0.0, **settings).to(dtype)


def gradients(model: GNMT) -> dict[str, Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
