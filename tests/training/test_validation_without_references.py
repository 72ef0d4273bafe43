"""Which sentences stand in for the references that zero-shot directions do not have."""

from dataclasses import dataclass

import pytest

from accord.graph import Direction, TranslationGraph
from accord.training.validation import Anchor, agreement, anchors


@dataclass
class Sets:
    """Dev sets of the given pairs, two lines each."""

    pairs: set[frozenset[str]]

    def pair(self, split, source, target):
        assert split == "dev"
        if frozenset((source, target)) not in self.pairs:
            return [], []
        return [f"{source}{i}" for i in (1, 2)], [f"{target}{i}" for i in (1, 2)]


def graph(languages, *pairs):
    both = {Direction(*p.split("-")) for p in pairs} | {
        Direction(*p.split("-")[::-1]) for p in pairs
    }
    return TranslationGraph(tuple(languages.split()), frozenset(both))


def named(found):
    return {(str(anchor.direction), anchor.language) for anchor in found}


def sets(*pairs):
    return Sets({frozenset(pair.split("-")) for pair in pairs})


def test_every_zero_shot_direction_of_a_star_has_one_anchor():
    star = graph("en de fr es", "en-de", "en-fr", "en-es")
    found = anchors(sets("en-de", "en-fr", "en-es", "de-fr"), star, 1)
    assert named(found) == {(str(direction), "en") for direction in star.zero_shot}
    one = next(anchor for anchor in found if str(anchor.direction) == "de-fr")
    assert (one.sources, one.others) == (("de1",), ("en1",))
    assert named(anchors(sets("en-de"), star, 5)) == {("de-fr", "en"), ("de-es", "en")}
    assert anchors(sets("de-fr"), star, 5) == []  # no dev set of a pair with data
    assert anchors(sets("en-de"), star, 0) == []


def test_one_of_the_two_sides_has_data():
    chain = graph("en de fr es", "en-de", "de-fr", "fr-es")
    found = named(anchors(sets("en-de", "de-fr", "fr-es", "en-es"), chain, 5))
    # en-es has no anchor: de, with which en has data, has none into es either.
    assert found == {("en-fr", "de"), ("fr-en", "de"), ("de-es", "fr"), ("es-de", "fr")}


def test_agreement_is_the_mean_of_both_ways():
    said = {("x1",): ["a b c d e"], ("y1",): ["a b c d e"], ("z1",): ["a b c d f g h"]}
    same = Anchor(Direction("de", "fr"), ("x1",), "en", ("y1",))
    other = Anchor(Direction("es", "fr"), ("x1",), "en", ("z1",))
    translate = lambda texts, target, source: said[texts]  # noqa: E731
    assert agreement([same], translate) == pytest.approx(100)
    assert 20 < agreement([other], translate) < 80
    mean = (100 + agreement([other], translate)) / 2
    assert agreement([same, other], translate) == pytest.approx(mean)
    turned = Anchor(Direction("es", "fr"), ("z1",), "en", ("x1",))
    assert agreement([turned], translate) == pytest.approx(agreement([other], translate))
    assert agreement([], translate) is None


def test_silence_is_no_agreement():
    anchor = Anchor(Direction("de", "fr"), ("x",), "en", ("y",))
    assert agreement([anchor], lambda texts, target, source: [""]) == 0
