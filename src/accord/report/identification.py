"""How sure language identification is: its errors on references, whose language is known."""

from collections.abc import Mapping
from dataclasses import dataclass

from accord.evaluation.records import Evaluated
from accord.evaluation.scores import identifiable, off_target
from accord.report.numbers import count, percent


@dataclass(frozen=True)
class Identification:
    """References taken for another language, and those long enough to ask, by language."""

    errors: Mapping[str, tuple[int, int]]

    @property
    def shares(self) -> dict[str, float]:
        """The error rate of each language."""
        return {language: wrong / asked for language, (wrong, asked) in self.errors.items()}

    @property
    def words(self) -> str:
        """What that means for off-target rates."""
        wrong, asked = (sum(column) for column in zip(*self.errors.values(), strict=True))
        if not wrong:
            return (
                f"Language identification was right on all {count(asked)} references that are "
                "long enough."
            )
        shares = ", ".join(f"{name} {percent(share)}" for name, share in self.shares.items())
        return (
            f"Language identification takes {percent(wrong / asked)} of the references themselves "
            f"for another language ({count(wrong)} of {count(asked)}; {shares}): off-target rates "
            "of that size say nothing."
        )


def identification(evaluated: Evaluated) -> Identification | None:
    """Measured on the references of an evaluation; None where it has no off-target rates."""
    languages = identifiable(evaluated.evaluation.languages)
    if not any(row.off_target is not None for row in evaluated.evaluation.rows):
        return None
    texts: dict[str, dict[str, None]] = {}
    for item in evaluated.lines:
        texts.setdefault(item.direction.target, {}).update(dict.fromkeys(item.references))
    errors = {}
    for language, references in texts.items():
        rate, asked = off_target(list(references), language, languages)
        if rate is not None:
            errors[language] = (round(rate * asked), asked)
    return Identification(errors) if errors else None
