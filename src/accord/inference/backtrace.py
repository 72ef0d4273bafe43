"""Backtrace: from what the steps of a search chose, the translations, traced from their ends."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accord.inference.results import length_penalty

Choices = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """A finished hypothesis; the end of sentence is scored, but not among the ids."""

    ids: tuple[int, ...]
    alignment: tuple[int, ...]
    log_probability: float
    score: float


class History:
    """The records of all steps for a batch of sentences, on the host."""

    def __init__(self, sentences: int) -> None:
        self._sentences = sentences
        self._choices: list[Choices] = []
        self._ends: list[Floats] = []

    def add(self, sentences_B: Ints, steps_T3BK: Choices, ends_TBK: Floats) -> None:
        """Note what some steps did with the given sentences; all others stood still.

        `steps_T3BK` are the token and the former place of every hypothesis, and the source position
        that each former hypothesis attended to. `ends_TBK` is log P of each former hypothesis that
        ends here, -inf for one that does not.
        """
        if len(sentences_B) < self._sentences:
            steps, _, beam = ends_TBK.shape
            choices = np.zeros((steps, 3, self._sentences, beam), dtype=np.int32)
            choices[:, :, sentences_B] = steps_T3BK
            ends = np.full((steps, self._sentences, beam), -np.inf)
            ends[:, sentences_B] = ends_TBK
            steps_T3BK, ends_TBK = choices, ends
        self._choices.append(steps_T3BK)
        self._ends.append(ends_TBK)

    def best(self, count: int, alpha: float) -> list[list[Found]]:
        """Up to `count` finished hypotheses of every sentence, the best first."""
        choices_T3BK, ends_TBK = np.concatenate(self._choices), np.concatenate(self._ends)
        step_N, sentence_N, place_N = np.nonzero(np.isfinite(ends_TBK))
        log_p_N = ends_TBK[step_N, sentence_N, place_N]
        score_N = log_p_N / length_penalty(step_N + 1.0, alpha)
        order_N = np.lexsort((place_N, step_N, -score_N, sentence_N))
        order_N = order_N[_rank(sentence_N[order_N]) < count]
        step_N, sentence_N, place_N = step_N[order_N], sentence_N[order_N], place_N[order_N]
        ids_NT, seen_NT = _traced(choices_T3BK, step_N, sentence_N, place_N)
        found: list[list[Found]] = [[] for _ in range(self._sentences)]
        for row, (sentence, length, which) in enumerate(
            zip(sentence_N.tolist(), step_N.tolist(), order_N.tolist(), strict=True)
        ):
            found[sentence].append(
                Found(
                    tuple(ids_NT[row, :length].tolist()),
                    tuple(seen_NT[row, :length].tolist()),
                    float(log_p_N[which]),
                    float(score_N[which]),
                )
            )
        return found


def _rank(sorted_N: Ints) -> Ints:
    """How many equal entries stand before each entry of a sorted list."""
    return np.arange(len(sorted_N)) - np.searchsorted(sorted_N, sorted_N, side="left")


def _traced(
    choices_T3BK: Choices, step_N: Ints, sentence_N: Ints, place_N: Ints
) -> tuple[Ints, Ints]:
    """Tokens and attended positions [N, T] of the hypotheses that end at these steps and places."""
    steps = int(step_N.max(initial=0))
    ids_NT = np.zeros((len(step_N), steps), dtype=np.int64)
    seen_NT = np.zeros_like(ids_NT)
    place_N = place_N.copy()
    for step in range(steps - 1, -1, -1):
        live = step_N > step
        token_BK, parent_BK, seen_BK = choices_T3BK[step]
        sentences, places = sentence_N[live], place_N[live]
        parents = parent_BK[sentences, places]
        ids_NT[live, step] = token_BK[sentences, places]
        seen_NT[live, step] = seen_BK[sentences, parents]
        place_N[live] = parents
    return ids_NT, seen_NT
