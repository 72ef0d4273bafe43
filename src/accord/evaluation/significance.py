"""Whether one system is better than another: paired bootstrap tests over the same sentences.

Both systems are scored on the same 1,000 samples of the test set, as are all directions of a
multi-parallel set, so that what makes some sentences hard for everyone cancels out. With d the
differences over the samples, the 95 % interval is read off d, and p is the share of samples with
|d - mean(d)| >= |observed difference|: how often chance alone would bring a difference as large,
either way (two-sided). The interval decides: a difference is beyond chance where it leaves out 0. p
is told beside it, and near 0.05 the two may disagree. sacreBLEU centres |d| instead of d, which
gives identical systems p = 0.001.

Where systems were trained with several seeds, a sample draws seeds as well: one fewer than there
are, so that the variance of their mean is that of a mean over all (Rao and Wu 1988). Two or three
seeds tell little about how seeds vary: take such an interval as a rough one.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from accord.errors import AccordError
from accord.evaluation.records import Evaluated, Lines, Origin, Statistics
from accord.evaluation.scores import groups
from accord.metrics.bleu import (
    SAMPLES,
    SEED,
    Counts,
    Values,
    bleu_of,
    bounds,
    chrf_of,
    resampled,
)


@dataclass(frozen=True)
class Difference:
    """One score of both systems."""

    ours: float
    theirs: float
    difference: float
    """Ours less theirs."""
    low: float
    high: float
    """95 % of the samples' differences lie between these."""
    p: float

    @property
    def beyond_chance(self) -> bool:
        """Whether the interval leaves out 0: what decides everywhere, whatever p is."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class ComparedDirection:
    """One direction of both systems."""

    name: str
    kind: str
    sentences: int
    bleu: Difference
    chrf: Difference


@dataclass(frozen=True)
class ComparedAverage:
    """The mean over some directions of both systems."""

    directions: tuple[str, ...]
    bleu: Difference
    chrf: Difference


@dataclass(frozen=True)
class Comparison:
    """Paired tests of one evaluation against another."""

    name: str
    ours: Origin
    theirs: Origin
    samples: int
    seed: int
    directions: tuple[ComparedDirection, ...]
    averages: dict[str, ComparedAverage]
    """Of groups whose directions both systems have, every one."""
    missing: tuple[str, ...]
    """Rows that only one of the two has."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class _Sampled:
    """One metric of both systems: on the whole set, and on every sample."""

    ours: float
    theirs: float
    our_samples: Values
    their_samples: Values


def compare(ours: Evaluated, theirs: Evaluated) -> Comparison:
    """Test whether our system differs from theirs, per direction and on average."""
    return compare_seeds([(ours, theirs)])


def compare_seeds(pairs: Sequence[tuple[Evaluated, Evaluated]]) -> Comparison:
    """The same of means over seeds: ours and theirs of each. Origins are those of the first."""
    ours, theirs = pairs[0]
    evaluation = ours.evaluation
    mine = {item.name: item for item in ours.lines}
    others = {item.name: item for item in theirs.lines}
    found = [_matched(*pair) for pair in pairs]
    sampled = {
        name: (_mixed([rows[name][0] for rows in found]), _mixed([rows[name][1] for rows in found]))
        for name in found[0]
        if all(name in rows for rows in found)
    }
    wanted = groups(evaluation.rows, evaluation.languages)
    return Comparison(
        name=evaluation.name,
        ours=evaluation.origin,
        theirs=theirs.evaluation.origin,
        samples=SAMPLES,
        seed=SEED,
        directions=tuple(_compared(mine[name], *samples) for name, samples in sampled.items()),
        averages={
            group: ComparedAverage(
                names,
                _difference(_averaged([sampled[name][0] for name in names])),
                _difference(_averaged([sampled[name][1] for name in names])),
            )
            for group, names in wanted.items()
            if sampled.keys() >= set(names)
        },
        missing=tuple(sorted(mine.keys() ^ others.keys())),
    )


def _matched(ours: Evaluated, theirs: Evaluated) -> dict[str, tuple[_Sampled, _Sampled]]:
    """BLEU and chrF of all rows that both have."""
    others, sampled = {item.name: item for item in theirs.lines}, {}
    for item in ours.lines:
        if item.name in others:
            _check_same_set(item, others[item.name])
            sampled[item.name] = _both(ours.statistics[item.name], theirs.statistics[item.name])
    return sampled


def _check_same_set(ours: Lines, theirs: Lines) -> None:
    if (ours.sources, ours.references) != (theirs.sources, theirs.references):
        raise AccordError(
            f"the two runs were evaluated on different sentences of {ours.direction}",
            fix="compare runs with the same test set (and the same --limit or --lines)",
        )


def _both(ours: Statistics, theirs: Statistics) -> tuple[_Sampled, _Sampled]:
    return _sampled(ours.bleu, theirs.bleu, bleu_of), _sampled(ours.chrf, theirs.chrf, chrf_of)


def _sampled(ours: Counts, theirs: Counts, score_of: Callable[[Values], Values]) -> _Sampled:
    whole = score_of(np.stack([ours.sum(axis=0), theirs.sum(axis=0)]).astype(np.float64))
    samples = (score_of(resampled(counts)) for counts in (ours, theirs))
    return _Sampled(float(whole[0]), float(whole[1]), *samples)


def _averaged(rows: Sequence[_Sampled]) -> _Sampled:
    return _Sampled(
        float(np.mean([row.ours for row in rows])),
        float(np.mean([row.theirs for row in rows])),
        np.mean([row.our_samples for row in rows], axis=0),
        np.mean([row.their_samples for row in rows], axis=0),
    )


def _mixed(seeds: Sequence[_Sampled]) -> _Sampled:
    """The mean over seeds; each sample is one over other seeds, the same for all directions."""
    if len(seeds) == 1:
        return seeds[0]
    size = (SAMPLES, len(seeds) - 1)
    drawn = np.random.default_rng(SEED).integers(len(seeds), size=size)
    samples = np.arange(SAMPLES)[:, None]
    mean = _averaged(seeds)
    return _Sampled(
        mean.ours,
        mean.theirs,
        np.stack([row.our_samples for row in seeds])[drawn, samples].mean(axis=1),
        np.stack([row.their_samples for row in seeds])[drawn, samples].mean(axis=1),
    )


def _difference(row: _Sampled) -> Difference:
    observed = row.ours - row.theirs
    samples = row.our_samples - row.their_samples
    low, high = bounds(samples)
    # One is added on both sides: the test set itself is a sample too, and p is never zero.
    extreme = int(np.sum(np.abs(samples - samples.mean()) >= abs(observed)))
    return Difference(row.ours, row.theirs, observed, low, high, (extreme + 1) / (SAMPLES + 1))


def _compared(item: Lines, bleu: _Sampled, chrf: _Sampled) -> ComparedDirection:
    return ComparedDirection(
        item.name, item.kind, len(item.sources), _difference(bleu), _difference(chrf)
    )
