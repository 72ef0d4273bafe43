"""Adafactor (Shazeer & Stern 2018) as tensor2tensor computes it, without waiting for the device.

torch.optim.Adafactor reads two numbers back to the host for every parameter, which cost 8 of 25 ms
of a step on an H200; here nothing is read back, so that the step can also be a CUDA graph.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

_EPSILON_SQUARED = 1e-30  # added to the squared gradient
_EPSILON_SCALE = 1e-3  # smallest scale of a parameter
_DECAY_EXPONENT = 0.8
_UPDATE_CLIP = 1.0


class Adafactor(torch.optim.Optimizer):
    """No momentum; factored second moments for matrices; steps relative to a parameter's scale.

    The learning rate is a tensor on the parameters' device: see `set_learning_rate`.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float) -> None:
        parameters = list(parameters)
        device = parameters[0].device
        defaults = {
            "lr": torch.tensor(learning_rate, device=device),
            "step": torch.zeros((), device=device),
        }
        super().__init__(parameters, defaults)
        for parameter in parameters:
            shape = parameter.shape
            if len(shape) < 2:
                self.state[parameter] = {"full": torch.zeros_like(parameter)}
            else:
                self.state[parameter] = {
                    "row": parameter.new_zeros(shape[:-1]),
                    "column": parameter.new_zeros(shape[:-2] + shape[-1:]),
                }

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        if closure is not None:
            raise ValueError("Adafactor takes no closure")
        for group in self.param_groups:
            group["step"] += 1
            fresh = group["step"] ** -_DECAY_EXPONENT  # 1 - decay: the weight of the newest
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _update(parameter, parameter.grad, self.state[parameter], fresh, group["lr"])


def _update(
    parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], fresh: Tensor, rate: Tensor
) -> None:
    squared = gradient.square().add_(_EPSILON_SQUARED)
    if "full" in state:
        full = state["full"].lerp_(squared, fresh)
        update = gradient * full.rsqrt()
    else:
        row = state["row"].lerp_(squared.mean(dim=-1), fresh)
        column = state["column"].lerp_(squared.mean(dim=-2), fresh)
        by_row = (row / row.mean(dim=-1, keepdim=True)).rsqrt_()
        update = torch.mul(gradient, by_row.unsqueeze(-1), out=squared)
        update.mul_(column.rsqrt().unsqueeze(-2))
    root = math.sqrt(parameter.numel())
    size = (parameter.norm() / root).clamp_(min=_EPSILON_SCALE)
    excess = (update.norm() / (root * _UPDATE_CLIP)).clamp_(min=1.0)
    parameter.sub_(update.mul_(rate * size / excess))
