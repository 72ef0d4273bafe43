"""A round of the pool: a teacher's translations of training sentences, and the pairs they make.

On disk it is one file, `pool/round-000003.npz`: subwords, where each translation begins, what it is
a translation of, what else the teacher found likely if that is wanted, and an account in JSON.
"""

import json
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from accord.completing.likely import LikelyTokens, MadePairs
from accord.completing.triads import Triads
from accord.corpus.batches import gather
from accord.corpus.plan import Int64s
from accord.corpus.sentences import ParallelCorpus, Sentences
from accord.errors import AccordError
from accord.files import atomic_write


@dataclass(frozen=True)
class Origins:
    """What translations are made from: side `side_N` of line `line_N` of a corpus, put into a
    language (an index into the graph's). Two of the same place are from the same sentence."""

    place_N: Int64s
    corpus_N: Int64s
    line_N: Int64s
    side_N: Int64s
    language_N: Int64s


# The last one is what zipfile says of methods that it does not know.
_DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError)
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
        except _DAMAGE:
            return None  # it follows from its teacher, and is made anew

    def pairs(self, gold: Sequence[ParallelCorpus], triads: Triads) -> list[MadePairs]:
        """The pairs to train on, each corpus with the directions that are without data."""
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
            pupil, third = gold[c].languages[1 - side], triads.graph.languages[language]
            if directions := triads.trained(pupil, third):
                sides = taken(gold[c].sides[1 - side], of.line_N[rows]), self._taken(rows)
                yield MadePairs(ParallelCorpus((pupil, third), sides, directions), (None, rows))

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
    for key in ("pairs", "source_tokens", "target_tokens"):
        found[key] = sum(each[key] for each in facts)
    found["fates"] = {k: sum(each["fates"][k] for each in facts) for k in found["fates"]}
    found["seconds"] = max(each["seconds"] for each in facts)
    return found
