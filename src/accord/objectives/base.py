"""Objective: one thing that training optimises. The trainer has a list of them and names none.

In an update each objective is asked in turn: what it reads (`inputs`, in a background thread), what
of it counts how much (`work`), and its losses (`loss`, once for each micro-batch, on a GPU replayed
as a CUDA graph). Losses are sums, not means: `scales` put them on the scale of a sum over the gold
target tokens of the update, by which the gradient is divided in the end. Then accumulated
micro-batches and several processes give the very gradient of one large batch.

Where `weight` is 0, nothing of an objective is computed, and the run is that of the others alone,
bit for bit. To add one: docs/extend.md.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from accord.config.checks import dotted
from accord.config.schema import Experiment
from accord.config.section import Naming
from accord.data.batches import Batch, Position
from accord.data.store import Store
from accord.errors import AccordError
from accord.files import expand
from accord.models.base import Seq2Seq
from accord.models.tensor_batch import TensorBatch, fitting_shape
from accord.ops.distributed import World
from accord.progress import Progress
from accord.run_directory import RunDirectory

Shape = tuple[int, int]
"""Rows, and tokens per row."""

# Squared lengths of a gradient that is kept apart, and of the rest: the last two of its sums.
GRADIENT_SQUARES = ("gradient_square", "rest_gradient_square")


class Inputs(Protocol):
    """What an objective reads of one micro-batch: tensors, on the host until `to`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """All that a CUDA graph depends on."""
        ...

    def to(self, device: torch.device) -> Self:
        """On a device."""
        ...

    def copy_from(self, other: Any) -> None:
        """Take over the contents of one of the same shape."""
        ...


I = TypeVar("I", bound=Inputs)  # noqa: E741 (a type's name)


@dataclass(frozen=True)
class Terms:
    """What is computed from a micro-batch: losses, and further sums without gradient, by name."""

    losses: Mapping[str, Tensor]
    counts: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Work(Generic[I]):
    """What an objective does in one update: its micro-batches, and the scale of each loss."""

    parts: Sequence[I] = ()
    scales: tuple[float, ...] = ()
    tokens: int = 0
    """Target tokens of this process that its losses are about."""
    waited: float = 0.0
    """Seconds until it was there."""


@dataclass
class Tally:
    """What an objective has added up since the last line of the log, over all processes."""

    sums: dict[str, float] = field(default_factory=dict)
    """By the objective's names, over the updates that were applied."""
    tokens: float = 0.0
    scored: float = 0.0
    """Tokens of the updates that were applied."""
    waited: float = 0.0

    def mean(self, name: str) -> float | None:
        """Over the tokens that were scored; None where there are none."""
        return self.sums.get(name, 0.0) / self.scored if self.scored else None


@dataclass(frozen=True)
class Cut:
    """How batches are cut into micro-batches, and whether those are filled up to fixed shapes."""

    parts: int
    shapes: Sequence[Shape]
    """Of micro-batches, shortest first."""
    fixed: bool

    def __call__(self, batch: Batch) -> list[tuple[Batch, Shape | None]]:
        """The micro-batches of a batch, each with the shape that it is to be filled up to."""
        parts = [batch.part(k, self.parts) for k in range(self.parts)]
        return [(part, fitting_shape(part, self.shapes) if self.fixed else None) for part in parts]


def tensors_of(part: Batch, shape: Shape | None) -> TensorBatch:
    """A micro-batch as tensors on the host, filled up where a shape is given."""
    return TensorBatch.of_shape(part, *shape) if shape else TensorBatch.from_numpy(part)


@dataclass(frozen=True)
class Context:
    """What objectives are built from."""

    experiment: Experiment
    store: Store
    world: World
    model: Seq2Seq
    run: RunDirectory
    bf16: bool
    progress: Progress
    named: Naming = dotted
    """How users are told of a key of the experiment."""


def other_run(path: str, store: Store, who: str) -> RunDirectory:
    """Another run that an objective asks, if it speaks the same subwords."""
    found = RunDirectory(Path(expand(path)))
    theirs, mine = found.vocabulary(), store.vocabulary
    if theirs.model != mine.model or theirs.tags != mine.tags:
        raise AccordError(
            f"{who} has another vocabulary",
            where=str(found.path),
            fix="name a run that was trained on the same prepared data",
        )
    return found


