"""Contextual parameter generation: weights made from vectors of languages (Platanios et al. 2018).

A generator holds another model as a shape. It makes the shape's encoder weights from the vector l_s
of the source language and its decoder weights from that of the target language, l_t, and calls the
shape with them:

    θ_encoder = W_encoder l_s + b_encoder        θ_decoder = W_decoder l_t + b_decoder

Tables of embeddings are not generated. What `encode` computes for the decoder's attention (keys and
values) belongs to the decoder: it is made from l_t. Biases b are the weights of the shape under its
own names. So a checkpoint of a plain model can be loaded; with W = 0 the generator is that model.

All rows of a batch should be of one direction (`one_direction`): then weights are made once for all
of them. Where rows differ, they are computed group by group and put back in place. A CUDA graph
cannot look at its rows; there the languages are those of the first row, as a tensor, so that a
recording serves all directions, and the device checks that the other rows have the same.

Legend, besides that of the base: L languages, M numbers of a language's vector.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from accord.data.vocabulary import FIRST_TAG
from accord.errors import AccordError
from accord.models.base import Memory, Seq2Seq, State, Tensors, tensors_of

_Rows = TypeVar("_Rows", bound=Tensors)
Weights = dict[str, Tensor]
"""Of the shape, by name."""

_RANGE = 0.1  # of the numbers of a language's vector, at first
_ONLY = -1  # the target language of a recorded batch, whose number nobody may look at


class LinearWeights(nn.Module):
    """Weights as linear functions of a vector, one for each weight of a shape.

    A weight of any shape has M parts of that shape, which a vector adds up: so to an optimiser with
    factored statistics each part is a matrix like the weight itself. With a `rank` r, a matrix has
    U [out, r], V [r, in] and A [r, M] instead, and is U diag(A l) V.
    """

    def __init__(self, weights: Mapping[str, Tensor], size: int, rank: int | None) -> None:
        super().__init__()
        self._shapes = {name: weight.shape for name, weight in weights.items()}
        self.full, self.left, self.middle, self.right = (nn.ParameterDict() for _ in range(4))
        for name, weight in weights.items():
            if rank is None or weight.dim() != 2:
                self.full[_key(name)] = nn.Parameter(torch.zeros(size, *weight.shape))
                continue
            rows, columns = weight.shape
            # Zero as a whole, but not its slope.
            self.left[_key(name)] = nn.Parameter(torch.zeros(rows, rank))
            self.middle[_key(name)] = nn.Parameter(torch.randn(rank, size) * _scale(size))
            self.right[_key(name)] = nn.Parameter(torch.randn(rank, columns) * columns**-0.5)

    def draw(self, weights: Mapping[str, Tensor]) -> None:
        """Draw parts so that vectors, as they are drawn, give weights as large as these."""
        for name, weight in weights.items():
            parts = self.full[_key(name)]
            scale = weight.detach().std() * _scale(len(parts))
            with torch.no_grad():
                parts.copy_(torch.randn_like(parts) * scale)

    def forward(self, language_M: Tensor) -> Weights:
        """The weights that a vector gives."""
        # Weights are not to be rounded before they are added up.
        with torch.autocast(language_M.device.type, enabled=False):
            return {name: self._weight(name, language_M) for name in self._shapes}

    def _weight(self, name: str, language_M: Tensor) -> Tensor:
        key = _key(name)
        if key in self.full:
            return torch.mv(self.full[key].flatten(1).t(), language_M).view(self._shapes[name])
        scales_R = torch.mv(self.middle[key], language_M)
        return torch.mm(self.left[key] * scales_R, self.right[key])


def _key(name: str) -> str:
    """A name of a parameter as a part of another one's."""
    return name.replace(".", ":")


def _scale(size: int) -> float:
    """What makes a sum of so many products with numbers of a vector as large as one product."""
    return 1 / (_RANGE * math.sqrt(size / 3))


@dataclass(frozen=True)
class GeneratedMemory(Memory):
    """The memory of the shape, and the weights to go on with.

    `weights` are the decoder's, by target language. Being no rows, they go along whole where rows
    are selected. Empty ones are made anew by whoever needs them.
    """

    inner: Memory
    target_B: Tensor
    weights: Mapping[int, Weights]

    @property
    def encoding(self) -> Tensor:
        """That of the shape."""
        return self.inner.encoding

    def join(self, other: Self) -> Self:
        """The rows of both, one below the other, and the weights of both."""
        return replace(super().join(other), weights={**self.weights, **other.weights})


class _Methods(nn.Module):
    """A shape whose methods are called by name: weights can be replaced for calls of a module."""

    def __init__(self, shape: Seq2Seq) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, method: str, *args: Any, **settings: Any) -> Any:
        return getattr(self.shape, method)(*args, **settings)


