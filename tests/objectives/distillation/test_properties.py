"""In any translation graph: which triads there are, and that every example is what it should be."""

from itertools import combinations, permutations
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.config.objectives import CompleteFilters
from accord.config.third_languages import Triads
from accord.data.store import ParallelCorpus, Sentences
from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph
from accord.inference.backtrace import Found
from accord.objectives.distillation.filters import Filters, usual_lengths
from accord.objectives.distillation.rounds import RoundMaker, merged
from accord.objectives.distillation.sampling import Picker

NAMES = ("aa", "bb", "cc", "dd", "ee")
PARTS = ("distillation", "back-translation", "latent")
GOLD, SYNTHETIC, LINE = 10, 50, 100


@st.composite
def corpora(draw):
    """Pairs of languages, some of them trained one way; a sentence spells its language and line."""
    found = []
    for one, other in draw(
        st.lists(st.sampled_from(list(combinations(NAMES, 2))), min_size=2, max_size=8, unique=True)
    ):
        ways = draw(st.sampled_from([((one, other), (other, one)), ((one, other),)]))
        lines = range(LINE * len(found), LINE * len(found) + draw(st.integers(1, 9)))
        sides = [
            Sentences.of([[GOLD + NAMES.index(language), LINE + line] for line in lines])
            for language in (one, other)
        ]
        found.append(ParallelCorpus((one, other), tuple(sides), ways))
    return found


class Teacher:
    """Says into which language it was to translate, and which sentence; drops some."""

    settings = SimpleNamespace(nbest=1)

    def translate(self, wanted):
        return [self._of(*item.source, *item.pupil, item.language) for item in wanted]

    @staticmethod
    def _of(spoken, line, _, same_line, language):
        assert line == same_line
        into = NAMES.index(language)
        ids = (SYNTHETIC + into, spoken, line)
        return [Found(ids, 0.0, -1.0, ())] if (line + into) % 5 else []


def definition(supervised, parts, teacher, pupil):
    """The third languages, by the words of docs/complete.md."""
    reached = [x for x in NAMES if (teacher, x) in supervised and x not in (teacher, pupil)]
    trained = {
        third: [
            *([(pupil, third)] if "distillation" in parts else []),
            *([(third, pupil)] if "back-translation" in parts else []),
            *((third, x) for x in reached if x != third and "latent" in parts),
            *((x, third) for x in reached if x != third and "latent" in parts),
        ]
        for third in reached
    }
    return {third for third in reached if set(trained[third]) - supervised}


def language_of(sentence):
    return NAMES[sentence[0] % (SYNTHETIC if sentence[0] >= SYNTHETIC else GOLD)]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(corpora(), st.sets(st.sampled_from(PARTS), min_size=1), st.integers(1, 40), st.data())
def test_every_example_is_of_one_line_and_of_a_direction_without_data(gold, parts, pairs, data):
    supervised = {Direction(*way) for corpus in gold for way in corpus.directions}
    triads = Triads(TranslationGraph(NAMES, frozenset(supervised)), sorted(parts))
    for pair in permutations(NAMES, 2):
        assert set(triads.thirds(*pair)) == definition(supervised, parts, *pair)
    both = [pair for corpus in gold for pair in (corpus.languages, corpus.languages[::-1])]
    if not any(definition(supervised, parts, *pair) for pair in both):
        assert not triads.any_of(corpus.languages for corpus in gold)  # refused when it is read
        return
    picker = Picker(gold, triads, pairs=pairs, seed=1)
    picks = picker.picks(data.draw(st.integers(0, 5)))
    wide = CompleteFilters(length_ratio=(0.0, 9.0))
    filters = Filters(wide, None, NAMES, usual_lengths(gold), 99)
    maker = RoundMaker(gold, NAMES, Teacher(), filters, "first")
    world = data.draw(st.integers(1, 3))
    made = merged([maker.make(picks.share(rank, world), {"round": 0}) for rank in range(world)])
    alone = maker.make(picks, {"round": 0})
    assert made.sentences.ids.tolist() == alone.sentences.ids.tolist()
    expected = examples(made, gold, triads)
    if not expected:
        with pytest.raises(AccordError):
            made.pairs(gold, triads)
        return
    synthetic = [each.corpus for each in made.pairs(gold, triads)]
    assert sum(len(corpus) * len(corpus.directions) for corpus in synthetic) == expected
    for corpus in synthetic:
        for source, target in corpus.directions:
            assert (source, target) not in supervised
            sides = corpus.side(source), corpus.side(target)
            for i in range(len(corpus)):
                one, other = (side[i].tolist() for side in sides)
                assert (language_of(one), language_of(other)) == (source, target)
                check(gold, supervised, parts, one, other)


def examples(made, gold, triads):
    """How many there must be: all that was kept is used for all that it can be used for."""
    of, count = made.origins, 0
    for i, (place, c, side) in enumerate(zip(of.place_N, of.corpus_N, of.side_N, strict=True)):
        third = NAMES[of.language_N[i]]
        count += len(triads.trained(gold[c].languages[1 - side], third))
        if i and of.place_N[i - 1] == place:
            count += len(triads.latent(NAMES[of.language_N[i - 1]], third))
    return count


def check(gold, supervised, parts, source, target):
    """One example: both of the same line, translated from a side that has data for it."""
    assert source[-1] == target[-1]
    of = gold[source[-1] // LINE - 1]
    translated = [x for x in (source, target) if x[0] >= SYNTHETIC]
    for z in translated:
        spoken = NAMES[z[1] - GOLD]
        assert spoken in of.languages
        assert (spoken, language_of(z)) in supervised
        assert language_of(z) not in of.languages
    if len(translated) == 2:
        assert "latent" in parts
        assert source[1] == target[1]
    else:
        pupil = target if translated[0] is source else source
        assert {language_of(pupil), spoken} == set(of.languages)
        assert ("back-translation" if translated[0] is source else "distillation") in parts
