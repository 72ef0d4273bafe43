import pytest

from accord.evaluation.consistency_measures import (
    AgreementTask,
    agreement_of,
    agreement_scores,
    consistency,
    triples,
)
from accord.evaluation.records import DirectionScores, ParallelText
from accord.graph import Direction
from accord.inference.results import Loss
from accord.metrics.bleu import Score
from fake_translator import Tools

SCORE = Score("BLEU", 0.0, "", "", 0.0, 0.0)


@pytest.fixture
def make(tmp_path):
    return Tools(tmp_path)


def row(direction, kind, per_token, per_sentence, via=()):
    source, target = direction.split("-")
    return DirectionScores(
        *(source, target, kind, via, "all", 1, SCORE, SCORE, SCORE),
        *(None, 0, 1.0, 0.0, 0.0, 0.0, per_token, per_sentence),
    )


ROWS = [
    row("en-de", "supervised", 1.0, 30.0),
    row("de-en", "supervised", 2.0, 20.0),
    row("de-fr", "zero-shot", 5.0, 60.0),
    row("fr-de", "zero-shot", 3.0, 90.0),
    row("fr-de", "zero-shot", None, None, via=("en",)),
]


def test_epsilon_and_kappa_are_the_largest_losses():
    found = consistency(ROWS)
    token, sentence = found.per_token, found.per_sentence
    assert (token.epsilon, token.epsilon_direction) == (2.0, "de-en")
    assert (token.kappa, token.kappa_direction) == (5.0, "de-fr")
    assert token.ratio == 2.5
    assert (sentence.epsilon, sentence.epsilon_direction) == (30.0, "en-de")
    assert (sentence.kappa, sentence.kappa_direction) == (90.0, "fr-de")
    assert sentence.ratio == 3.0


def test_there_is_no_consistency_without_both_kinds():
    assert consistency(ROWS[:2]) is None
    assert consistency(ROWS[2:]) is None


def test_triples_pair_every_test_set_with_every_third_language(make):
    graph = make.star("en", "de", "fr", "es")
    text = ParallelText("x", ("a",), ("b",))
    sets = {Direction("de", "fr"): text, Direction("en", "de"): text}
    found = {(t.languages, t.target): t.kind for t in triples(sets, graph)}
    assert found == {
        (("en", "de"), "fr"): "zero-shot",  # de-fr has no data
        (("en", "de"), "es"): "zero-shot",
        (("de", "fr"), "en"): "supervised",
        (("de", "fr"), "es"): "zero-shot",
    }


def test_each_translation_is_scored_given_the_other_side(make):
    graph = make.star("en", "de", "fr")
    sets = {Direction("de", "fr"): ParallelText("x", ("d1", "d2"), ("f1", "f2"))}
    (triple,) = triples(sets, graph)
    task = AgreementTask(triple, (("from d1", "from d2"), ("from f1", "from f2")))
    given, back = task.crossed()
    assert (given.sources, given.translations) == (("f1", "f2"), ("from d1", "from d2"))
    assert (back.sources, back.translations) == (("d1", "d2"), ("from f1", "from f2"))
    scores = agreement_scores(task, 50.0, (Loss(10.0, 10), Loss(30.0, 10)))
    assert scores.cross_entropy == 2.0
    assert agreement_of([scores]).bleu == {"supervised": 50.0, "all": 50.0}
    assert agreement_of([]) is None
