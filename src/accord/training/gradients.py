"""All gradients in one buffer: zeroed, exchanged between processes and measured in one go."""

import torch
from torch import Tensor, nn

from accord.training.distributed import add_up


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
