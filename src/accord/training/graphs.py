"""Losses and gradients as CUDA graphs: one launch instead of thousands.

A recurrent model issues so many small kernels that the host, not the GPU, sets the pace: 28 ms a
step against 8 on an H200 (GNMT-512, 128 rows). A graph is recorded once for each shape of batch and
then replayed; all graphs share their memory, since only one runs at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from accord.training.gradients import FlatGradients
from accord.training.micro_batch import MicroBatch

Losses = Callable[[MicroBatch], Tensor]
_WARM_UPS = 2  # runs before recording, in which libraries choose algorithms and set up work space


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    inputs: MicroBatch
    outputs: Tensor


class GraphedLosses:
    """Replays `losses`, a function that adds to the gradients and returns a tensor of losses."""

    def __init__(self, losses: Losses, gradients: FlatGradients) -> None:
        self._losses = losses
        self._gradients = gradients
        self._recordings: dict[tuple[int, ...], _Recording] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: MicroBatch) -> Tensor:
        """The losses of a batch in pinned memory; its gradients are added to those there are."""
        if batch.shape not in self._recordings:
            self._recordings[batch.shape] = self._record(batch)
        recording = self._recordings[batch.shape]
        recording.inputs.copy_from(batch)
        recording.graph.replay()
        return recording.outputs.clone()

    def _record(self, batch: MicroBatch) -> _Recording:
        inputs = batch.to(self._gradients.flat.device)
        before = self._gradients.flat.clone()  # warming up adds to the gradients
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                outputs = self._losses(inputs).clone()
        torch.cuda.current_stream().wait_stream(stream)
        self._gradients.flat.copy_(before)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            outputs.copy_(self._losses(inputs))
        return _Recording(graph, inputs, outputs)


def graphed(function: Callable[[], None]) -> Callable[[], None]:
    """A function without inputs, recorded: it must not wait for the device nor set anything up."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay
