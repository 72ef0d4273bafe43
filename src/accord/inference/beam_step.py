"""One step of beam search as a function of tensors, without a look at any of them.

B sentences with K hypotheses each make R = B K rows. Nothing here depends on a value on the host,
so that the very same function can run step by step or be recorded as a CUDA graph.

An ensemble reads M sources of every sentence. The memory then has M B rows and the state M R, those
of the first source before those of the second; hypotheses are one for all of them, and follow the
mean of what the M rows say.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from accord.data.vocabulary import EOS, PAD
from accord.inference.results import length_penalty
from accord.models.base import Memory, Seq2Seq, State, Tensors
from accord.ops.softmax import compute_dtype

try:
    from accord.ops import top_k_triton
except ImportError:  # a build of torch for CPUs comes without Triton
    top_k_triton = None  # type: ignore[assignment]

_NEVER = float("-inf")


@dataclass(frozen=True)
class Rules:
    """What may be found. `forbidden_F` are the ids that never stand inside a translation."""

    beam: int
    nbest: int
    alpha: float
    no_repeat_ngram: int
    forbidden_F: Tensor
    weights: tuple[float, ...] = (1.0,)
    """Of the sources of a sentence, one or several; their sum is 1."""
    sample: float | None = None
    """A temperature: tokens are drawn at random, not searched for. The beam is 1 then."""


@dataclass(frozen=True)
class Task(Tensors):
    """The sentences to translate, and how many tokens each translation may have at most.

    The memory holds the first source of all sentences, then the second of all, and so on. Where
    tokens are drawn, `draws_BT` are numbers from 0 to 1 that decide on them, one for each step.
    """

    memory: Memory
    limits_B: Tensor
    draws_BT: Tensor | None = None

    def select(self, sentences_N: Tensor) -> "Task":
        """The given sentences, in that order."""
        rows_N = _of_all_sources(sentences_N, len(self.limits_B), self.memory.rows)
        draws_NT = None if self.draws_BT is None else self.draws_BT[sentences_N]
        return Task(self.memory.select(rows_N), self.limits_B[sentences_N], draws_NT)


@dataclass(frozen=True)
class Beam(Tensors):
    """The hypotheses between two steps.

    `log_p_BK` is -inf where there is no hypothesis. `best_BN` are the scores of the best finished
    ones, best first. `history_RT` has no columns unless repetition is guarded against.
    """

    state: State
    token_R: Tensor
    history_RT: Tensor
    log_p_BK: Tensor
    best_BN: Tensor
    done_B: Tensor

    @property
    def step(self) -> Tensor:
        """The number of tokens that every hypothesis has, on the device."""
        return self.state.position

    def select(self, sentences_N: Tensor) -> "Beam":
        """The hypotheses of the given sentences, in that order."""
        beam = self.log_p_BK.shape[1]
        rows_R = (sentences_N.unsqueeze(1) * beam + _slots(beam, sentences_N.device)).flatten()
        return Beam(
            self.state.select(_of_all_sources(rows_R, len(self.token_R), self.state.rows)),
            self.token_R[rows_R],
            self.history_RT[rows_R],
            self.log_p_BK[sentences_N],
            self.best_BN[sentences_N],
            self.done_B[sentences_N],
        )


@dataclass(frozen=True)
class Record:
    """What a step leaves to be traced back afterwards.

    `choices_3BK` are the token and the former place of every hypothesis, and the source position
    that each former hypothesis attended to. `ends_BK` is log P of each former hypothesis that ends
    here, -inf for one that does not.
    """

    choices_3BK: Tensor
    ends_BK: Tensor


def start(model: Seq2Seq, rules: Rules, task: Task, steps: int, done_B: Tensor) -> Beam:
    """One empty hypothesis for every sentence; the other places of the beam are still free.

    At most `steps` steps may follow.
    """
    rows, device, beam = len(task.limits_B), task.limits_B.device, rules.beam
    exact = torch.promote_types(model.output_weight.dtype, torch.float32)
    log_p_BK = torch.full((rows, beam), _NEVER, dtype=exact, device=device)
    log_p_BK[:, 0] = 0.0
    room = max(steps, rules.no_repeat_ngram) if rules.no_repeat_ngram else 0
    return Beam(
        model.initial_state(task.memory, beam=beam, steps=steps),
        torch.full((rows * beam,), PAD, device=device),  # read as the zero vector
        torch.full((rows * beam, room), PAD, device=device),
        log_p_BK,
        torch.full((rows, rules.nbest), _NEVER, dtype=exact, device=device),
        done_B,
    )


def advance(model: Seq2Seq, rules: Rules, task: Task, beam: Beam) -> tuple[Beam, Record]:
    """All hypotheses one token further; the state may have been written in place."""
    logits_RV, state = _read(model, rules, task.memory, beam)
    if task.draws_BT is None:
        end_R, best_RC, token_RC = _best_tokens(logits_RV, rules, beam)
    else:
        draw_B1 = task.draws_BT.index_select(1, beam.step.view(1))
        end_R, best_RC, token_RC = _drawn_tokens(logits_RV, rules, draw_B1)
    end_BK = beam.log_p_BK + end_R.view_as(beam.log_p_BK)
    log_p_BK, parent_BK, token_BK = _continuations(best_RC, token_RC, beam.log_p_BK)
    full_B = beam.step >= task.limits_B
    log_p_BK = log_p_BK.masked_fill(full_B.unsqueeze(1), _NEVER)
    # A hypothesis may end where its end is as likely as a continuation that is kept.
    ends_BK = (end_BK >= log_p_BK[:, -1:]) & ~beam.done_B.unsqueeze(1)
    if rules.beam == 1:  # greedy search: the end takes the only place there is
        log_p_BK = log_p_BK.masked_fill(ends_BK, _NEVER)
    end_BK = end_BK.masked_fill(~ends_BK, _NEVER)
    best_BN = _merged(beam.best_BN, end_BK / length_penalty(beam.step + 1, rules.alpha))
    # No hypothesis can do better than to reach the greatest length at no further cost.
    bound_B = log_p_BK[:, 0] / length_penalty(task.limits_B + 1, rules.alpha)
    chosen_R = _rows(parent_BK)
    seen_BK = state.attention_BS[: len(chosen_R)].argmax(dim=1).view_as(token_BK)
    if rules.beam > 1:
        state = state.reorder(_of_all_sources(chosen_R, len(chosen_R), state.rows))
    after = Beam(
        state,
        token_BK.flatten(),
        _written(beam, chosen_R, token_BK),
        log_p_BK,
        best_BN,
        beam.done_B | full_B | (best_BN[:, -1] >= bound_B),
    )
    return after, Record(torch.stack([token_BK, parent_BK, seen_BK]).int(), end_BK)


def _read(model: Seq2Seq, rules: Rules, memory: Memory, beam: Beam) -> tuple[Tensor, State]:
    """Scores of all next tokens given each source, and the state of all rows."""
    input_RD = model.embed_target(beam.token_R)
    if len(rules.weights) > 1:
        input_RD = input_RD.repeat(len(rules.weights), 1)
    hidden_RD, state = model.step(memory, beam.state, input_RD)
    return logits(model, hidden_RD), state


def _best_tokens(logits_RV: Tensor, rules: Rules, beam: Beam) -> tuple[Tensor, Tensor, Tensor]:
    """log P of the end [R], and of the best tokens of each row with their ids [R, C].

    No more than K continuations can come from one row; finding those first keeps rankings short.
    """
    width = min(rules.beam, logits_RV.shape[1])
    alike = len(rules.weights) == 1 and not rules.no_repeat_ngram
    if alike and top_k_triton is not None and top_k_triton.fits(logits_RV, width):
        found = top_k_triton.log_softmax_top_k(logits_RV, rules.forbidden_F, width)
        best_RC, token_RC, normaliser_R = found
        return logits_RV[:, EOS] - normaliser_R, best_RC, token_RC
    log_p_RV = mixed(torch.log_softmax(logits_RV, dim=1), rules.weights)
    end_R = log_p_RV[:, EOS].clone()
    log_p_RV.index_fill_(1, rules.forbidden_F, _NEVER)
    if rules.no_repeat_ngram:
        log_p_RV.scatter_(1, _repeating(beam, rules.no_repeat_ngram), _NEVER)
    if width == 1:  # a maximum is found many times faster than the first of a ranking
        return end_R, *log_p_RV.max(dim=1, keepdim=True)
    return end_R, *log_p_RV.topk(width, dim=1)


def _drawn_tokens(
    logits_RV: Tensor, rules: Rules, draw_R1: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of one token a row, drawn by the softmax at a temperature: the one at which the sums
    of probabilities pass the number drawn. If it is the end, nothing else may follow, and the end
    may not if it is not."""
    log_p_RV = mixed(torch.log_softmax(logits_RV, dim=1), rules.weights)
    end_R = log_p_RV[:, EOS].clone()
    log_p_RV.index_fill_(1, rules.forbidden_F, _NEVER)
    log_p_RV[:, EOS] = end_R
    # In fp64, or rounding could give a token that has no probability its share of the sums.
    share_RV = torch.softmax(log_p_RV / (rules.sample or 1.0), dim=1, dtype=torch.float64)
    sum_RV = share_RV.cumsum(dim=1)
    token_R1 = (sum_RV <= draw_R1 * sum_RV[:, -1:]).sum(dim=1, keepdim=True)
    ends_R1 = token_R1 == EOS
    best_R1 = log_p_RV.gather(1, token_R1).masked_fill(ends_R1, _NEVER)
    return end_R.masked_fill(~ends_R1.squeeze(1), _NEVER), best_R1, token_R1


