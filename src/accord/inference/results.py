"""What is asked of a search, and what it answers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from accord.settings_fields import check_settings, require, setting

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor


MOST_HYPOTHESES = 1000  # of a sentence; long before, wider searches find no better translations


@dataclass(frozen=True)
class SearchSettings:
    """How to search. Counts are of subwords."""

    beam: int = setting(
        4, "Hypotheses kept at every step; 1 is greedy search.", least=1, most=MOST_HYPOTHESES
    )
    length_penalty: float = setting(
        0.6,
        "alpha in score = log P / ((5 + length) / 6) ^ alpha; the end of sentence counts as one.",
        least=0,
    )
    nbest: int = 1
    """Translations to give for a sentence, at most `beam`; those that read the same count once."""
    vocabulary: Literal["all", "target"] = setting(
        "all", "target: only subwords that the target language has in the training text; else all."
    )
    no_repeat_ngram: int = setting(
        0, "No n-gram of this many subwords occurs twice in a translation; 0 allows it.", least=0
    )
    pivot_nbest: int = setting(
        1, "Translations into a pivot language that are carried on, at most --beam.", least=1
    )
    batch_tokens: int = setting(
        16_384, "Source subwords, padding included, that are translated at once.", least=1
    )
    window: int = 250
    """Longer sources are cut into parts of at most so many subwords."""

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("nbest", "window"):
            require(name, getattr(self, name) >= 1, getattr(self, name), "give 1 or more")
        for name in ("nbest", "pivot_nbest"):
            require(
                name,
                getattr(self, name) <= self.beam,
                getattr(self, name),
                f"a beam of {self.beam} finds no more than {self.beam}: take a larger beam",
            )
        known = self.vocabulary in ("all", "target")
        require("vocabulary", known, self.vocabulary, "all or target")


@dataclass(frozen=True)
class Hypothesis:
    """One translation. The end of sentence is in neither `tokens`, `ids` nor `alignment`.

    `log_probability` (nats) includes the end of sentence; `score` is it over the length penalty.
    Where a model gives no probabilities it is None, and `score` only ranks what one search has
    found. Through a pivot, both are sums over the legs, and the former None where one leg's is.
    `alignment` gives, for each token, the position with most attention in the sentence that was
    read last: 0 is the language tag, 1 the first subword. The text of an over-long source is that
    of its parts, end to end.
    """

    text: str
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    score: float
    log_probability: float | None
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


Length = TypeVar("Length", float, "np.float32", "npt.NDArray[np.floating]", "Tensor")


def length_penalty(length: Length, alpha: float) -> Length:
    """What log P is divided by; `length` includes the end of sentence.

    Tensors, arrays and numbers are computed with in their own precision.
    """
    penalty: Length = ((5.0 + length) / 6.0) ** alpha
    return penalty
