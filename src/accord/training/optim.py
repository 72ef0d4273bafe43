"""The two optimisers: Adafactor, as in the paper, and Adam with warm-up, the practical choice."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from accord.training.adafactor import Adafactor

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
    step: int, kind: ScheduleKind = "paper", *, peak: float = 0.01, warmup: int = 10_000
) -> float:
    """The rate of one step.

    `paper` holds the peak for `warmup` steps; `inverse-sqrt` rises to it in a straight line. Both
    then fall with 1/sqrt(step). With the defaults, `paper` is 1/sqrt(max(step, 10000)).
    """
    if kind == "constant":
        return peak
    warmup = max(warmup, 1)
    rise = min(step / warmup, 1.0) if kind == "inverse-sqrt" else 1.0
    return peak * rise * math.sqrt(warmup / max(step, warmup))
