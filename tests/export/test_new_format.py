"""A format of one's own: an exporter and a backend in this file, each named in one dictionary.

The toy writes its own model file, has weights in 8 bits and searches by itself, without beam
search: it says every sentence backwards, subword by subword.
"""

import json
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from accord import AccordError, SearchSettings, Translator
from accord.cli import app
from accord.data.vocabulary import Vocabulary
from accord.export.base import (
    ExportedFiles,
    Exporter,
    ExportSource,
    vocabulary_files,
    write_files,
)
from accord.export.export_run import export_run
from accord.export.exporters import EXPORTERS
from accord.inference.backends.base import Backend
from accord.inference.backends.loading import BACKENDS
from accord.inference.backends.manifest import Manifest, ModelFacts
from accord.inference.backtrace import Found
from accord.inference.text import Decoder
from accord.models.gnmt import GNMT
from exportable import made_run

KNOWN = ", ".join(EXPORTERS)


class MirrorExporter(Exporter):
    format = "mirror"
    precisions = ("fp32", "int8")
    packages = ("json",)
    model_kinds = ("gnmt",)

    def write(self, source: ExportSource, directory: Path) -> ExportedFiles:
        words = vocabulary_files(source)["vocabulary.model"]
        model = json.dumps({"score": -1.0 if source.precision == "fp32" else -2.0}).encode()
        names = write_files(directory, {"mirror.json": model, "words": words})
        facts = ModelFacts(
            units=source.trained.model.units,
            encoder_layers=0,
            decoder_layers=0,
            vocabulary=len(source.trained.vocabulary),
            parameters=1,
        )
        return ExportedFiles(facts, names)


class MirrorBackend(Backend):
    closed = 0

    def __init__(self, directory, manifest, settings):
        settings.check_exported(directory, devices=(None, "cpu", "mirror"))
        self.graph = manifest.graph
        self.vocabulary = Vocabulary.load(manifest.file(directory, "words"), manifest.languages)
        self.score = json.loads(manifest.file(directory, "mirror.json").read_text())["score"]
        self.decoder = Decoder(self, self.vocabulary)

    def translate(self, texts, to, settings, source=None):
        return self.decoder.translate(texts, to, settings, source)

    def close(self):
        MirrorBackend.closed += 1

    # As the decoder's engine:

    def search(self, settings, forbidden):
        def found(row):
            ids = tuple(row[-2:0:-1])  # neither tag nor end
            return Found(ids, tuple(range(len(ids), 0, -1)), self.score, self.score)

        return lambda rows, language=None: [[found(row)] for row in rows]

    def fitting(self, longest, settings):
        return 2


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("mirrored"))


@pytest.fixture
def named(monkeypatch):
    monkeypatch.setitem(EXPORTERS, "mirror", MirrorExporter())
    monkeypatch.setitem(BACKENDS, "mirror", MirrorBackend)


@pytest.fixture
def exported(run, named, tmp_path):
    return export_run(run, tmp_path / "mirror", to="mirror", compare=12, threads=1)


def mirrored(run: Path, text: str) -> str:
    vocabulary = Translator(run, device="cpu", threads=1).vocabulary
    [row] = vocabulary.encode([text])
    [found] = vocabulary.decode([row[::-1]])
    return found.strip()


def test_it_is_exported_compared_and_published(run, exported):
    manifest = Manifest.read(exported.directory)
    assert (manifest.format, manifest.precision) == ("mirror", "fp32")
    assert [*manifest.files] == ["mirror.json", "words"]
    there = {file.name for file in exported.directory.iterdir()}
    assert there == {"export.json", "mirror.json", "words"}
    assert exported.check == manifest.check
    assert exported.check.sentences == 12
    assert exported.check.same == 0  # nobody else talks backwards


def test_it_is_chosen_by_its_manifest_and_translates(run, exported):
    texts, settings = ["the big house", "", "a cat"], SearchSettings(beam=2, nbest=2)
    translator = Translator(exported.directory, device="mirror", threads=1)
    found = translator.translate(texts, "de", settings=settings)
    assert [item.text for item in found] == [mirrored(run, text) for text in texts]
    assert found[0].hypotheses[0].score == -1.0
    there_and_back = translator.translate(["the big house"], "de", via="fr")
    assert there_and_back[0].text == "the big house"
    with pytest.raises(AccordError, match="ensemble"):
        translator.translate(texts, "de", ensemble="direct,via:fr")
    with pytest.raises(AccordError, match="ensemble"):
        translator.translate_together([texts, texts], "de")
    with pytest.raises(AccordError, match="how likely"):
        translator.cross_entropy(["a"], ["b"], "de")
    with pytest.raises(AccordError, match="no choice of checkpoint"):
        Translator(exported.directory, checkpoint="last")


