"""Overlap removal on random graphs: no complete pivot survives, and nothing is wasted."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.data.dedup import (
    HashedCorpus,
    common_pivots,
    halve,
    hash_lines,
    kth_lowest,
    make_disjoint,
    pairwise_meetings,
    priority,
    shared_strings,
)
from hashed_corpora import corpus

LANGUAGES = ("en", "de", "es", "fr", "it")


def zero_shot_of(pairs):
    supervised = {frozenset(pair) for pair in pairs}
    used = {language for pair in pairs for language in pair}
    return frozenset(
        frozenset(pair)
        for pair in combinations(sorted(used), 2)
        if frozenset(pair) not in supervised
    )


def split_pairwise(corpora, pairs, seed):
    """The paper's procedure, on corpora that are held as a whole."""
    for meeting in pairwise_meetings([c.languages for c in corpora], pairs):
        first, second = corpora[meeting.first], corpora[meeting.second]
        common, order = common_pivots(first, second, meeting, seed)
        middle = kth_lowest([np.sort(order)], len(common) // 2 + 1)
        halve(first, second, meeting, seed, middle)


@st.composite
def graphs(draw):
    pairs = draw(
        st.lists(st.sampled_from(list(combinations(LANGUAGES, 2))), min_size=2, unique=True)
    )
    lines = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12)
    return [corpus(pair, draw(lines)) for pair in pairs], zero_shot_of(pairs)


@st.composite
def stars(draw):
    """Graphs with English in the middle, as nearly every real set of corpora is."""
    others = draw(st.lists(st.sampled_from(LANGUAGES[1:]), min_size=2, unique=True))
    lines = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 999)), min_size=1, max_size=15)
    pairs = [("en", other) for other in others]
    return [corpus(pair, draw(lines)) for pair in pairs], zero_shot_of(pairs)


@given(graphs(), st.integers(0, 2**32))
def test_disjoint_leaves_no_complete_pivot_in_any_graph(graph, seed):
    corpora, zero_shot = graph
    make_disjoint(corpora, zero_shot, seed)
    for shared in shared_strings(corpora, zero_shot):
        assert not shared.zero_shot or shared.strings == 0


@given(stars(), st.integers(0, 2**32))
def test_disjoint_keeps_every_pivot_sentence_in_exactly_one_corpus(graph, seed):
    """R1 and R4: each pair of corpora is processed, and no sentence is lost everywhere."""
    corpora, zero_shot = graph
    everything = np.unique(np.concatenate([c.strings("en") for c in corpora]))
    make_disjoint(corpora, zero_shot, seed)
    left = np.sort(np.concatenate([c.strings("en") for c in corpora]))
    assert left.tolist() == everything.tolist()


@given(graphs(), st.integers(0, 2**32))
def test_disjoint_removes_nothing_where_no_pair_is_zero_shot(graph, seed):
    corpora, _ = graph
    make_disjoint(corpora, frozenset(), seed)
    assert all(c.keep.all() for c in corpora)


