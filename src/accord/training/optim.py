"""The two optimisers: Adafactor, as in the paper, and Adam with warm-up, the practical choice."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn

OptimizerKind = Literal["adafactor", "adam"]


def build_optimizer(
    kind: OptimizerKind, model: nn.Module, *, learning_rate: float = 0.01
) -> torch.optim.Optimizer:
    """An optimiser over the trainable parameters; a schedule sets its rate before every step."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if kind == "adafactor":
        return Adafactor(trainable, learning_rate)
    fused = all(parameter.is_cuda for parameter in trainable)
    adam = torch.optim.Adam(trainable, lr=learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=fused)
    for parameter in trainable:
        # As Adam itself does at its first step: before that, the trial whether the largest batch
        # fits into memory would not count it.
        adam.state[parameter] = {
            "step": torch.zeros((), device=parameter.device if fused else None),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return adam


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use this rate from the next step on."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


# --- What follows from the step alone, which counts from 1: learning rates, and every n-th
# update.


ScheduleKind = Literal["paper", "inverse-sqrt", "constant"]


def learning_rate(
    step: int,
    kind: ScheduleKind = "paper",
    *,
    peak: float = 0.01,
    warmup: int = 10_000,
    steps_left: int | None = None,
    decay: int = 0,
) -> float:
    """The rate of one step.

    `paper` holds the peak for `warmup` steps; `inverse-sqrt` rises to it in a straight line. Both
    then fall with 1/sqrt(step). With the defaults, `paper` is 1/sqrt(max(step, 10000)). Whatever
    the kind, the last `decay` steps take it to 0: `steps_left` counts this one.
    """
    if decay and steps_left is not None and steps_left < decay:
        peak *= steps_left / decay
    if kind == "constant":
        return peak
    warmup = max(warmup, 1)
    rise = min(step / warmup, 1.0) if kind == "inverse-sqrt" else 1.0
    return peak * rise * math.sqrt(warmup / max(step, warmup))


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
