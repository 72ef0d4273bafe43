from itertools import permutations

import numpy as np
import pytest

from accord.evaluation.records import DirectionScores, Statistics
from accord.evaluation.scores import Scored, averages
from accord.metrics.bleu import Score


def row(direction, kind, bleu, via=(), off_target=None, entropy=1.0, statistics=None):
    source, target = direction.split("-")
    score = Score("BLEU", bleu, "", "", bleu, 1.0)
    scores = DirectionScores(
        source=source,
        target=target,
        kind=kind,
        via=via,
        test_set="all",
        sentences=10,
        bleu=score,
        bleu_lowercase=Score("BLEU", bleu + 1, "", "", bleu, 1.0),
        chrf=Score("chrF2", bleu * 2, "", "", bleu, 1.0),
        off_target=off_target,
        off_target_checked=0,
        length_ratio=1.0,
        copy_rate=0.0,
        repetition_rate=0.0,
        exact_match=0.0,
        cross_entropy=None if via else entropy,
        cross_entropy_per_sentence=None if via else 10 * entropy,
    )
    counts = Statistics(np.ones((10, 10), dtype=int), np.ones((10, 18), dtype=int))
    return Scored(scores, statistics or counts)


def test_averages_are_unweighted_means_of_directions():
    rows = [
        row("en-de", "supervised", 30.0, off_target=0.1),
        row("de-en", "supervised", 36.0),
        row("de-fr", "zero-shot", 10.0, entropy=2.0),
        row("fr-de", "zero-shot", 15.0, entropy=4.0),
        row("de-fr", "zero-shot", 20.0, via=("en",)),
    ]
    found = averages(rows, ("en", "de", "fr"))
    assert set(found) == {"supervised", "zero_shot", "zero_shot_via_pivot"}
    assert found["supervised"].bleu == 33.0
    assert found["supervised"].bleu_lowercase == 34.0
    assert found["supervised"].chrf == 66.0
    assert found["supervised"].off_target == 0.1
    assert found["zero_shot"].bleu == 12.5
    assert found["zero_shot"].cross_entropy == 3.0
    assert found["zero_shot"].off_target is None
    assert found["zero_shot"].directions == ("de-fr", "fr-de")
    assert found["zero_shot_via_pivot"].bleu == 20.0
    assert found["zero_shot_via_pivot"].cross_entropy is None


def test_the_interval_of_an_average_is_of_the_mean_of_each_sample():
    good = [*(5, 5), *(5, 4, 3, 2), *(5, 4, 3, 2)]
    bad = [*(5, 5), *(1, 0, 0, 0), *(5, 4, 3, 2)]
    chrf = np.ones((40, 18), dtype=int)
    one = Statistics(np.array([good, bad] * 20), chrf)
    other = Statistics(np.array([bad, good] * 20), chrf)
    alone, same, opposed = (
        averages(
            [row(name, "zero-shot", 50.0, statistics=item) for name, item in rows], ("en", "de")
        )["zero_shot"].bleu_confidence
        for rows in (
            [("de-fr", one)],
            [("de-fr", one), ("fr-de", one)],
            [("de-fr", one), ("fr-de", other)],
        )
    )
    # What is hard in both directions moves the mean as it moves one; what is not evens out.
    assert same == pytest.approx(alone)
    assert opposed < 0.1 * alone


IWSLT = ("de", "en", "it", "nl", "ro")


def iwslt_rows(via=()):
    found = []
    for i, (source, target) in enumerate(permutations(IWSLT, 2)):
        kind = "supervised" if "en" in (source, target) else "zero-shot"
        if kind == "zero-shot" or not via:
            found.append(row(f"{source}-{target}", kind, float(i), via=via))
    return found


def test_iwslt_averages_over_4_and_12_directions():
    rows = iwslt_rows()
    scores = {item.scores.direction: item.scores.bleu.score for item in rows}
    found = averages([*rows, *iwslt_rows(via=("en",))], ("en", "de", "nl", "it", "ro"))
    four = [scores[name] for name in ("de-nl", "nl-de", "it-ro", "ro-it")]
    twelve = [score for name, score in scores.items() if "en" not in name]
    assert len(twelve) == 12
    assert found["iwslt_4"].bleu == pytest.approx(sum(four) / 4)
    assert found["iwslt_12"].bleu == pytest.approx(sum(twelve) / 12)
    assert found["iwslt_12_via_pivot"].bleu == found["iwslt_12"].bleu
    assert found["iwslt_4_via_pivot"].bleu == found["iwslt_4"].bleu


def test_no_iwslt_average_where_a_direction_is_missing():
    rows = [item for item in iwslt_rows() if item.scores.direction != "de-it"]
    found = averages(rows, IWSLT)
    assert "iwslt_12" not in found
    assert "iwslt_4" in found
    assert len(found["zero_shot"].directions) == 11


def test_no_iwslt_average_for_other_languages():
    assert "iwslt_4" not in averages(iwslt_rows(), (*IWSLT, "fr"))
