"""What training, objectives and search ask of a translation model, whatever its architecture.

Legend of the shape suffixes: B sentences, S source length, T target length, D units, V vocabulary,
K hypotheses of each sentence, R = B K those of all sentences.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import TypeVar

from accord.config.model_settings import TagPlace
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


# --- What models hand to whoever uses them.

TensorMap = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Tensors:
    """Tensors by name; some may be in tuples, or in further objects of this kind."""

    def map(self, change: TensorMap) -> Self:
        """The same with `change` applied to every tensor."""
        changed: dict[str, Any] = {
            each.name: _changed(getattr(self, each.name), change) for each in fields(self)
        }
        return replace(self, **changed)


def _changed(value: Any, change: TensorMap) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Tensors):
        return value.map(change)
    if isinstance(value, tuple):
        return tuple(_changed(each, change) for each in value)
    return value


def tensors_of(item: Tensors) -> list[Tensor]:
    """All tensors, in the order of their fields."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    item.map(note)
    return found


@dataclass(frozen=True)
class State(Tensors):
    """What one decoder step leaves to the next one; a model adds what it needs.

    `position` counts the tokens read so far. It has no dimensions and is on the device, so that a
    step need not ask the host. All other tensors have a row for each hypothesis. `attention_BS`
    are the last step's weights over the source.
    """

    position: Tensor
    attention_BS: Tensor

    @property
    def rows(self) -> int:
        """The number of hypotheses."""
        return self.attention_BS.shape[0]

    def select(self, rows_N: Tensor) -> Self:
        """A copy of the given rows, in that order; a row may be taken more than once."""
        return self.map(
            lambda tensor: tensor if tensor is self.position else tensor.index_select(0, rows_N)
        )

    def reorder(self, rows_R: Tensor) -> Self:
        """As many rows as there are, each of them from among the hypotheses of its own sentence.

        A beam does this at every step. Where rows are large, it is better done by an index.
        """
        return self.select(rows_R)


@dataclass(frozen=True)
class Memory(Tensors, ABC):
    """Encoded sources: all that the decoder needs to know about them; a model adds its own.

    Every tensor has a row for each sentence. `mask_BS` is true at real positions. `first_BD` is the
    decoder's first input: the tag of the target language, where the decoder reads it (`model.tag`);
    None stands for the zero vector.
    """

    mask_BS: Tensor
    first_BD: Tensor | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def encoding(self) -> Tensor:
        """A vector for every position [B, S, D], by which two sentences can be compared."""

    @property
    def rows(self) -> int:
        """The number of sentences."""
        return self.mask_BS.shape[0]

    def begin(self, inputs_BTD: Tensor) -> Tensor:
        """The inputs of a decoder, whose first one is the zero vector, with the right first one."""
        if self.first_BD is None:
            return inputs_BTD
        first_B1D = self.first_BD.to(inputs_BTD.dtype).unsqueeze(1)
        return torch.cat([first_B1D, inputs_BTD[:, 1:]], dim=1)

    def begin_step(self, state: State, input_RD: Tensor) -> Tensor:
        """The same for the input of one step, which may be the first."""
        if self.first_BD is None:
            return input_RD
        first_RD = self.first_BD.repeat_interleave(state.rows // self.rows, dim=0)
        return torch.where(state.position == 0, first_RD.to(input_RD.dtype), input_RD)

    def select(self, rows_N: Tensor) -> Self:
        """The given rows, in that order; a row may be taken more than once."""
        return self.map(lambda tensor: tensor.index_select(0, rows_N))

    def join(self, other: Self) -> Self:
        """The rows of both, one below the other."""
        below = iter(tensors_of(other))
        return self.map(lambda tensor: torch.cat([tensor, next(below)]))


def shift_right(inputs_BTD: Tensor) -> Tensor:
    """The same vectors one step later, the zero vector first: see `Memory.begin`."""
    return functional.pad(inputs_BTD[:, :-1], (0, 0, 1, 0))


_Memory = TypeVar("_Memory", bound=Memory, default=Any)
_State = TypeVar("_State", bound=State, default=Any)


class Seq2Seq(nn.Module, ABC, Generic[_Memory, _State]):
    """An encoder and decoder whose softmax shares the target table.

    The decoder reads vectors, not tokens, so that mixtures of tokens can be fed to it as well.
    `dropout=False` switches the decoder's dropout off for one call of a model in training.
    """

    target_embedding: ScaledEmbedding
    tag: TagPlace = "source"
    """Who reads the tag of the target language, which stands at the head of every source row."""
    reads_source_language: bool = False
    """Whether `encode` must be told the language of every row."""

    @abstractmethod
    def encode(
        self, source_BS: Tensor, lengths_B: Tensor, language_B: Tensor | None = None
    ) -> _Memory:
        """Read the sources; `lengths_B` may be on any device, which is not waited for.

        `language_B` (int64, on the model's device) numbers the language of each row, as the
        experiment's `languages` do; rows that only fill up a shape have 0. Models that do not read
        it may be given None.
        """

    @abstractmethod
    def decode(self, memory: _Memory, inputs_BTD: Tensor, *, dropout: bool = True) -> Tensor:
        """Hidden vectors [B, T, D] of a whole sequence whose (shifted) inputs are known."""

    @abstractmethod
    def initial_state(self, memory: _Memory, *, beam: int = 1, steps: int) -> _State:
        """The state before the first step, for `beam` hypotheses of every sentence.

        There will be at most `steps` steps: caches have room for so many, and keep their shape.
        """

    @abstractmethod
    def step(
        self, memory: _Memory, state: _State, input_RD: Tensor, *, dropout: bool = True
    ) -> tuple[Tensor, _State]:
        """One step: the hidden vectors [R, D] and the next state, one position further.

        Every row of the memory serves as many consecutive rows of the state as come on each. Where
        gradients are off, what the state keeps for this position may be written in place: of two
        steps from one state, only the last can be gone on from. `position` is never overwritten.
        """

    def read_tag(
        self, source_BS: Tensor, lengths_B: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """What the encoder is to read of sources, their lengths, and the memory's `first_BD`.

        A row that only fills up a shape has nothing after its tag: it keeps one place of padding.
        """
        if self.tag == "source":
            return source_BS, lengths_B, None
        first_BD = self.embed_target(source_BS[:, 0])
        if self.tag == "both":
            return source_BS, lengths_B, first_BD
        rest_BS = functional.pad(source_BS[:, 1:], (0, 1), value=PAD)
        return rest_BS, (lengths_B - 1).clamp(min=1), first_BD

    def over_rows(self, attention_BS: Tensor) -> Tensor:
        """Weights over what the encoder read, as weights over the rows that it was given."""
        return attention_BS.roll(1, dims=1) if self.tag == "target" else attention_BS

    def kept_numbers(self, steps: int) -> int:
        """How many numbers a hypothesis keeps of so many steps, beside a state of a fixed size."""
        return 0

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
