"""From picks to a round: translate, filter, choose."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from accord.completing.filters import FATES, KEPT, LENGTH, Filters
from accord.completing.picks import NONE, Picks
from accord.completing.round import Origins, Round
from accord.completing.teacher import Subwords, Teacher, Wanted
from accord.corpus.sentences import ParallelCorpus, Sentences
from accord.graph import Direction
from accord.search.history import Found


@dataclass(frozen=True)
class _Item:
    """A sentence to translate; `pick` is its place among the picks."""

    pick: int
    language: int
    wanted: Wanted
    direction: Direction


class RoundMaker:
    """Makes rounds out of picks; languages are indices into `languages`.

    `select` says which of several translations is used: the first, or the one that both sides of
    its pair find likeliest together, a token. `tokens` is how many likely ones the teacher names at
    every place of it; with 1, none but the translation's.
    """

    def __init__(
        self,
        corpora: Sequence[ParallelCorpus],
        languages: Sequence[str],
        teacher: Teacher,
        filters: Filters,
        select: Literal["first", "agreement"],
        tokens: int = 1,
    ) -> None:
        self.corpora = corpora
        self.languages = languages
        self.teacher = teacher
        self.filters = filters
        self.select = select
        self.tokens = tokens

    def make(self, picks: Picks, facts: dict[str, Any]) -> Round:
        """A round with these facts and its own account."""
        began = time.perf_counter()
        items = self._items(picks)
        found = self.teacher.translate([item.wanted for item in items])
        passing, fates = self._passing(items, found)
        chosen = self._chosen(items, passing)
        self._round_trip(items, chosen, fates)
        kept = [i for i, ids in enumerate(chosen) if ids]
        rows = np.array([items[i].pick for i in kept], dtype=np.int64)
        sentences = [chosen[i] for i in kept]
        likely = None
        if self.tokens > 1:
            likely = self.teacher.likely([items[i].wanted for i in kept], sentences, self.tokens)
        account = {
            "pairs": len(picks),
            "fates": {name: fates.count(name) for name in FATES},
            "source_tokens": sum(len(items[i].wanted.source) + 1 for i in kept),
            "target_tokens": sum(len(chosen[i]) + 1 for i in kept),
            "seconds": time.perf_counter() - began,
        }
        origins = Origins(
            picks.place_N[rows],
            picks.corpus_N[rows],
            picks.line_N[rows],
            picks.side_N[rows],
            np.array([items[i].language for i in kept], dtype=np.int64),
        )
        return Round(origins, Sentences.of(sentences), {**facts, **account}, likely)

    def _items(self, picks: Picks) -> list[_Item]:
        found = []
        columns = (picks.corpus_N, picks.line_N, picks.side_N, picks.third_N, picks.fourth_N)
        rows = np.stack(columns, axis=1).tolist()
        for pick, (c, line, side, *languages) in enumerate(rows):
            corpus = self.corpora[c]
            source = corpus.sides[side][line].tolist()
            pupil = corpus.sides[1 - side][line].tolist()
            for language in languages:
                if language != NONE:
                    direction = Direction(corpus.languages[side], self.languages[language])
                    limit = self.filters.limit(len(source), direction)
                    wanted = Wanted(source, pupil, direction.target, limit)
                    found.append(_Item(pick, language, wanted, direction))
        return found

    def _passing(
        self, items: Sequence[_Item], found: Sequence[Sequence[Found]]
    ) -> tuple[list[list[Found]], list[str]]:
        """The translations that pass the filters, and what became of each sentence's first."""
        passing, fates = [], []
        for item, hypotheses in zip(items, found, strict=True):
            source, pupil = len(item.wanted.source), len(item.wanted.pupil)
            judged = [
                self.filters.fate(source, pupil, hypothesis.ids, item.direction)
                for hypothesis in hypotheses[: self.teacher.settings.nbest]
            ]
            good = [h for h, fate in zip(hypotheses, judged, strict=False) if fate == KEPT]
            passing.append(good)
            fates.append(KEPT if good else next(iter(judged), LENGTH))
        return passing, fates

    def _chosen(self, items: Sequence[_Item], passing: Sequence[Sequence[Found]]) -> list[Subwords]:
        """One translation a sentence, or nothing."""
        if self.select == "agreement":
            passing = self._by_agreement(items, passing)
        return [good[0].ids if good else () for good in passing]

    def _by_agreement(
        self, items: Sequence[_Item], passing: Sequence[Sequence[Found]]
    ) -> list[list[Found]]:
        flat = [(i, hypothesis) for i, good in enumerate(passing) for hypothesis in good]
        other = self.teacher.log_probabilities(
            [items[i].wanted.pupil for i, _ in flat],
            [items[i].wanted.language for i, _ in flat],
            [hypothesis.ids for _, hypothesis in flat],
        )
        scored: list[list[tuple[float, Found]]] = [[] for _ in items]
        for (i, hypothesis), log_p in zip(flat, other, strict=True):
            each = (hypothesis.log_probability + log_p) / (len(hypothesis.ids) + 1)
            scored[i].append((each, hypothesis))
        return [[h for _, h in sorted(of, key=lambda pair: -pair[0])] for of in scored]

    def _round_trip(self, items: Sequence[_Item], chosen: list[Subwords], fates: list[str]) -> None:
        """Drop translations from which the sentence cannot be told."""
        if self.filters.settings.round_trip is None:
            return
        kept = [i for i, ids in enumerate(chosen) if ids]
        log_p = self.teacher.log_probabilities(
            [chosen[i] for i in kept],
            [items[i].direction.source for i in kept],
            [items[i].wanted.source for i in kept],
        )
        for i, value in zip(kept, log_p, strict=True):
            fates[i] = self.filters.round_trip(value, len(items[i].wanted.source))
            if fates[i] != KEPT:
                chosen[i] = ()
