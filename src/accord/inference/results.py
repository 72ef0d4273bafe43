"""What is asked of a search, and what it answers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from accord.errors import AccordError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SearchSettings:
    """How to search. Counts are of subwords."""

    beam: int = 4
    """Hypotheses kept at every step; 1 is greedy search."""
    length_penalty: float = 0.6
    """alpha in score = log P / ((5 + length) / 6) ** alpha; the end of sentence counts as one."""
    nbest: int = 1
    """Translations to give for a sentence, at most `beam`; those that read the same count once."""
    vocabulary: Literal["all", "target"] = "all"
    """target: only subwords that the target language has in the training text."""
    no_repeat_ngram: int = 0
    """No n-gram of this many subwords occurs twice in a translation; 0 allows it."""
    pivot_nbest: int = 1
    """Translations into a pivot language that are carried on, at most `beam`."""
    batch_tokens: int = 16_384
    """Source subwords, padding included, that are translated at once."""
    window: int = 250
    """Longer sources are cut into parts of at most so many subwords."""

    def __post_init__(self) -> None:
        for name in ("beam", "nbest", "pivot_nbest", "batch_tokens", "window"):
            _check(name, getattr(self, name) >= 1, getattr(self, name), "give 1 or more")
        for name in ("length_penalty", "no_repeat_ngram"):
            _check(name, getattr(self, name) >= 0, getattr(self, name), "give 0 or more")
        for name in ("nbest", "pivot_nbest"):
            _check(
                name,
                getattr(self, name) <= self.beam,
                getattr(self, name),
                f"a beam of {self.beam} finds no more than {self.beam}: take a larger beam",
            )
        _check("vocabulary", self.vocabulary in ("all", "target"), self.vocabulary, "all or target")


def _check(name: str, good: bool, value: object, fix: str) -> None:
    if not good:
        raise AccordError(f"{name} cannot be {value}", fix=fix)


@dataclass(frozen=True)
class Hypothesis:
    """One translation. The end of sentence is in neither `tokens`, `ids` nor `alignment`.

    `log_probability` (nats) includes the end of sentence; `score` is it over the length penalty.
    Through a pivot, both are sums over the legs. `alignment` gives, for each token, the position
    with most attention in the sentence that was read last: 0 is the language tag, 1 the first
    subword. The text of an over-long source is that of its parts, end to end.
    """

    text: str
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    score: float
    log_probability: float
    alignment: tuple[int, ...]


NOTHING = Hypothesis("", (), (), 0.0, 0.0, ())


@dataclass(frozen=True)
class Reading:
    """What one member of an ensemble read: the text or, by `via`, its translation into a pivot."""

    text: str
    weight: float
    via: tuple[str, ...] = ()


@dataclass(frozen=True)
class Translation:
    """All that was found for one text, the best first.

    `via` are the languages passed through; `pivot` is the translation into the last of them,
    whose first hypothesis is the one that led to the best translation. `ensemble` is what was read
    together; nothing where the first member alone had to translate the text.
    """

    source: str
    hypotheses: tuple[Hypothesis, ...]
    via: tuple[str, ...] = ()
    pivot: "Translation | None" = None
    warnings: tuple[str, ...] = ()
    ensemble: tuple[Reading, ...] = ()

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text


@dataclass(frozen=True)
class Loss:
    """Negative log-likelihood in nats, and the subwords (with ends of sentence) it is over."""

    nats: float
    tokens: int

    @staticmethod
    def total(sentences: Iterable[tuple[float, int]]) -> "Loss":
        """The loss of several sentences, from the nats and subwords of each."""
        rows = list(sentences)
        return Loss(sum(nats for nats, _ in rows), sum(tokens for _, tokens in rows))

    @property
    def per_token(self) -> float:
        """Nats per subword."""
        return self.nats / max(self.tokens, 1)


# --- What the steps of a search chose, and from it the translations, traced back from their ends.

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


Length = TypeVar("Length", float, np.float32, npt.NDArray[np.floating], "Tensor")


def length_penalty(length: Length, alpha: float) -> Length:
    """What log P is divided by; `length` includes the end of sentence.

    Tensors, arrays and numbers are computed with in their own precision.
    """
    penalty: Length = ((5.0 + length) / 6.0) ** alpha
    return penalty


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
