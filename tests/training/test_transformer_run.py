"""A Transformer's run as a whole: killed, in two processes, averaged, through pivots, scored."""

import signal

import pytest
import torch

from accord.inference.translator import Translator
from accord.models.checkpoint import Checkpoints, average
from accord.training.trainer import train
from toy_training import (
    Fault,
    arguments,
    checkpoint,
    experiment,
    metrics,
    prepared,
    run_fork,
    story,
    two_processes,
    weights,
)

STEPS = 24
KEYS = {
    "model": {
        "kind": "transformer",
        "units": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "heads": 2,
        "feed_forward": 32,
        "dropout": 0.0,  # two processes draw other numbers than one
    },
    "training__steps": STEPS,
    "training__batch_tokens": 104,
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp(), units=16)


@pytest.fixture(scope="module")
def straight(toy, tmp_path_factory):
    """A run that nothing happened to."""
    run = tmp_path_factory.mktemp("straight")
    train(experiment(toy, run, **KEYS))
    return run


def test_killed_again_and_again(toy, straight, tmp_path):
    """kill -9 at every ninth update; checkpoints are seven apart."""
    deaths, output = 0, tmp_path / "output"
    while (code := run_fork(arguments(toy, tmp_path / "run", **KEYS), output, Fault(9))) != 0:
        assert code == -signal.SIGKILL, output.read_text()
        deaths += 1
        assert deaths < 9
    assert deaths == 3
    assert story(tmp_path / "run", STEPS) == story(straight, STEPS)


@pytest.mark.slow
def test_two_processes_equal_one(toy, straight, tmp_path):
    two_processes(arguments(toy, tmp_path, **KEYS))
    for name, value in weights(straight, STEPS).items():
        assert torch.allclose(value, weights(tmp_path, STEPS)[name], rtol=1e-4, atol=1e-5), name
    for mine, theirs in zip(metrics(tmp_path, "train"), metrics(straight, "train"), strict=True):
        assert mine["nll"] == pytest.approx(theirs["nll"], rel=1e-4)
        assert mine["target_tokens"] == theirs["target_tokens"]


def test_the_mean_of_checkpoints_is_the_mean_of_their_weights(straight):
    paths = Checkpoints(straight / "checkpoints").paths()[-2:]
    average(paths, straight / "checkpoints/average")
    found = Translator(straight, device="cpu", checkpoint="average")
    mean = dict(found._backend.model.state_dict())
    one, two = (weights(straight, int(path.name.split("-")[1])) for path in paths)
    for name, value in mean.items():
        torch.testing.assert_close(value, (one[name] + two[name]) / 2)
    assert len(found.translate(["one two"], to="de")) == 1


def test_a_pivot_is_two_translations_in_a_row(straight):
    translator = Translator(straight, device="cpu", checkpoint=checkpoint(straight, STEPS).name)
    texts = ["eins zwei", "drei"]
    [first, second] = (item.text for item in translator.translate(texts, to="en"))
    through = translator.translate(texts, to="fr", source="de", via="en")
    direct = translator.translate([first, second], to="fr")
    assert [item.text for item in through] == [item.text for item in direct]


def test_scores_are_those_that_the_search_gives(straight):
    """-log P by teacher forcing, and of what the search found step by step."""
    translator = Translator(straight, device="cpu", checkpoint=checkpoint(straight, STEPS).name)
    texts = ["one two three", "nine", "four four"]
    for item in translator.translate(texts, to="de"):
        best = item.hypotheses[0]
        if translator.vocabulary.encode([best.text])[0] == list(best.ids):
            [(nats, tokens)] = translator.cross_entropy([item.source], [best.text], to="de")
            assert tokens == len(best.ids) + 1
            assert nats == pytest.approx(-best.log_probability, rel=1e-4)
            break
    else:
        pytest.fail("no translation is spelt as its text would be")