@given(graphs(), st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_disjoint_does_not_depend_on_the_order_of_corpora_or_lines(graph, seed, random):
    corpora, zero_shot = graph
    shuffled = []
    for c in corpora:
        order = list(range(len(c.keep)))
        random.shuffle(order)
        shuffled.append(
            HashedCorpus(c.languages, tuple(side[order] for side in c.sides), c.keep.copy())
        )
    random.shuffle(shuffled)
    make_disjoint(corpora, zero_shot, seed)
    make_disjoint(shuffled, zero_shot, seed)
    by_name = {c.name: c for c in shuffled}
    for c in corpora:
        for language in c.languages:
            assert c.strings(language).tolist() == by_name[c.name].strings(language).tolist()


@given(graphs(), st.integers(0, 2**32), st.data())
def test_pairwise_splits_the_listed_pairs_and_only_them(graph, seed, data):
    corpora, zero_shot = graph
    candidates = sorted(tuple(sorted(pair)) for pair in zero_shot)
    pairs = data.draw(st.lists(st.sampled_from(candidates), unique=True)) if candidates else []
    touched = {
        c.name
        for pair in pairs
        for c, d in combinations(corpora, 2)
        for pivot in set(c.languages) & set(d.languages)
        if {c.other(pivot), d.other(pivot)} == set(pair)
        for c in (c, d)
    }
    split_pairwise(corpora, pairs, seed)
    listed = {frozenset(pair) for pair in pairs}
    by_name = {c.name: c for c in corpora}
    for shared in shared_strings(corpora, zero_shot):
        ends = frozenset(
            (by_name[shared.first].other(shared.pivot), by_name[shared.second].other(shared.pivot))
        )
        if ends in listed:
            assert shared.strings == 0
    assert all(c.keep.all() for c in corpora if c.name not in touched)


@given(stars(), st.integers(0, 2**32))
def test_pairwise_loses_no_sentence_everywhere(graph, seed):
    """R4: the pairs are split one after the other, so a sentence in three corpora survives."""
    corpora, zero_shot = graph
    everything = np.unique(np.concatenate([c.strings("en") for c in corpora]))
    split_pairwise(corpora, sorted(tuple(sorted(pair)) for pair in zero_shot), seed)
    left = np.unique(np.concatenate([c.strings("en") for c in corpora]))
    assert left.tolist() == everything.tolist()


@settings(max_examples=30)
@given(st.integers(0, 40), st.integers(0, 2**32))
def test_pairwise_halves_differ_by_at_most_one(common, seed):
    both = [(i, i) for i in range(common)]
    de, nl = corpus(("en", "de"), both), corpus(("en", "nl"), both)
    split_pairwise([de, nl], [("de", "nl")], seed)
    assert abs(int(de.keep.sum()) - int(nl.keep.sum())) <= 1
    assert int(de.keep.sum()) + int(nl.keep.sum()) == common


def test_disjoint_shares_evenly_and_follows_the_seed():
    lines = [(i, i) for i in range(3000)]
    kept = {}
    for seed in (1, 2):
        corpora = [corpus(("en", other), lines) for other in ("de", "es", "fr")]
        make_disjoint(corpora, zero_shot_of([c.languages for c in corpora]), seed)
        kept[seed] = [c.keep for c in corpora]
        for c in corpora:
            assert abs(int(c.keep.sum()) - 1000) < 100  # about four standard deviations
    assert not np.array_equal(kept[1][0], kept[2][0])


def test_disjoint_in_a_triangle_with_a_tail_keeps_what_does_not_conflict():
    """de-en-es is a triangle of corpora, so only pairs with fr (English only) are zero-shot."""
    lines = [(i, i) for i in range(200)]
    pairs = [("en", "de"), ("en", "es"), ("de", "es"), ("en", "fr")]
    corpora = [corpus(pair, lines) for pair in pairs]
    make_disjoint(corpora, zero_shot_of(pairs), seed=3)
    en_de, en_es, de_es, en_fr = (c.keep for c in corpora)
    assert np.array_equal(en_de, en_es)  # no conflict between the two: they stay together
    assert np.array_equal(en_fr, ~en_de)  # each conflicts with French
    assert de_es.all()  # meets the others in de and es, whose ends all have data


def test_all_occurrences_of_a_removed_sentence_go():
    en_de = corpus(("en", "de"), [(1, 1), (1, 2), (2, 3)])
    en_fr = corpus(("en", "fr"), [(1, 1), (3, 2)])
    make_disjoint([en_de, en_fr], zero_shot_of([("en", "de"), ("en", "fr")]), seed=5)
    assert en_de.keep.tolist() in ([True, True, True], [False, False, True])
    assert en_fr.keep[0] != en_de.keep[0]
    assert en_fr.keep[1]


def test_sorting_is_done_once_a_corpus_and_language(monkeypatch):
    """With n corpora around English there are n(n - 1)/2 meetings, but only n sides to sort."""
    corpora = [corpus(("en", f"x{i}"), [(j, j) for j in range(i + 1)]) for i in range(12)]
    calls, real = [], HashedCorpus.strings
    monkeypatch.setattr(
        HashedCorpus, "strings", lambda self, lang: calls.append(self.name) or real(self, lang)
    )
    found = shared_strings(corpora, frozenset())
    assert len(calls) == 12
    assert len(found) == 66
    assert {(s.first, s.second): s.strings for s in found}["en-x3", "en-x9"] == 4


def test_the_order_of_lines_is_the_same_for_ever():
    """Another order would be another store from the same text and the same seed."""
    found = priority(hash_lines(["a", "b", "c"]), 7, "x", "en").tolist()
    assert found == [
        3145423856030284843,
        6609336581782394080,
        12441287168083980813,
    ]
