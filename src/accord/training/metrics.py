"""What is measured while training: metrics.jsonl, and TensorBoard where it is installed."""

import json
import math
import time
from pathlib import Path
from typing import Any

import torch

from accord.corpus.batches import Batch
from accord.corpus.prefetch import Prefetcher
from accord.files import atomic_write
from accord.training.distributed import World
from accord.training.update import Outcome


class MetricsLog:
    """Appends one JSON object a line. Lines after the step that a run resumes from are dropped,
    so that the file always tells the story of one uninterrupted run."""

    def __init__(self, path: Path, tensorboard: Path, resume_step: int) -> None:
        self._drop_after(path, resume_step)
        self._file = path.open("a", encoding="utf-8")
        self._board = _tensorboard(tensorboard, resume_step)

    @staticmethod
    def _drop_after(path: Path, step: int) -> None:
        if not path.is_file():
            return
        kept = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line of a process that was killed while writing
            if entry["step"] <= step:
                kept.append(line)
        with atomic_write(path) as file:
            file.writelines(f"{line}\n" for line in kept)

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """One line, on its way to disk at once."""
        self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in _flat(values):
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Nothing more to write."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def _tensorboard(directory: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(directory), purge_step=step + 1)


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            found.append((prefix + name, float(value)))
    return found


class Window:
    """What happened since the last line of the log."""

    def __init__(self, batches: Prefetcher[Any]) -> None:
        self.steps = self.rows = self.source = self.target = 0
        self.losses: list[torch.Tensor] = []
        self.norm = self.rate = self.paused = 0.0
        self._batches = batches
        self._wait = batches.wait_seconds
        self._start = self._last = time.perf_counter()

    def add(self, batch: Batch, outcome: Outcome, rate: float) -> None:
        """One more update."""
        self.steps += 1
        self.rows += batch.rows
        self.source += batch.source_tokens
        self.target += batch.target_tokens
        self.losses.append(outcome.losses_2)
        self.norm += outcome.gradient_norm if outcome.applied else 0.0
        self.rate = rate
        self._last = time.perf_counter()

    def pause(self) -> None:
        """Time since the last update was not training: validation, saving."""
        self.paused += time.perf_counter() - self._last
        self._last = time.perf_counter()

    def summary(self, world: World) -> dict[str, float]:
        """Means and rates over all processes; reading the losses waits for the device."""
        seconds = time.perf_counter() - self._start - self.paused
        sums = torch.tensor(
            [self.source, self.target, self.rows], dtype=torch.float64, device=world.device
        )
        losses = torch.stack(self.losses).sum(dim=0).double()
        source, target, rows, loss, nll = world.sum(torch.cat([sums, losses])).tolist()
        return {
            "loss": loss / target,
            "nll": nll / target,
            "perplexity": math.exp(min(nll / target, 50.0)),
            "lr": self.rate,
            "gradient_norm": self.norm / self.steps,
            "seconds": seconds,
            "source_tokens": source,
            "target_tokens": target,
            "rows": rows,
            "source_tokens_per_s": source / seconds,
            "target_tokens_per_s": target / seconds,
            "wait_share": (self._batches.wait_seconds - self._wait) / seconds,
        }
