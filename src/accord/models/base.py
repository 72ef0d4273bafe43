"""What training, objectives and search ask of a translation model, whatever its architecture.

Legend of the shape suffixes: B rows, S source length, T target length, D units, V vocabulary.
Every tensor of a Memory or State has the rows first, so that both can be re-ordered row by row.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from accord.data.vocabulary import PAD

# --- Token vectors on a common scale, with padding as the zero vector.


class ScaledEmbedding(nn.Module):
    """A table drawn from N(0, 1/units) whose rows are read times sqrt(units).

    The PAD row is a row like any other for a softmax that shares the table, but is read as zero.
    """

    def __init__(self, vocabulary_size: int, units: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary_size, units))
        self.scale = math.sqrt(units)
        nn.init.normal_(self.weight, std=units**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors of token ids of any shape."""
        scale = (ids != PAD).to(self.weight.dtype).mul_(self.scale)
        return functional.embedding(ids, self.weight, padding_idx=PAD) * scale.unsqueeze(-1)

    def mix(self, probabilities: Tensor) -> Tensor:
        """The expected vector under distributions [..., V]: a one-hot one gives the token's."""
        # Taking PAD's share off keeps the table aligned for fast kernels; slicing would not.
        padding = probabilities[..., PAD, None] * self.weight[PAD]
        return (probabilities @ self.weight - padding) * self.scale


# One pair per decoder layer: (h, c) of an LSTM, or cached (keys, values) of self-attention.
Layers = tuple[tuple[Tensor, Tensor], ...]
TensorMap = Callable[[Tensor], Tensor]


def _map_layers(layers: Layers, change: TensorMap) -> Layers:
    return tuple((change(first), change(second)) for first, second in layers)


@dataclass(frozen=True)
class State:
    """What one decoder step leaves to the next one.

    `feed_BD` is the attention output of the step, `attention_BS` its weights over the source.
    """

    layers: Layers
    feed_BD: Tensor
    attention_BS: Tensor

    def map(self, change: TensorMap) -> "State":
        """The state with `change` applied to every tensor."""
        return State(
            _map_layers(self.layers, change), change(self.feed_BD), change(self.attention_BS)
        )

    def select(self, rows_N: Tensor) -> "State":
        """The given rows, in that order; a row may be taken more than once."""
        return self.map(lambda tensor: tensor.index_select(0, rows_N))


@dataclass(frozen=True)
class Memory:
    """Encoded sources: all that the decoder needs to know about them.

    `mask_BS` is true at real positions; `layers` is where the decoder starts from.
    """

    keys_BSD: Tensor
    values_BSD: Tensor
    mask_BS: Tensor
    layers: Layers

    @property
    def rows(self) -> int:
        """The number of sentences."""
        return self.mask_BS.shape[0]

    def map(self, change: TensorMap) -> "Memory":
        """The memory with `change` applied to every tensor."""
        return Memory(
            change(self.keys_BSD),
            change(self.values_BSD),
            change(self.mask_BS),
            _map_layers(self.layers, change),
        )

    def join(self, other: "Memory") -> "Memory":
        """The rows of both, one below the other."""
        pairs = zip(self.layers, other.layers, strict=True)
        return Memory(
            torch.cat([self.keys_BSD, other.keys_BSD]),
            torch.cat([self.values_BSD, other.values_BSD]),
            torch.cat([self.mask_BS, other.mask_BS]),
            tuple((torch.cat([a, c]), torch.cat([b, d])) for (a, b), (c, d) in pairs),
        )

    def select(self, rows_N: Tensor) -> "Memory":
        """The given rows, in that order; a row may be taken more than once."""
        return self.map(lambda tensor: tensor.index_select(0, rows_N))

    def repeat(self, times: int) -> "Memory":
        """Every row `times` times in succession, as the hypotheses of a beam want it."""
        return self.map(lambda tensor: tensor.repeat_interleave(times, dim=0))


def shift_right(inputs_BTD: Tensor) -> Tensor:
    """The same vectors one step later; the first input of a decoder is the zero vector."""
    return functional.pad(inputs_BTD[:, :-1], (0, 0, 1, 0))


class Seq2Seq(nn.Module, ABC):
    """An encoder and decoder whose softmax shares the target table.

    The decoder reads vectors, not tokens, so that mixtures of tokens can be fed to it as well.
    `dropout=False` switches the decoder's dropout off for one call of a model in training.
    """

    target_embedding: ScaledEmbedding

    @abstractmethod
    def encode(self, source_BS: Tensor, lengths_B: Tensor) -> Memory:
        """Read the sources; `lengths_B` may be on any device, which is not waited for."""

    @abstractmethod
    def initial_state(self, memory: Memory) -> State:
        """The state before the first step."""

    @abstractmethod
    def decode(self, memory: Memory, inputs_BTD: Tensor, *, dropout: bool = True) -> Tensor:
        """Hidden vectors [B, T, D] of a whole sequence whose (shifted) inputs are known."""

    @abstractmethod
    def step(
        self, memory: Memory, state: State, input_BD: Tensor, *, dropout: bool = True
    ) -> tuple[Tensor, State]:
        """One step: the hidden vectors [B, D] and the next state with its attention weights."""

    def embed_target(self, ids: Tensor) -> Tensor:
        """Decoder inputs of target tokens, of any shape."""
        vectors: Tensor = self.target_embedding(ids)
        return vectors

    def embed_mixture(self, probabilities: Tensor) -> Tensor:
        """Decoder inputs of distributions over the target vocabulary [..., V]."""
        return self.target_embedding.mix(probabilities)

    def shifted_embeddings(self, target_BT: Tensor) -> Tensor:
        """Teacher-forcing inputs: the zero vector, then all target tokens but the last."""
        return functional.pad(self.embed_target(target_BT[:, :-1]), (0, 0, 1, 0))

    @property
    def output_weight(self) -> Tensor:
        """The softmax matrix [V, D]."""
        return self.target_embedding.weight

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over the vocabulary: no bias, no scaling."""
        return functional.linear(hidden, self.output_weight)
