"""What is measured while training: metrics.jsonl, and TensorBoard where it is installed."""

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from accord.data.batches import Batch
from accord.files import atomic_write, writing_errors
from accord.objectives.agreement.loss import SUMS, dials
from accord.ops.distributed import World
from accord.training.update import LOSSES, Outcome


class MetricsLog:
    """Appends one JSON object a line. Lines after the step that a run resumes from are dropped,
    so that the file always tells the story of one uninterrupted run."""

    def __init__(self, path: Path, tensorboard: Path, resume_step: int) -> None:
        self._path = path
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
        """One line, on its way to disk at once; a number that is not finite becomes null."""
        line = json.dumps(_finite({"kind": kind, "step": step, **values}), allow_nan=False)
        with writing_errors(self._path):
            self._file.write(line + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in _flat(values):
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def sync(self) -> None:
        """Wait until all lines are on disk: a checkpoint must not be ahead of its log."""
        with writing_errors(self._path):
            os.fsync(self._file.fileno())

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


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            found.append((prefix + name, float(value)))
    return found


@dataclass
class Totals:
    """Sums over all processes and the updates since the last line of the log.

    They are part of a checkpoint, so that the line which a stop interrupts says the same as it
    would have without.
    """

    steps: int = 0
    applied: int = 0
    rows: float = 0.0
    source: float = 0.0
    target: float = 0.0
    scored: float = 0.0
    """Target tokens of the updates that were applied; the losses are over these."""
    loss: float = 0.0
    nll: float = 0.0
    norm: float = 0.0
    seconds: float = 0.0
    wait: float = 0.0
    agreement: list[float] = field(default_factory=lambda: [0.0] * len(SUMS))
    consistency_loss: float = 0.0
    consistency_tokens: float = 0.0
    """Target tokens of the updates with consistency."""
    complete_tokens: float = 0.0
    """Target tokens of synthetic pairs."""
    complete_scored: float = 0.0
    complete_loss: float = 0.0
    complete_nll: float = 0.0
    complete_wait: float = 0.0

    def __post_init__(self) -> None:
        # From the checkpoint of a version that added up other things: this line lacks some.
        if len(self.agreement) != len(SUMS):
            self.agreement = [0.0] * len(SUMS)

    def clear(self) -> None:
        """Begin anew."""
        vars(self).update(vars(Totals()))

    def summary(self) -> dict[str, float | None]:
        """Means and rates; no loss where no update was applied."""
        return {
            "loss": self.loss / self.scored if self.scored else None,
            "nll": self.nll / self.scored if self.scored else None,
            "perplexity": math.exp(min(self.nll / self.scored, 50.0)) if self.scored else None,
            "gradient_norm": self.norm / self.applied if self.applied else None,
            "seconds": self.seconds,
            "source_tokens": self.source,
            "target_tokens": self.target,
            "rows": self.rows,
            "source_tokens_per_s": self.source / self.seconds,
            "target_tokens_per_s": self.target / self.seconds,
            "wait_share": self.wait / self.seconds,
            **(dials(self.agreement, int(self.rows)) if any(self.agreement) else {}),
            **(self._complete() if self.complete_tokens else {}),
            **(self._consistency() if self.consistency_tokens else {}),
        }

    def _consistency(self) -> dict[str, float | None]:
        return {"consistency_loss": self.consistency_loss / self.consistency_tokens}

    def _complete(self) -> dict[str, float | None]:
        """Synthetic pairs, apart from all that is said about gold ones."""
        scored = self.complete_scored
        return {
            "complete_loss": self.complete_loss / scored if scored else None,
            "complete_nll": self.complete_nll / scored if scored else None,
            "complete_tokens": self.complete_tokens,
            "complete_wait": self.complete_wait,
        }


_COUNTS = ("rows", "source", "target", "scored", "complete_tokens", "complete_scored")


class Window:
    """Adds up updates in this process, and now and then over all of them."""

    def __init__(self, world: World, totals: Totals) -> None:
        self.totals = totals
        self._world = world
        self._counts = [0] * len(_COUNTS)
        self._sums_K = torch.zeros(
            2 + len(LOSSES) + len(SUMS), dtype=torch.float64, device=world.device
        )

    def add(self, batch: Batch, outcome: Outcome, synthetic_tokens: int = 0) -> None:
        """One more update; the losses stay on the device."""
        counted = 1 if outcome.applied else 0
        new = (
            batch.rows,
            batch.source_tokens,
            batch.target_tokens,
            counted * batch.target_tokens,
            synthetic_tokens,
            counted * synthetic_tokens,
        )
        self._counts = [old + more for old, more in zip(self._counts, new, strict=True)]
        self.totals.steps += 1
        if outcome.applied:
            self.totals.applied += 1
            self.totals.norm += outcome.gradient_norm
            self._sums_K[2:] += outcome.sums_K
            if outcome.synthetic_2 is not None:
                self._sums_K[:2] += outcome.synthetic_2

    def took(self, seconds: float, wait: float, complete_wait: float = 0.0) -> None:
        """So long did the update take, and so much of that was waiting for gold or synthetic
        pairs."""
        self.totals.seconds += seconds
        self.totals.wait += wait
        self.totals.complete_wait += complete_wait

    def fold(self) -> None:
        """Bring the totals up to date; all processes must ask. This waits for the device."""
        counts = self._sums_K.new_tensor(self._counts)
        sums = self._world.sum(torch.cat([counts, self._sums_K])).tolist()
        for name in (*_COUNTS, "complete_loss", "complete_nll", *LOSSES):
            setattr(self.totals, name, getattr(self.totals, name) + sums.pop(0))
        self.totals.agreement = [
            old + new for old, new in zip(self.totals.agreement, sums, strict=True)
        ]
        self._counts = [0] * len(_COUNTS)
        self._sums_K.zero_()


def progress_line(values: dict[str, float | None]) -> str:
    """What a person wants to know while training runs."""
    shown = {key: float("nan") if value is None else value for key, value in values.items()}
    return (
        "loss {loss:.3f} ppl {perplexity:.1f} lr {lr:.2g} src {source_tokens_per_s:,.0f}/s "
        "tgt {target_tokens_per_s:,.0f}/s wait {wait_share:.0%}"
    ).format_map(shown)


def clock(seconds: float) -> str:
    """A length of time as people write it."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