def mixed(log_p_NV: Tensor, weights: Sequence[float]) -> Tensor:
    """The weighted mean of what the sources say, as it is: its exponentials sum to less than 1.

    So a translation's log P is the same mean over its log P given each source: a product of
    experts over whole translations, whose normaliser is one number a sentence and ranks nothing.
    """
    if len(weights) == 1:
        return log_p_NV
    mean_RV, *others = log_p_NV.chunk(len(weights))
    mean_RV = mean_RV * weights[0]
    for log_p_RV, weight in zip(others, weights[1:], strict=True):
        mean_RV.add_(log_p_RV, alpha=weight)
    return mean_RV


def logits(model: Seq2Seq, hidden_RD: Tensor) -> Tensor:
    """Scores over the vocabulary, at least in fp32: bf16 would make many of them equal."""
    low = compute_dtype(hidden_RD)
    exact = torch.promote_types(low, torch.float32)
    if hidden_RD.is_cuda and low != exact:
        with torch.autocast("cuda", enabled=False):
            return torch.mm(hidden_RD.to(low), model.output_weight.to(low).t(), out_dtype=exact)
    return model.logits(hidden_RD).to(exact)


def _continuations(
    best_RC: Tensor, token_RC: Tensor, before_BK: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The K best of all continuations of a sentence: log P, former place, token."""
    rows, beam = before_BK.shape
    if beam == 1:
        return before_BK + best_RC, torch.zeros_like(token_RC), token_RC
    width = best_RC.shape[1]
    all_BC = (before_BK.unsqueeze(2) + best_RC.view(rows, beam, width)).flatten(1)
    log_p_BK, place_BK = all_BC.topk(beam, dim=1)
    token_BK = token_RC.view(rows, beam * width).gather(1, place_BK)
    return log_p_BK, place_BK // width, token_BK


def _repeating(beam: Beam, length: int) -> Tensor:
    """For every row, tokens [R, W] that would complete an n-gram which it has already."""
    history_RT, device = beam.history_RT, beam.history_RT.device
    windows_RWN = history_RT.unfold(1, length, 1)
    before_N = beam.step + torch.arange(1 - length, 0, device=device)
    last_RN = history_RT.index_select(1, before_N.clamp(min=0))
    same_RW = (windows_RWN[:, :, :-1] == last_RN.unsqueeze(1)).all(dim=2)
    starts_W = torch.arange(windows_RWN.shape[1], device=device)
    repeats_RW = same_RW & (starts_W + length <= beam.step)
    return windows_RWN[:, :, -1].masked_fill(~repeats_RW, PAD)  # PAD is forbidden anyway


def _written(beam: Beam, chosen_R: Tensor, token_BK: Tensor) -> Tensor:
    """The histories of the chosen hypotheses with their new token."""
    history_RT = beam.history_RT
    if not history_RT.shape[1]:
        return history_RT
    here_T = torch.arange(history_RT.shape[1], device=history_RT.device) == beam.step
    return torch.where(here_T, token_BK.view(-1, 1), history_RT.index_select(0, chosen_R))


def _merged(best_BN: Tensor, scores_BK: Tensor) -> Tensor:
    return torch.cat([best_BN, scores_BK], dim=1).topk(best_BN.shape[1], dim=1).values


def _rows(parent_BK: Tensor) -> Tensor:
    rows, beam = parent_BK.shape
    first_B1 = torch.arange(rows, device=parent_BK.device).unsqueeze(1) * beam
    return (first_B1 + parent_BK).flatten()


def _of_all_sources(rows_N: Tensor, each: int, rows: int) -> Tensor:
    """The same rows of every source; there are `each` of one source, `rows` in all."""
    if rows == each:
        return rows_N
    starts_M1 = torch.arange(0, rows, each, device=rows_N.device).unsqueeze(1)
    return (starts_M1 + rows_N).flatten()


def _slots(beam: int, device: torch.device) -> Tensor:
    return torch.arange(beam, device=device)
