import pytest
import torch

from theory.likelihood import cross_entropy
from theory.tables import Tables
from theory.world import Sentences, World

WORLDS = [
    World.one_to_one(Sentences("ab", 2), 3),
    World.many_to_many(Sentences("ab", 2), 3),
    World.many_to_many(Sentences("abc", 1), 4, meanings=2, seed=3),
]


def test_all_sentences_are_there() -> None:
    sentences = Sentences("ab", 2)
    assert sentences.all == ("", "a", "b", "aa", "ab", "ba", "bb")
    assert sentences.prefixes == ("", "a", "b")
    assert sentences.paths.sum(dim=(1, 2)).tolist() == [1, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("world", WORLDS)
def test_the_joint_is_a_distribution_with_its_marginals(world: World) -> None:
    assert world.joint.sum().item() == pytest.approx(1)
    assert (world.joint >= 0).all()
    torch.testing.assert_close(world.marginal(2, 0), world.marginal(0, 2).T)
    triple = world.marginal(2, 0, 1)
    torch.testing.assert_close(triple.sum(dim=1), world.marginal(2, 1))
    assert triple[1, 2, 3] == world.marginal(0, 1, 2)[2, 3, 1]


def test_one_to_one_worlds_have_one_translation_of_everything() -> None:
    world = WORLDS[0]
    conditional = world.conditional(0, 2)
    torch.testing.assert_close(conditional.max(dim=1).values, torch.ones(7, dtype=torch.float64))
    assert (conditional > 0).sum() == 7
    assert (WORLDS[1].conditional(0, 2) > 0).sum() > 7


def test_the_chances_of_all_translations_sum_to_one() -> None:
    tables = Tables(Sentences("ab", 3), 3)
    sums = tables.p(0, 1).sum(dim=1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_a_sentence_is_as_likely_as_its_tokens_together() -> None:
    tables = Tables(Sentences("ab", 2), 2)
    token = tables.token_log_p(0, 1)[4]
    after = dict(zip(tables.sentences.prefixes, token, strict=True))
    log_p = dict(zip(tables.sentences.all, tables.log_p(0, 1)[4], strict=True))
    assert log_p[""] == after[""][2]
    torch.testing.assert_close(log_p["b"], after[""][1] + after["b"][2])
    torch.testing.assert_close(log_p["ba"], after[""][1] + after["b"][0])


@pytest.mark.parametrize("world", WORLDS)
def test_tables_can_hold_the_truth(world: World) -> None:
    tables = Tables(world.sentences, world.languages)
    before = cross_entropy(world, tables, 0, 1)
    tables.learn_exactly(world, [(0, 1)], doubt=1e-12)
    pair = world.marginal(0, 1)
    entropy = -torch.xlogy(pair, world.conditional(0, 1)).sum()
    after = cross_entropy(world, tables, 0, 1)
    assert after.item() == pytest.approx(entropy.item(), abs=1e-6)
    assert after < before
