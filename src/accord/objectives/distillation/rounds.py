"""A round of the pool: a teacher's translations of training sentences, and the pairs they make.

On disk it is one file, `pool/round-000003.npz`: subwords, where each translation begins, what it is
a translation of, what else the teacher found likely if that is wanted, and an account in JSON.
"""

import json
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from accord.config.third_languages import Triads
from accord.data.batches import gather
from accord.data.epoch_plan import Int64s
from accord.data.store import ParallelCorpus, Sentences
from accord.errors import AccordError
from accord.files import NPZ_ERRORS, atomic_write
from accord.graph import Direction
from accord.inference.backtrace import Found
from accord.objectives.distillation.filters import FATES, KEPT, LENGTH, Filters
from accord.objectives.distillation.sampling import NONE, Draws, Picks
from accord.objectives.distillation.soft_targets import LikelyTokens, MadePairs
from accord.objectives.distillation.teacher import Subwords, Teacher, Wanted


@dataclass(frozen=True)
class Origins:
    """What translations are made from: side `side_N` of line `line_N` of a corpus, put into a
    language (an index into the graph's). Two of the same place are from the same sentence."""

    place_N: Int64s
    corpus_N: Int64s
    line_N: Int64s
    side_N: Int64s
    language_N: Int64s


_COLUMNS = [field.name for field in fields(Origins)]
_LIKELY = [field.name for field in fields(LikelyTokens)]


@dataclass(frozen=True)
class Round:
    """The translations that were kept, an account of the round as plain data and, if the teacher
    was asked, what it found likely at each place of them."""

    origins: Origins
    sentences: Sentences
    facts: dict[str, Any]
    likely: LikelyTokens | None = None

    def __len__(self) -> int:
        return len(self.sentences)

    def save(self, path: Path) -> None:
        """Write it; the file is either there as a whole or not at all."""
        with atomic_write(path, "wb") as out:
            np.savez(
                out,
                ids=self.sentences.ids,
                offsets=self.sentences.offsets,
                facts=np.array(json.dumps(self.facts)),
                **vars(self.origins),
                **(vars(self.likely) if self.likely is not None else {}),
            )

    @staticmethod
    def load(path: Path) -> "Round | None":
        """A round from disk; None where there is none that can be read."""
        try:
            with zipfile.ZipFile(path) as whole:
                if whole.testzip() is not None:  # np.load does not look at all of it
                    return None
            with np.load(path, allow_pickle=False) as file:
                return Round(
                    Origins(*(file[name] for name in _COLUMNS)),
                    Sentences(file["ids"], file["offsets"]),
                    json.loads(str(file["facts"])),
                    LikelyTokens(*(file[name] for name in _LIKELY)) if _LIKELY[0] in file else None,
                )
        except NPZ_ERRORS:
            return None  # it follows from its teacher, and is made anew

    def pairs(self, gold: Sequence[ParallelCorpus], triads: Triads) -> list[MadePairs]:
        """The pairs to train on, each corpus with the directions that it is for."""
        found = [*self._beside_gold(gold, triads), *self._latent(triads)]
        if not found:
            counts = ", ".join(f"{name} {n:,}" for name, n in self.facts["fates"].items() if n)
            raise AccordError(
                f"no translation of the teacher was kept in round {self.facts['round']}: {counts}",
                where="objective.complete",
                fix="train the teacher longer (objective.complete.start) or loosen the filters",
            )
        return found

    def _beside_gold(self, gold: Sequence[ParallelCorpus], triads: Triads) -> Iterator[MadePairs]:
        of = self.origins
        keys_N3 = np.stack([of.corpus_N, of.side_N, of.language_N], axis=1)
        for c, side, language in np.unique(keys_N3, axis=0).tolist():
            rows = np.flatnonzero((keys_N3 == (c, side, language)).all(axis=1))
            teacher, pupil = gold[c].languages[side], gold[c].languages[1 - side]
            third = triads.graph.languages[language]
            for other, number, directions in (
                (pupil, 1 - side, triads.trained(pupil, third)),
                (teacher, side, triads.returned(teacher, third)),
            ):
                if directions:
                    sides = taken(gold[c].sides[number], of.line_N[rows]), self._taken(rows)
                    yield MadePairs(ParallelCorpus((other, third), sides, directions), (None, rows))

    def _latent(self, triads: Triads) -> Iterator[MadePairs]:
        of = self.origins
        first_P = np.flatnonzero(of.place_N[1:] == of.place_N[:-1])
        keys_P2 = np.stack([of.language_N[first_P], of.language_N[first_P + 1]], axis=1)
        for pair in np.unique(keys_P2, axis=0).tolist():
            rows = first_P[(keys_P2 == pair).all(axis=1)]
            third, fourth = (triads.graph.languages[language] for language in pair)
            if directions := triads.latent(third, fourth):
                sides = self._taken(rows), self._taken(rows + 1)
                corpus = ParallelCorpus((third, fourth), sides, directions)
                yield MadePairs(corpus, (rows, rows + 1))

    def _taken(self, rows: Int64s) -> Sentences:
        return taken(self.sentences, rows)


