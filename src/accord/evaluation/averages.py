"""Unweighted means over directions."""

from collections.abc import Sequence

import numpy as np

from accord.evaluation.bootstrap import Values, bleu_of, chrf_of, confidence, resampled
from accord.evaluation.metrics import Scored
from accord.evaluation.result import Average, DirectionScores

_IWSLT = frozenset(("de", "en", "it", "nl", "ro"))
_WITHOUT_ENGLISH = ("de", "it", "nl", "ro")
# The four directions that the IWSLT 2017 campaign called zero-shot; all twelve without English
# are zero-shot where every corpus has English on one side.
IWSLT_4 = ("de-nl", "nl-de", "it-ro", "ro-it")
IWSLT_12 = tuple(f"{a}-{b}" for a in _WITHOUT_ENGLISH for b in _WITHOUT_ENGLISH if a != b)


def groups(rows: Sequence[DirectionScores], languages: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The names of the rows that each average is taken over; groups without rows are left out."""
    direct = [row for row in rows if row.is_direct]
    pivoted = [row for row in rows if row.via]
    ensemble = [row for row in rows if row.ensemble]
    found = {
        "supervised": [row for row in direct if row.kind == "supervised"],
        "zero_shot": [row for row in direct if row.kind == "zero-shot"],
        "zero_shot_via_pivot": pivoted,
        "zero_shot_by_ensemble": ensemble,
    }
    if frozenset(languages) == _IWSLT:
        ways = {"": direct, "_via_pivot": pivoted, "_by_ensemble": ensemble}
        for suffix, some in ways.items():
            for name, wanted in (("iwslt_4", IWSLT_4), ("iwslt_12", IWSLT_12)):
                chosen = [row for row in some if row.direction in wanted]
                # A mean over fewer than the name says would be compared with other people's.
                found[name + suffix] = chosen if len(chosen) == len(wanted) else []
    return {name: tuple(row.name for row in chosen) for name, chosen in found.items() if chosen}


def averages(rows: Sequence[Scored], languages: Sequence[str]) -> dict[str, Average]:
    """Means over all rows of a kind, and those of IWSLT 2017 where these are its languages."""
    by_name = {row.scores.name: row for row in rows}
    named = groups([row.scores for row in rows], languages)
    return {name: average([by_name[row] for row in chosen]) for name, chosen in named.items()}


def average(rows: Sequence[Scored]) -> Average:
    """The means over some directions, at least one."""
    scores = [row.scores for row in rows]
    return Average(
        directions=tuple(row.direction for row in scores),
        bleu=_mean([row.bleu.score for row in scores]),
        bleu_confidence=_half_width([bleu_of(resampled(row.statistics.bleu)) for row in rows]),
        bleu_lowercase=_mean([row.bleu_lowercase.score for row in scores]),
        chrf=_mean([row.chrf.score for row in scores]),
        chrf_confidence=_half_width([chrf_of(resampled(row.statistics.chrf)) for row in rows]),
        off_target=_mean_known([row.off_target for row in scores]),
        length_ratio=_mean([row.length_ratio for row in scores]),
        copy_rate=_mean([row.copy_rate for row in scores]),
        repetition_rate=_mean([row.repetition_rate for row in scores]),
        exact_match=_mean([row.exact_match for row in scores]),
        cross_entropy=_mean_known([row.cross_entropy for row in scores]),
    )


def _half_width(samples: Sequence[Values]) -> float:
    return confidence(np.mean(samples, axis=0))[1]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None
