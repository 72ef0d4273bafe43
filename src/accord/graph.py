"""The translation graph: languages, the directions with data, and those without (zero-shot)."""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from typing import Literal, NamedTuple, get_args

from accord.errors import AccordError

LANGUAGE = re.compile(r"[a-z]{2,3}(_[A-Za-z0-9]+)?")
Kind = Literal["supervised", "zero-shot"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_CODES = "write language codes such as de, fra or eng_Latn"


class Direction(NamedTuple):
    """From one language into another, written `de-fr`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    @classmethod
    def parse(cls, text: str) -> "Direction":
        """Read `de-fr`; anything but two different language codes is an error."""
        codes = text.split("-")
        if len(codes) != 2 or not all(LANGUAGE.fullmatch(code) for code in codes):
            raise AccordError(
                f"'{text}' is not a direction", fix=f"{_CODES} with a hyphen between: de-fr"
            )
        if codes[0] == codes[1]:
            raise AccordError(
                f"'{text}' translates {codes[0]} into itself", fix="name two different languages"
            )
        return cls(*codes)


@dataclass(frozen=True)
class TranslationGraph:
    """All directions between `languages`; `supervised` are those with parallel data.

    Whatever is listed is listed in the order of `languages`, so that no result depends on the
    order of a set.
    """

    languages: tuple[str, ...]
    supervised: frozenset[Direction]

    def __post_init__(self) -> None:
        _check_languages(self.languages)
        for source, target in sorted(self.supervised):
            self._check_direction(source, target)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Every ordered pair of different languages, with data or without."""
        return tuple(Direction(*pair) for pair in permutations(self.languages, 2))

    @property
    def supervised_directions(self) -> tuple[Direction, ...]:
        """The directions with parallel data."""
        return tuple(d for d in self.directions if d in self.supervised)

    @property
    def zero_shot(self) -> tuple[Direction, ...]:
        """The directions without parallel data."""
        return tuple(d for d in self.directions if d not in self.supervised)

    def is_supervised(self, source: str, target: str) -> bool:
        """Whether there is parallel data for this direction."""
        return (source, target) in self.supervised

    def kind(self, direction: tuple[str, str]) -> Kind:
        """What every table calls a direction: `supervised` where it has data, else `zero-shot`."""
        return "supervised" if direction in self.supervised else "zero-shot"

    def zero_shot_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of languages of which NEITHER direction is supervised.

        A pair with data one way only is not in here: its sentences have been seen together.
        """
        return tuple(pair for pair in combinations(self.languages, 2) if not self.linked(*pair))

    def linked(self, one: str, other: str) -> bool:
        """Whether at least one direction between the two languages is supervised."""
        return self.is_supervised(one, other) or self.is_supervised(other, one)

    def neighbours(self, source: str) -> tuple[str, ...]:
        """The languages that `source` has a supervised direction into."""
        return tuple(target for target in self.languages if self.is_supervised(source, target))

    def anchors(self, source: str, target: str) -> tuple[str, ...]:
        """The languages that share data with `source` and have data into `target`.

        Their translation can stand in for the reference of a direction that has none.
        """
        return tuple(
            other
            for other in self.languages
            if self.linked(source, other) and self.is_supervised(other, target)
        )

    def spans(self) -> bool:
        """Whether the supervised directions, taken without their arrows, connect all languages.

        The paper's corollary rests on this: where they do, a model whose agreement loss goes to
        zero must also become good at every zero-shot direction, since each is tied to data by a
        chain of corpora. Its proof takes every corpus to be trained both ways.
        """
        return len(self.components()) == 1

    def components(self) -> tuple[tuple[str, ...], ...]:
        """The groups of languages that supervised directions connect, arrows left aside."""
        groups: list[set[str]] = []
        for language in self.languages:
            near = [group for group in groups if any(self.linked(language, x) for x in group)]
            groups = [group for group in groups if group not in near]
            groups.append({language}.union(*near))
        ordered = [tuple(x for x in self.languages if x in group) for group in groups]
        return tuple(sorted(ordered, key=lambda group: self.languages.index(group[0])))

    def pivot_path(self, source: str, target: str) -> tuple[str, ...] | None:
        """The shortest chain of supervised directions, both ends included; None if there is none.

        Of several shortest chains it is the one whose languages come first in `languages`.
        """
        self._check_direction(source, target)
        return self._pivot_paths[source].get(target)

    def within(self, directions: frozenset[Direction] | None) -> "TranslationGraph":
        """The same with data for some of the directions at most; None stands for all."""
        if directions is None:
            return self
        return TranslationGraph(self.languages, self.supervised & directions)

    def unreachable(self) -> tuple[Direction, ...]:
        """The zero-shot directions that no chain of supervised directions leads along."""
        return tuple(d for d in self.zero_shot if self.pivot_path(*d) is None)

    def facts(self) -> dict[str, object]:
        """The graph as plain data, ready for JSON."""
        return {
            "languages": list(self.languages),
            "supervised": [str(d) for d in self.supervised_directions],
            "zero_shot": {str(d): self.pivot_path(*d) for d in self.zero_shot},
            "spans": self.spans(),
        }

    @cached_property
    def _pivot_paths(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        # Drawing and evaluation ask for every direction, so all searches are done once.
        return {source: self._paths_from(source) for source in self.languages}

    def _paths_from(self, source: str) -> Mapping[str, tuple[str, ...]]:
        # Breadth first with neighbours in language order: the queue holds each length of path in
        # lexicographic order, so the first path that finds a language is the smallest shortest one.
        paths: dict[str, tuple[str, ...]] = {source: (source,)}
        queue = deque([source])
        while queue:
            here = queue.popleft()
            for there in self.neighbours(here):
                if there not in paths:
                    paths[there] = (*paths[here], there)
                    queue.append(there)
        return paths

    def _check_direction(self, source: str, target: str) -> None:
        for language in (source, target):
            if language not in self.languages:
                raise AccordError(
                    f"the direction {source}-{target} names the unknown language '{language}'",
                    fix=f"use one of {', '.join(self.languages)}, or add it to the languages",
                )
        if source == target:
            raise AccordError(
                f"the direction {source}-{target} leads from a language to itself",
                fix="name two different languages",
            )


def _check_languages(languages: tuple[str, ...]) -> None:
    for code in languages:
        if not LANGUAGE.fullmatch(code):
            raise AccordError(f"'{code}' is not a language code", fix=_CODES)
    twice = sorted({code for code in languages if languages.count(code) > 1})
    if twice:
        raise AccordError(
            f"the languages name {', '.join(twice)} more than once", fix="name each language once"
        )
    if len(languages) < 2:
        raise AccordError(
            f"a translation graph needs two languages or more, not {len(languages)}",
            fix="add languages",
        )


# --- What languages are called in English.


def language_name(code: str) -> str:
    """The name of a language as CLDR has it (with its script or region), or its code."""
    from babel import Locale
    from babel.core import get_global

    if not LANGUAGE.fullmatch(code):
        return code
    english = Locale("en")
    base, _, more = code.partition("_")
    name = english.languages.get(get_global("language_aliases").get(base, base), base)
    inside = english.scripts.get(more) or english.territories.get(more.upper()) or more
    return f"{name} ({inside})" if more else str(name)


def direction_name(direction: str) -> str:
    """`German → French` for `de-fr`."""
    source, target = Direction.parse(direction)
    return f"{language_name(source)} → {language_name(target)}"
