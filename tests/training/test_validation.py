"""What validation measures, and that it leaves training alone."""

import json
import math

import pytest
import torch
import yaml

from accord.config.load import load, store_directory
from accord.data.prepare import prepare
from accord.data.store import Store
from accord.data.vocabulary import EOS
from accord.errors import AccordError
from accord.inference.beam_search import TorchEngine
from accord.inference.results import Loss
from accord.inference.scoring import text_cross_entropies
from accord.inference.text import Decoder
from accord.metrics.bleu import bleu
from accord.models.build import build_model
from accord.training.trainer import train
from accord.training.validation import Scores, Validator
from language_reader import reader, seen_directions
from toy_training import checkpoint, experiment, metrics, prepared, weights, write_text

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture
def model(toy):
    return build_model(load(toy).model, 320, load(toy).training_seed)


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
        rows = text_cross_entropies(
            model, vocabulary, sources, references, "de", device=CPU, batch_tokens=batch
        )
        assert Loss.total(rows).per_token == pytest.approx(total / tokens, rel=1e-5)


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


def dev_sets(toy, tmp_path, pairs):
    """The toy experiment with a dev set for each of the pairs, all of the same sentences."""
    settings = yaml.safe_load(toy.read_text())
    settings["dev"] = [{"pair": p, "path": str(tmp_path / f"{p}.{{lang}}")} for p in pairs]
    settings["store"] = str(tmp_path / "store")
    settings["training"]["validation"] |= {"sentences": 4, "metric": "agreement"}
    for pair in pairs:
        for language in pair.split("-"):
            write_text(tmp_path / f"{pair}.{language}", range(7001, 7005), language)
    path = tmp_path / "sets.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def talkative(model):
    """Weights that make the model say different things about different sentences."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.7)
        model.target_embedding.weight[EOS] *= 2.5
    return model


def test_agreement_chooses_without_zero_shot_references(toy, tmp_path, model):
    """Neither the files of a zero-shot pair nor watching them has any influence."""
    path, model = dev_sets(toy, tmp_path, ("en-de", "en-fr", "de-fr")), talkative(model)
    found = []
    for altered in (False, True):
        if altered:
            write_text(tmp_path / "de-fr.fr", range(9001, 9005), "fr")
            write_text(tmp_path / "de-fr.de", range(9011, 9015), "de")
        prepare(load(path), workers=1)
        store = Store(store_directory(load(path)))
        for watch in ("supervised", "all"):
            settings = load(path, [f"training.validation.watch={watch}"])
            found.append(Validator(store, settings, CPU, bf16=False)(model))
    assert found[1].directions["de-fr"] != found[3].directions["de-fr"]
    assert found[0].agreement > 0
    assert len({scores.agreement for scores in found}) == 1
    assert len({scores.quality("agreement") for scores in found}) == 1
    assert found[0].chosen_by.startswith("agreement of zero-shot directions")
    write_text(tmp_path / "en-de.de", range(9001, 9005), "de")
    prepare(load(path), workers=1)
    store = Store(store_directory(load(path)))
    other = Validator(store, load(path), CPU, bf16=False)(model)
    assert other.agreement != found[0].agreement  # these are the sentences it is about


def test_agreement_is_bleu_against_the_translation_of_the_side_with_data(toy, tmp_path, model):
    path, model = dev_sets(toy, tmp_path, ("en-de", "en-fr")), talkative(model)
    prepare(load(path), workers=1)
    store = Store(store_directory(load(path)))
    scores = Validator(store, load(path), CPU, bf16=False)(model)
    assert set(scores.directions) == {"en-de", "en-fr", "de-en", "fr-en"}
    decoder = Decoder(TorchEngine(model.eval(), CPU), store.vocabulary)
    expected = []
    for language, target in (("de", "fr"), ("fr", "de")):
        english, other = store.held_out.pair("dev", "en", language)
        one, two = decoder.greedy(english, target), decoder.greedy(other, target)
        expected += [bleu(one, two, target), bleu(two, one, target)]
    assert scores.agreement == pytest.approx(sum(expected) / 4)
    assert scores.quality("agreement") == pytest.approx(math.sqrt(scores.agreement * scores.bleu))


def test_the_best_checkpoint_by_agreement_is_that_of_the_log(toy, tmp_path):
    validation = {"every": 6, "sentences": 3, "metric": "agreement"}
    run = tmp_path / "run"
    train(experiment(toy, run, training__steps=30, training__validation=validation))
    lines = metrics(run, "validation")
    scores = [math.sqrt(line["agreement"] * line["bleu"]) for line in lines]
    assert len(set(scores)) > 1
    state = json.loads((checkpoint(run, 30) / "state.json").read_text())
    assert state["best"] == pytest.approx(max(scores))
    assert state["best_step"] == lines[scores.index(max(scores))]["step"]


def test_agreement_needs_dev_sentences_to_agree_on(toy, tmp_path):
    pairs = {"de-fr": "no dev sentences to measure agreement", "en-de": None}
    for pair, problem in pairs.items():
        (tmp_path / pair).mkdir()
        path = dev_sets(toy, tmp_path / pair, (pair,))
        prepare(load(path), workers=1)
        store = Store(store_directory(load(path)))
        if problem:
            with pytest.raises(AccordError, match=problem):
                Validator(store, load(path), CPU, bf16=False)
        else:
            assert len(Validator(store, load(path), CPU, bf16=False).anchors) == 1
    for key, said in (("sentences=0", "nothing is translated"), ("directions=all", "watch: all")):
        with pytest.raises(AccordError, match=said):
            load(path, [f"training.validation.{key}"])


def scored(agreement, bleu):
    return Scores({}, "agreement", 1.0, bleu, 0.0, agreement)


def test_a_model_that_says_the_same_about_everything_is_not_chosen():
    babbling, translating = scored(100.0, 0.1), scored(30.0, 20.0)
    assert babbling.quality("agreement") < translating.quality("agreement")
    assert scored(0.0, 30.0).quality("agreement") == 0
    assert scored(40.0, 30.0).quality("bleu") == 30
    assert scored(40.0, 30.0).quality("cross_entropy") == -1


def test_a_model_that_reads_the_source_language_is_told(toy):
    settings = experiment(
        toy,
        toy.parent / "none",
        training__validation={"every": 1, "sentences": 2, "directions": "all", "watch": "all"},
    )
    store = Store(store_directory(settings))
    model = reader(store.vocabulary)
    scores = Validator(store, settings, CPU, bf16=False)(model)
    assert seen_directions(model, store.vocabulary) == set(settings.graph.directions)
    assert scores.agreement is not None