class Generator(Seq2Seq[GeneratedMemory, State]):
    """`languages` vectors of `size` numbers, from which the weights of `shape` are made.

    With `bias` the shape's own weights are added, and W is zero at first: the generator begins as
    the shape. Without, W is drawn so that weights are as large as the shape's were. A `rank` makes
    W small: see `LinearWeights`.
    """

    reads_source_language = True
    one_direction = True

    def __init__(
        self,
        shape: Seq2Seq,
        languages: int,
        size: int = 8,
        bias: bool = True,
        rank: int | None = None,
    ) -> None:
        super().__init__()
        if languages < 1:
            raise ValueError("a generator has a vector for each language: say how many there are")
        self.tag, self.bias = shape.tag, bias
        for name, part in shape.named_children():  # parameters keep the names they have there
            self.add_module(name, part)
        self.target_embedding = shape.target_embedding
        self.source_embedding = shape.source_embedding
        self._methods = (_Methods(shape),)  # its parts are registered: in a tuple it is not
        sides = _generated(shape)
        self.language_LM = nn.Parameter(torch.empty(languages, size).uniform_(-_RANGE, _RANGE))
        self.from_source, self.from_target = (LinearWeights(side, size, rank) for side in sides)
        if not bias:
            for made, side in zip((self.from_source, self.from_target), sides, strict=True):
                made.draw(side)
                _drop(shape, side)

    def train(self, mode: bool = True) -> Self:
        """Switch dropout on or off, in the shape as well."""
        self._methods[0].train(mode)
        return super().train(mode)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Take over weights; those of a plain model become biases, and the rest stays as it is."""
        own = {
            name: value
            for name, value in self.state_dict().items()
            if name.startswith(("language_LM", "from_source.", "from_target."))
        }
        if not own.keys() & state_dict.keys():
            if not self.bias:
                raise AccordError(
                    "weights of a model without a generator have no place in one without biases",
                    where="model.generator.bias",
                    fix="set it to true, or begin without training.init_from",
                )
            state_dict = {**own, **state_dict}
        return super().load_state_dict(state_dict, strict, assign)

    # --- whole sequences ---------------------------------------------------------------------

    def encode(
        self, source_BS: Tensor, lengths_B: Tensor, language_B: Tensor | None = None
    ) -> GeneratedMemory:
        """Read the sources with the weights of their languages, in groups of one direction."""
        if language_B is None:
            raise AccordError(
                "this model reads the language of its sources, which is not given",
                fix="say which language the text is in",
            )
        lengths_B = lengths_B.to(source_BS.device, non_blocking=True)
        source_B, target_B = _languages(source_BS, language_B)
        parts, places, weights = [], [], dict[int, Weights]()
        for target, first_1, rows_N in _groups(source_B, target_B):
            if target not in weights:
                weights[target] = self._weights("target", target_B[first_1])
            made = {**self._weights("source", source_B[first_1]), **weights[target]}
            rows = (_rows(source_BS, rows_N), _rows(lengths_B, rows_N))
            parts.append(self._call(made, "encode", *rows))
            places.append(rows_N)
        inner = _joined(parts, places)
        if target_B.is_cuda and not torch.is_grad_enabled():
            # A search replays steps that were recorded with another batch: see `step`.
            weights = {target: {} for target in weights}
        return GeneratedMemory(inner.mask_BS, inner, target_B, weights)

    def decode(
        self, memory: GeneratedMemory, inputs_BTD: Tensor, *, dropout: bool = True
    ) -> Tensor:
        """Hidden vectors [B, T, D] of a whole sequence whose (shifted) inputs are known."""
        parts, places = [], []
        for weights, inner, rows_N in self._by_target(memory):
            inputs = _rows(inputs_BTD, rows_N)
            parts.append(self._call(weights, "decode", inner, inputs, dropout=dropout))
            places.append(rows_N)
        return _in_place(parts, places)

    # --- single steps ------------------------------------------------------------------------

    def initial_state(self, memory: GeneratedMemory, *, beam: int = 1, steps: int) -> State:
        """That of the shape. On a GPU, steps are of one target language: see `step`."""
        if memory.target_B.is_cuda and len(memory.weights) > 1:
            raise AccordError(
                "on a GPU, a model with a generator cannot translate into several languages in one "
                "batch",
                fix="give the sentences of each target language by themselves",
            )
        state: State = self._shape.initial_state(memory.inner, beam=beam, steps=steps)
        return state

    def step(
        self, memory: GeneratedMemory, state: State, input_RD: Tensor, *, dropout: bool = True
    ) -> tuple[Tensor, State]:
        """One step: the hidden vectors [R, D] and the next state.

        In a search on a GPU weights are made in every step: a recorded one must see the language of
        its rows, and must not hold on to the weights that it was recorded with.
        """
        beam = state.rows // memory.rows
        hidden, states, places = [], [], []
        for weights, inner, rows_N in self._by_target(memory):
            rows_M = None if rows_N is None else _hypotheses(rows_N, beam)
            before = state if rows_M is None else state.select(rows_M)
            args = (inner, before, _rows(input_RD, rows_M))
            hidden_RD, after = self._call(weights, "step", *args, dropout=dropout)
            hidden.append(hidden_RD)
            states.append(after)
            places.append(rows_M)
        return _in_place(hidden, places), _joined(states, places)

    def kept_numbers(self, steps: int) -> int:
        """As many as the shape keeps."""
        return self._shape.kept_numbers(steps)

    # --- parts -------------------------------------------------------------------------------

    @property
    def _shape(self) -> Seq2Seq:
        return self._methods[0].shape

    def _call(self, weights: Weights, method: str, *args: Any, **settings: Any) -> Any:
        """A method of the shape with these weights in place of its own."""
        named = {f"shape.{name}": weight for name, weight in weights.items()}
        return functional_call(self._methods[0], named, (method, *args), settings)

    def _weights(self, side: str, language_1: Tensor) -> Weights:
        """The weights that the vector of a language gives one side."""
        language_M = self.language_LM.index_select(0, language_1).squeeze(0)
        found: Weights = getattr(self, f"from_{side}")(language_M)
        if not self.bias:
            return found
        return {name: self.get_parameter(name) + weight for name, weight in found.items()}

    def _by_target(
        self, memory: GeneratedMemory
    ) -> Iterator[tuple[Weights, Memory, Tensor | None]]:
        """Weights, the part of the memory that they are for, and which rows that has."""
        if len(memory.weights) == 1:
            (weights,) = memory.weights.values()
            yield weights or self._weights("target", memory.target_B[:1]), memory.inner, None
            return
        for target, weights in memory.weights.items():
            rows_N = torch.nonzero(memory.target_B == target).squeeze(1)
            if len(rows_N):
                made = weights or self._weights("target", memory.target_B[rows_N[:1]])
                yield made, memory.inner.select(rows_N), rows_N


# --- Which weights of a shape are generated, and from which side's language.


def _generated(shape: Seq2Seq) -> tuple[Weights, Weights]:
    """All but tables and constants: those of the encoder, and the others."""
    tables = ("source_embedding.", "target_embedding.")
    sides: tuple[Weights, Weights] = ({}, {})
    for name, parameter in shape.named_parameters():
        if parameter.requires_grad and not name.startswith(tables):
            sides[0 if name.startswith("encoder.") else 1][name] = parameter
    return sides


def _drop(shape: nn.Module, weights: Weights) -> None:
    """Leave only the names of weights: what is generated takes their place in every call."""
    for name in weights:
        path, _, last = name.rpartition(".")
        owner = shape.get_submodule(path)
        delattr(owner, last)
        owner.register_buffer(last, torch.empty(0), persistent=False)


# --- Rows of one direction.


def _languages(source_BS: Tensor, language_B: Tensor) -> tuple[Tensor, Tensor]:
    """Source and target language of every row; rows that fill up a shape take the first one's."""
    tag_B = source_BS[:, 0] - FIRST_TAG
    real_B = tag_B >= 0
    language_B = language_B.to(source_BS.device, torch.int64, non_blocking=True)
    source_B = torch.where(real_B, language_B, language_B[:1])
    return source_B, torch.where(real_B, tag_B, tag_B[:1].clamp(min=0))