@dataclass(frozen=True)
class Session:
    """What an objective knows once training is about to begin."""

    cut: Cut
    log: Callable[[str, int, dict[str, Any]], None]
    """Writes a line of metrics.jsonl: its kind, the step, its values."""
    told: Callable[[], bool]
    """Whether somebody said stop: then give up waiting."""
    latest_step: Callable[[], int]
    """A step that training will hardly get past; the same in all processes."""


class Cancelled(Exception):  # noqa: N818 (not an error: somebody said stop)
    """Waiting was given up because training is to stop; the run can go on from its state."""


class Objective(ABC, Generic[I]):
    """One thing that training optimises."""

    name: str
    """Of its section of the experiment file, its state in checkpoints, its sums."""
    losses: tuple[str, ...] = ("loss",)
    """Names of what `loss` returns with a gradient; each has a scale."""
    counts: tuple[str, ...] = ()
    """Names of the further sums that `loss` returns."""
    apart: bool = False
    """Whether its gradient is measured, and limited, before it joins that of the others."""
    gradient_limit: float | None = None
    """Longest gradient that is kept apart, in lengths of that of all others."""

    @property
    def sums(self) -> tuple[str, ...]:
        """Names of all that is added up."""
        return (*self.losses, *self.counts, *(GRADIENT_SQUARES if self.apart else ()))

    @property
    def scorer(self) -> "Objective[I]":
        """Whose `loss` is computed: that of another one, if it is the same on other inputs.

        Both then share their CUDA graphs.
        """
        return self

    @abstractmethod
    def weight(self, step: int) -> float:
        """How much it counts in an update, counted from 1; 0 means that nothing is computed."""

    @abstractmethod
    def inputs(self, step: int, position: Position, batch: Batch, cut: Cut) -> list[I]:
        """What it reads of a gold batch. Runs in a background thread."""

    @abstractmethod
    def work(self, step: int, batch: Batch, inputs: list[I]) -> Work[I]:
        """What it does in this update, at the time of the update."""

    @abstractmethod
    def loss(self, model: Seq2Seq, inputs: I) -> Terms:
        """Sums over a micro-batch on the device, which must not be waited for."""

    @abstractmethod
    def metrics(self, tally: Tally, sentences: float) -> dict[str, float | None]:
        """Readable figures for the log, from sums over updates of so many gold sentences."""

    # --- what few objectives need -------------------------------------------------------------

    def largest(self, batch: Batch, shape: Shape | None) -> I | None:
        """Inputs of a whole batch, to see whether the largest fits into memory, or to time one."""
        return None

    def warning(self, values: Mapping[str, Any]) -> str | None:
        """What is wrong, by the values of a line of the log, and what to try."""
        return None

    def begin(self, session: Session) -> None:
        """Training is about to begin, from the state that was restored, if any."""

    def updated(self) -> None:
        """An update has been made."""

    def state(self) -> dict[str, Any] | None:
        """Plain data for the checkpoint, from which `restore` goes on exactly here."""
        return None

    def tensors(self) -> dict[str, Mapping[str, Tensor]]:
        """Tensors for the checkpoint, by the name of their file."""
        return {}

    def restore(self, state: Mapping[str, Any], checkpoint: Path) -> None:
        """Go on from what a checkpoint of this run holds; not called where a run branches off."""

    def saved(self) -> None:
        """A checkpoint was written, and older ones deleted: delete what none needs. First process
        only."""

    def explain(self, error: Exception) -> None:
        """Tell an error of training what went wrong here before it."""

    def close(self) -> None:
        """Nothing more is asked."""


def is_due(step: int, *, start: int, every: int) -> bool:
    """Whether an update, counted from 1, is one of every `every` after `start`."""
    return step > start and (step - start - 1) % every == 0


def due_weight(step: int, *, weight: float, start: int, every: int) -> float:
    """How much what only every n-th update computes counts: n times as much there, else 0."""
    return weight * every if is_due(step, start=start, every=every) else 0.0
