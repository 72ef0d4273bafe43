"""PyTorch as the engine of a search: rows of ids in, hypotheses out."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch

from accord.model.protocol import Seq2Seq
from accord.search.beam import BeamSearch
from accord.search.decoding import Search
from accord.search.history import Found
from accord.search.result import SearchSettings
from accord.search.rows import fitting_on_cpu
from accord.search.stepping import graph_width
from accord.search.tensors import padded

_CPU = torch.device("cpu")


class TorchEngine:
    """A model on a device. It is used as it is: put it into evaluation mode first.

    With `bf16` its products are computed in bfloat16; softmax and scores are at least fp32.
    """

    def __init__(self, model: Seq2Seq, device: torch.device, *, bf16: bool = False) -> None:
        self.model = model
        self.device = device
        self.bf16 = bf16

    def search(self, settings: SearchSettings, forbidden: Sequence[int]) -> Search:
        """A beam search that never generates the forbidden ids."""
        forbidden_F = torch.tensor(forbidden, dtype=torch.int64, device=self.device)
        search = BeamSearch(self.model, settings, forbidden_F)

        def run(rows: Sequence[Sequence[int]]) -> list[list[Found]]:
            with self.precision():
                return search(*padded(rows, _CPU))

        return run

    def fitting(self, longest: int, settings: SearchSettings) -> int:
        """How many rows to search at once; on a GPU a power of two, as its graphs have."""
        if self.device.type == "cuda":
            return 1 << (max(1, settings.batch_tokens // graph_width(longest)).bit_length() - 1)
        return fitting_on_cpu(longest, settings.batch_tokens, settings.beam)

    def precision(self) -> AbstractContextManager[object]:
        """What to compute in; where bf16 is off, whatever is in force."""
        if not self.bf16:
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)
