"""One process or many: started by `torchrun`, joined by NCCL on GPUs and gloo on CPUs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class World:
    """This process among all; alone unless torchrun says otherwise."""

    rank: int
    size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is the one process that writes and speaks."""
        return self.rank == 0

    def any(self, flag: bool) -> bool:
        """Whether the flag is up in any process; all of them must ask."""
        if self.size == 1:
            return flag
        return bool(self.sum(torch.tensor(float(flag), device=self.device)) > 0)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes; all of them must ask."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def share(self, text: str) -> str:
        """What the first process says, in all processes."""
        if self.size == 1:
            return text
        box: list[str] = [text]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]


@contextmanager
def joined_world() -> Iterator[World]:
    """Find the other processes, if there are any, and part from them in the end."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    if size == 1:
        yield World(rank, size, device)
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(rank, size, device)
    finally:
        dist.destroy_process_group()
