import random

import numpy as np
import pytest

from accord.metrics.bleu import bleu_metric, chrf_metric, statistics
from accord.metrics.bootstrap import bleu_of, bounds, chrf_of, confidence, resampled

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()


def texts(count, seed, noise=0.3):
    dice = random.Random(seed)
    references = [" ".join(dice.choices(WORDS, k=dice.randint(1, 15))) for _ in range(count)]
    hypotheses = [
        " ".join(w if dice.random() > noise else dice.choice(WORDS) for w in line.split())
        for line in references
    ]
    return hypotheses, references


@pytest.mark.parametrize("count", [1, 2, 40, 300])
@pytest.mark.parametrize("noise", [0.0, 0.3, 0.9])
def test_confidence_is_the_one_of_sacrebleu(count, noise):
    hypotheses, references = texts(count, seed=count, noise=noise)
    for metric, score_of in ((bleu_metric("de"), bleu_of), (chrf_metric(), chrf_of)):
        theirs = metric.corpus_score(hypotheses, [references], n_bootstrap=1000)
        samples = score_of(resampled(statistics(metric, hypotheses, references)))
        mean, half = confidence(samples)
        # sacreBLEU sums in single precision.
        assert mean == pytest.approx(theirs._mean, abs=2e-5)
        assert half == pytest.approx(theirs._ci, abs=2e-5)


@pytest.mark.parametrize("hypothesis", ["", "alpha", "x", "alpha beta", "alpha x beta gamma y"])
def test_degenerate_hypotheses_score_as_in_sacrebleu(hypothesis):
    reference = "alpha beta gamma delta epsilon"
    for metric, score_of in ((bleu_metric("de"), bleu_of), (chrf_metric(), chrf_of)):
        theirs = metric.corpus_score([hypothesis, ""], [[reference, "alpha"]]).score
        sums = statistics(metric, [hypothesis, ""], [reference, "alpha"]).sum(axis=0)
        assert score_of(sums[None].astype(float))[0] == pytest.approx(theirs, abs=1e-9)


def test_sets_of_the_same_size_are_resampled_jointly():
    counts = np.arange(50)[:, None]
    ours, theirs = resampled(counts), resampled(2 * counts)
    assert np.array_equal(2 * ours, theirs)


def test_bounds_hold_95_percent():
    assert bounds(np.arange(1000.0)) == (25.0, 974.0)
