"""Bootstrap resampling of corpus scores: sacreBLEU's samples, computed for all samples at once.

sacreBLEU's own loop takes a second a direction, and breaks off where chrF is 0 in some samples.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from accord.metrics.bleu import Counts

SAMPLES = 1000
SEED = 12345
_CHUNK = 100
_ORDERS = 4
_BETA_SQUARED = 4.0

Values = npt.NDArray[np.float64]


@lru_cache(maxsize=1)
def _draws(sentences: int) -> npt.NDArray[np.uint16]:
    """How often each sentence stands in each sample: [samples, sentences].

    The draws depend on the number of sentences alone, so that two systems, and all directions of
    a multi-parallel set, are resampled jointly; and they are sacreBLEU's draws for its seed.
    """
    random = np.random.default_rng(SEED)
    counts = np.empty((SAMPLES, sentences), dtype=np.uint16)
    for row in counts:
        row[:] = np.bincount(random.integers(sentences, size=sentences), minlength=sentences)
    return counts


def resampled(counts: Counts) -> Values:
    """Column sums of each sample: [samples, columns] from [sentences, columns]."""
    draws = _draws(len(counts))
    columns = counts.astype(np.float64)
    chunks = [draws[i : i + _CHUNK].astype(np.float64) @ columns for i in range(0, SAMPLES, _CHUNK)]
    return np.concatenate(chunks)


def bleu_of(sums: Values) -> Values:
    """BLEU of each row of summed statistics, with sacreBLEU's (exponential) smoothing."""
    length, reference = sums[:, 0], sums[:, 1]
    matches, ngrams = sums[:, 2 : 2 + _ORDERS], sums[:, 2 + _ORDERS :]
    missed = (matches == 0) & (ngrams > 0)
    smoothed = 0.5 ** np.cumsum(missed, axis=1)
    counted = np.where(missed, smoothed, matches)
    possible = np.all(ngrams > 0, axis=1) & np.any(matches > 0, axis=1)
    safe = np.expand_dims(possible, 1)
    precisions = np.where(safe, counted, 1.0) / np.where(safe, ngrams, 1.0)
    brevity = np.minimum(1.0 - reference / np.maximum(length, 1.0), 0.0)
    score = 100.0 * np.exp(brevity + np.log(precisions).mean(axis=1))
    return np.where(possible, score, 0.0)


def chrf_of(sums: Values) -> Values:
    """chrF2 of each row of summed statistics."""
    found, wanted, matched = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]
    counted = (found > 0) & (wanted > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision = np.where(counted, matched / np.maximum(found, 1.0), 0.0).sum(axis=1) / orders
    recall = np.where(counted, matched / np.maximum(wanted, 1.0), 0.0).sum(axis=1) / orders
    below = _BETA_SQUARED * precision + recall
    above = (1.0 + _BETA_SQUARED) * precision * recall
    return 100.0 * np.where(below > 0, above / np.where(below > 0, below, 1.0), 0.0)


def bounds(samples: Values) -> tuple[float, float]:
    """Between these lie 95 % of the samples."""
    ordered = np.sort(samples)
    tail = len(ordered) // 40
    return float(ordered[tail]), float(ordered[-tail - 1])


def confidence(samples: Values) -> tuple[float, float]:
    """The mean of the samples and half the width of their 95 % interval, as sacreBLEU has it."""
    low, high = bounds(samples)
    return float(samples.mean()), 0.5 * (high - low)
