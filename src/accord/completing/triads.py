"""Which third languages a training pair is completed with, and what they are used for.

In a pair of languages, one side is the teacher's: its direction into the third language has data.
The other side is the pupil's. All of it follows from the translation graph alone.
"""

from collections.abc import Collection
from dataclasses import dataclass

from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph

DISTILLATION, BACK_TRANSLATION, LATENT = "distillation", "back-translation", "latent"


@dataclass(frozen=True)
class Triads:
    """What a translation z into a third language serves for; only directions without data are
    trained. `distillation`: the pupil's sentence into z. `back-translation`: z into the pupil's
    sentence. `latent`: z into a translation of the same sentence into a fourth language, and back.
    """

    graph: TranslationGraph
    parts: Collection[str]

    def trained(self, pupil: str, third: str) -> tuple[Direction, ...]:
        """The directions that a translation into `third` is used for beside the pupil's side."""
        wanted = {
            DISTILLATION: Direction(pupil, third),
            BACK_TRANSLATION: Direction(third, pupil),
        }
        return tuple(
            direction
            for part, direction in wanted.items()
            if part in self.parts and not self.graph.is_supervised(*direction)
        )

    def latent(self, third: str, fourth: str) -> tuple[Direction, ...]:
        """The directions that two translations of one sentence are used for."""
        if LATENT not in self.parts:
            return ()
        both = Direction(third, fourth), Direction(fourth, third)
        return tuple(d for d in both if not self.graph.is_supervised(*d))

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

    def check(self, pairs: Collection[tuple[str, str]]) -> None:
        """Refuse pairs of languages of which none can be completed."""
        if any(self.thirds(*pair) or self.thirds(*reversed(pair)) for pair in pairs):
            return
        supervised = ", ".join(map(str, self.graph.supervised_directions))
        raise AccordError(
            f"no training pair can be completed: with data for {supervised}, no corpus has a third "
            "language that one of its sides is trained to translate into and that makes a pair "
            f"without data ({', '.join(self.parts)})",
            where="objective.complete",
            fix="add a corpus that shares a language with another one, train corpora in both "
            "directions, or leave objective.complete out",
        )

    def _reached(self, teacher: str, pupil: str) -> tuple[str, ...]:
        return tuple(x for x in self.graph.neighbours(teacher) if x != pupil)
