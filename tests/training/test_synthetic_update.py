"""Synthetic pairs in an update: a mean of their own beside the mean over gold tokens."""

import pytest
import torch

from accord.models.tensor_batch import TensorBatch
from accord.objectives.base import Work
from accord.objectives.likelihood import LikelihoodObjective, composite_likelihood
from update_cases import gold, ragged_batch, updater

GOLD, MADE = ragged_batch(7, seed=5), ragged_batch(4, seed=6)


class Made(LikelihoodObjective):
    """Synthetic pairs: the likelihood of other pairs, on a scale of their own."""

    name = "complete"

    def __init__(self, likelihood):
        self.likelihood = likelihood

    @property
    def scorer(self):
        return self.likelihood


def both(rate=0.0):
    likelihood = LikelihoodObjective(0.1)
    return updater(rate=rate, objectives=[likelihood, Made(likelihood)])


def synthetic(count=1, times=1, weight=0.5):
    tokens = times * MADE.update_target_tokens
    scale = weight * GOLD.update_target_tokens / tokens
    return Work(times * gold(MADE, count).parts, (scale,), tokens)


def updated(one, made=None):
    return one.update([gold(GOLD), made or Work()], GOLD.update_target_tokens)


def test_the_gradient_is_that_of_both_means():
    one = both()
    losses = [composite_likelihood(one.model, TensorBatch.from_numpy(b)) for b in (GOLD, MADE)]
    (losses[0].loss / GOLD.update_target_tokens
     + 0.5 * losses[1].loss / MADE.update_target_tokens).backward()  # fmt: skip
    wanted = one.gradients.flat.clone()
    outcome = updated(one, synthetic())
    assert torch.allclose(one.gradients.flat, wanted, rtol=1e-4, atol=1e-7)
    assert outcome.gradient_norm == pytest.approx(float(wanted.norm()), rel=1e-5)
    assert outcome.sums["likelihood"].tolist() == pytest.approx(
        [losses[0].loss.item(), losses[0].nll.item()]
    )
    assert outcome.sums["complete"].tolist() == pytest.approx(
        [losses[1].loss.item(), losses[1].nll.item()]
    )


@pytest.mark.parametrize(("count", "times"), [(3, 1), (5, 1), (1, 4)])
def test_neither_parts_nor_numbers_change_what_is_optimised(count, times):
    """With 5 parts of 4 rows, one is empty; three times as many of the same weigh the same."""
    one, other = both(), both()
    updated(one, synthetic())
    updated(other, synthetic(count, times))
    assert torch.allclose(one.gradients.flat, other.gradients.flat, rtol=1e-4, atol=1e-6)


def test_without_them_and_after_them_gold_updates_are_as_ever():
    one, other = both(rate=0.1), both(rate=0.1)
    updated(one, synthetic(weight=0.0))
    updated(other)
    assert torch.equal(one.gradients.flat, other.gradients.flat)
    updated(one)
    updated(other)
    for mine, theirs in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_synthetic_loss_that_is_not_finite_leaves_the_step_out(monkeypatch):
    one = both(rate=0.5)
    before = [p.clone() for p in one.model.parameters()]
    plain, made = one._losses, synthetic()
    monkeypatch.setattr(
        one, "_losses", lambda o, part: plain(o, part) * (torch.inf if part is made.parts[0] else 1)
    )
    assert not updated(one, made).applied
    for parameter, old in zip(one.model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
