"""An objective of one's own, in one file: it trains, is logged, is saved and resumes exactly."""

from dataclasses import dataclass

import pytest
import torch

from accord.data.batches import Batch, Position
from accord.models.base import Seq2Seq
from accord.objectives.base import Context, Cut, Objective, Tally, Terms, Work
from accord.objectives.build import build_objectives
from accord.training.trainer import train
from toy_training import checkpoint, experiment, metrics, prepared, stop_at, story, weights


@dataclass(frozen=True)
class Nothing:
    """Inputs of an objective that reads no sentences."""

    rows: torch.Tensor
    shape: tuple[int, ...] = ()

    def to(self, device: torch.device) -> "Nothing":
        return Nothing(self.rows.to(device))

    def copy_from(self, other: "Nothing") -> None:
        self.rows.copy_(other.rows)


class SmallTables(Objective[Nothing]):
    """Weight decay by hand: the squares of the target table, a little more with every update."""

    name = "small_tables"
    counts = ("rows",)

    def __init__(self, context: Context, start: int) -> None:
        self.start = start
        self.updates = 0

    def weight(self, step: int) -> float:
        return 0.01 if step > self.start else 0.0

    def inputs(self, step: int, position: Position, batch: Batch, cut: Cut) -> list[Nothing]:
        return [Nothing(torch.tensor(float(batch.rows)))]

    def work(self, step: int, batch: Batch, inputs: list[Nothing]) -> Work[Nothing]:
        self.updates += 1
        return Work(inputs, (self.weight(step) * self.updates,), batch.target_tokens)

    def loss(self, model: Seq2Seq, inputs: Nothing) -> Terms:
        return Terms({"loss": model.output_weight.square().sum()}, {"rows": inputs.rows})

    def metrics(self, tally: Tally, sentences: float) -> dict[str, float | None]:
        return {"small_tables": tally.sums["loss"], "small_rows": tally.sums["rows"]}

    def state(self) -> dict[str, int]:
        return {"updates": self.updates}

    def restore(self, state, checkpoint) -> None:
        self.updates = state["updates"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


def with_it(start):
    return lambda context: [*build_objectives(context), SmallTables(context, start)]


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


def test_it_trains_and_is_logged(toy, tmp_path):
    train(experiment(toy, tmp_path / "basic", training__steps=10))
    train(experiment(toy, tmp_path / "mine", training__steps=10), build=with_it(5))
    table = "target_embedding.weight"
    plain, small = (weights(tmp_path / name, 10)[table] for name in ("basic", "mine"))
    assert small.square().sum() < plain.square().sum()
    before, after = metrics(tmp_path / "mine", "train")
    assert before["small_tables"] == 0
    assert after["small_tables"] > 0
    assert after["small_rows"] == after["rows"]


def test_where_its_weight_is_0_the_run_is_basic(toy, tmp_path):
    train(experiment(toy, tmp_path / "basic", training__steps=8))
    train(experiment(toy, tmp_path / "late", training__steps=8), build=with_it(8))
    assert same(weights(tmp_path / "basic", 8), weights(tmp_path / "late", 8))


def test_it_resumes_exactly(toy, tmp_path, monkeypatch):
    straight, stopped = (experiment(toy, tmp_path / name, training__steps=12) for name in "ab")
    train(straight, build=with_it(2))
    with monkeypatch.context() as patch:
        stop_at(patch, 7)
        assert not train(stopped, build=with_it(2)).finished
    train(stopped, build=with_it(2))
    assert story(tmp_path / "a", 12) == story(tmp_path / "b", 12)
    assert '"updates": 10' in (checkpoint(tmp_path / "b", 12) / "state.json").read_text()
