import copy

import pytest
import torch
from torch import Tensor, nn

from accord.models.gnmt import GNMT
from accord.training.optim import build_optimizer, learning_rate, set_learning_rate


class Reference:
    """Adafactor as tensor2tensor computes it: factored, no momentum, relative step sizes."""

    def __init__(self, model: nn.Module) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.rows = [torch.zeros(p.shape[:-1]) for p in self.parameters]
        self.columns = [torch.zeros(p.shape[:-2] + p.shape[-1:]) for p in self.parameters]
        self.full = [torch.zeros(p.shape) for p in self.parameters]

    @torch.no_grad()
    def step(self, t: int, rate: float) -> None:
        decay = 1 - t**-0.8
        for number, p in enumerate(self.parameters):
            scale = max(p.square().mean().sqrt().item(), 1e-3)
            squared = p.grad.square() + 1e-30
            update = p.grad * self._factor(number, squared, decay)
            clip = max(1.0, update.square().mean().sqrt().item())
            p -= rate * scale * update / clip

    def _factor(self, number: int, squared: Tensor, decay: float) -> Tensor:
        if squared.dim() < 2:
            self.full[number] = decay * self.full[number] + (1 - decay) * squared
            return self.full[number].rsqrt()
        row = decay * self.rows[number] + (1 - decay) * squared.mean(-1)
        column = decay * self.columns[number] + (1 - decay) * squared.mean(-2)
        self.rows[number], self.columns[number] = row, column
        by_row = (row / row.mean()).rsqrt()
        return by_row.unsqueeze(-1) * column.rsqrt().unsqueeze(-2)


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(50, 6)
        self.lstm = nn.LSTM(6, 6, batch_first=True)
        self.lstm.bias_hh_l0.requires_grad_(False)
        self.softmax = nn.Linear(6, 50)

    def loss(self, ids: Tensor) -> Tensor:
        logits = self.softmax(self.lstm(self.table(ids))[0][:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def batches(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, 12, (4, 7), generator=generator) for _ in range(count)]


def train(model: Toy, optimizer: torch.optim.Optimizer, ids: list[Tensor], first: int) -> None:
    for t, batch in enumerate(ids, start=first):
        optimizer.zero_grad()
        model.loss(batch).backward()
        set_learning_rate(optimizer, learning_rate(t))
        optimizer.step()


def test_adafactor_follows_the_literal_reference_for_100_steps() -> None:
    model, literal = Toy(), Toy()
    train(model, build_optimizer("adafactor", model), batches(100), first=1)
    reference = Reference(literal)
    for t, batch in enumerate(batches(100), start=1):
        literal.zero_grad()
        literal.loss(batch).backward()
        reference.step(t, learning_rate(t))
    for got, wanted in zip(model.parameters(), literal.parameters(), strict=True):
        assert (got - wanted).abs().max() < 1e-6
    untouched = Toy().table.weight[12:]
    assert torch.equal(model.table.weight[12:], untouched)
    assert not torch.equal(model.table.weight[:12], Toy().table.weight[:12])


@pytest.mark.parametrize("kind", ["adafactor", "adam"])
def test_a_reloaded_state_goes_on_where_it_stopped(kind: str) -> None:
    ids = batches(20)
    straight = Toy()
    train(straight, build_optimizer(kind, straight), ids, first=1)
    model = Toy()
    optimizer = build_optimizer(kind, model)
    train(model, optimizer, ids[:10], first=1)
    resumed = build_optimizer(kind, model)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(model, resumed, ids[10:], first=11)
    if kind == "adafactor":
        assert int(resumed.param_groups[0]["step"]) == 20
    for got, wanted in zip(model.parameters(), straight.parameters(), strict=True):
        assert torch.equal(got, wanted)


def test_frozen_biases_are_left_out_and_keep_their_value() -> None:
    model = GNMT(23, 8)
    optimizer = build_optimizer("adam", model)
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    frozen = [p for name, p in model.named_parameters() if "bias_hh" in name]
    assert len(frozen) == 8
    assert not held & {id(p) for p in frozen}
    assert len(held) == len(list(model.parameters())) - 8
    group = optimizer.param_groups[0]
    assert (group["betas"], group["eps"]) == ((0.9, 0.98), 1e-9)
