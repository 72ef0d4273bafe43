"""Steps one after the other: called directly, or replayed as CUDA graphs.

A step issues about a hundred small kernels. Launching each of them takes a host longer than the GPU
takes to compute it; a graph is launched once. Graphs are recorded for fixed shapes, so sentences
are padded to one of few widths and numbers of rows. All graphs share their working memory and what
they read and write, since only one runs at a time: caches of every shape would fill a GPU.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from accord.inference.beam_step import Beam, Record, Task
from accord.models.base import Tensors, tensors_of
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
        self._task = task
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
        self._steppers: dict[tuple[torch.Size, ...], FixedStepper] = {}
        self._task_room, self._beam_room = _Room(), _Room()

    def load(self, task: Task, beam: Beam) -> FixedStepper:
        """The stepper of this shape, holding this task and beam."""
        shape = tuple(tensor.shape for tensor in (*tensors_of(task), *tensors_of(beam)))
        if shape not in self._steppers:
            # Recording makes a step, which writes in place and into what all shapes share.
            kept = beam.map(torch.clone)
            self._steppers[shape] = self._recorded(task, beam)
            beam = kept
        stepper = self._steppers[shape]
        _copy(stepper.task, task)
        _copy(stepper.beam, beam)
        return stepper

    def _recorded(self, task: Task, beam: Beam) -> FixedStepper:
        # The types are those that a step gives, which may be wider than a first beam's.
        after, record = self._advance(task, beam)
        if not (self._task_room.has_room_for(task) and self._beam_room.has_room_for(after)):
            # They would keep the smaller memory alive. Where sizes rise bit by bit, as they do over
            # batches of many lengths, all of that together was half a GPU.
            self._steppers.clear()
        task, beam = self._task_room.hold(task), self._beam_room.hold(after)

        def step() -> None:
            after, found = self._advance(task, beam)
            _copy(beam, after)
            record.choices_3BK.copy_(found.choices_3BK)
            record.ends_BK.copy_(found.ends_BK)

        return FixedStepper(self._record(step), task, beam, record)


_Held = TypeVar("_Held", bound=Tensors)


class _Room:
    """Memory in which tensors of like kind and any shape lie in turns, each kind in its place."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, torch.dtype], Tensor] = {}

    def has_room_for(self, item: Tensors) -> bool:
        """Whether the item fits into the memory that there is."""
        return all(
            self._size(kind, tensor.dtype) >= tensor.numel()
            for kind, tensor in enumerate(tensors_of(item))
        )

    def _size(self, kind: int, dtype: torch.dtype) -> int:
        block = self._blocks.get((kind, dtype))
        return -1 if block is None else len(block)

    def hold(self, item: _Held) -> _Held:
        """A copy of the item that overwrites the one held before, which must not be used then."""
        kinds = itertools.count()

        def place(tensor: Tensor) -> Tensor:
            kind, size = next(kinds), tensor.numel()
            if self._size(kind, tensor.dtype) < size:
                self._blocks.pop((kind, tensor.dtype), None)  # before there is another one
                self._blocks[kind, tensor.dtype] = tensor.new_empty(size)
            return self._blocks[kind, tensor.dtype][:size].view(tensor.shape)

        held = item.map(place)
        _copy(held, item)
        return held


def graph_rows(rows: int) -> int:
    """The number of sentences that a graph is recorded for: a power of two."""
    return max(_LEAST_ROWS, 1 << (rows - 1).bit_length())


def graph_width(width: int) -> int:
    """The source length that a graph is recorded for."""
    return -(-width // _WIDTH) * _WIDTH


def _copy(to: Tensors, of: Tensors) -> None:
    """Overwrite tensors by others, but not those that a step has written in place."""
    pairs = zip(tensors_of(to), tensors_of(of), strict=True)
    changed = [(mine, theirs) for mine, theirs in pairs if not theirs.is_set_to(mine)]
    overwritten = {_storage(mine) for mine, _ in changed}
    # What is read from a place that is to be overwritten must be read before.
    read = [x.clone() if _storage(x) in overwritten else x for _, x in changed]
    for (mine, _), theirs in zip(changed, read, strict=True):
        mine.copy_(theirs)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
