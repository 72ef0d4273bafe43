"""Translating many directions with few searches: each sentence into each language only once."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from accord.inference.ensemble import Ensemble
from accord.inference.results import Loss, SearchSettings, Translation
from accord.progress import Progress

if TYPE_CHECKING:
    from accord.inference.translator import Translator


# So many sentences a search: enough to fill batches of like length, few enough to see progress.
_CHUNK = 2048
_LINE_BREAKS = re.compile(r"[\r\n]+")

# The language of the sentences, if the model is to be told; those passed through, and the target.
Leg = tuple[str | None, tuple[str, ...]]


@dataclass(frozen=True)
class Chain:
    """Sentences of one language that are to be translated into each of the targets in turn."""

    texts: tuple[str, ...]
    source: str
    targets: tuple[str, ...]


class Searcher:
    """Remembers the best translation of every sentence that was searched for.

    The first hop through a pivot is a direct translation too, and the sentences of a multi-parallel
    set are the same in every direction: most of the work is there already when it is asked for. A
    model that is told the source language may translate what reads alike in two languages in two
    ways, so that this language is part of what is remembered.
    """

    def __init__(
        self, translator: "Translator", settings: SearchSettings, progress: Progress
    ) -> None:
        self._translator = translator
        self._settings = settings
        self._progress = progress
        self._found: defaultdict[Leg, dict[str, str]] = defaultdict(dict)

    def follow(self, chains: Sequence[Chain]) -> list[tuple[str, ...]]:
        """The texts at the end of each chain."""
        texts = [chain.texts for chain in chains]
        routes = [self._legs(chain) for chain in chains]
        for hop in range(max(map(len, routes), default=0)):
            here = [(i, route[hop]) for i, route in enumerate(routes) if hop < len(route)]
            wanted: defaultdict[Leg, list[str]] = defaultdict(list)
            for i, leg in here:
                wanted[leg].extend(texts[i])
            self._search(wanted, "translating" if hop == 0 else f"translating, leg {hop + 1}")
            for i, leg in here:
                texts[i] = tuple(self._found[leg][text] for text in texts[i])
        return texts

    def together(self, wanted: Sequence[Chain], ensemble: Ensemble) -> list[tuple[str, ...]]:
        """The texts of each chain in its last target, by searches that read the pivots as well."""
        legs = [
            Chain(chain.texts, chain.source, (pivot,))
            for chain in wanted
            for pivot in ensemble.pivots
        ]
        pivots = iter(self.follow(legs))
        self._progress.start("translating, ensemble", sum(len(chain.texts) for chain in wanted))
        found = []
        for chain in wanted:
            sources = [
                chain.texts if member.pivot is None else next(pivots) for member in ensemble.members
            ]
            languages = [member.pivot or chain.source for member in ensemble.members]
            found.append(self._together(sources, languages, chain.targets[-1], ensemble.weights))
            self._progress.reach(sum(map(len, found)), f"into {chain.targets[-1]}")
        return found

    def _together(
        self,
        sources: Sequence[Sequence[str]],
        languages: Sequence[str],
        target: str,
        weights: Sequence[float],
    ) -> tuple[str, ...]:
        order = sorted(range(len(sources[0])), key=lambda line: -len(sources[0][line]))
        found: dict[int, str] = {}
        for start in range(0, len(order), _CHUNK):
            lines = order[start : start + _CHUNK]
            some = [[texts[line] for line in lines] for texts in sources]
            said = self._translator.translate_together(
                some, target, languages=languages, weights=weights, settings=self._settings
            )
            found |= {line: _one_line(item) for line, item in zip(lines, said, strict=True)}
        return tuple(found[line] for line in range(len(order)))

    def _legs(self, chain: Chain) -> list[Leg]:
        """One search a leg; several translations into a pivot must be carried on in one."""
        if self._settings.pivot_nbest > 1:
            return [(_told(self._translator, chain.source), chain.targets)]
        ends = pairwise((chain.source, *chain.targets))
        return [(_told(self._translator, source), (target,)) for source, target in ends]

    def _search(self, wanted: Mapping[Leg, Iterable[str]], what: str) -> None:
        new = {
            # Longest first: a batch that does not fit in memory fails at once, not at the end.
            leg: sorted(set(texts) - self._found[leg].keys(), key=lambda text: (-len(text), text))
            for leg, texts in wanted.items()
        }
        self._progress.start(what, sum(map(len, new.values())))
        done = 0
        for leg, texts in new.items():
            for start in range(0, len(texts), _CHUNK):
                some = texts[start : start + _CHUNK]
                for text, translation in zip(some, self._translate(some, leg), strict=True):
                    self._found[leg][text] = _one_line(translation)
                done += len(some)
                self._progress.reach(done, f"into {leg[1][-1]}")

    def _translate(self, texts: Sequence[str], leg: Leg) -> list[Translation]:
        source, (*via, target) = leg
        return self._translator.translate(
            texts, target, source=source, via=tuple(via) or None, settings=self._settings
        )


def _told(translator: "Translator", source: str) -> str | None:
    """What the model is told of a language: most need not know, and read all of them at once."""
    return source if translator.needs_source else None


def _one_line(translation: Translation) -> str:
    """One line in, one line out: the files must keep their lines together."""
    return _LINE_BREAKS.sub(" ", translation.text)


# --- How likely the model finds given translations: summed over sets of sentences.


@dataclass(frozen=True)
class Given:
    """Sentences and the translations whose likelihood is asked for, and their two languages."""

    sources: tuple[str, ...]
    translations: tuple[str, ...]
    source: str
    target: str


def losses(
    translator: "Translator", asked: Sequence[Given], progress: Progress, what: str
) -> list[Loss]:
    """The loss of each set; all sets of a target language go through the model together, unless
    it is told the language that they are in."""
    groups: defaultdict[tuple[str | None, str], list[int]] = defaultdict(list)
    for index, given in enumerate(asked):
        groups[_told(translator, given.source), given.target].append(index)
    progress.start(what, sum(len(given.sources) for given in asked))
    found: dict[int, Loss] = {}
    done = 0
    for (source, target), indices in groups.items():
        sources = [text for i in indices for text in asked[i].sources]
        translations = [text for i in indices for text in asked[i].translations]
        rows = iter(translator.cross_entropy(sources, translations, target, source))
        for i in indices:
            found[i] = Loss.total(islice(rows, len(asked[i].sources)))
        done += len(sources)
        progress.reach(done, f"into {target}")
    return [found[i] for i in range(len(asked))]
