"""Translations made while training: continuous (with a gradient), straight-through, hard, sampled.

Continuous decoding feeds back the expected embedding under the softmax instead of a token's. Its
gradient needs, for every step, a distribution over the whole vocabulary: these are computed anew in
the backward pass, so that nothing as wide as the vocabulary outlives a step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor

from accord.data.vocabulary import EOS, PAD
from accord.models.base import Memory, Seq2Seq
from accord.ops.linear_cross_entropy import product
from accord.ops.softmax import choose, compute_dtype, mixture_gradient

Decoding = Literal["continuous", "straight-through", "hard", "sampled"]
Choice = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True)
class Translations:
    """What B sentences were turned into, in T steps.

    `hidden_BTD` gave the distributions, `vectors_BTD` were fed back, `tokens_BT` are the likeliest
    (or sampled) tokens. `real_BT` is true up to each row's first end of sentence, or its limit;
    T goes further where a row has no end, or where all steps were asked for.
    """

    hidden_BTD: Tensor
    vectors_BTD: Tensor
    tokens_BT: Tensor
    entropy_BT: Tensor
    real_BT: Tensor

    def lengths(self) -> Tensor:
        """The tokens of each row, the end of sentence included."""
        return self.real_BT.sum(dim=1)

    def ended(self) -> Tensor:
        """Whether each row came to its end of sentence."""
        return (self.real_BT & (self.tokens_BT == EOS)).any(dim=1)

    def distinct_bigrams(self) -> Tensor:
        """The share of different pairs of neighbours in each row; 1 where there is none."""
        same_BTT = self.tokens_BT.unsqueeze(1) == self.tokens_BT.unsqueeze(2)
        same_BTT = same_BTT[:, :-1, :-1] & same_BTT[:, 1:, 1:]
        repeated_BT = same_BTT.tril(diagonal=-1).any(dim=2)  # an earlier pair is the same
        real_BT = self.real_BT[:, 1:]
        count_B = real_BT.sum(dim=1).clamp(min=1)
        return 1 - (repeated_BT & real_BT).sum(dim=1) / count_B

    def degenerate(self, reference_B: Tensor, least_length: float, bigrams: float) -> Tensor:
        """Whether each row repeats itself, or ends before so large a share of a length, less one
        token."""
        short_B = self.ended() & (self.lengths() < least_length * reference_B - 1)
        return short_B | (self.distinct_bigrams() < bigrams)

    def right_language(self, unigrams_LV: Tensor, language_B: Tensor) -> Tensor:
        """Whether no other language's text has these tokens more often."""
        log_p_LBT = unigrams_LV[:, self.tokens_BT]
        return (log_p_LBT * self.real_BT).sum(dim=2).argmax(dim=0) == language_B


Count = TypeVar("Count", int, Tensor)


def relative_limit(subwords: Count) -> Count:
    """The most tokens of a translation of so many subwords: of one, or of many at once."""
    return (3 * subwords + 1) // 2 + 5


def generate(
    model: Seq2Seq,
    memory: Memory,
    limits_B: Tensor,
    steps: int,
    *,
    decoding: Decoding = "continuous",
    temperature: float = 1.0,
    dropout: bool = True,
    feedback_gradient: bool = True,
    all_steps: bool = False,
) -> Translations:
    """Translate greedily; row b counts up to `limits_B[b]` tokens, none of which exceeds `steps`.

    Without `feedback_gradient` every step takes what the steps before fed back for a constant.
    Shapes do not depend on what is generated and nothing is read back from a GPU. On a CPU, where
    looking costs nothing, the loop ends when all rows have, unless `all_steps` are wanted.
    """
    soft = decoding in ("continuous", "straight-through")
    with torch.set_grad_enabled(soft and torch.is_grad_enabled()):
        choose: Choice
        if soft:
            choose = Mixture(model, temperature, straight=decoding == "straight-through")
        else:
            choose = _Tokens(model, temperature, sampled=decoding == "sampled")
        return _loop(model, memory, limits_B, steps, choose, dropout, feedback_gradient, all_steps)


def _loop(
    model: Seq2Seq,
    memory: Memory,
    limits_B: Tensor,
    steps: int,
    choose: Choice,
    dropout: bool,
    feedback_gradient: bool,
    all_steps: bool,
) -> Translations:
    state = model.initial_state(memory, steps=steps)
    input_BD = model.output_weight.new_zeros(memory.rows, model.output_weight.shape[1])
    going_B = limits_B > 0
    found: list[tuple[Tensor, ...]] = []
    for step in range(steps):
        hidden_BD, state = model.step(memory, state, input_BD, dropout=dropout)
        input_BD, token_B, entropy_B = choose(hidden_BD)
        found.append((hidden_BD, input_BD, token_B, entropy_B, going_B))
        if not feedback_gradient:
            input_BD = input_BD.detach()
        going_B = going_B & (token_B != EOS) & (step + 1 < limits_B)
        if not (going_B.is_cuda or all_steps or bool(going_B.any())):
            break
    return Translations(*(torch.stack(column, dim=1) for column in zip(*found, strict=True)))


