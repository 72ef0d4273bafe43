"""Steps one after the other: called directly, or replayed as CUDA graphs.

A step issues about a hundred small kernels. Launching each of them takes a host longer than the GPU
takes to compute it; a graph is launched once. Graphs are recorded for fixed shapes, so sentences
are padded to one of few widths and numbers of rows. All graphs share their working memory, since
only one runs at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from accord.inference.beam_step import Beam, Record, Task
from accord.models.base import TensorMap
from accord.ops.cuda_graphs import Recorder

Advance = Callable[[Task, Beam], tuple[Beam, Record]]

_WIDTH = 16  # sources are padded to a multiple of so many tokens
_LEAST_ROWS = 64  # fewer sentences than this are no faster


class Stepper(Protocol):
    """Holds a beam and moves it on."""

    @property
    def beam(self) -> Beam:
        """The hypotheses as the last step left them."""
        ...

    def step(self) -> Record:
        """Move the beam by one step."""
        ...


class EagerStepper:
    """Calls the step as it is."""

    def __init__(self, advance: Advance, task: Task, beam: Beam) -> None:
        self._advance = advance
        self._task = task.repeat(beam.log_p_BK.shape[1])
        self.beam = beam

    def step(self) -> Record:
        """Move the beam by one step."""
        self.beam, record = self._advance(self._task, self.beam)
        return record


@dataclass(frozen=True)
class FixedStepper:
    """Replays a step that reads and overwrites `beam`, whose tensors stay where they are."""

    replay: Callable[[], object]
    task: Task
    beam: Beam
    record: Record

    def step(self) -> Record:
        """Move the beam by one step."""
        self.replay()
        return Record(self.record.choices_3BK.clone(), self.record.ends_BK.clone())


class CudaRecorder:
    """Records steps on a device, which need not be the one of the thread that asks, with the
    precision in force."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._recorder = Recorder()

    def __call__(self, function: Callable[[], None]) -> Callable[[], object]:
        """A function without inputs as one that launches all it does at once."""
        dtype, enabled = torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda")
        # A graph cannot use autocast's cache of cast weights, which would not be part of it.
        uncached = torch.autocast("cuda", dtype, enabled=enabled, cache_enabled=False)
        with torch.cuda.device(self._device), uncached:
            return self._recorder(function)


class FixedShapes:
    """Steps recorded once for each shape of task, and then replayed."""

    def __init__(
        self, advance: Advance, record: Callable[[Callable[[], None]], Callable[[], object]]
    ) -> None:
        self._advance = advance
        self._record = record
        self._steppers: dict[tuple[int, ...], FixedStepper] = {}

    def load(self, task: Task, beam: Beam) -> FixedStepper:
        """The stepper of this shape, holding this task and beam."""
        shape = tuple(task.memory.mask_BS.shape)
        if shape not in self._steppers:
            self._steppers[shape] = self._recorded(task, beam)
        stepper = self._steppers[shape]
        _copy(stepper.task, task)
        _copy(stepper.beam, beam)
        return stepper

    def _recorded(self, task: Task, beam: Beam) -> FixedStepper:
        task = task.map(torch.clone)
        # The types are those that a step gives, which may be wider than a first beam's.
        after, record = self._step(task, beam)
        beam = after.map(torch.clone)

        def step() -> None:
            after, found = self._step(task, beam)
            _copy(beam, after)
            record.choices_3BK.copy_(found.choices_3BK)
            record.ends_BK.copy_(found.ends_BK)

        return FixedStepper(self._record(step), task, beam, record)

    def _step(self, task: Task, beam: Beam) -> tuple[Beam, Record]:
        # The beam's copies of the memory are made anew at every step: that is cheap for a GPU,
        # whereas keeping them for every shape would take many gigabytes.
        return self._advance(task.repeat(beam.log_p_BK.shape[1]), beam)


def graph_rows(rows: int) -> int:
    """The number of sentences that a graph is recorded for: a power of two."""
    return max(_LEAST_ROWS, 1 << (rows - 1).bit_length())


def graph_width(width: int) -> int:
    """The source length that a graph is recorded for."""
    return -(-width // _WIDTH) * _WIDTH


class _Mappable(Protocol):
    def map(self, change: TensorMap) -> object: ...


def _tensors(item: _Mappable) -> list[Tensor]:
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    item.map(note)
    return found


def _copy(to: _Mappable, of: _Mappable) -> None:
    for mine, theirs in zip(_tensors(to), _tensors(of), strict=True):
        mine.copy_(theirs)
