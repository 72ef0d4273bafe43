"""Language models: one network per language, trained and kept as a run, of no use to translate."""

import math
from collections import Counter

import pytest
import torch
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import store_directory
from accord.data.store import Store
from accord.data.vocabulary import FIRST_TAG
from accord.errors import AccordError
from accord.models.language_model import LanguageModel
from accord.training.trainer import train
from toy_training import experiment, metrics, number, prepared, stop_at, story

SOURCE = torch.tensor([[2, 7, 9, 5, 1], [3, 6, 1, 0, 0], [2, 1, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 2])
TARGET = torch.tensor([[7, 8, 9, 5, 1], [7, 8, 9, 5, 1], [9, 9, 1, 0, 0]])
SMALL = {"kind": "language-model", "units": 32, "decoder_layers": 1, "dropout": 0.0}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def run(toy, tmp_path_factory):
    path = tmp_path_factory.mktemp("language-model") / "run"
    train(experiment(toy, path, model=SMALL, training__steps=180, training__label_smoothing=0.0))
    return path


def hidden(model, source=SOURCE):
    return model.decode(model.encode(source, LENGTHS), model.shifted_embeddings(TARGET))


def test_nothing_but_the_tag_of_a_source_is_read():
    torch.manual_seed(1)
    model, other = LanguageModel(14, 2, 8).eval(), SOURCE.clone()
    other[:, 1:] = 4
    assert torch.equal(hidden(model), hidden(model, other))
    other[:, 0] = 5 - other[:, 0]  # the other language
    # The first input is the zero vector, of which untrained networks make nothing.
    assert not torch.isclose(hidden(model)[:, 1:], hidden(model, other)[:, 1:]).any()


def test_a_language_teaches_only_its_own_network():
    model = LanguageModel(14, 2, 8, layers=2).eval()
    hidden(model)[1].sum().backward()
    touched = [layer.weight_hh_l0.grad.abs().sum().item() > 0 for layer in model.layers]
    assert touched == [False, False, True, True]


def test_tags_number_the_languages(toy, tmp_path):
    store = Store(store_directory(experiment(toy, tmp_path)))
    tags = [store.vocabulary.tags[language] for language in store.languages]
    assert tags == list(range(FIRST_TAG, FIRST_TAG + len(tags)))


def test_it_learns_more_than_how_often_subwords_occur(toy, run):
    """Below the entropy of the dev text's own unigrams, which no model without context can beat."""
    last = metrics(run, "validation")[-1]
    assert list(last["directions"]) == ["de", "fr", "en"]
    assert last["bleu"] is last["agreement"] is None
    vocabulary = Store(store_directory(experiment(toy, run))).vocabulary
    for language, found in last["directions"].items():
        rows = vocabulary.encode([number(value, language) for value in range(7001, 7005)])
        counts = Counter(token for row in rows for token in [*row, "end"])
        total = counts.total()
        unigrams = -sum(n / total * math.log(n / total) for n in counts.values())
        assert found["cross_entropy"] < unigrams


def test_a_wrong_language_stays_unlikely_to_its_end(toy, run):
    """After a few words of German, French does not go on in German: copies are not fluent."""
    from accord.inference.scoring import cross_entropies
    from accord.models.build import build_model
    from accord.models.checkpoint import find_checkpoint

    store = Store(store_directory(experiment(toy, run)))
    settings = experiment(toy, run, model=SMALL).model
    model = build_model(settings, len(store.vocabulary), 1, len(store.languages)).eval()
    find_checkpoint(run, "best").load_model(model)
    rows = [[*row, 1] for row in store.vocabulary.encode([number(7002, "de"), number(16, "de")])]
    for row in rows:
        own, other = (
            cross_entropies(
                model,
                [[store.vocabulary.tags[tag], 1]] * 2,
                [row[:-3], row],
                device=torch.device("cpu"),
            )
            for tag in ("de", "fr")
        )
        assert other[1] - other[0] > own[1] - own[0] + 3  # the last three tokens alone


def test_resuming_is_exact(toy, tmp_path, monkeypatch):
    straight, stopped = (
        experiment(toy, tmp_path / name, model=SMALL, training__steps=12) for name in "ab"
    )
    train(straight)
    with monkeypatch.context() as patch:
        stop_at(patch, 8)
        assert not train(stopped).finished
    train(stopped)
    assert story(tmp_path / "a", 12) == story(tmp_path / "b", 12)


@pytest.mark.parametrize(
    "command",
    [["translate", "--to", "de"], ["evaluate"], ["export"]],
    ids=lambda c: c[0],
)
def test_what_translates_refuses_it_with_a_remedy(run, command):
    name, *options = command
    result = CliRunner().invoke(app, [name, str(run), *options], input="one\n")
    assert isinstance(result.exception, AccordError)
    assert "a language-model translates nothing" in str(result.exception)
    assert "objective.dual.language_model" in str(result.exception)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"model": {**SMALL, "encoder_layers": 2}}, "model.encoder_layers"),
        ({"model": {**SMALL, "tag": "target"}}, "model.tag"),
        ({"model": {**SMALL, "preset": "paper"}}, "model.preset"),
        ({"model": {**SMALL, "heads": 2}}, "model.heads"),
        ({"model": SMALL, "objective__consistency": {}}, "objective.consistency"),
        ({"model": SMALL, "training__validation__metric": "bleu"}, "training.validation.metric"),
    ],
)
def test_what_only_translation_models_have_is_refused(toy, tmp_path, keys, key):
    with pytest.raises(AccordError) as caught:
        experiment(toy, tmp_path, **keys)
    assert f"key {key}: " in str(caught.value)
