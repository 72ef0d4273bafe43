"""What a process computes on at once."""

from dataclasses import dataclass

import torch

from accord.model.tensors import TensorBatch
from accord.objective.agreement_inputs import AgreementInputs
from accord.objective.linear_cross_entropy import Likely


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
