"""All figures of one direction, from its sources, hypotheses and references.

Definitions (the rates themselves are in `accord.metrics.bleu`):

* BLEU and chrF are sacreBLEU's, with its signature; BLEU cased and lowercased, with the tokeniser
  of the target language. Confidence is sacreBLEU's: 1,000 bootstrap samples, seed 12345.
* Off-target rate: of the hypotheses with at least `MIN_WORDS` words, the share that py3langid,
  choosing among the experiment's languages, takes for another language than the target.
* Length ratio: tokens of the hypotheses over tokens of the references, BLEU's tokens.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.data.language_id import MIN_WORDS, LanguageGuesser
from accord.errors import AccordError
from accord.evaluation.records import Average, DirectionScores, Lines, Score, Statistics
from accord.metrics.bleu import (
    Counts,
    bleu_metric,
    chrf_metric,
    copy_rate,
    exact_match,
    repetition_rate,
    statistics,
)
from accord.metrics.bootstrap import (
    SAMPLES,
    SEED,
    Values,
    bleu_of,
    chrf_of,
    confidence,
    resampled,
)

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF


# Chinese and Japanese have no spaces: each of their characters counts as a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\s{_UNSPACED}]+")


@dataclass(frozen=True)
class Scored:
    """The figures of a direction, and the statistics of its sentences."""

    scores: DirectionScores
    statistics: Statistics


@dataclass(frozen=True)
class ScoringTask:
    """What a worker needs to score a direction; no `identified` leaves the off-target rate out."""

    lines: Lines
    identified: tuple[str, ...]


def score_direction(task: ScoringTask) -> Scored:
    """Compute everything that is known about a direction."""
    lines, target = task.lines, task.lines.direction.target
    hypotheses = lines.hypotheses
    cased, lowercased, characters = _metrics(target)
    counted = Statistics(_counts(cased, lines), _counts(characters, lines))
    rate, checked = off_target(hypotheses, target, task.identified)
    scores = DirectionScores(
        source=lines.direction.source,
        target=target,
        kind=lines.kind,
        via=lines.via,
        test_set=lines.test_set,
        sentences=len(hypotheses),
        bleu=_bleu(cased, counted.bleu),
        bleu_lowercase=_bleu(lowercased, _counts(lowercased, lines)),
        chrf=_chrf(characters, counted.chrf),
        off_target=rate,
        off_target_checked=checked,
        length_ratio=int(counted.bleu[:, 0].sum()) / max(int(counted.bleu[:, 1].sum()), 1),
        copy_rate=copy_rate(lines.sources, hypotheses),
        repetition_rate=repetition_rate(hypotheses, target),
        exact_match=exact_match(hypotheses, lines.references),
        cross_entropy=None if lines.nats is None else lines.nats / max(lines.tokens, 1),
        cross_entropy_per_sentence=None if lines.nats is None else lines.nats / len(hypotheses),
        ensemble=lines.ensemble,
    )
    return Scored(scores, counted)


def _metrics(target: str) -> tuple["BLEU", "BLEU", "CHRF"]:
    return bleu_metric(target), bleu_metric(target, lowercase=True), chrf_metric()


def _counts(metric: "Metric", lines: Lines) -> Counts:
    return statistics(metric, lines.hypotheses, lines.references)


def _bleu(metric: "BLEU", counts: Counts) -> Score:
    sums = counts.sum(axis=0).tolist()
    corpus = metric.compute_bleu(
        sums[2:6], sums[6:], sums[0], sums[1], smooth_method=metric.smooth_method
    )
    return _score(metric, corpus, bleu_of(resampled(counts)))


def _chrf(metric: "CHRF", counts: Counts) -> Score:
    corpus = metric._compute_score_from_stats(counts.sum(axis=0).tolist())
    return _score(metric, corpus, chrf_of(resampled(counts)))


def _score(metric: "Metric", corpus: Any, samples: Values) -> Score:
    # As after sacreBLEU's own bootstrap, so that the signature names samples and seed.
    metric.n_bootstrap, metric.seed = SAMPLES, str(SEED)
    mean, half = confidence(samples)
    return Score(
        name=corpus.name,
        score=float(corpus.score),
        signature=metric.get_signature().format(),
        verbose_score=corpus._verbose,
        confidence_mean=mean,
        confidence_var=half,
    )


@lru_cache(maxsize=2)
def _guesser(languages: tuple[str, ...]) -> LanguageGuesser:
    return LanguageGuesser(languages)


def identifiable(languages: tuple[str, ...]) -> tuple[str, ...]:
    """The languages to guess among: all, or none where one of them is not known."""
    try:
        _guesser(languages)
    except AccordError:
        return ()
    return languages


def off_target(
    hypotheses: Sequence[str], target: str, languages: tuple[str, ...]
) -> tuple[float | None, int]:
    """The rate, and how many hypotheses were long enough; None if none was or none can tell."""
    if not languages:
        return None, 0
    guesser = _guesser(languages)
    code = target.split("_")[0]
    long = [text for text in hypotheses if len(_WORD.findall(text)) >= MIN_WORDS]
    if not long:
        return None, 0
    return sum(guesser.guess(text) != code for text in long) / len(long), len(long)


# --- Unweighted means over directions.


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
