import json
import random
from dataclasses import replace

import pytest

from accord.errors import AccordError
from accord.evaluation.matrix import evaluate
from accord.evaluation.records import Evaluated
from accord.evaluation.scores import ScoringTask, score_directions
from accord.evaluation.significance import Difference, compare
from accord.inference.ensemble import Ensemble
from fake_translator import Tools

LANGUAGES = ("en", "de", "fr")


@pytest.fixture
def make(tmp_path):
    return Tools(tmp_path)


@pytest.fixture
def system(make):
    """Evaluate a translator whose zero-shot directions err in one of `rate` sentences."""
    graph = make.star(*LANGUAGES)
    held_out = make.held_out([("all", LANGUAGES, range(60))])

    def evaluated(rate, **settings):
        translator = make.translator(graph, make.loses_words(graph, rate))
        return evaluate(translator, held_out, make.origin, agreement=False, **settings)

    return evaluated


def test_a_system_does_not_differ_from_itself(system):
    found = compare(system(3), system(3))
    for row in (*found.directions, *found.averages.values()):
        for metric in (row.bleu, row.chrf):
            assert (metric.difference, metric.low, metric.high) == (0, 0, 0)
            assert metric.p == 1
    assert found.missing == ()


def test_a_clearly_better_system_is_found_to_be_so(system):
    found = compare(system(30), system(2))
    average = found.averages["zero_shot"]
    assert average.bleu.difference > 5
    assert average.bleu.low > 0
    assert average.bleu.p < 0.05
    assert average.chrf.p < 0.05
    assert average.bleu.beyond_chance
    assert average.directions == ("de-fr", "fr-de")
    rows = {row.name: row for row in found.directions}
    assert rows["de-fr"].bleu.p < 0.05
    assert rows["de-fr"].bleu.difference == pytest.approx(
        rows["de-fr"].bleu.ours - rows["de-fr"].bleu.theirs
    )
    # Nothing was changed where there is data.
    assert found.averages["supervised"].bleu.p == 1


def test_the_other_way_round_is_the_mirror_image(system):
    better, worse = system(30), system(2)
    there = compare(better, worse).averages["zero_shot"].bleu
    back = compare(worse, better).averages["zero_shot"].bleu
    assert back.difference == -there.difference
    assert (back.low, back.high) == (-there.high, -there.low)
    assert back.p == there.p


def test_chance_differences_are_seldom_significant(system):
    """Two systems of the same quality, thirty times over: about one in twenty stands out."""
    base = system(3)
    (line,) = [item for item in base.lines if item.name == "de-fr"]
    dice = random.Random(5)

    def drawn():
        texts = tuple(text if dice.random() > 0.3 else "x y z" for text in line.references)
        item = replace(line, hypotheses=texts)
        (scored,) = score_directions(ScoringTask((item,), ()))
        return Evaluated(base.evaluation, (item,), {"de-fr": scored.statistics})

    found = [compare(drawn(), drawn()).directions[0].bleu.p for _ in range(30)]
    significant = sum(p < 0.05 for p in found)
    assert significant <= 5


def test_the_scores_are_those_of_the_evaluation(system):
    ours, theirs = system(5), system(3)
    found = compare(ours, theirs)
    scores = {
        row.name: row.bleu.score
        for row in (*ours.evaluation.directions, *ours.evaluation.via_pivot)
    }
    for row in found.directions:
        assert row.bleu.ours == pytest.approx(scores[row.name])
    assert found.averages["zero_shot"].bleu.ours == pytest.approx(
        ours.evaluation.averages["zero_shot"].bleu
    )
    assert found.averages["zero_shot"].bleu.theirs == pytest.approx(
        theirs.evaluation.averages["zero_shot"].bleu
    )


def test_the_same_comparison_gives_the_same_numbers(system):
    ours, theirs = system(4), system(3)
    first, second = compare(ours, theirs), compare(ours, theirs)
    assert first == second
    assert json.loads(json.dumps(first.as_dict()))["averages"]["zero_shot"]["bleu"]["p"] > 0


def test_rows_that_only_one_has_are_named(system):
    found = compare(system(3), system(3, pivot=False))
    assert "de-fr.via-en" in found.missing
    assert "zero_shot_via_pivot" not in found.averages
    assert "zero_shot" in found.averages


def test_different_sentences_cannot_be_compared(system):
    with pytest.raises(AccordError, match="different sentences of en-de"):
        compare(system(3), system(3, limit=10))


def test_ensembles_are_compared_with_the_same_ensemble_only(system):
    ours = system(30, ensemble=Ensemble.parse("direct,via:en"))
    same = compare(ours, system(2, ensemble=Ensemble.parse("direct,via:en")))
    assert {row.name for row in same.directions} >= {"de-fr.ensemble-direct-via-en"}
    assert same.averages["zero_shot_by_ensemble"].directions == (
        "de-fr.ensemble-direct-via-en",
        "fr-de.ensemble-direct-via-en",
    )
    other = compare(ours, system(2, ensemble=Ensemble.parse("direct:1,via:en:2")))
    assert "zero_shot_by_ensemble" not in other.averages
    assert len(other.missing) == 4


@pytest.mark.parametrize(
    ("low", "high", "beyond"),
    [(0.01, 0.76, True), (-0.2, -0.01, True), (-0.1, 0.4, False), (0.0, 0.3, False)],
)
def test_the_interval_decides_whatever_p_is(low, high, beyond):
    for p in (0.001, 0.9):
        assert Difference(1.0, 0.5, 0.5, low, high, p).beyond_chance == beyond
