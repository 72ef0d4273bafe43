"""One update: the mean over all tokens, however they are split, clipped, and finite."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from accord.models.tensor_batch import TensorBatch
from accord.objectives.base import Objective, Terms, Work
from accord.objectives.likelihood import LikelihoodObjective, composite_likelihood
from accord.training import gradients
from accord.training.gradients import FlatGradients
from update_cases import gold, ragged_batch, updater


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 9])
def test_parts_of_an_update_average_like_the_whole(parts):
    """T14; with 9 parts of 7 rows, two parts are empty."""
    batch, one = ragged_batch(), updater()
    loss = composite_likelihood(one.model, TensorBatch.from_numpy(batch)).loss
    (loss / batch.update_target_tokens).backward()
    wanted = one.gradients.flat.clone()
    outcome = one.update([gold(batch, parts)], batch.update_target_tokens)
    assert torch.allclose(one.gradients.flat, wanted, rtol=1e-4, atol=1e-7)
    assert outcome.gradient_norm == pytest.approx(float(wanted.norm()), rel=1e-5)
    assert float(outcome.sums["likelihood"][0]) == pytest.approx(loss.item(), rel=1e-5)
    assert outcome.applied


def test_a_long_gradient_is_shortened_and_its_length_told():
    batch = ragged_batch()
    tensors = [gold(batch)]
    free, tight = updater(), updater(clip=0.01)
    norm = free.update(tensors, batch.update_target_tokens).gradient_norm
    assert norm > 0.02
    assert tight.update(tensors, batch.update_target_tokens).gradient_norm == norm
    assert float(tight.gradients.flat.norm()) == pytest.approx(0.01, rel=1e-3)
    direction = tight.gradients.flat / 0.01 - free.gradients.flat / norm
    assert direction.norm() < 1e-3


@pytest.mark.parametrize(("precision", "digits"), [(torch.float32, 1e-7), (torch.bfloat16, 2**-8)])
def test_gradients_are_exchanged_in_the_precision_asked_for(precision, digits, monkeypatch):
    sent = []

    def add_up(tensor):
        """What another process with the same share adds."""
        sent.append(tensor.dtype)
        tensor.add_(tensor.clone())

    monkeypatch.setattr(gradients, "add_up", add_up)
    one = FlatGradients(nn.Linear(50, 20), apart=1)
    one.buffers.normal_(generator=torch.Generator().manual_seed(1))
    alone = one.buffers.clone()
    one.exchange(precision)
    assert sent == [precision]
    assert one.buffers.dtype == torch.float32
    assert torch.allclose(one.buffers, 2 * alone, rtol=digits, atol=0)
    assert torch.equal(one.buffers, 2 * alone) == (precision == torch.float32)
    one.flat[3] = math.nan  # one process's trouble is everybody's
    one.exchange(precision)
    assert not one.flat.isfinite().all()


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["parameter", "loss"])
def test_nothing_moves_where_a_number_is_not_finite(where, value, monkeypatch):
    one = updater(rate=0.5)
    batch = ragged_batch()
    if where == "parameter":
        with torch.no_grad():
            one.gradients.parameters[-1].view(-1)[0] = value
    else:
        plain = one._losses
        monkeypatch.setattr(one, "_losses", lambda *args: plain(*args) + value)
    before = [p.clone() for p in one.model.parameters()]
    outcome = one.update([gold(batch)], batch.update_target_tokens)
    assert not outcome.applied
    for parameter, old in zip(one.model.parameters(), before, strict=True):
        assert torch.equal(parameter.nan_to_num(7.0), old.nan_to_num(7.0))


def test_a_bad_update_leaves_no_trace_in_the_next():
    one, other = updater(rate=0.5), updater(rate=0.5)
    batch = ragged_batch()
    tensors = [gold(batch)]
    plain = one._losses
    one._losses = lambda *args: plain(*args) * math.nan
    assert not one.update(tensors, batch.update_target_tokens).applied
    one._losses = plain
    for each in (one, other):
        assert each.update(tensors, batch.update_target_tokens).applied
    for mine, theirs in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_gradients_lie_in_one_buffer_that_stays():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model[0].bias.requires_grad_(False)
    flat = FlatGradients(model)
    assert flat.flat.numel() == 12 + 8 + 2
    place = flat.flat.data_ptr()
    for _ in range(2):
        flat.zero()
        model(torch.ones(5, 3)).sum().backward()
    assert model[1].bias.grad.tolist() == [5.0, 5.0]
    assert flat.flat[-2:].tolist() == [5.0, 5.0]
    assert flat.flat.data_ptr() == place


@pytest.mark.parametrize("limit", [None, 0.5, 2.0])
def test_what_is_set_apart_joins_at_a_limited_length(limit):
    model = torch.nn.Linear(2, 2, bias=False)
    gradients = FlatGradients(model, apart=1)
    gradients.flat.copy_(torch.tensor([3.0, 0, 4, 0]))
    before = gradients.flat.clone()
    gradients.flat += torch.tensor([0.0, 6, 0, 0])
    gradients.flat += torch.tensor([0.0, 0, 0, 8])
    gradients.set_apart(before)
    assert model.weight.grad.tolist() == [[3, 0], [4, 0]]
    assert gradients.join(limit).tolist() == [100, 25]
    share = {None: 1.0, 0.5: 0.25, 2.0: 1.0}[limit]
    assert gradients.flat.tolist() == pytest.approx([3, 6 * share, 4, 8 * share])
    gradients.zero()
    assert not gradients.buffers.any()


@dataclass(frozen=True)
class Nothing:
    shape: tuple[int, ...] = ()

    def to(self, device):
        return self


class Table(Objective[Nothing]):
    """The sum of the target table's squares, whose gradient is twice the table."""

    apart = True

    def __init__(self, name, limit):
        self.name = name
        self.gradient_limit = limit

    def weight(self, step):
        return 1.0

    def inputs(self, step, position, batch, cut):
        return [Nothing()]

    def work(self, step, batch, inputs):
        raise NotImplementedError

    def loss(self, model, inputs):
        return Terms({"loss": model.output_weight.square().sum()})

    def metrics(self, tally, sentences):
        return {}