class _Tokens:
    """Picks tokens: the likeliest, or one drawn from the softmax."""

    def __init__(self, model: Seq2Seq, temperature: float, sampled: bool) -> None:
        self._model = model
        self._table = _Table.of(model, temperature)
        self._sampled = sampled

    def __call__(self, hidden_BD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        table = self._table
        with torch.autocast(hidden_BD.device.type, enabled=False):
            logits_BV = table.logits(hidden_BD)
            wanted = table.exact if self._sampled else None
            token_B, entropy_B, _, p_BV = choose(logits_BV, table.temperature, wanted)
        if p_BV is not None:  # of exponential clocks with rates p, the first to ring
            token_B = (p_BV / torch.empty_like(p_BV).exponential_()).argmax(dim=1)
        return self._model.embed_target(token_B), token_B, entropy_B


class Mixture:
    """Hidden vectors to expected embeddings `softmax(h E^T / temperature) E`, step after step.

    `straight` gives the embedding of the likeliest token instead, with the same gradient. The
    table's gradient is summed in one place over all steps and handed over when the last (that is,
    the first) step is done: autograd would make and add a matrix of the table's size every time.
    """

    def __init__(self, model: Seq2Seq, temperature: float = 1.0, straight: bool = False) -> None:
        self._table = _Table.of(model, temperature, straight)
        self._ticket = _Ticket.apply(  # type: ignore[no-untyped-call]
            model.output_weight, self._table
        )

    def __call__(self, hidden_BD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next inputs, the likeliest tokens and the entropies of the distributions."""
        chosen = _Mix.apply(  # type: ignore[no-untyped-call]
            hidden_BD.to(self._table.weight_VD.dtype), self._ticket, self._table
        )
        return cast(tuple[Tensor, Tensor, Tensor], chosen)


@dataclass
class _Table:
    """The target table in the type of products, and the sum of its gradients so far."""

    weight_VD: Tensor
    scale: float
    temperature: float
    straight: bool
    gradient_VD: Tensor | None = None

    @staticmethod
    def of(model: Seq2Seq, temperature: float, straight: bool = False) -> "_Table":
        weight_VD = model.output_weight.detach()
        scale = model.target_embedding.scale
        return _Table(weight_VD.to(compute_dtype(weight_VD)), scale, temperature, straight)

    @property
    def exact(self) -> torch.dtype:
        return torch.promote_types(self.weight_VD.dtype, torch.float32)

    def logits(self, hidden_BD: Tensor) -> Tensor:
        return product(hidden_BD.to(self.weight_VD.dtype), self.weight_VD.t(), self.exact)

    def add_gradient(self, left_NV: Tensor, right_ND: Tensor) -> None:
        found_VD = product(left_NV.t(), right_ND, self.exact)
        self.gradient_VD = found_VD if self.gradient_VD is None else self.gradient_VD.add_(found_VD)


class _Ticket(torch.autograd.Function):
    """Every step takes the ticket as an input, so its backward runs after that of all steps."""

    @staticmethod
    def forward(ctx: Any, weight_VD: Tensor, table: _Table) -> Tensor:
        ctx.table = table
        return weight_VD.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor | None, None]:
        gradient_VD, ctx.table.gradient_VD = ctx.table.gradient_VD, None
        return gradient_VD, None


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_BD: Tensor, _ticket: Tensor, table: _Table
    ) -> tuple[Tensor, Tensor, Tensor]:
        with torch.autocast(hidden_BD.device.type, enabled=False):
            wanted = None if table.straight else hidden_BD.dtype
            token_B, entropy_B, normaliser_B, p_BV = choose(
                table.logits(hidden_BD), table.temperature, wanted
            )
            if p_BV is None:
                vectors_BD = table.weight_VD.index_select(0, token_B)
                vectors_BD = vectors_BD * (token_B != PAD).unsqueeze(1)
            else:
                vectors_BD = p_BV @ table.weight_VD
        ctx.table = table
        ctx.save_for_backward(hidden_BD, normaliser_B)
        ctx.mark_non_differentiable(token_B, entropy_B)
        return vectors_BD * table.scale, token_B, entropy_B

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        hidden_BD, normaliser_B = ctx.saved_tensors
        table: _Table = ctx.table
        dtype = hidden_BD.dtype
        with torch.autocast(hidden_BD.device.type, enabled=False):
            grad_BD = grads[0].to(dtype) * table.scale
            both_CV = mixture_gradient(
                table.logits(hidden_BD),
                normaliser_B,
                product(grad_BD, table.weight_VD.t(), table.exact),
                table.temperature,
                dtype,
            )
            table.add_gradient(both_CV, torch.cat([hidden_BD, grad_BD]))
            nothing = normaliser_B.new_zeros(())
            return both_CV[: len(hidden_BD)] @ table.weight_VD, nothing, None
