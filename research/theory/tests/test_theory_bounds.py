import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.bounds import (
    delta,
    disagreement,
    divergence,
    kappa,
    kappa_of_distillation,
    middle_entropy,
    pivot_constant,
    pivot_cross_entropy,
    printed_kappa,
    rarest,
    ratio,
    teacher_entropy,
    xi,
)
from theory.likelihood import cross_entropy
from theory.tables import Tables
from theory.world import Sentences, World

SMALL = Sentences("ab", 1)
WAY = (0, 1, 2)  # from 0 by way of 1 to 2
worlds = st.one_of(
    st.builds(World.one_to_one, st.just(SMALL), st.just(3), seed=st.integers(0, 1000)),
    st.builds(
        World.many_to_many,
        st.just(Sentences("ab", 2)),
        st.just(3),
        meanings=st.integers(1, 4),
        seed=st.integers(0, 1000),
    ),
)


def tables_for(world: World, seed: int, skill: float) -> Tables:
    """Between chance and the truth: the bounds must hold for all models."""
    tables = Tables(world.sentences, 3, seed, spread=2.0)
    noise = dict(tables.logits)
    tables.learn_exactly(world, tables.edges, doubt=1e-6)
    for edge, table in tables.logits.items():
        truth = table - table.logsumexp(dim=2, keepdim=True)
        tables.logits[edge] = skill * truth + (1 - skill) * noise[edge]
    return tables


models = st.tuples(worlds, st.integers(0, 1000), st.floats(0, 1)).map(
    lambda args: (args[0], tables_for(*args))
)


@given(models)
@settings(max_examples=60, deadline=None)
def test_disagreement_bounds_the_zero_shot_cross_entropy(case: tuple[World, Tables]) -> None:
    world, tables = case
    zero_shot = cross_entropy(world, tables, 0, 2).item()
    taught = disagreement(world, tables, *WAY).item()
    supervised = cross_entropy(world, tables, 1, 2).item()
    r = ratio(world, tables, *WAY)
    assert zero_shot <= taught / r * (1 + 1e-9)
    # The lemma, as its steps give it, for every true pair.
    lemma = math.log(1 / xi(world, *WAY)) - supervised / rarest(world, 0, 2)
    assert math.log(r) >= lemma - 1e-9
    eps = max(taught, supervised)
    assert zero_shot <= kappa(eps, xi(world, *WAY), rarest(world, 0, 2)) * (1 + 1e-9)


def test_kappa_vanishes_with_eps() -> None:
    world = World.one_to_one(SMALL, 3)
    constants = xi(world, *WAY), rarest(world, 0, 2)
    assert constants[0] == pytest.approx(1)
    values = [kappa(eps, *constants) for eps in (1e-1, 1e-3, 1e-6)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 1.1e-6


def test_the_printed_constant_fails_where_translation_is_one_to_one() -> None:
    world = World.one_to_one(SMALL, 3)
    assert printed_kappa(0.01, xi(world, *WAY) - 1e-12, delta(world, *WAY)) < 0


def test_the_printed_constant_fails_for_a_perfect_model_of_many_synonyms() -> None:
    sentences = Sentences("ab", 3)
    count = len(sentences.all)
    same = torch.full((1, count), 1 / count)
    world = World.of_meanings(sentences, torch.ones(1), [same] * 3)
    tables = Tables(sentences, 3)
    tables.learn_exactly(world, tables.edges)
    eps = max(disagreement(world, tables, *WAY).item(), cross_entropy(world, tables, 1, 2).item())
    zero_shot = cross_entropy(world, tables, 0, 2).item()
    assert zero_shot == pytest.approx(math.log(count))
    printed = printed_kappa(eps, xi(world, *WAY), delta(world, *WAY))
    assert 0 < printed < zero_shot
    # With eps as the sum of all six terms of both pairs it takes more synonyms, no more.
    assert printed_kappa(6 * math.log(2000), 1 / 2000, 1 / 2000) < math.log(2000)


@given(models)
@settings(max_examples=60, deadline=None)
def test_distillation_is_consistent(case: tuple[World, Tables]) -> None:
    world, tables = case
    kl = divergence(world, tables, *WAY).item()
    assert -1e-9 <= kl <= disagreement(world, tables, *WAY).item()
    zero_shot = cross_entropy(world, tables, 0, 2).item()
    entropy = teacher_entropy(world, tables, *WAY).item()
    assert zero_shot <= (kl + entropy) / ratio(world, tables, *WAY) * (1 + 1e-9)
    supervised = cross_entropy(world, tables, 1, 2).item()
    rare = rarest(world, 0, 2), rarest(world, 1, 2)
    if supervised / rare[0] < 500:
        count = len(world.sentences.all)
        bound = kappa_of_distillation(kl, supervised, xi(world, *WAY), *rare, count)
        assert zero_shot <= bound * (1 + 1e-9)


def test_the_bound_of_distillation_vanishes_too() -> None:
    values = [kappa_of_distillation(e, e, 1.0, 0.2, 0.2, 7) for e in (1e-2, 1e-4, 1e-7)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 1e-4
    assert kappa_of_distillation(0.0, 0.0, 1.0, 0.2, 0.2, 7) == 0.0


@given(models)
@settings(max_examples=60, deadline=None)
def test_pivoting_is_consistent(case: tuple[World, Tables]) -> None:
    world, tables = case
    there = cross_entropy(world, tables, 0, 1).item()
    on = cross_entropy(world, tables, 1, 2).item()
    found = pivot_cross_entropy(world, tables, *WAY).item()
    assert found <= there + on - middle_entropy(world, *WAY) + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_pivoting_loses_no_more_than_the_papers_constant_allows(seed: int) -> None:
    """Its assumption: on the way to the pivot the model never says what is not a translation."""
    for world in (
        World.one_to_one(SMALL, 3, seed),
        World.many_to_many(Sentences("ab", 2), 3, meanings=1, seed=seed),
    ):
        tables = tables_for(world, seed, skill=0.5)
        tables.learn_exactly(world, [(0, 1)], doubt=1e-14)
        constant = pivot_constant(world, tables, *WAY)
        bound = constant * cross_entropy(world, tables, 1, 2).item()
        assert pivot_cross_entropy(world, tables, *WAY).item() <= bound + 1e-9


def test_middle_entropy_is_that_of_the_open_choice() -> None:
    same = torch.full((1, 3), 1 / 3)
    world = World.of_meanings(SMALL, torch.ones(1), [same] * 3)
    assert middle_entropy(world, *WAY) == pytest.approx(math.log(3))
    assert middle_entropy(World.one_to_one(SMALL, 3), *WAY) == pytest.approx(0, abs=1e-12)
