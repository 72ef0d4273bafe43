"""All gradients in one buffer: zeroed, exchanged between processes and measured in one go."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from accord.models.tensor_batch import TensorBatch
from accord.objectives.agreement.inputs import AgreementInputs
from accord.ops.cuda_graphs import Action, Recorder
from accord.ops.distributed import add_up
from accord.ops.linear_cross_entropy import Likely


@dataclass(frozen=True)
class MicroBatch:
    """Pairs for the likelihood and, where agreement is on, the same pairs for that."""

    pairs: TensorBatch
    agreement: AgreementInputs | None = None
    consistent: bool = False
    """Whether consistency is on; all that it reads is in the pairs."""
    likely: Likely | None = None
    """What a teacher wants in place of the targets, at every place b * T + t of theirs."""

    @property
    def shape(self) -> tuple[int, ...]:
        """What a CUDA graph depends on."""
        pairs = self.pairs
        found = (self.consistent, *pairs.source_BS.shape, *pairs.target_BT.shape)
        if self.likely is not None:
            return (*found, self.likely.token_NK.shape[1])
        return found if self.agreement is None else (*found, *self.agreement.sentences_RS.shape)

    def to(self, device: torch.device) -> "MicroBatch":
        """On a device."""
        agreement = self.agreement.to(device) if self.agreement is not None else None
        likely = self.likely.to(device) if self.likely is not None else None
        return MicroBatch(self.pairs.to(device), agreement, self.consistent, likely)

    def copy_from(self, other: "MicroBatch") -> None:
        """Take over the contents of one of the same shape."""
        self.pairs.copy_from(other.pairs)
        if self.agreement is not None and other.agreement is not None:
            self.agreement.copy_from(other.agreement)
        if self.likely is not None and other.likely is not None:
            self.likely.copy_from(other.likely)


@dataclass(frozen=True)
class Synthetic:
    """The synthetic pairs of an update: this process's micro-batches of them."""

    parts: list[MicroBatch]
    tokens: int
    """Target tokens in this process."""
    update_tokens: int
    """Target tokens over all processes."""
    weight: float
    """How much their mean loss counts beside that of the gold pairs."""


class FlatGradients:
    """Every trainable parameter's `.grad` is a view into one tensor that never moves.

    That a gradient stays where it is lets CUDA graphs add to it; that all lie together makes the
    exchange between processes a single sum. (DistributedDataParallel would overlap the exchange
    with the backward pass, but follows hooks that a CUDA graph does not run.) With `apart` there is
    a second buffer, for what is to be measured before it joins the rest.
    """

    def __init__(self, model: nn.Module, apart: bool = False) -> None:
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

    def set_apart(self, before: Tensor) -> None:
        """Move what came since the flat gradient was `before` to the second buffer."""
        self.buffers[1] += self.flat - before
        self.flat.copy_(before)

    def join(self, limit: float | None) -> Tensor:
        """Add what was set apart, shortened to `limit` times the length of the rest where longer.

        Returns the squares of both lengths, apart first.
        """
        squares_2 = torch.stack([torch.dot(part, part) for part in self.buffers.flip(0)])
        if limit is not None:
            apart, rest = squares_2.sqrt()
            self.buffers[1] *= (limit * rest / (apart + 1e-12)).clamp(max=1.0)
        self.flat += self.buffers[1]
        return squares_2

    def spoil(self, losses: Tensor) -> None:
        """Make the gradient not finite if a loss is not, so that every process will know of it."""
        self.flat[:1].add_(losses.sum() * 0)

    def exchange(self) -> None:
        """Add up the gradients of all processes."""
        add_up(self.buffers)

    def scale_and_clip(self, scale: float, limit: float) -> Tensor:
        """Scale, then shorten to the norm `limit` where longer; returns the norm before that."""
        norm: Tensor = torch.linalg.vector_norm(self.flat) * scale
        self.flat.mul_((limit / (norm + 1e-6)).clamp_(max=1.0) * scale)
        return norm


# --- Losses and gradients as CUDA graphs: one launch instead of thousands.
#
# A recurrent model issues so many small kernels that the host, not the GPU, sets the pace: 28 ms
# a step against 8 on an H200 (GNMT-512, 128 rows). A graph is recorded once for each shape of
# batch and then replayed; all graphs share their memory, since only one runs at a time.


Losses = Callable[[MicroBatch], Tensor]


@dataclass(frozen=True)
class _Recording:
    launch: Action
    inputs: MicroBatch
    outputs: Tensor


class GraphedLosses:
    """Replays `losses`, a function that adds to the gradients and returns `count` losses."""

    def __init__(self, losses: Losses, gradients: FlatGradients, count: int) -> None:
        self._losses = losses
        self._count = count
        self._gradients = gradients
        self._recordings: dict[tuple[int, ...], _Recording] = {}
        self._recorder = Recorder()

    def __call__(self, batch: MicroBatch) -> Tensor:
        """The losses of a batch in pinned memory; its gradients are added to those there are."""
        if batch.shape not in self._recordings:
            self._recordings[batch.shape] = self._record(batch)
        recording = self._recordings[batch.shape]
        recording.inputs.copy_from(batch)
        recording.launch()
        return recording.outputs.clone()

    def _record(self, batch: MicroBatch) -> _Recording:
        gradients = self._gradients.buffers
        inputs = batch.to(gradients.device)
        outputs = gradients.new_zeros(self._count)
        saved = gradients.clone()  # warming up adds to the gradients

        def compute() -> None:
            outputs.copy_(self._losses(inputs))

        def restore() -> None:
            gradients.copy_(saved)

        launch = self._recorder(compute, warm_ups=2, before=restore)
        return _Recording(launch, inputs, outputs)


def graphed(function: Action) -> Action:
    """A function without inputs, recorded: it must not wait for the device nor set anything up."""
    return Recorder()(function, warm_ups=0)
