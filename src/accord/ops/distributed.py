"""One process or many: started by `torchrun`, joined by NCCL on GPUs and gloo on CPUs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

# Its functions take the group of all processes as a default when it is imported, and optimisers
# import it. After joining, that would keep the group for good, and with it threads that may abort
# the process as Python ends. So it is imported here, before any process joins.
import torch.distributed.nn
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from accord.errors import AccordError
from accord.machine import cores


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
            add_up(tensor)
        return tensor

    def share(self, text: str) -> str:
        """What the first process says, in all processes."""
        if self.size == 1:
            return text
        box: list[str] = [text]
        with _lost_processes():
            dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]


def add_up(tensor: Tensor) -> None:
    """Replace a tensor by its sum over all processes."""
    with _lost_processes():
        dist.all_reduce(tensor)


@contextmanager
def _lost_processes() -> Iterator[None]:
    """Say in a sentence what happened, so that the cause is not buried under a traceback."""
    try:
        yield
    except RuntimeError as error:
        raise AccordError(
            f"lost touch with another process: {error}",
            fix="its own message says why it ended; the same command resumes the run",
        ) from error


def processes_here() -> int:
    """How many of the processes share this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def _store(size: int) -> Any:
    """Where the processes find each other.

    torchrun keeps this store when it restarts them, and with it the addresses of the dead, on
    which the restarted would wait. On one machine the count of restarts tells the two apart;
    machines do not agree on that count, and need TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 instead.
    """
    store = next(rendezvous("env://"))[0]
    if processes_here() < size:
        return store
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(restarts, store)  # type: ignore[attr-defined]


def use_threads(wanted: int | None) -> int:
    """Set the number of CPU threads; by default half of this process's share, at most 8.

    Idle threads of OpenMP spin: on a machine that is doing something else, as many threads as
    cores ran 25 times slower than one. Half is safe, and the same on every run of a machine.
    """
    threads = wanted or max(1, min(8, cores() // (2 * processes_here())))
    torch.set_num_threads(threads)
    return threads


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
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo", store=_store(size), rank=rank, world_size=size
    )
    yield World(rank, size, device)
    # Not after an error: the others may be waiting for this process, and parting waits for them.
    dist.destroy_process_group()
