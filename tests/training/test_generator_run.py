"""A run whose weights are generated from languages: alone, resumed, and from a Basic run."""

import pytest
import torch

from accord.data.batches import Position
from accord.errors import AccordError
from accord.evaluation.evaluate import evaluate_run
from accord.export.export_run import export_run
from accord.inference.results import SearchSettings
from accord.inference.translator import Translator
from accord.models.checkpoint import find_checkpoint
from accord.models.tensor_batch import TensorBatch
from accord.objectives.likelihood import composite_likelihood
from accord.ops.distributed import joined_world
from accord.training.trainer import Trainer, train
from toy_training import Notes, experiment, metrics, prepared, stop_at, story, weights

GENERATOR = {"model__generator": {"size": 3}}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def run(toy, tmp_path_factory):
    """A run that nothing happened to."""
    path = tmp_path_factory.mktemp("generated")
    train(experiment(toy, path, training__steps=10, **GENERATOR))
    return path


@pytest.fixture(scope="module")
def basic(toy, tmp_path_factory):
    path = tmp_path_factory.mktemp("basic")
    train(experiment(toy, path, training__steps=5))
    return path


def test_it_trains_and_languages_come_apart(run):
    found = weights(run, 10)
    assert found["language_LM"].shape == (3, 3)
    parts = [value for name, value in found.items() if name.startswith("from_")]
    assert all(value.abs().max() > 0 for value in parts)
    first, last = (line["nll"] for line in metrics(run, "train"))
    assert last < first


def test_its_batches_are_of_one_direction(toy, run):
    with joined_world() as world:
        trainer = Trainer(experiment(toy, run, training__steps=10, **GENERATOR), world, Notes())
    for number in range(trainer.stream.batches_per_epoch(0)):
        batch = trainer.stream.batch_at(Position(0, number))
        assert len(set(zip(batch.source_language_B, batch.target_language_B, strict=True))) == 1


@pytest.mark.parametrize("keys", [{"size": 3}, {"size": 2, "rank": 2}, {"size": 2, "bias": False}])
def test_it_resumes_exactly(toy, run, tmp_path, monkeypatch, keys):
    keys, straight = {"model__generator": keys, "training__steps": 10}, run
    if keys["model__generator"] != {"size": 3}:
        straight = tmp_path / "straight"
        train(experiment(toy, straight, **keys))
    with monkeypatch.context() as patch:
        stop_at(patch, 6)
        assert not train(experiment(toy, tmp_path / "run", **keys)).finished
    train(experiment(toy, tmp_path / "run", **keys))
    assert story(tmp_path / "run", 10) == story(straight, 10)


def test_it_translates_is_evaluated_and_is_told_the_source_language(run):
    model = Translator(run)
    assert model.needs_source
    texts = ["one two", "three"]
    scores = [model.cross_entropy(texts, texts, "de", source) for source in ("en", "fr")]
    assert scores[0] != scores[1]
    assert len(model.translate(texts, "fr", source="de", via="en")) == 2
    assert len(model.translate(texts, "fr", source="de", ensemble="direct,via:en")) == 2
    with pytest.raises(AccordError, match="must be told the language"):
        model.translate(texts, "de")
    greedy = SearchSettings(beam=1)
    found = evaluate_run(run, split="dev", settings=greedy, limit=2).evaluation
    assert len(found.directions) == 6
    assert all(row.cross_entropy > 0 for row in found.directions)
    with pytest.raises(AccordError, match="reads the source language"):
        export_run(run, run / "onnx")


def test_from_a_basic_run_it_begins_as_that_run(toy, basic, tmp_path):
    """Bit for bit in its loss; what the optimiser knows of shared weights is kept."""
    notes = Notes()
    keys = {"training__init_from": str(basic), "training__steps": 8}
    with joined_world() as world:
        plain = Trainer(experiment(toy, tmp_path / "plain", **keys), world, Notes())
        mine = Trainer(experiment(toy, tmp_path / "mine", **keys, **GENERATOR), world, notes)
    batch = TensorBatch.from_numpy(plain.stream.batch_at(Position(0, 1)))
    losses = [composite_likelihood(each.model.eval(), batch).loss for each in (plain, mine)]
    assert torch.equal(*losses)
    new = sum(p.numel() for n, p in mine.model.named_parameters() if n.startswith(("lang", "from")))
    assert f"the optimiser begins without memory of {new:,} new parameters" in notes.notes
    assert "other batches than before: continuing with the next epoch" in notes.notes
    for name, parameter in plain.model.named_parameters():
        if parameter.requires_grad:
            memory = plain.optimizer.state[parameter]["exp_avg"]
            own = mine.model.get_parameter(name)
            assert torch.equal(mine.optimizer.state[own]["exp_avg"], memory)
    train(experiment(toy, tmp_path / "mine", **keys, **GENERATOR))
    assert find_checkpoint(tmp_path / "mine", "last").step == 8
    with pytest.raises(AccordError, match=r"model\.generator\.bias"):
        train(experiment(toy, tmp_path / "none", **keys, model__generator={"bias": False}))


@pytest.mark.parametrize(
    ("keys", "remedy"),
    [
        ({"model__generator": {"bias": False, "rank": 2}}, "bias to true"),
        ({"model": {"kind": "transformer", "generator": {"bias": False}}}, "norms"),
        ({"objective__agreement__weight": 0.1, **GENERATOR}, "leave model.generator or"),
        (
            {"objective__agreement": {"weight": 0, "encoder_weight": 0.1}, **GENERATOR},
            "leave model.generator or",
        ),
        ({"objective__complete__weight": 0.1, **GENERATOR}, "leave model.generator or"),
        ({"objective__consistency__weight": 0.1, **GENERATOR}, "leave model.generator or"),
    ],
)
def test_what_does_not_go_with_a_generator_is_refused(toy, tmp_path, keys, remedy):
    with pytest.raises(AccordError, match=remedy):
        experiment(toy, tmp_path, **keys)
