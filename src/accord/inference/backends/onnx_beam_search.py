"""Beam search over an exported model, in NumPy: by the same rules as `inference.beam_step`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accord.data.vocabulary import EOS, PAD
from accord.inference.backends.onnx_sessions import Floats, Ints, Sessions, Step, Values
from accord.inference.backtrace import Choices, Found, History
from accord.inference.results import SearchSettings, length_penalty
from accord.inference.text import most_tokens, padded_array

_NEVER = np.float32(-np.inf)
# Sentences that are done are put aside when fewer than this share of a batch is still at work.
_WORTH_KEEPING = 0.9


@dataclass(frozen=True)
class Beam:
    """The hypotheses between two steps: K of each of B sentences, R = B K in all.

    Before the first step there is one row a sentence, R = B, as all begin alike. `log_p_BK` is -inf
    where there is no hypothesis. `best_BN` are the scores of the best finished ones, best first.
    `history_RT` are the tokens so far, none unless repetition is guarded against.
    """

    token_R: Ints
    parent_R: Ints
    history_RT: Ints
    log_p_BK: Floats
    best_BN: Floats
    done_B: npt.NDArray[np.bool_]

    def select(self, sentences_N: Ints) -> "Beam":
        """The hypotheses of the given sentences, in that order."""
        beam = self.log_p_BK.shape[1]
        rows_R = (sentences_N[:, None] * beam + np.arange(beam)).ravel()
        return Beam(
            self.token_R[rows_R],
            self.parent_R[rows_R],
            self.history_RT[rows_R],
            self.log_p_BK[sentences_N],
            self.best_BN[sentences_N],
            self.done_B[sentences_N],
        )


class BeamSearch:
    """A search with fixed settings, in which the forbidden ids are never generated."""

    def __init__(
        self, sessions: Sessions, settings: SearchSettings, forbidden: Sequence[int]
    ) -> None:
        self._sessions = sessions
        self._settings = settings
        self._penalty_1V = np.zeros((1, sessions.vocabulary_size), dtype=np.float32)
        # Ends are looked at on their own, not as one continuation among others.
        self._penalty_1V[0, [*forbidden, PAD, EOS]] = _NEVER

    def __call__(
        self,
        rows: Sequence[Sequence[int]],
        limits: Sequence[int] | None = None,
        *,
        language: int | None = None,
    ) -> list[list[Found]]:
        """The best hypotheses of each row, best first, of at most `limits` tokens.

        There are `nbest`, but up to `beam` where more than one is asked for, since some may read
        the same. `language` is not read: no export holds a model that does.
        """
        source_BS, lengths_B = padded_array(rows)
        limits_B = np.array(limits or [most_tokens(n) for n in lengths_B], dtype=np.int64)
        memory, state = self._sessions.encode(source_BS, lengths_B)
        history = self._run(memory, state, limits_B)
        count = 1 if self._settings.nbest == 1 else self._settings.beam
        return history.best(count, self._settings.length_penalty)

    def _run(self, memory: Values, state: Values, limits_B: Ints) -> History:
        sentences_B = np.arange(len(limits_B))
        history, beam = History(len(limits_B)), self._start(limits_B)
        count = min(self._settings.beam, self._penalty_1V.shape[1])
        for step in range(int(limits_B.max()) + 1):
            penalty_RV = self._penalty(beam, step)
            said, state = self._sessions.step(
                memory, state, beam.token_R, beam.parent_R, penalty_RV, count
            )
            beam, choices_3BK, ends_BK = advance(self._settings, beam, said, step, limits_B)
            history.add(sentences_B, choices_3BK[None], ends_BK[None].astype(np.float64))
            alive_N = np.flatnonzero(~beam.done_B)
            if not len(alive_N):
                break
            if len(alive_N) <= _WORTH_KEEPING * len(sentences_B):
                sentences_B, limits_B = sentences_B[alive_N], limits_B[alive_N]
                memory, beam = self._sessions.select(memory, alive_N), beam.select(alive_N)
        return history

    def _start(self, limits_B: Ints) -> Beam:
        """One empty hypothesis a sentence; the other places of the beam are still free."""
        rows, beam = len(limits_B), self._settings.beam
        log_p_BK = np.full((rows, beam), _NEVER)
        log_p_BK[:, 0] = 0.0
        room = int(limits_B.max()) + 1 if self._settings.no_repeat_ngram else 0
        # A single row says enough, unless the beam is wider than the vocabulary.
        each = 1 if beam <= self._sessions.vocabulary_size else beam
        return Beam(
            np.full(rows * each, PAD),  # read as the zero vector
            np.repeat(np.arange(rows), each),
            np.full((rows * each, room), PAD),
            log_p_BK,
            np.full((rows, self._settings.nbest), _NEVER),
            np.zeros(rows, dtype=np.bool_),
        )

    def _penalty(self, beam: Beam, step: int) -> Floats:
        """-inf for what is forbidden, and for what would repeat an n-gram."""
        length = self._settings.no_repeat_ngram
        if not 0 < length <= step:
            return self._penalty_1V
        row_N, token_N = repeating(beam.history_RT[:, :step], length)
        penalty_RV = np.repeat(self._penalty_1V, len(beam.token_R), axis=0)
        penalty_RV[row_N, token_N] = _NEVER
        return penalty_RV


def advance(
    settings: SearchSettings, beam: Beam, said: Step, step: int, limits_B: Ints
) -> tuple[Beam, Choices, Floats]:
    """All hypotheses one token further, and what to note of it: choices [3, B, K], ends [B, K]."""
    before_BK, alpha = beam.log_p_BK, settings.length_penalty
    rows = len(said.end_R) // len(before_BK)  # one a sentence at first, then K
    end_BK = before_BK + said.end_R.reshape(-1, rows)
    log_p_BK, place_BK, token_BK = _continuations(before_BK[:, :rows], said, settings.beam)
    full_B = step >= limits_B
    log_p_BK[full_B] = _NEVER
    # A hypothesis may end where its end is as likely as a continuation that is kept.
    ends_BK = (end_BK >= log_p_BK[:, -1:]) & ~beam.done_B[:, None]
    if settings.beam == 1:  # greedy search: the end takes the only place there is
        log_p_BK[ends_BK] = _NEVER
    end_BK = np.where(ends_BK, end_BK, _NEVER)
    scores_BK = end_BK / length_penalty(np.float32(step + 1), alpha)
    best_BN = _largest(np.concatenate([beam.best_BN, scores_BK], axis=1), settings.nbest)
    # No hypothesis can do better than to reach the greatest length at no further cost.
    bound_B = log_p_BK[:, 0] / length_penalty((limits_B + 1).astype(np.float32), alpha)
    parent_R = (np.arange(len(limits_B))[:, None] * rows + place_BK).ravel()
    after = Beam(
        token_BK.ravel(),
        parent_R,
        _written(beam.history_RT, parent_R, token_BK.ravel(), step),
        log_p_BK,
        best_BN,
        beam.done_B | full_B | (best_BN[:, -1] >= bound_B),
    )
    seen_BK = np.broadcast_to(said.seen_R.reshape(-1, rows), before_BK.shape)
    return after, np.stack([token_BK, place_BK, seen_BK]).astype(np.int32), end_BK


def repeating(history_RT: Ints, length: int) -> tuple[Ints, Ints]:
    """Rows, and for each a token that would complete an n-gram which the row has already."""
    windows_RWN = np.lib.stride_tricks.sliding_window_view(history_RT, length, axis=1)
    last_RN = history_RT[:, history_RT.shape[1] - length + 1 :]
    same_RW = (windows_RWN[:, :, :-1] == last_RN[:, None]).all(axis=2)
    row_N, window_N = np.nonzero(same_RW)
    return row_N, windows_RWN[row_N, window_N, -1]


def _continuations(before_BH: Floats, said: Step, beam: int) -> tuple[Floats, Ints, Ints]:
    """The best of all continuations of a sentence, as many as `beam`: log P, place, token."""
    shape = (*before_BH.shape, said.next_RC.shape[1])
    all_BC = (before_BH[:, :, None] + said.log_p_RC.reshape(shape)).reshape(len(before_BH), -1)
    order_BK = np.argsort(-all_BC, axis=1, kind="stable")[:, :beam]
    token_BK = np.take_along_axis(said.next_RC.reshape(all_BC.shape), order_BK, axis=1)
    return np.take_along_axis(all_BC, order_BK, axis=1), order_BK // shape[2], token_BK


def _written(history_RT: Ints, parent_R: Ints, token_R: Ints, step: int) -> Ints:
    history_RT = history_RT[parent_R]
    if history_RT.shape[1]:
        history_RT[:, step] = token_R
    return history_RT


def _largest(scores_BX: Floats, count: int) -> Floats:
    return np.sort(scores_BX, axis=1)[:, ::-1][:, :count]
