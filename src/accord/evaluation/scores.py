"""All figures of one direction, from its sources, hypotheses and references.

Definitions (the rates themselves are in `accord.metrics.rates`):

* BLEU and chrF are sacreBLEU's, with its signature; BLEU cased and lowercased, with the tokeniser
  of the target language. Confidence is sacreBLEU's: 1,000 bootstrap samples, seed 12345.
* Off-target rate: of the hypotheses with at least `MIN_WORDS` words, the share that py3langid,
  choosing among the experiment's languages, takes for another language than the target. A lower
  bound: a sentence that is half in the target language mostly counts as being in it.
* Mixed rate: of the hypotheses with at least twice as many words, cut into as many equal parts of
  that many words as there are in them, the share whose parts are not all taken for one language.
* Length ratio: tokens of the hypotheses over tokens of the references, BLEU's tokens.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from accord.data.language_id import MIN_WORDS, LanguageGuesser
from accord.errors import AccordError
from accord.evaluation.records import Average, DirectionScores, Lines, Statistics
from accord.metrics.bleu import (
    Score,
    Values,
    bleu_metric,
    bleu_of,
    bleu_score,
    chrf_metric,
    chrf_of,
    chrf_score,
    confidence,
    resampled,
    statistics,
)
from accord.metrics.rates import copy_rate, exact_match, length_ratio, repetition_rate

# Rows scored at once, which a worker that is told to stop finishes first.
_TOGETHER = 6
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
    """Directions with the same references; no `identified` leaves the off-target rate out."""

    lines: tuple[Lines, ...]
    identified: tuple[str, ...]


def scoring_tasks(
    lines: Sequence[Lines], identified: tuple[str, ...], workers: int
) -> list[ScoringTask]:
    """All directions, those into the same text together: its n-grams are then counted once.

    There are as many tasks as workers, if there are so many directions.
    """
    texts: defaultdict[tuple[str, tuple[str, ...]], list[Lines]] = defaultdict(list)
    for item in lines:
        texts[item.direction.target, item.references].append(item)
    parts = -(-workers // max(len(texts), 1))
    tasks = []
    for some in texts.values():
        size = min(-(-len(some) // parts), _TOGETHER)
        cuts = range(0, len(some), size)
        tasks += [ScoringTask(tuple(some[i : i + size]), identified) for i in cuts]
    return tasks


def score_directions(task: ScoringTask) -> Iterator[Scored]:
    """Compute everything that is known about the directions, one after the other."""
    target, references = task.lines[0].direction.target, task.lines[0].references
    systems = [item.hypotheses for item in task.lines]
    cased = statistics(bleu_metric(target), systems, references)
    lowercased = statistics(bleu_metric(target, lowercase=True), systems, references)
    characters = statistics(chrf_metric(), systems, references)
    for i, item in enumerate(task.lines):
        lowercase = bleu_score(lowercased[i], target, lowercase=True)
        yield _scored(item, Statistics(cased[i], characters[i]), lowercase, task.identified)


def _scored(
    lines: Lines, counted: Statistics, lowercase: Score, identified: tuple[str, ...]
) -> Scored:
    hypotheses, target = lines.hypotheses, lines.direction.target
    rate, checked = off_target(hypotheses, target, identified)
    mixed_rate, mixed_checked = mixed(hypotheses, identified)
    scores = DirectionScores(
        source=lines.direction.source,
        target=target,
        kind=lines.kind,
        via=lines.via,
        test_set=lines.test_set,
        sentences=len(hypotheses),
        bleu=bleu_score(counted.bleu, target),
        bleu_lowercase=lowercase,
        chrf=chrf_score(counted.chrf),
        off_target=rate,
        off_target_checked=checked,
        length_ratio=length_ratio(hypotheses, lines.references, target),
        copy_rate=copy_rate(lines.sources, hypotheses),
        repetition_rate=repetition_rate(hypotheses, target),
        exact_match=exact_match(hypotheses, lines.references),
        cross_entropy=None if lines.nats is None else lines.nats / max(lines.tokens, 1),
        cross_entropy_per_sentence=None if lines.nats is None else lines.nats / len(hypotheses),
        ensemble=lines.ensemble,
        mixed=mixed_rate,
        mixed_checked=mixed_checked,
    )
    return Scored(scores, counted)


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


def mixed(hypotheses: Sequence[str], languages: tuple[str, ...]) -> tuple[float | None, int]:
    """The rate of mixed sentences, and how many were long enough; None as for `off_target`."""
    if not languages:
        return None, 0
    guesser = _guesser(languages)
    cut = [parts for text in hypotheses if len(parts := _parts(text)) > 1]
    if not cut:
        return None, 0
    found = sum(len({guesser.guess(part) for part in parts}) > 1 for parts in cut)
    return found / len(cut), len(cut)


def _parts(text: str) -> list[str]:
    """As many parts of about the same length as have `MIN_WORDS` words or more."""
    words = list(_WORD.finditer(text))
    count = len(words) // MIN_WORDS
    cuts = [round(i * len(words) / count) for i in range(count + 1)] if count else []
    return [text[words[a].start() : words[b - 1].end()] for a, b in pairwise(cuts)]


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
    pivoted = [row for row in rows if row.via and row.kind == "zero-shot"]
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
        mixed=_mean_known([row.mixed for row in scores]),
        comet=_mean_known([row.comet for row in scores]),
    )


def _half_width(samples: Sequence[Values]) -> float:
    return confidence(np.mean(samples, axis=0))[1]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None
