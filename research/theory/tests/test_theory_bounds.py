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
    assert count == 15
    assert zero_shot == pytest.approx(2.708, abs=5e-4)
    assert printed == pytest.approx(1.071, abs=5e-4)
    # With eps as the sum of all six terms of both pairs it takes more synonyms, no more.
    assert printed_kappa(6 * math.log(2000), 1 / 2000, 1 / 2000) < math.log(2000)


@given(models)
@settings(max_examples=60, deadline=None)
def test_the_printed_constant_is_never_below_one_nat(case: tuple[World, Tables]) -> None:
    """For eps >= CE(j -> k) >= H(k | i, j) >= log(1/xi): at least 1/(1 - delta), if positive."""
    world, tables = case
    eps = cross_entropy(world, tables, 1, 2).item()
    eps = max(eps, disagreement(world, tables, *WAY).item())
    most, least = xi(world, *WAY), delta(world, *WAY)
    assert eps >= math.log(1 / most) - 1e-9
    if math.log(1 / most) - least * eps > 1e-9:
        assert printed_kappa(eps, most, least) >= 1 / (1 - least) - 1e-9


# --- How good the bound is.


def sure_of(logits: list[float]) -> torch.Tensor:
    """A table over sentences of at most one letter: its one prefix, in the order of the tokens."""
    return torch.tensor([logits], dtype=torch.float64)


def extreme(p: float, eps: float) -> tuple[World, Tables]:
    """One-to-one, and a model that is perfect but for the rarest pair, of probability p.

    There j -> k gives the truth only q = exp(-eps / p), and i -> k gives it a = exp(-eps / (p q));
    the rest goes to one wrong sentence. So CE(j -> k) = p log(1/q) = eps, and the disagreement is
    p q log(1/a) = eps, while CE(i -> k) = p log(1/a) = eps / q.
    """
    weights_M = torch.tensor([p, (1 - p) / 2, (1 - p) / 2], dtype=torch.float64)
    world = World.of_meanings(SMALL, weights_M, [torch.eye(3)] * 3)
    tables = Tables(SMALL, 3)
    never = -1e12
    # The tokens are a, b and the end; the sentences "", a and b. The first is the rare one.
    rows = [
        sure_of([never, never, 0.0]),
        sure_of([0.0, never, never]),
        sure_of([never, 0.0, never]),
    ]
    for edge in tables.edges:
        tables.logits[edge] = torch.stack(rows)
    q = math.exp(-eps / p)
    for edge, log_truth in (((1, 2), -eps / p), ((0, 2), -eps / (p * q))):
        table = tables.logits[edge].clone()
        table[0] = sure_of([math.log1p(-math.exp(log_truth)), never, log_truth])
        tables.logits[edge] = table
    return world, tables


@pytest.mark.parametrize(
    ("p", "expected"), [(0.206, 5.66), (0.1, 74.2), (0.05, 11_013), (0.03, 8.65e6)]
)
def test_the_bound_is_sharp_where_translation_is_one_to_one(p: float, expected: float) -> None:
    world, tables = extreme(p, eps=0.5)
    supervised = cross_entropy(world, tables, 1, 2).item()
    taught = disagreement(world, tables, *WAY).item()
    assert supervised == pytest.approx(0.5, rel=1e-6)
    assert taught == pytest.approx(0.5, rel=1e-6)
    assert (xi(world, *WAY), delta(world, *WAY)) == pytest.approx((1, 1))
    zero_shot = cross_entropy(world, tables, 0, 2).item()
    assert zero_shot == pytest.approx(expected, rel=2e-3)
    eps = max(supervised, taught)
    assert zero_shot / kappa(eps, 1.0, rarest(world, 0, 2)) == pytest.approx(1, abs=1e-4)


def test_no_bound_in_eps_xi_and_delta_alone_exists() -> None:
    """They are the same in all of these, and the cross-entropy grows beyond any limit."""
    found = [cross_entropy(*extreme(p, eps=0.1), 0, 2).item() for p in (0.1, 0.05, 0.02, 0.01)]
    assert found == sorted(found)
    assert found[-1] > 1000
    # Nor does it help to restore the logarithm alone: xi eps exp(delta eps).
    assert found[0] > 0.1 * math.exp(0.1)


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
