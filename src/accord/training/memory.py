"""Does the largest batch fit? Found out before training, not in the middle of the night."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from accord.corpus.batches import Batch
from accord.errors import AccordError


def parts_that_fit(
    try_batch: Callable[[Batch, tuple[int, int]], object],
    shapes: Sequence[tuple[int, int]],
    vocabulary_size: int,
    parts: int,
) -> int:
    """Into how many parts an update must be split so that its largest batches fit into memory.

    Tried are the batch with the most tokens and the one with the longest rows; an attempt computes
    losses and gradients in full.
    """
    largest = {max(shapes, key=lambda shape: shape[0] * shape[1]), shapes[-1]}
    most = max(rows for rows, _ in largest)
    while True:
        try:
            for rows, length in sorted(largest, reverse=True):
                shape = (-(-rows // parts), length)
                try_batch(synthetic_batch(*shape, vocabulary_size), shape)
            return parts
        except torch.OutOfMemoryError:
            pass  # tensors of the attempt live as long as the error does
        if parts >= most:
            raise AccordError(
                "not even a single row of the longest batch fits into memory",
                where="training.batch_tokens",
                fix="lower cleaning.max_subwords or model.units, or use a larger device",
            )
        torch.cuda.empty_cache()
        parts = min(2 * parts, most)


def synthetic_batch(rows: int, length: int, vocabulary_size: int) -> Batch:
    """A full batch of this shape; its tokens mean nothing."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(vocabulary_size // 2, vocabulary_size, (rows, length))
    lengths = np.full(rows, length)
    none = np.zeros(rows, dtype=np.int16)
    return Batch(
        tokens.astype(np.int32),
        lengths,
        tokens.astype(np.int32),
        lengths,
        none,
        none,
        none,
        lengths,
        update_rows=rows,
        update_target_tokens=rows * length,
    )
