"""What an ensemble is made of: the sentence itself, and its translations into pivot languages."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from accord.errors import AccordError
from accord.inference.pivot import Translate
from accord.inference.results import SearchSettings, Translation

# Texts of every member, the target, weights, languages: see `EnsembleDecoder.translate`.
Together = Callable[
    [Sequence[Sequence[str]], str, Sequence[float], SearchSettings, Sequence[str | None]],
    list[Translation],
]

_SYNTAX = "write for example direct,via:en or, with weights, direct:0.5,via:en:0.5"


@dataclass(frozen=True)
class Member:
    """One source of a sentence: the text as it came or, with a `pivot`, its translation there."""

    pivot: str | None
    weight: float

    @property
    def name(self) -> str:
        """As it is written: `direct` or `via:en`."""
        return "direct" if self.pivot is None else f"via:{self.pivot}"


@dataclass(frozen=True)
class Ensemble:
    """Sources that are searched with together; their weights sum to 1."""

    members: tuple[Member, ...]

    @staticmethod
    def parse(text: str) -> "Ensemble":
        """Read `direct,via:en` or `direct:0.3,via:en:0.7`; without weights all count the same."""
        read = [_read(item.strip()) for item in text.split(",")]
        names = [name for name, _ in read]
        if len(read) < 2:
            raise _error(f"'{text}' is not an ensemble: it has one member")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise _error(f"the ensemble names {twice} twice")
        given = [weight for _, weight in read if weight is not None]
        if given and len(given) < len(read):
            raise _error(f"some members of '{text}' have a weight and some have none")
        weights = shares(given or [1.0] * len(read))
        return Ensemble(
            tuple(
                Member(name.removeprefix("via:") if name != "direct" else None, weight)
                for name, weight in zip(names, weights, strict=True)
            )
        )

    @property
    def weights(self) -> tuple[float, ...]:
        """Of the members, in order."""
        return tuple(member.weight for member in self.members)

    @property
    def pivots(self) -> tuple[str, ...]:
        """The languages that the text is translated into first."""
        return tuple(member.pivot for member in self.members if member.pivot is not None)

    def check(
        self, languages: Sequence[str], source: str | None = None, to: str | None = None
    ) -> None:
        """Refuse pivots that the model does not know, or that are one of the two ends."""
        for pivot in self.pivots:
            if pivot not in languages:
                raise AccordError(
                    f"the model does not know the language '{pivot}'",
                    where=f"ensemble member via:{pivot}",
                    fix=f"use one of {', '.join(languages)}",
                )
            if pivot in (source, to):
                end = "source" if pivot == source else "target"
                raise AccordError(
                    f"the pivot {pivot} is the {end} language",
                    where=f"ensemble member via:{pivot}",
                    fix="leave it out, or take a third language",
                )

    def __str__(self) -> str:
        if len(set(self.weights)) == 1:
            return ",".join(member.name for member in self.members)
        return ",".join(f"{member.name}:{member.weight:g}" for member in self.members)


def shares(weights: Sequence[float]) -> tuple[float, ...]:
    """Weights divided by their sum; one may be 0, but none negative."""
    if not all(weight >= 0 for weight in weights) or not 0 < sum(weights) < math.inf:
        raise AccordError(
            f"the weights of an ensemble cannot be {', '.join(f'{w:g}' for w in weights)}",
            fix="give positive numbers that are not too large",
        )
    whole = math.fsum(weights)
    return tuple(weight / whole for weight in weights)


def translate_by(
    ensemble: Ensemble,
    translate: Translate,
    together: Together,
    texts: Sequence[str],
    to: str,
    settings: SearchSettings,
    source: str | None = None,
) -> list[Translation]:
    """Translate into the pivots by `translate`, then from all members into `to` by `together`.

    Both are told what language they read: `source`, or that of the pivot.
    """
    leg = replace(settings, nbest=1)
    legs = [
        None if member.pivot is None else translate(texts, member.pivot, leg, source)
        for member in ensemble.members
    ]
    read = [texts if found is None else [item.text for item in found] for found in legs]
    languages = [member.pivot or source for member in ensemble.members]
    said = together(read, to, ensemble.weights, settings, languages)
    return [
        _named(item, text, [found[line] if found else None for found in legs], ensemble)
        for line, (text, item) in enumerate(zip(texts, said, strict=True))
    ]


def _named(
    item: Translation, text: str, legs: Sequence[Translation | None], ensemble: Ensemble
) -> Translation:
    """The translation with what it was made from; `legs` lead to what each member read."""
    vias = [() if member.pivot is None else (member.pivot,) for member in ensemble.members]
    notes = [note for leg in legs if leg for note in leg.warnings]
    if text.strip():
        notes += [
            f"the translation into {member.pivot} is empty"
            for member, leg in zip(ensemble.members, legs, strict=True)
            if leg and not leg.text
        ]
    named = replace(item, source=text, warnings=tuple(dict.fromkeys((*notes, *item.warnings))))
    if not item.ensemble:  # the first member alone
        return replace(named, via=vias[0], pivot=legs[0])
    pairs = zip(item.ensemble, vias, strict=True)
    return replace(named, ensemble=tuple(replace(reading, via=via) for reading, via in pairs))


def _read(item: str) -> tuple[str, float | None]:
    """Name and weight of one member."""
    kind, *rest = item.split(":")
    if kind == "via" and rest and rest[0]:
        kind = f"via:{rest.pop(0)}"
    elif kind != "direct":
        raise _error(f"there is no ensemble member '{item}'")
    if not rest:
        return kind, None
    try:
        weight = float(rest[0])
    except ValueError:
        weight = math.nan
    if len(rest) > 1 or not (math.isfinite(weight) and weight > 0):
        raise _error(f"'{':'.join(rest)}' is no weight for {kind}: weights are positive numbers")
    return kind, weight


def _error(what: str) -> AccordError:
    return AccordError(what, where="ensemble", fix=_SYNTAX)