def taken(sentences: Sentences, lines: Int64s) -> Sentences:
    """The given lines, in that order, held in memory."""
    ids, lengths = gather(sentences, lines)
    return Sentences(ids, np.concatenate([[0], np.cumsum(lengths)]))


def merged(parts: Sequence[Round]) -> Round:
    """The parts of several processes as the round that one process alone would have made."""
    if len(parts) == 1:
        return parts[0]
    columns = [np.concatenate([getattr(part.origins, name) for part in parts]) for name in _COLUMNS]
    order = np.argsort(columns[0], kind="stable")
    lengths = np.concatenate([part.sentences.lengths() for part in parts])
    sentences = Sentences(
        np.concatenate([part.sentences.ids for part in parts]),
        np.concatenate([[0], np.cumsum(lengths)]),
    )
    asked = [part.likely for part in parts if part.likely is not None]
    return Round(
        Origins(*(column[order] for column in columns)),
        taken(sentences, order),
        _added([part.facts for part in parts]),
        LikelyTokens.of(asked).taken(sentences.offsets, order) if asked else None,
    )


def _added(facts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts are added up; the time is that of the slowest; the rest is the same in all."""
    found = dict(facts[0])
    for key in ("pairs", "source_tokens", "target_tokens", "mass"):
        if key in found:
            found[key] = sum(each[key] for each in facts)
    found["fates"] = {k: sum(each["fates"][k] for each in facts) for k in found["fates"]}
    found["seconds"] = max(each["seconds"] for each in facts)
    return found


# --- From picks to a round: translate, filter, choose.


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
    every place of it; with 1, none but the translation's. With a `seed`, translations are drawn
    at random by it; otherwise the teacher searches.
    """

    def __init__(
        self,
        corpora: Sequence[ParallelCorpus],
        languages: Sequence[str],
        teacher: Teacher,
        filters: Filters,
        select: Literal["first", "agreement"],
        tokens: int = 1,
        seed: int | None = None,
    ) -> None:
        self.corpora = corpora
        self.languages = languages
        self.teacher = teacher
        self.filters = filters
        self.select = select
        self.tokens = tokens
        self.seed = seed

    def make(self, picks: Picks, facts: dict[str, Any]) -> Round:
        """A round with these facts and its own account."""
        began = time.perf_counter()
        items = self._items(picks, facts)
        found = self.teacher.translate([item.wanted for item in items])
        passing, fates = self._passing(items, found)
        chosen = self._chosen(items, passing)
        self._round_trip(items, chosen, fates)
        kept = [i for i, ids in enumerate(chosen) if ids]
        rows = np.array([items[i].pick for i in kept], dtype=np.int64)
        sentences = [chosen[i] for i in kept]
        likely, mass = None, {}
        if self.tokens > 1:
            asked = [items[i].wanted for i in kept]
            likely, mass["mass"] = self.teacher.likely(asked, sentences, self.tokens)
        account = {
            **mass,
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

    def _items(self, picks: Picks, facts: dict[str, Any]) -> list[_Item]:
        found = []
        draws = None if self.seed is None else Draws(self.seed, facts["round"])
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
                    place = int(picks.place_N[pick])
                    drawn_T = draws(place, language, limit + 1) if draws else None
                    read = corpus.languages[side], corpus.languages[1 - side]
                    wanted = Wanted(source, pupil, read, direction.target, limit, drawn_T)
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
            [Direction(items[i].wanted.read[1], items[i].wanted.language) for i, _ in flat],
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
            [Direction(*reversed(items[i].direction)) for i in kept],
            [items[i].wanted.source for i in kept],
        )
        for i, value in zip(kept, log_p, strict=True):
            fates[i] = self.filters.round_trip(value, len(items[i].wanted.source))
            if fates[i] != KEPT:
                chosen[i] = ()
