"""What validation measures, and that it leaves training alone."""

import math

import pytest
import torch
import yaml
from toy_training import experiment, metrics, prepared, weights, write_text

from accord.corpus.prepare import prepare
from accord.corpus.store import Store
from accord.corpus.vocabulary import EOS
from accord.experiment_file import load, store_directory
from accord.graph import Direction
from accord.training.setup import build_model
from accord.training.trainer import train
from accord.training.validation import Validator, agreement_bleu, cross_entropy

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture
def model(toy):
    return build_model(load(toy), 320)


def test_cross_entropy_is_the_mean_over_reference_tokens(toy, model):
    """By hand: every prefix of the reference by itself, no batch, no padding."""
    vocabulary = Store(store_directory(load(toy))).vocabulary
    sources, references = ["one two", "three"], ["eins", "zwei drei vier"]
    model.eval()
    total, tokens = 0.0, 0
    with torch.no_grad():
        for source, reference in zip(
            vocabulary.encode(sources), vocabulary.encode(references), strict=True
        ):
            row = torch.tensor([[vocabulary.tags["de"], *source, EOS]])
            memory = model.encode(row, torch.tensor([row.shape[1]]))
            target = torch.tensor([[*reference, EOS]])
            for t in range(target.shape[1]):
                hidden = model.decode(memory, model.shifted_embeddings(target[:, : t + 1]))
                logits = model.logits(hidden)[0, t]
                total -= float(logits.log_softmax(0)[target[0, t]])
                tokens += 1
    for batch in (1, 2):
        found = cross_entropy(model, vocabulary, sources, references, "de", CPU, batch)
        assert found == pytest.approx(total / tokens, rel=1e-5)


def test_an_untrained_model_is_about_as_good_as_chance(toy, model):
    settings = experiment(toy, toy.parent / "none")
    scores = Validator(Store(store_directory(settings)), settings, CPU, bf16=False)(model)
    assert scores.cross_entropy == pytest.approx(math.log(320), rel=0.05)
    assert list(scores.directions) == ["en-de", "en-fr", "de-en", "fr-en"]
    assert model.training


def test_validation_does_not_change_training(toy, tmp_path):
    """Dropout draws from the step's own random numbers, however often was validated between."""
    for every in (2, 1000):
        validation = {"every": every, "sentences": 1}
        keys = {"training__steps": 12, "training__validation": validation}
        train(experiment(toy, tmp_path / str(every), **keys))
    often, seldom = (weights(tmp_path / name, 12) for name in ("2", "1000"))
    assert all(torch.equal(value, seldom[name]) for name, value in often.items())
    assert len(metrics(tmp_path / "2", "validation")) == 6


def test_zero_shot_references_do_not_choose_the_model(toy, tmp_path, model):
    """R19: with directions supervised, no file of a zero-shot direction is even read."""
    pairs = ("en-de", "en-fr", "de-fr")
    settings = yaml.safe_load(toy.read_text())
    settings["dev"] = [{"pair": p, "path": str(tmp_path / f"{p}.{{lang}}")} for p in pairs]
    settings["store"] = str(tmp_path / "store")
    for pair in pairs:
        for language in pair.split("-"):
            write_text(tmp_path / f"{pair}.{language}", range(7001, 7005), language)
    path = tmp_path / "sets.yaml"
    path.write_text(yaml.safe_dump(settings))
    found = {}
    for altered in (False, True):
        if altered:
            write_text(tmp_path / "de-fr.fr", range(9001, 9005), "fr")
        prepare(load(path), workers=1)
        store = Store(store_directory(load(path)))
        for directions in ("supervised", "all"):
            chosen = load(path, [f"training.validation.directions={directions}"])
            found[altered, directions] = Validator(store, chosen, CPU, bf16=False)(model)
    assert found[False, "supervised"] == found[True, "supervised"]
    before, after = found[False, "all"], found[True, "all"]
    assert before.directions["de-fr"].kind == "zero-shot"
    assert before.directions["de-fr"] != after.directions["de-fr"]
    assert before.directions["en-de"] == after.directions["en-de"]
    assert before.cross_entropy != after.cross_entropy


def test_watched_directions_are_logged_but_choose_nothing(toy, tmp_path):
    watched = tmp_path / "watched"
    train(experiment(toy, watched, training__steps=9, training__validation__watch="all"))
    train(experiment(toy, tmp_path / "plain", training__steps=9))
    (scores,), (plain,) = metrics(watched, "validation"), metrics(tmp_path / "plain", "validation")
    assert {row["kind"] for row in scores["directions"].values()} == {"supervised", "zero-shot"}
    assert {row["kind"] for row in plain["directions"].values()} == {"supervised"}
    assert scores["cross_entropy"] == plain["cross_entropy"]
    assert scores["chosen_by"] == "cross_entropy over supervised directions"


def test_agreement_needs_no_references():
    refs, other = ["r s t u"], ["another set"]
    one = (Direction("de", "fr"), "zero-shot", refs, ["a b c d e"])
    same = (Direction("en", "fr"), "supervised", refs, ["a b c d e"])
    different = (Direction("es", "fr"), "zero-shot", refs, ["v w x y z"])
    elsewhere = (Direction("en", "fr"), "supervised", other, ["v w x y z"])
    into_de = (Direction("en", "de"), "supervised", refs, ["v w x y z"])
    assert agreement_bleu([one, same]) == pytest.approx(100)
    assert agreement_bleu([one, same, different]) < 50
    assert agreement_bleu([one, elsewhere, into_de]) is None  # neither parallel nor the same target
    assert agreement_bleu([same, same]) is None  # nothing zero-shot about it
    assert agreement_bleu([]) is None
