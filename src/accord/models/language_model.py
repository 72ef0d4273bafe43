"""Language models: how likely is a sentence in its language, whatever it may be a translation of?

There is one for each language, an LSTM of several layers; they share the table of subwords, and are
trained and kept as one model. As a `Seq2Seq` that reads nothing of its sources but the tag, it is
trained by the likelihood of the targets, on the batches of any other model. Dual learning asks it
how fluent translations are (`accord.objectives.dual`).

Why not one set of weights that reads the tag? It would learn all languages, and after a few words
go on in the one that it reads: a source that is merely copied would seem fluent. A network that has
only seen French finds every German word unlikely.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from accord.data.vocabulary import FIRST_TAG
from accord.models.base import Memory, ScaledEmbedding, Seq2Seq, State
from accord.models.lstm import LSTM, CellState, drop


@dataclass(frozen=True)
class LanguageMemory(Memory):
    """Which language model each row asks."""

    language_B: Tensor

    @property
    def encoding(self) -> Tensor:
        """Nothing: no sentence was read."""
        return torch.zeros_like(self.mask_BS, dtype=torch.float32).unsqueeze(2)


@dataclass(frozen=True)
class LanguageState(State):
    """h and c of each layer of the first language, then of the second, and so on."""

    layers: tuple[CellState, ...]


class LanguageModel(Seq2Seq[LanguageMemory, LanguageState]):
    """A stack of LSTM layers for each language, with residuals, above one table of subwords.

    Every row goes through all stacks and takes what that of its language says: shapes then do not
    depend on which languages a batch holds. The softmax is computed once.
    """

    def __init__(
        self,
        vocabulary_size: int,
        languages: int,
        units: int = 512,
        layers: int = 2,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.units = units
        self.depth = layers
        self.dropout = dropout
        self.target_embedding = ScaledEmbedding(vocabulary_size, units)
        self.layers = nn.ModuleList(LSTM(units, units) for _ in range(languages * layers))

    def encode(
        self, source_BS: Tensor, lengths_B: Tensor, language_B: Tensor | None = None
    ) -> LanguageMemory:
        """Read the tags; a row that only fills up a shape has none, and any language will do."""
        own_B = (source_BS[:, 0] - FIRST_TAG).clamp(min=0)
        return LanguageMemory(torch.ones_like(source_BS, dtype=torch.bool), own_B)

    def decode(self, memory: LanguageMemory, inputs_BTD: Tensor, *, dropout: bool = True) -> Tensor:
        """Hidden vectors [B, T, D] of a whole sequence whose (shifted) inputs are known."""
        inputs_TBD, rate = inputs_BTD.transpose(0, 1), self._rate(dropout)
        zeros_BD = inputs_TBD.new_zeros(inputs_TBD.shape[1], self.units)
        said = []
        for stack in self._stacks():
            hidden_TBD = stack[0].run(drop(inputs_TBD, rate), (zeros_BD, zeros_BD))
            for layer in stack[1:]:
                above_TBD = layer.run(drop(hidden_TBD, rate), (zeros_BD, zeros_BD))
                hidden_TBD = above_TBD + hidden_TBD
            said.append(hidden_TBD.transpose(0, 1))
        return _own(said, memory.language_B)

    def initial_state(
        self, memory: LanguageMemory, *, beam: int = 1, steps: int = 0
    ) -> LanguageState:
        """Nothing is read yet. `steps` is no limit here."""
        rows, width = memory.rows * beam, memory.mask_BS.shape[1]
        zeros_RD = self.output_weight.new_zeros(rows, self.units)
        return LanguageState(
            position=torch.zeros((), dtype=torch.int64, device=zeros_RD.device),
            attention_BS=zeros_RD.new_zeros(rows, width),
            layers=((zeros_RD, zeros_RD),) * len(self.layers),
        )

    def step(
        self,
        memory: LanguageMemory,
        state: LanguageState,
        input_RD: Tensor,
        *,
        dropout: bool = True,
    ) -> tuple[Tensor, LanguageState]:
        """One step: the hidden vectors [R, D] and the next state."""
        rate, before, layers, said = self._rate(dropout), iter(state.layers), [], []
        for stack in self._stacks():
            layers.append(stack[0].step(drop(input_RD, rate), next(before)))
            hidden_RD = layers[-1][0]
            for layer in stack[1:]:
                layers.append(layer.step(drop(hidden_RD, rate), next(before)))
                hidden_RD = layers[-1][0] + hidden_RD
            said.append(hidden_RD)
        language_R = memory.language_B.repeat_interleave(state.rows // memory.rows)
        after = LanguageState(state.position + 1, state.attention_BS, tuple(layers))
        return _own(said, language_R), after

    def _stacks(self) -> list[list[LSTM]]:
        """The layers of each language, the lowest first."""
        layers = [layer for layer in self.layers if isinstance(layer, LSTM)]
        return [layers[k : k + self.depth] for k in range(0, len(layers), self.depth)]

    def _rate(self, dropout: bool) -> float:
        return self.dropout if self.training and dropout else 0.0


def _own(said: Sequence[Tensor], language_R: Tensor) -> Tensor:
    """Of what every language's network says about every row, that of the row's own language."""
    found = said[0]
    for language, other in enumerate(said[1:], start=1):
        mine = (language_R == language).view(-1, *[1] * (other.dim() - 1))
        found = torch.where(mine, other, found)
    return found
