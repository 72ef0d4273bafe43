"""Models with caches instead of the usual one, and one whose decoder reads the tag: training,
validation, objectives, resuming."""

import json

import pytest
import torch
import yaml

from accord.config.load import load
from accord.inference.results import SearchSettings
from accord.inference.translator import Translator
from accord.models.build import MODELS, build_model
from accord.models.transformer import Transformer
from accord.training.trainer import train
from cached_model import CachedModel
from toy_training import (
    HARD,
    checkpoint,
    experiment,
    late_round,
    metrics,
    prepared,
    stop_at,
    story,
    weights,
)

BASE, STEPS = 40, 50
COMPLETE = {
    "start": BASE,
    "every": 1,
    "pairs": 12,
    "uses": 1,
    "filters": {"length_ratio": [0.0, 4.0], "distinct_bigrams": 0.0},
}
BLEU = {"every": 9, "sentences": 4, "metric": "bleu"}
TRANSFORMER = {
    "kind": "transformer",
    "units": 32,  # 16 for each head: the least that kernels of a GPU take
    "encoder_layers": 1,
    "decoder_layers": 2,
    "heads": 2,
    "feed_forward": 32,
}


@pytest.fixture(scope="module", autouse=True)
def _cached():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(
            MODELS,
            "gnmt",
            lambda settings, size, _: CachedModel(size, settings.units, dropout=settings.dropout),
        )
        yield


@pytest.fixture(
    scope="module",
    params=[(CachedModel, "source"), (Transformer, "source"), (Transformer, "target")],
    ids=["cached", "transformer", "transformer-target"],
)
def made(request):
    return request.param


@pytest.fixture(scope="module")
def kind(made):
    return made[0]


@pytest.fixture(scope="module")
def toy(made, kind, tmp_path_factory):
    file = prepared(tmp_path_factory.getbasetemp(), units=16)
    if kind is CachedModel:
        return file
    settings = yaml.safe_load(file.read_text(encoding="utf-8")) | {
        "model": TRANSFORMER | {"tag": made[1]}
    }
    if made[1] == "target":
        settings["training"]["seed"] = 5  # so few steps must teach it to end its sentences
    other = tmp_path_factory.mktemp("transformer") / file.name
    other.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return other


@pytest.fixture(scope="module")
def straight(toy, tmp_path_factory):
    """A run that nothing happened to."""
    run = tmp_path_factory.mktemp("straight")
    train(experiment(toy, run, training__steps=BASE, training__validation=BLEU))
    return run


def test_it_is_what_is_built(toy, made):
    found = build_model(load(toy).model, 320, seed=1)
    assert (type(found), found.tag) == made


def test_it_learns_and_is_validated(straight):
    lines = metrics(straight, "train")
    assert lines[-1]["nll"] < 0.8 * lines[0]["nll"]
    validations = metrics(straight, "validation")
    assert [line["step"] for line in validations] == [9, 18, 27, 36, 40]
    assert all("bleu" in json.dumps(line) for line in validations)


@pytest.mark.parametrize("step", [11, 18])
def test_it_resumes_exactly(toy, straight, tmp_path, monkeypatch, step):
    settings = experiment(toy, tmp_path, training__steps=BASE, training__validation=BLEU)
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        assert train(settings).step == step
    assert train(settings).finished
    assert story(tmp_path, BASE) == story(straight, BASE)


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"search": {"beam": 3, "nbest": 2}, "select": "agreement"},
        {"teacher": {"vote": 0.5, "tokens": 3}},
    ],
    ids=["greedy", "beam", "ensemble"],
)
def test_it_teaches_itself(toy, straight, tmp_path, keys):
    def branch(run, steps):
        return experiment(
            toy,
            run,
            training__steps=steps,
            training__init_from=str(straight),
            objective__complete={**COMPLETE, **keys},
        )

    train(branch(tmp_path / "one", STEPS))
    for steps in (BASE + 4, STEPS):
        train(branch(tmp_path / "two", steps), accept_changes=True)
    one, two = weights(tmp_path / "one", STEPS), weights(tmp_path / "two", STEPS)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert metrics(tmp_path / "one", "train")[-1]["complete_tokens"] > 0
    assert metrics(tmp_path / "one", "pool")[0]["kept"] > 0


@pytest.mark.parametrize("decoding", ["continuous", "straight-through", "hard", "sampled"])
def test_it_agrees(toy, straight, tmp_path, decoding):
    agreement = {"start": BASE, "decoding": decoding, "max_length": 6, "encoder_weight": 0.1}
    branch = {"training__steps": STEPS, "training__init_from": str(straight)}
    train(experiment(toy, tmp_path, objective__agreement={**HARD, **agreement}, **branch))
    last = metrics(tmp_path, "train")[-1]
    assert last["agreement_loss"] > 0
    assert last["agreement_encoder_loss"] > 0
    assert last["agreement_gradient_ratio"] > 0


def test_it_is_consistent(toy, straight, tmp_path):
    branch = {"training__steps": STEPS, "training__init_from": str(straight)}
    train(experiment(toy, tmp_path, objective__consistency={"weight": 0.3}, **branch))
    assert metrics(tmp_path, "train")[-1]["consistency_loss"] > 0


def test_it_is_loaded_and_translates(straight):
    translator = Translator(straight, device="cpu", checkpoint=checkpoint(straight, BASE).name)
    texts = ["one two", "three", "seven eight nine zero"]
    for beam in (1, 4):
        found = translator.translate(texts, to="de", settings=SearchSettings(beam=beam))
        assert [item.source for item in found] == texts
    [both] = translator.translate_together([["one two"], ["un deux"]], to="de")
    assert both.ensemble


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_it_trains_and_teaches_on_a_gpu(toy, tmp_path, monkeypatch):
    start = 4 * BASE  # a teacher has to say something, and sums on a GPU differ from run to run
    late_round(start + 2, monkeypatch.setattr)  # so few updates might be done before it is there
    train(
        experiment(
            toy,
            tmp_path,
            training__steps=start + 10,
            training__precision="fp32",  # so few steps in bf16 teach a model this small nothing
            training__validation={**BLEU, "every": BASE},
            objective__complete={**COMPLETE, "start": start, "search": {"beam": 3}},
            objective__agreement={**HARD, "start": start, "max_length": 6},
        )
    )
    last = metrics(tmp_path, "train")[-1]
    assert last["complete_tokens"] > 0
    assert last["agreement_loss"] > 0
