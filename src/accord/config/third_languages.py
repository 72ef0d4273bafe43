"""Third languages of a training pair: which it agrees in, is completed with, makes round trips to.

All of it follows from the translation graph and the settings alone, so that an experiment without
any can be refused when it is read.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from accord.config.objectives import CompleteConfig
from accord.config.schema import Experiment, pair_languages
from accord.graph import Direction, TranslationGraph

# --- Agreement: the language that both sides of a pair are translated into.


Law = Literal["zero-shot", "all", "non-english"]
Protection = Literal["supervised", "supervised-scores", "none"]

_ENGLISH = ("en", "eng")


class Auxiliary:
    """Which languages two sides may agree in, and through which directions gradients may flow.

    `zero-shot`: languages outside the pair into which at least one of its sides has no data.
    `all`: every language, the pair's own included (the paper). `non-english`: all but English (the
    authors' release). `protect` says whether supervised directions are shielded from gradients;
    with `supervised-scores` nobody learns from what they say about a translation, either.
    """

    def __init__(
        self, graph: TranslationGraph, law: Law = "zero-shot", protect: Protection = "supervised"
    ) -> None:
        self.graph = graph
        self.law: Law = law
        self.protect: Protection = protect

    def candidates(self, source: str, target: str) -> tuple[str, ...]:
        """The languages that a pair may be asked to agree in, each as likely as the others."""
        languages = self.graph.languages
        if self.law == "all":
            return languages
        if self.law == "non-english":
            return tuple(x for x in languages if x.split("_")[0] not in _ENGLISH)
        return tuple(
            x
            for x in languages
            if x not in (source, target)
            and not (self.graph.is_supervised(source, x) and self.graph.is_supervised(target, x))
        )

    def is_live(self, language: str, auxiliary: str) -> bool:
        """Whether agreement may change the direction from `language` into `auxiliary`."""
        return self.protect == "none" or not self.graph.is_supervised(language, auxiliary)

    def any_live(self) -> bool:
        """Whether agreement may change anything at all."""
        return any(
            self.is_live(side, auxiliary)
            for direction in self.graph.supervised_directions
            for auxiliary in self.candidates(*direction)
            for side in direction
        )


# --- Back-translation: the language that the target of a pair is translated into, and back.


def detours(graph: TranslationGraph, law: Literal["all", "zero-shot"], target: str) -> list[str]:
    """The languages by way of which a sentence may come back, each as likely as the others.

    `zero-shot`: only those without data for the way back, which is what is trained.
    """
    return [
        x
        for x in graph.languages
        if x != target and not (law == "zero-shot" and graph.is_supervised(x, target))
    ]


# --- Distillation: the languages that a pair is completed with, and what they are used for.
#
# In a pair of languages, one side is the teacher's: its direction into the third language has
# data. The other side is the pupil's.


DISTILLATION, BACK_TRANSLATION, LATENT = "distillation", "back-translation", "latent"
ROUND_TRIP = "round-trip"


@dataclass(frozen=True)
class Triads:
    """What a translation z into a third language serves for: directions without data.
    `distillation`: the pupil's sentence into z. `back-translation`: z into the pupil's sentence.
    `latent`: z into a translation of the same sentence into a fourth language, and back. Only
    `round-trip`, z into the teacher's sentence, is for directions with data too; no translation is
    made for it alone.
    """

    graph: TranslationGraph
    parts: Collection[str]
    only: Collection[Direction] | None = None
    """The directions that may be trained; None: all without data."""

    @staticmethod
    def of(graph: TranslationGraph, config: CompleteConfig) -> "Triads":
        """As the settings ask for them."""
        asked = config.directions
        only = None if asked is None else [Direction(*pair_languages(pair)) for pair in asked]
        return Triads(graph, config.parts, only)

    def _is_wanted(self, direction: Direction) -> bool:
        return self.only is None or direction in self.only

    def _is_new(self, direction: Direction) -> bool:
        """Whether synthetic pairs may train this direction, which has no others."""
        return self._is_wanted(direction) and not self.graph.is_supervised(*direction)

    def trained(self, pupil: str, third: str) -> tuple[Direction, ...]:
        """The directions that a translation into `third` is used for beside the pupil's side."""
        wanted = {
            DISTILLATION: Direction(pupil, third),
            BACK_TRANSLATION: Direction(third, pupil),
        }
        return tuple(
            direction
            for part, direction in wanted.items()
            if part in self.parts and self._is_new(direction)
        )

    def latent(self, third: str, fourth: str) -> tuple[Direction, ...]:
        """The directions that two translations of one sentence are used for."""
        if LATENT not in self.parts:
            return ()
        both = Direction(third, fourth), Direction(fourth, third)
        return tuple(d for d in both if self._is_new(d))

    def returned(self, teacher: str, third: str) -> tuple[Direction, ...]:
        """The direction that a translation is used for with the sentence it was made from."""
        back = Direction(third, teacher)
        return (back,) if ROUND_TRIP in self.parts and self._is_wanted(back) else ()

    def thirds(self, teacher: str, pupil: str) -> tuple[str, ...]:
        """The languages into which the teacher's side of a pair is worth translating."""
        return tuple(
            third
            for third in self._reached(teacher, pupil)
            if self.trained(pupil, third) or self.fourths(teacher, pupil, third)
        )

    def fourths(self, teacher: str, pupil: str, third: str) -> tuple[str, ...]:
        """The languages for a second translation, to be paired with the one into `third`."""
        return tuple(
            fourth
            for fourth in self._reached(teacher, pupil)
            if fourth != third and self.latent(third, fourth)
        )

    def any_of(self, pairs: Iterable[tuple[str, str]]) -> bool:
        """Whether at least one of these pairs of languages can be completed."""
        return any(self.thirds(*pair) or self.thirds(*reversed(pair)) for pair in pairs)

    def directions(self, pairs: Iterable[tuple[str, str]]) -> tuple[Direction, ...]:
        """All that synthetic pairs made from these pairs of languages train."""
        found: set[Direction] = set()
        for teacher, pupil in (side for one, two in pairs for side in ((one, two), (two, one))):
            for third in self.thirds(teacher, pupil):
                found.update(self.trained(pupil, third), self.returned(teacher, third))
                for fourth in self.fourths(teacher, pupil, third):
                    found.update(self.latent(third, fourth))
        return tuple(direction for direction in self.graph.directions if direction in found)

    def _reached(self, teacher: str, pupil: str) -> tuple[str, ...]:
        return tuple(x for x in self.graph.neighbours(teacher) if x != pupil)


def synthetic_directions(experiment: Experiment) -> tuple[Direction, ...]:
    """What synthetic pairs train in an experiment: nothing, where it has none."""
    complete = experiment.objective.complete
    if complete is None or "complete" not in experiment.objective.active:
        return ()
    pairs = [corpus.languages for corpus in experiment.trained_corpora]
    return Triads.of(experiment.graph, complete).directions(pairs)


# --- Dual learning: the languages that a sentence is translated into and comes back from.


def round_trips(graph: TranslationGraph, language: str) -> tuple[str, ...]:
    """The languages to and from which `language` has no data; both must be known from other
    data, as languages that are translated into."""
    known = {direction.target for direction in graph.supervised_directions}
    return tuple(
        other
        for other in graph.languages
        if other != language
        and {language, other} <= known
        and not graph.is_supervised(language, other)
        and not graph.is_supervised(other, language)
    )
