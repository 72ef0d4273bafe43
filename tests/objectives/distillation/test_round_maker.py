"""From picks to a round: what is translated, filtered and chosen."""

from types import SimpleNamespace

import numpy as np
import pytest

from accord.config.objectives import CompleteFilters
from accord.data.store import ParallelCorpus, Sentences
from accord.graph import Direction
from accord.inference.backtrace import Found
from accord.objectives.distillation.filters import Filters
from accord.objectives.distillation.rounds import RoundMaker
from accord.objectives.distillation.sampling import NONE, Picks

LANGUAGES = ("en", "de", "es", "fr")
CORPORA = [
    ParallelCorpus(
        ("de", "en"),
        (Sentences.of([[50], [51, 52]]), Sentences.of([[10, 11, 12], [20, 21, 22, 23]])),
        (("de", "en"),),
    )
]
USUAL = {Direction("en", x): 1.0 for x in LANGUAGES}
PICKS = Picks(*np.array([[3, 0, 1, 1, 2, NONE], [8, 0, 0, 1, 3, 2]], dtype=np.int64).T)


def found(ids, log_p=-1.0):
    return Found(tuple(ids), (), log_p, log_p)


class Scripted:
    """A teacher that says what it was told to."""

    def __init__(self, translations, nbest=1, scores=()):
        self.translations, self.scores = translations, dict(scores)
        self.settings = SimpleNamespace(nbest=nbest)
        self.asked, self.scored = [], []

    def translate(self, wanted):
        self.asked = list(wanted)
        return [self.translations[tuple(item.source), item.language] for item in wanted]

    def log_probabilities(self, sources, directions, targets):
        asked = list(zip(map(tuple, sources), directions, map(tuple, targets), strict=True))
        self.scored += asked
        return [self.scores[each] for each in asked]


GOOD = {
    ((20, 21, 22, 23), "es"): [found([1, 2, 3, 4])],
    ((10, 11, 12), "fr"): [found([5, 6, 7])],
    ((10, 11, 12), "es"): [found([8, 8, 8])],
}


def make(teacher, select="first", **filters):
    settings = Filters(CompleteFilters(**filters), None, LANGUAGES, USUAL, longest=50)
    maker = RoundMaker(CORPORA, LANGUAGES, teacher, settings, select)
    return maker.make(PICKS, {"round": 7, "teacher": "step-1"})


def test_the_teachers_side_is_translated():
    teacher = Scripted(GOOD)
    made = make(teacher)
    assert [(item.language, item.pupil) for item in teacher.asked] == [
        ("es", [51, 52]),
        ("fr", [50]),
        ("es", [50]),
    ]
    assert [item.limit for item in teacher.asked] == [7, 6, 6]  # one too many at 1.5 times
    assert [row.tolist() for row in made.sentences] == [[1, 2, 3, 4], [5, 6, 7]]
    of = made.origins
    assert of.place_N.tolist() == [3, 8]
    assert of.language_N.tolist() == [2, 3]
    assert (of.corpus_N.tolist(), of.line_N.tolist(), of.side_N.tolist()) == (
        [0, 0],
        [1, 0],
        [1, 1],
    )


def test_the_account():
    facts = make(Scripted(GOOD)).facts
    assert facts["fates"] == {
        "kept": 2, "length_ratio": 0, "too_long": 0, "distinct_bigrams": 1, "language": 0,
        "round_trip": 0,
    }  # fmt: skip
    assert (facts["source_tokens"], facts["target_tokens"]) == (9, 9)
    assert (facts["round"], facts["teacher"], facts["pairs"]) == (7, "step-1", 2)


def test_the_first_that_passes_is_taken_and_no_more_than_asked_for():
    several = GOOD | {((10, 11, 12), "es"): [found([8, 8, 8]), found([8, 9, 1]), found([4, 5, 6])]}
    assert [row.tolist() for row in make(Scripted(several, nbest=3)).sentences][2] == [8, 9, 1]
    assert len(make(Scripted(several, nbest=1))) == 2


def test_agreement_chooses_what_both_sides_find_likely():
    several = GOOD | {
        ((10, 11, 12), "fr"): [
            found([5, 6, 7], -4.0),
            found([5, 6], -6.0),
            found([5, 5, 5], 0.0),  # falls through the filters
        ]
    }
    scores = {
        ((51, 52), ("de", "es"), (1, 2, 3, 4)): -1.0,
        ((50,), ("de", "fr"), (5, 6, 7)): -8.0,  # -12 in all: -3 for each of 4 tokens
        ((50,), ("de", "fr"), (5, 6)): -2.7,  # -8.7 in all: -2.9 for each of 3
    }
    teacher = Scripted(several, nbest=3, scores=scores)
    made = make(teacher, "agreement")
    assert [row.tolist() for row in made.sentences] == [[1, 2, 3, 4], [5, 6]]
    assert set(teacher.scored) == set(scores)


def test_round_trip_is_asked_of_the_chosen_one():
    scores = {
        ((1, 2, 3, 4), ("es", "en"), (20, 21, 22, 23)): -9.9,  # 5 tokens
        ((5, 6, 7), ("fr", "en"), (10, 11, 12)): -8.1,  # 4 tokens
    }
    made = make(Scripted(GOOD, scores=scores), round_trip=-2.0)
    assert made.origins.place_N.tolist() == [3]
    assert made.facts["fates"]["round_trip"] == 1
    assert made.facts["fates"]["kept"] == 1


@pytest.mark.parametrize("nothing", [[], [found([])]])
def test_a_sentence_without_translation_is_dropped(nothing):
    made = make(Scripted(dict.fromkeys(GOOD, nothing)))
    assert len(made) == 0
    assert made.facts["fates"]["length_ratio"] == 3
