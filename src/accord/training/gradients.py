"""All gradients in one buffer: zeroed, exchanged between processes and measured in one go."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from accord.objectives.base import Inputs, Objective
from accord.ops.cuda_graphs import Action, Recorder
from accord.ops.distributed import add_up


class FlatGradients:
    """Every trainable parameter's `.grad` is a view into one tensor that never moves.

    That a gradient stays where it is lets CUDA graphs add to it; that all lie together makes the
    exchange between processes a single sum. (DistributedDataParallel would overlap the exchange
    with the backward pass, but follows hooks that a CUDA graph does not run.) There are `apart`
    further buffers, for gradients that are to be measured before they join the rest.
    """

    def __init__(self, model: nn.Module, apart: int = 0) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        total = sum(p.numel() for p in self.parameters)
        first = self.parameters[0]
        self.buffers = torch.zeros(1 + apart, total, dtype=first.dtype, device=first.device)
        self.flat = self.buffers[0]
        parts = torch.split_with_sizes(self.flat, [p.numel() for p in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)

    def zero(self) -> None:
        """Forget the update before."""
        self.buffers.zero_()

    def add(self, loss: Tensor) -> None:
        """Add the gradient of a loss, of all parameters by one kernel instead of one for each."""
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        pairs = [(p.grad, grad) for p, grad in zip(self.parameters, found, strict=True)]
        known = [(total, grad) for total, grad in pairs if total is not None and grad is not None]
        if known:  # a share without rows depends on none
            torch._foreach_add_([total for total, _ in known], [grad for _, grad in known])

    def set_apart(self, before: Tensor, buffer: int = 1) -> None:
        """Move what came since the flat gradient was `before` to a buffer of its own."""
        self.buffers[buffer] += self.flat - before
        self.flat.copy_(before)

    def join(self, limit: float | None, buffer: int = 1) -> Tensor:
        """Add what was set apart, shortened to `limit` times the length of the rest where longer.

        Returns the squares of both lengths, apart first.
        """
        apart_P = self.buffers[buffer]
        squares_2 = torch.stack([torch.dot(part, part) for part in (apart_P, self.flat)])
        if limit is not None:
            apart, rest = squares_2.sqrt()
            apart_P *= (limit * rest / (apart + 1e-12)).clamp(max=1.0)
        self.flat += apart_P
        return squares_2

    def spoil(self, losses: Tensor) -> None:
        """Make the gradient not finite if a loss is not, so that every process will know of it."""
        self.flat[:1].add_(losses.sum() * 0)

    def exchange(self, precision: torch.dtype) -> None:
        """Add up the gradients of all processes, rounded to a precision where that is not theirs.

        All processes get the same sums bit for bit: each is computed once and sent to all.
        """
        sent = self.buffers.to(precision)  # themselves, if they need no rounding
        add_up(sent)
        if sent is not self.buffers:
            self.buffers.copy_(sent)

    def scale_and_clip(self, scale: float, limit: float) -> Tensor:
        """Scale, then shorten to the norm `limit` where longer; returns the norm before that."""
        norm: Tensor = torch.linalg.vector_norm(self.flat) * scale
        self.flat.mul_((limit / (norm + 1e-6)).clamp_(max=1.0) * scale)
        return norm


# --- Losses and gradients as CUDA graphs: one launch instead of thousands.
#
# A recurrent model issues so many small kernels that the host, not the GPU, sets the pace: 28 ms
# per step against 8 on an H200 (GNMT-512, 128 rows). A graph is recorded once for each objective
# and shape of its inputs, and then replayed; all graphs share their memory, since only one runs at
# a time.

Losses = Callable[[Objective[Any], Inputs], Tensor]


@dataclass(frozen=True)
class _Recording:
    launch: Action
    inputs: Inputs
    outputs: Tensor


class RecordedLosses:
    """Replays `losses`, a function that adds to the gradients and returns an objective's sums."""

    def __init__(self, losses: Losses, gradients: FlatGradients) -> None:
        self._losses = losses
        self._gradients = gradients
        self._recordings: dict[tuple[object, ...], _Recording] = {}
        self._recorder = Recorder()

    def __call__(self, objective: Objective[Any], inputs: Inputs) -> Tensor:
        """The sums over inputs in pinned memory; gradients are added to those there are."""
        key = (objective.name, *inputs.shape)
        if key not in self._recordings:
            self._recordings[key] = self._record(objective, inputs)
        recording = self._recordings[key]
        recording.inputs.copy_from(inputs)
        recording.launch()
        return recording.outputs.clone()

    def _record(self, objective: Objective[Any], inputs: Inputs) -> _Recording:
        gradients = self._gradients.buffers
        inputs = inputs.to(gradients.device)
        outputs = gradients.new_zeros(len(objective.sums))
        saved = gradients.clone()  # warming up adds to the gradients

        def compute() -> None:
            outputs.copy_(self._losses(objective, inputs))

        def restore() -> None:
            gradients.copy_(saved)

        launch = self._recorder(compute, before=restore)
        return _Recording(launch, inputs, outputs)


def graphed(function: Action) -> Action:
    """A function without inputs, recorded: it must not wait for the device nor set anything up."""
    return Recorder()(function, warm_ups=0)
