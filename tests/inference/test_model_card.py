"""The model card: what a run and its export tell of the text they come from."""

import json
import shutil

import pytest

from accord.errors import AccordError
from accord.export.export_run import export_run
from accord.files import sha256_of
from accord.inference.backends.manifest import FileFacts, Manifest
from accord.inference.model_card import (
    EXAMPLES,
    NAME,
    TrainingCorpus,
    background_of_export,
    background_of_run,
)
from accord.inference.training_text import ALLOWED
from accord.run_directory import RunDirectory
from exportable import LANGUAGES, made_run
from toy_corpus import sentence

pytest.importorskip("onnx")
DEV = range(2000, 4100, 7)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return RunDirectory(made_run(tmp_path_factory.mktemp("card"), dev=300))


@pytest.fixture(scope="module")
def background(run):
    return background_of_run(run)


@pytest.fixture(scope="module")
def exported(run):
    return export_run(run.path, compare=0, threads=1).directory


def unlike(run, background, language, texts):
    """The share of texts that are said to be unlike the training text."""
    rows = run.vocabulary().encode(texts)
    seen = [
        background.text.familiarity(ids, len(text), language)
        for ids, text in zip(rows, texts, strict=True)
    ]
    return sum(item.unlike is True for item in seen) / len(seen)


def test_what_it_was_trained_on(background):
    assert background.card.corpora == (
        TrainingCorpus("en-de", 300, ("train",)),
        TrainingCorpus("en-fr", 300, ("train",)),
    )


def test_examples_are_dev_sentences_of_their_language(background):
    dev = {language: {sentence(i, language) for i in DEV} for language in LANGUAGES}
    assert set(background.card.examples) == set(LANGUAGES)
    for language, some in background.card.examples.items():
        assert len(set(some)) == EXAMPLES
        assert set(some) <= dev[language]


def test_false_alarms_on_dev_text(run, background):
    """1 % by the way that the limit is set; test_training_text.py has figures on other text."""
    for language in LANGUAGES:
        assert unlike(run, background, language, [sentence(i, language) for i in DEV]) <= ALLOWED
    assert unlike(run, background, "en", ["你好", "🎉🎉 Yes!", "Цены упали."]) == 1


def test_an_export_has_the_card_of_its_run(background, exported):
    found = background_of_export(exported, Manifest.read(exported))
    assert found.card == background.card
    ids = list(range(300, 320))
    assert found.text.familiarity(ids, 60, "de") == background.text.familiarity(ids, 60, "de")


def rewritten(exported, place, change):
    """A copy of the export with other files in its manifest, sealed all the same."""
    shutil.copytree(exported, place)
    manifest = Manifest.read(place)
    files = dict(manifest.files)
    change(place, files)
    manifest.model_copy(update={"files": files}).write(place)
    return place, Manifest.read(place)


def test_an_export_of_a_former_version_works_without(exported, tmp_path):
    def forget(place, files):
        (place / NAME).unlink()
        del files[NAME]

    found = background_of_export(*rewritten(exported, tmp_path / "old", forget))
    assert found.card.corpora == ()
    assert found.card.examples == {}
    seen = found.text.familiarity([300, 301], 9, "de")
    assert (seen.surprise, seen.limit, seen.unlike) == (None, None, None)


def test_a_card_that_makes_no_sense_is_refused(exported, tmp_path):
    def spoil(place, files):
        card = json.loads((place / NAME).read_text())
        (place / NAME).write_text(json.dumps(card | {"examples": 3}))
        files[NAME] = FileFacts(bytes=1, sha256=sha256_of(place / NAME))

    with pytest.raises(AccordError, match="the model card makes no sense") as caught:
        background_of_export(*rewritten(exported, tmp_path / "spoilt", spoil))
    assert caught.value.fix == "export the run again"
    (exported.parent / "onnx" / NAME).write_text("{}")
    with pytest.raises(AccordError, match="altered"):
        background_of_export(exported, Manifest.read(exported))


def test_a_run_without_dev_sentences_has_no_examples(tmp_path):
    found = background_of_run(RunDirectory(made_run(tmp_path)))
    assert found.card.examples == {}
    assert found.card.usual == {}
    assert found.text is not None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/europarl-v7.de-en.{lang}.gz", "europarl-v7.de-en"),
        ("data/UN.tar.gz::en-es/UNv1.0.en-es.{lang}", "UNv1.0.en-es"),
        ("/home/somebody/memory.tmx", "memory"),
        ("data/{lang}/train.txt.xz", "train"),
        ("data/train-{lang}.tsv", "train"),
    ],
)
def test_names_of_corpora_say_nothing_of_where_they_lie(path, name):
    from accord.inference.model_card import _name

    assert _name(path) == name
