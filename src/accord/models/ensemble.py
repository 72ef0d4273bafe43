"""An ensemble of models with one vocabulary, as a model: what all of them find likely.

Its logits are the mean of its members', so that the probability of a token goes with the geometric
mean of what they give it. That mean is one product of all hidden vectors, side by side, with all
softmax matrices, side by side: whoever searches or scores need not know that there are several.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from accord.models.base import Memory, Seq2Seq, State


@dataclass(frozen=True)
class EnsembleMemory(Memory):
    """What every member has encoded."""

    members: tuple[Memory, ...]

    @property
    def encoding(self) -> Tensor:
        """The vectors of all members, side by side."""
        return torch.cat([member.encoding for member in self.members], dim=-1)


@dataclass(frozen=True)
class EnsembleState(State):
    """The state of every member; attention is the mean of theirs."""

    members: tuple[State, ...]

    @staticmethod
    def of(members: Sequence[State]) -> "EnsembleState":
        """Of members that have taken as many steps as each other."""
        weights_MBS = torch.stack([member.attention_BS for member in members])
        position = members[0].position
        alike = tuple(replace(member, position=position) for member in members)
        return EnsembleState(position, weights_MBS.mean(dim=0), alike)

    def select(self, rows_N: Tensor) -> "EnsembleState":
        """A copy of the given rows, as each member makes it."""
        return self._changed(rows_N, lambda member: member.select(rows_N))

    def reorder(self, rows_R: Tensor) -> "EnsembleState":
        """As many rows as there are, as each member does it."""
        return self._changed(rows_R, lambda member: member.reorder(rows_R))

    def _changed(self, rows_N: Tensor, change: Callable[[State], State]) -> "EnsembleState":
        return replace(
            self,
            attention_BS=self.attention_BS.index_select(0, rows_N),
            members=tuple(map(change, self.members)),
        )


class EnsembleModel(Seq2Seq[EnsembleMemory, EnsembleState]):
    """Several models that read the same rows; vectors of tokens are those of all, side by side."""

    def __init__(self, members: Sequence[Seq2Seq]) -> None:
        super().__init__()
        self.members: Sequence[Seq2Seq] = nn.ModuleList(members)  # type: ignore[assignment]
        self.reads_source_language = any(member.reads_source_language for member in members)

    def encode(
        self, source_BS: Tensor, lengths_B: Tensor, language_B: Tensor | None = None
    ) -> EnsembleMemory:
        """Each member reads the sources, and their tag as it does."""
        memories = tuple(member.encode(source_BS, lengths_B, language_B) for member in self.members)
        return EnsembleMemory(memories[0].mask_BS, memories)

    def decode(self, memory: EnsembleMemory, inputs_BTD: Tensor, *, dropout: bool = True) -> Tensor:
        """Hidden vectors of all members, side by side."""
        parts = zip(self.members, memory.members, self._parts(inputs_BTD), strict=True)
        return torch.cat([one.decode(mine, x, dropout=dropout) for one, mine, x in parts], dim=-1)

    def initial_state(self, memory: EnsembleMemory, *, beam: int = 1, steps: int) -> EnsembleState:
        """The states of all members before the first step."""
        pairs = zip(self.members, memory.members, strict=True)
        return EnsembleState.of(
            [member.initial_state(mine, beam=beam, steps=steps) for member, mine in pairs]
        )

    def step(
        self,
        memory: EnsembleMemory,
        state: EnsembleState,
        input_RD: Tensor,
        *,
        dropout: bool = True,
    ) -> tuple[Tensor, EnsembleState]:
        """One step of all members."""
        parts = zip(self.members, memory.members, state.members, self._parts(input_RD), strict=True)
        found = [one.step(mine, before, x, dropout=dropout) for one, mine, before, x in parts]
        hidden_RD = torch.cat([hidden for hidden, _ in found], dim=-1)
        return hidden_RD, EnsembleState.of([after for _, after in found])

    def kept_numbers(self, steps: int) -> int:
        """Of all members."""
        return sum(member.kept_numbers(steps) for member in self.members)

    def embed_target(self, ids: Tensor) -> Tensor:
        """What each member reads of a token, side by side."""
        return torch.cat([member.embed_target(ids) for member in self.members], dim=-1)

    def embed_mixture(self, probabilities: Tensor) -> Tensor:
        """The same of distributions."""
        return torch.cat([member.embed_mixture(probabilities) for member in self.members], dim=-1)

    @property
    def output_weight(self) -> Tensor:
        """All softmax matrices, side by side, so that their product is the mean of the logits."""
        weights = [member.output_weight for member in self.members]
        return torch.cat(weights, dim=1) / len(weights)

    def _parts(self, inputs: Tensor) -> Sequence[Tensor]:
        widths = [member.output_weight.shape[1] for member in self.members]
        return torch.split(inputs, widths, dim=-1)