def test_scales_follow_every_update():
    found = updater(objectives=[Table("a", None)])
    table = found.model.output_weight.detach()
    for scale in (0.5, 0.5, 2.0, 0.25):
        done = found.update([Work([Nothing(), Nothing()], (scale,), 8)], 8)
        assert done.gradient_norm == pytest.approx(2 * 2 * scale * float(table.norm()) / 8)
        assert done.sums["a"][0] == pytest.approx(2 * float(table.square().sum()))


def test_every_gradient_that_is_kept_apart_has_its_own_limit():
    """Shortened against all that has joined before it, in the order of the objectives."""
    found = updater(objectives=[LikelihoodObjective(0.1), Table("a", 0.5), Table("b", None)])
    batch = ragged_batch()
    tokens = batch.update_target_tokens
    table = Work([Nothing()], (3.0,), tokens)
    alone = found.update([gold(batch), Work(), Work()], tokens).gradient_norm
    sums = found.update([gold(batch), table, table], tokens).sums
    apart = (6.0 * float(found.model.output_weight.detach().norm())) ** 2
    assert sums["a"][-2:].tolist() == pytest.approx([apart, (alone * tokens) ** 2], rel=1e-4)
    assert sums["b"][-2] == pytest.approx(apart, rel=1e-4)
    before = found.gradients.flat.clone()
    only = found.update([Work(), Work(), table], tokens)
    assert only.sums["b"][-2:].tolist() == pytest.approx([apart, 0.0], rel=1e-4)
    assert only.gradient_norm == pytest.approx(apart**0.5 / tokens)
    assert not torch.equal(before, found.gradients.flat)