def _groups(source_B: Tensor, target_B: Tensor) -> Iterator[tuple[int, Tensor, Tensor | None]]:
    """The target language, a first row, and all rows of each direction; None: all there are."""
    if source_B.is_cuda and torch.cuda.is_current_stream_capturing():
        same_B = (source_B == source_B[:1]) & (target_B == target_B[:1])
        torch._assert_async(same_B.all(), "rows of several directions in a recorded batch")
        yield _ONLY, source_B.new_zeros(1), None
        return
    pairs = set(zip(source_B.tolist(), target_B.tolist(), strict=True))
    for source, target in sorted(pairs):
        rows_N = torch.nonzero((source_B == source) & (target_B == target)).squeeze(1)
        yield target, rows_N[:1], rows_N if len(pairs) > 1 else None


def _rows(tensor: Tensor, rows_N: Tensor | None) -> Tensor:
    return tensor if rows_N is None else tensor.index_select(0, rows_N)


def _hypotheses(rows_N: Tensor, beam: int) -> Tensor:
    """The rows of the hypotheses of sentences."""
    steps_K = torch.arange(beam, device=rows_N.device)
    return (rows_N.unsqueeze(1) * beam + steps_K).flatten()


def _in_place(parts: list[Tensor], places: list[Tensor | None]) -> Tensor:
    """The rows of several parts, each at the place that it was taken from."""
    known = [rows_N for rows_N in places if rows_N is not None]
    return torch.cat(parts).index_select(0, torch.cat(known).argsort()) if known else parts[0]


def _joined(parts: list[_Rows], places: list[Tensor | None]) -> _Rows:
    """The same with states or memories; what has no rows, a position, is the same in all parts."""
    first, *others = parts
    below = [iter(tensors_of(part)) for part in others]

    def join(tensor: Tensor) -> Tensor:
        found = [tensor, *(next(each) for each in below)]
        return _in_place(found, places) if tensor.dim() else tensor

    return first.map(join)