def test_a_model_that_reads_the_source_language_is_refused(run, named, tmp_path, monkeypatch):
    monkeypatch.setattr(GNMT, "reads_source_language", True)
    with pytest.raises(AccordError, match="no model that reads the source language"):
        export_run(run, tmp_path / "mirror", to="mirror", compare=0, threads=1)
    assert not (tmp_path / "mirror").exists()


def test_the_commands_know_it(run, named):
    command = partial(CliRunner().invoke, app, catch_exceptions=False)
    made = command(["export", str(run), "--format", "mirror", "--int8", "--check", "6", "--quiet"])
    assert made.exit_code == 0
    assert "6 test sentences, of which 0 are translated as by PyTorch" in made.stdout
    place, before = run / "mirror-int8", MirrorBackend.closed
    found = command(["translate", str(place), "--to", "de", "--json"], input="the cat\n")
    [line] = map(json.loads, found.stdout.splitlines())
    assert line["text"] == mirrored(run, "the cat")
    assert line["hypotheses"][0]["score"] == -2.0
    assert MirrorBackend.closed == before + 1


def test_a_format_without_a_backend_is_refused(exported, monkeypatch):
    monkeypatch.delitem(BACKENDS, "mirror")
    with pytest.raises(AccordError, match="another format: mirror") as error:
        Translator(exported.directory)
    assert error.value.where == f"{exported.directory / 'export.json'}, key format"
    assert error.value.fix.startswith(f"this version knows {KNOWN}; export the run again")
    entries = json.loads((exported.directory / "export.json").read_text())
    later = entries | {"format": "onnx-2", "colour": "red"}  # whatever else it may say
    (exported.directory / "export.json").write_text(json.dumps(later))
    with pytest.raises(AccordError, match="another format: onnx-2"):
        Translator(exported.directory)


def test_what_an_exporter_cannot_do_is_said_before_any_work(run, named, tmp_path, monkeypatch):
    def refused(match: str, **choices) -> AccordError:
        with pytest.raises(AccordError, match=match) as error:
            export_run(run, tmp_path / "none", **{"to": "mirror"} | choices)
        assert not list(tmp_path.iterdir())
        return error.value

    assert refused("no export to 'tflite'", to="tflite").fix == f"use {KNOWN}, mirror"
    monkeypatch.setattr(MirrorExporter, "precisions", ("fp32",))
    assert refused("mirror has no precision int8", precision="int8").where == "--int8"
    monkeypatch.setattr(MirrorExporter, "model_kinds", ("transformer",))
    error = refused("mirror holds models of kind transformer, not gnmt")
    assert error.where == f"{run}, key model.kind"
    assert "--format" in error.fix
    monkeypatch.setitem(sys.modules, "mirrors", None)
    monkeypatch.setattr(MirrorExporter, "packages", ("mirrors",))
    monkeypatch.setattr(MirrorExporter, "extra", "mirror")
    assert refused("needs the package mirrors").fix == "pip install 'accord[mirror]'"


@pytest.mark.parametrize("place", ["target", "both"])
def test_no_format_holds_a_tag_that_the_decoder_reads(tmp_path, place):
    run = made_run(tmp_path, held_out=False, tag=place)
    with pytest.raises(AccordError, match="holds no model whose tag is read by") as e:
        export_run(run, tmp_path / "none", to="onnx")
    assert e.value.where == f"{run}, key model.tag: {place}"
    assert "model.tag source" in e.value.fix
    assert not (tmp_path / "none").exists()


def test_every_format_that_is_written_can_be_read():
    assert EXPORTERS.keys() == BACKENDS.keys()
    assert all(name == exporter.format for name, exporter in EXPORTERS.items())
    shown = CliRunner().invoke(app, ["export", "--help"]).stdout
    assert f"Format: {', '.join(EXPORTERS)}." in shown
    assert "Example: accord export" in shown
