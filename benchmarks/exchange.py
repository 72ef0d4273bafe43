"""How long processes take to exchange gradients: in fp32 or bf16, after the backward pass or in it.

    torchrun --nnodes 2 … benchmarks/exchange.py [--parameters 55853056] [--layers 16] [--rows 512]

First the exchange alone, of as many numbers as a model has parameters. Then a whole update of a
plain stack of layers, whose gradients are exchanged at its end, as `accord train` does, or while
the backward pass is under way, as DistributedDataParallel does. Kinds take turns, so that what else
the machine does meets all of them; the table has the median and the range.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from accord.ops.distributed import World, joined_world
from accord.training.gradients import FlatGradients
from where import where

TURNS = 7
_BUCKET_MB = (
    2  # DistributedDataParallel sends so much at a time; its own 25 are all of a small model
)


def stack(width: int, layers: int) -> nn.Module:
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*parts)


def exchanges(gradients: FlatGradients) -> dict[str, Callable[[], object]]:
    return {
        "exchange alone, fp32": lambda: gradients.exchange(torch.float32),
        "exchange alone, bf16": lambda: gradients.exchange(torch.bfloat16),
    }


def updates(world: World, width: int, layers: int, rows: int) -> dict[str, Callable[[], object]]:
    inputs = torch.randn(rows, width, device=world.device)
    plain = stack(width, layers).to(world.device)
    gradients = FlatGradients(plain)
    spread = DistributedDataParallel(
        stack(width, layers).to(world.device),
        bucket_cap_mb=_BUCKET_MB,
    )

    def loss(model: nn.Module) -> Tensor:
        found: Tensor = model(inputs).square().mean()
        return found

    def after(precision: torch.dtype) -> None:
        gradients.zero()
        gradients.add(loss(plain))
        gradients.exchange(precision)

    def within() -> None:
        spread.zero_grad()
        loss(spread).backward()  # type: ignore[no-untyped-call]

    def alone() -> None:
        gradients.zero()
        gradients.add(loss(plain))

    return {
        "update without an exchange": alone,
        "update, exchange after it, fp32": lambda: after(torch.float32),
        "update, exchange after it, bf16": lambda: after(torch.bfloat16),
        "update, exchange within it, fp32": within,
    }


def timed(world: World, action: Callable[[], object]) -> float:
    world.any(False)  # all begin together
    began = time.perf_counter()
    action()
    if world.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--parameters", type=int, default=55_853_056)
    options.add_argument("--layers", type=int, default=16)
    options.add_argument("--width", type=int, default=512)
    options.add_argument("--rows", type=int, default=512)
    given = options.parse_args()
    torch.set_num_threads(1)
    with joined_world() as world:
        if world.size == 1:
            raise SystemExit("start it with torchrun, in two processes or more")
        numbers = nn.ParameterList([torch.zeros(given.parameters, device=world.device)])
        actions = exchanges(FlatGradients(numbers))
        actions |= updates(world, given.width, given.layers, given.rows)
        found: dict[str, list[float]] = {name: [] for name in actions}
        for _ in range(1 + TURNS):
            for name, action in actions.items():
                found[name].append(timed(world, action))
        found = {name: seconds[1:] for name, seconds in found.items()}  # the first sets things up
        if world.is_first:
            count = given.layers * given.width * (given.width + 1)
            print(
                f"{world.size} processes, {where()}; {given.parameters:,} numbers alone, ", end=""
            )
            print(f"{count:,} parameters and {given.rows} rows in an update, {TURNS} turns")
            print("| | s | from | to |\n|---|--:|--:|--:|")
            for name, seconds in found.items():
                middle = statistics.median(seconds)
                print(f"| {name} | {middle:.2f} | {min(seconds):.2f} | {max(seconds):.2f} |")


if __name__ == "__main__":
    main()
