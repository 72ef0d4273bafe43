"""Batches that are tried and change nothing: does the largest one fit, how long does one take?

Both are found out before training, not in the middle of the night.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from accord.data.batches import Batch
from accord.data.vocabulary import FIRST_TAG
from accord.errors import AccordError
from accord.objectives.base import Cut, Shape, Work
from accord.progress import Progress
from accord.training.update import Updater


class Trial:
    """Computes losses and gradients of batches whose tokens mean nothing."""

    def __init__(self, updater: Updater, vocabulary_size: int, progress: Progress) -> None:
        self._updater, self._size, self._progress = updater, vocabulary_size, progress

    def cut(self, shapes: Sequence[Shape], parts: int) -> Cut:
        """Into as many parts as are asked for, or more where the largest batch does not fit."""
        on_gpu, asked = self._updater.device.type == "cuda", parts
        if on_gpu:
            said = "trying the largest batch; the first time, kernels are compiled"
            self._progress.reach(0, said)
            parts = parts_that_fit(self._try, shapes, self._size, parts)
            if parts != asked:
                self._progress.note(
                    f"the largest batch does not fit at once: split into {parts} parts"
                )
        return Cut(parts, [(-(-rows // parts), length) for rows, length in shapes], on_gpu)

    def seconds_per_update(self, cut: Cut, step: int) -> float:
        """Of an update with what counts at a step."""
        self._progress.reach(0, "trying a batch")
        return seconds_per_update(partial(self._try, step=step), cut, self._size)

    def _try(self, batch: Batch, shape: Shape | None, step: int | None = None) -> None:
        """Losses and gradients in full, of all objectives or of those that count at a step."""
        objectives = self._updater.objectives
        tried = [
            each.largest(batch, shape) if step is None or each.weight(step) else None
            for each in objectives
        ]
        self._updater.accumulate(
            [
                Work() if found is None else Work([found], (0.0,) * len(each.losses))
                for each, found in zip(objectives, tried, strict=True)
            ]
        )


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


# --- How long does an update take? Found out by a batch that changes nothing.

_FEW_TOKENS = 512  # of a batch that is tried on a CPU first
_LONG = 3.0  # seconds of an attempt on a CPU after which there is no other


def seconds_per_update(
    try_batch: Callable[[Batch, Shape | None], object], cut: Cut, vocabulary_size: int
) -> float:
    """Of a batch of middle length. A CPU tries few rows first, and all only if that goes fast."""
    rows, length = cut.shapes[len(cut.shapes) // 2]

    def attempt(rows: int) -> float:
        batch = synthetic_batch(rows, length, vocabulary_size)
        shape = (rows, length) if cut.fixed else None
        seconds = 0.0
        for _ in range(2):  # the first one may compile kernels
            begun = time.perf_counter()
            try_batch(batch, shape)
            if cut.fixed:
                torch.cuda.synchronize()
            seconds = time.perf_counter() - begun
            if seconds > _LONG and not cut.fixed:
                break
        return seconds

    few = rows if cut.fixed else max(1, min(rows, _FEW_TOKENS // length))
    found = attempt(few) * rows / few
    if few < rows and found < _LONG:
        found = attempt(rows)  # a few rows take longer per row than many
    return found * cut.parts


def synthetic_batch(rows: int, length: int, vocabulary_size: int) -> Batch:
    """A full batch of this shape; its tokens mean nothing."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(vocabulary_size // 2, vocabulary_size, (rows, length))
    source_BS = tokens.astype(np.int32)
    source_BS[:, 0] = FIRST_TAG
    lengths = np.full(rows, length)
    none = np.zeros(rows, dtype=np.int16)
    return Batch(
        source_BS,
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
