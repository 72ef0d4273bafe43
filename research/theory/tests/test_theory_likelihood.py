import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.likelihood import (
    agreement,
    agreement_bound,
    agreement_loss,
    bound_by_prefix,
    complete,
    complete_log_scores,
    composite,
)
from theory.tables import Tables
from theory.world import Sentences, World

SMALL = Sentences("ab", 1)
random_tables = st.builds(
    Tables,
    st.just(SMALL),
    st.just(4),
    seed=st.integers(0, 10**6),
    spread=st.floats(0.1, 6.0),
)


@given(random_tables)
@settings(max_examples=40, deadline=None)
def test_the_bound_is_never_above_the_agreement_term(tables: Tables) -> None:
    exact = agreement(tables, 0, 1, 2)
    assert (agreement_bound(tables, 0, 1, 2) <= exact + 1e-12).all()
    assert (exact + 1e-12 >= agreement_bound(tables, 1, 0, 2).T).all()
    assert (exact <= 1e-12).all()


def test_agreement_is_the_chance_to_say_the_same() -> None:
    tables = Tables(Sentences("ab", 2), 3)
    x, y = tables.p(0, 2), tables.p(1, 2)
    both = sum(x[3, z] * y[5, z] for z in range(7))
    torch.testing.assert_close(agreement(tables, 0, 1, 2)[3, 5].exp(), both)


def test_the_bound_is_tight_for_sides_that_are_sure_and_alike() -> None:
    world = World.one_to_one(SMALL, 3)
    tables = Tables(SMALL, 3)
    tables.learn_exactly(world, tables.edges)
    pairs = world.marginal(0, 1) > 0
    assert agreement_bound(tables, 0, 1, 2)[pairs].min() > -1e-6
    assert agreement(tables, 0, 1, 2)[~pairs].max() < -10


def test_the_bound_can_be_taken_position_by_position() -> None:
    tables = Tables(Sentences("ab", 3), 3)
    torch.testing.assert_close(bound_by_prefix(tables, 0, 1, 2), agreement_bound(tables, 0, 1, 2))


@given(random_tables)
@settings(max_examples=30, deadline=None)
def test_complete_likelihood_is_below_agreement_up_to_its_constant(tables: Tables) -> None:
    log_p, log_z = complete(tables, 0, 1)
    agree = tables.log_p(0, 1) + tables.log_p(1, 0).T
    agree = agree + agreement(tables, 0, 1, 2) + agreement(tables, 0, 1, 3)
    assert (log_p + log_z <= agree + 1e-9).all()


def test_complete_likelihood_is_the_product_of_all_directions() -> None:
    tables = Tables(SMALL, 3)
    scores = complete_log_scores(tables)
    by_hand = sum(
        tables.log_p(i, j)[x, y]
        for i, x in enumerate((2, 0, 1))
        for j, y in enumerate((2, 0, 1))
        if i != j
    )
    torch.testing.assert_close(scores[2, 0, 1], by_hand)
    log_p, log_z = complete(tables, 0, 2)
    assert log_p.exp().sum().item() == pytest.approx(1)
    torch.testing.assert_close(log_z, scores.exp().sum().log())
    torch.testing.assert_close(log_p[1, 2], scores[1, :, 2].exp().sum().log() - log_z)


def test_composite_likelihood_has_no_gradient_for_directions_without_data() -> None:
    world = World.one_to_one(SMALL, 3)
    supervised = [(0, 1), (1, 0), (1, 2), (2, 1)]
    for loss, reached in ((composite, set(supervised)), (agreement_loss, None)):
        tables = Tables(SMALL, 3)
        tables.parameters()
        loss(world, tables, supervised).backward()
        with_gradient = {e for e, t in tables.logits.items() if t.grad is not None and t.grad.any()}
        assert with_gradient == (reached or set(tables.edges))


def test_protection_keeps_agreement_from_directions_with_data() -> None:
    world = World.one_to_one(SMALL, 3)
    supervised = [(0, 1), (1, 0), (1, 2), (2, 1)]
    gradients = []
    for protect in (False, True):
        both, alone = Tables(SMALL, 3), Tables(SMALL, 3)
        for tables in (both, alone):
            tables.parameters()
        agreement_loss(world, both, supervised, protect=protect).backward()
        composite(world, alone, supervised).backward()
        gradients.append([both.logits[e].grad - alone.logits[e].grad for e in supervised])
        assert all(both.logits[e].grad.any() for e in ((0, 2), (2, 0)))
    assert any(gradient.any() for gradient in gradients[0])
    assert all(gradient.abs().max() < 1e-12 for gradient in gradients[1])


def test_agreement_loss_is_zero_for_a_perfect_model_only() -> None:
    world = World.one_to_one(SMALL, 3)
    tables = Tables(SMALL, 3)
    supervised = [(0, 1), (1, 0), (1, 2), (2, 1)]
    tables.learn_exactly(world, supervised)
    assert composite(world, tables, supervised).item() == pytest.approx(0, abs=1e-6)
    assert agreement_loss(world, tables, supervised).item() > 0.5
    tables.learn_exactly(world, tables.edges)
    assert agreement_loss(world, tables, supervised).item() < 1e-5
