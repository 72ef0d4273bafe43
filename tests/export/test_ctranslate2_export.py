"""A Transformer exported to CTranslate2, and translations with both."""

import shutil
import sys

import pytest
import torch
from typer.testing import CliRunner

from accord import AccordError, SearchSettings, Translator
from accord.cli import app
from accord.evaluation.matrix import evaluate
from accord.evaluation.records import Origin
from accord.export.export_run import export_run
from accord.inference.backends.manifest import Manifest
from accord.inference.backends.torch_backend import TorchBackend
from accord.run_directory import RunDirectory
from exportable import made_run, translated_without_torch

pytest.importorskip("ctranslate2")

SMALL = {"kind": "transformer", "preset": "transformer-small", "heads": 4, "feed_forward": 48}
LINES = ["the big house.", "", "a cat sees the old dog and likes green", "house " * 90, "x\tŸ🙂"]
FILES = {"model.bin", "config.json", "shared_vocabulary.json", "vmap.txt"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("exported"), **SMALL)


@pytest.fixture(scope="module")
def exported(run):
    return export_run(run, to="ctranslate2", threads=1)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tables", ["shared", "separate"])
def test_greedy_translations_are_those_of_the_run(tmp_path, norm, tables):
    run = made_run(tmp_path, norm=norm, tables=tables, decoder_layers=3, **SMALL)
    export_run(run, to="ctranslate2", compare=0, threads=1)
    mine, theirs = Translator(run / "ctranslate2", threads=1), Translator(run, device="cpu")
    assert mine.graph == theirs.graph
    for choice in ({}, {"vocabulary": "target"}, {"no_repeat_ngram": 2, "window": 20}):
        settings = SearchSettings(beam=1, **choice)
        for to, via in (("de", None), ("fr", "en")):
            found = mine.translate(LINES, to, via=via, settings=settings)
            expected = theirs.translate(LINES, to, via=via, settings=settings)
            for one, other in zip(found, expected, strict=True):
                assert (one.text, one.via, one.warnings) == (other.text, other.via, other.warnings)
                [a], [b] = one.hypotheses, other.hypotheses
                assert (a.ids, a.alignment, a.tokens) == (b.ids, b.alignment, b.tokens)
                # Tags have some probability in random weights, which CTranslate2 shares out.
                assert a.score == pytest.approx(b.score, rel=1e-3)
                assert a.log_probability == pytest.approx(b.log_probability, rel=1e-3)


def test_the_account_is_whole(run, exported):
    manifest = Manifest.read(exported.directory)
    assert exported.directory == run / "ctranslate2"
    assert (manifest.format, manifest.precision) == ("ctranslate2", "fp32")
    facts = manifest.model
    assert (facts.preset, facts.units, facts.input_feeding) == ("transformer-small", 24, None)
    assert (facts.encoder_layers, facts.decoder_layers, facts.vocabulary) == (3, 2, 330)
    assert {*manifest.files} == FILES | {
        "vocabulary.model",
        "token_counts.npz",
        "model_card.json",
    }
    there = {file.name for file in exported.directory.iterdir()}
    assert there == {*manifest.files, "export.json"}
    assert exported.check == manifest.check
    assert exported.check.sentences == 6 * 12
    assert exported.check.same > 36  # beams differ, and random weights do not end


def test_the_same_run_gives_the_same_bytes(run, exported, tmp_path):
    again = export_run(run, tmp_path / "again", to="ctranslate2", compare=0)
    assert Manifest.read(again.directory).files == Manifest.read(exported.directory).files


def test_in_8_bits_it_is_smaller_and_the_run_is_as_it_was(run, exported):
    from accord.export.ctranslate2.specification import specification

    trained = TorchBackend.load(run)
    before = {name: value.clone() for name, value in trained.model.state_dict().items()}
    specification(trained.model, trained.vocabulary.pieces(), "int8")
    for name, value in trained.model.state_dict().items():
        assert torch.equal(value, before[name])
    short = export_run(run, to="ctranslate2", precision="int8", compare=12, threads=1)
    assert short.directory == run / "ctranslate2-int8"
    sizes = [(e.directory / "model.bin").stat().st_size for e in (short, exported)]
    assert sizes[0] < 0.75 * sizes[1]  # a third of it are positions, which stay as they are
    [found] = Translator(short.directory, threads=1).translate(["the big house."], "de")
    assert found.hypotheses[0].score < 0


@pytest.mark.parametrize("name", ["model.bin", "vmap.txt", "vocabulary.model", "export.json"])
def test_altered_files_are_refused(exported, tmp_path, name):
    copy = shutil.copytree(exported.directory, tmp_path / "there")
    file = copy / name
    file.write_bytes(file.read_bytes().replace(b"e", b"f", 1))
    with pytest.raises(AccordError, match=r"altered|damaged"):
        Translator(copy)


def test_an_open_model_outlives_its_directory(exported, tmp_path):
    copy = shutil.copytree(exported.directory, tmp_path / "there")
    translator, settings = Translator(copy, threads=1), SearchSettings(vocabulary="target")
    shutil.rmtree(copy)
    expected = Translator(exported.directory, threads=1).translate(LINES, "de", settings=settings)
    assert translator.translate(LINES, "de", settings=settings) == expected


def refused(run, place, match: str) -> AccordError:
    with pytest.raises(AccordError, match=match) as error:
        export_run(run, place / "none", to="ctranslate2")
    assert not (place / "none").exists()
    return error.value


def test_what_it_cannot_hold_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(TorchBackend, "load", lambda *_: pytest.fail("something was loaded"))
    gnmt = made_run(tmp_path / "gnmt", held_out=False)
    error = refused(gnmt, tmp_path, "ctranslate2 holds models of kind transformer, not gnmt")
    assert error.where == f"{gnmt}, key model.kind"
    assert "--format onnx" in error.fix
    bare = made_run(tmp_path / "bare", held_out=False, encoder_residual=2, **SMALL)
    error = refused(bare, tmp_path, "encoder layer 2 has no residual")
    assert error.where == f"{bare}, key model.encoder_residual"
    assert "--format onnx" in error.fix


def test_a_missing_package_is_named(run, exported, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert refused(run, tmp_path, "the package ctranslate2").fix == "pip install 'accord[ct2]'"
    with pytest.raises(AccordError, match=r"pip install 'accord\[ct2\]'"):
        Translator(exported.directory)


def test_what_an_export_cannot_do_is_said(exported):
    for choice in ({"device": "cuda"}, {"checkpoint": "last"}, {"precision": "bf16"}):
        with pytest.raises(AccordError, match="no choice of"):
            Translator(exported.directory, **choice)
    with pytest.raises(AccordError, match="ensemble"):
        Translator(exported.directory).translate_together([["a"], ["b"]], "de")


def test_an_evaluation_runs_with_it(run, exported):
    held_out = RunDirectory(run).held_out
    origin = Origin(run.name, "best", 7, "0123456789abcdef", "cpu", "fp32")
    found = [
        evaluate(
            Translator(path, device="cpu", threads=1),
            held_out,
            origin,
            limit=4,
            settings=SearchSettings(beam=1),
        ).evaluation.directions
        for path in (exported.directory, run)
    ]
    for mine, theirs in zip(*found, strict=True):
        assert (mine.target, mine.via, mine.chrf) == (theirs.target, theirs.via, theirs.chrf)
        if mine.is_direct:
            assert mine.cross_entropy == pytest.approx(theirs.cross_entropy, rel=1e-4)


def test_the_commands_and_no_torch(run, exported, tmp_path):
    arguments = ["export", str(run), "--format", "ctranslate2", "--int8", "--check", "6", "--quiet"]
    made = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "model")])
    assert made.exit_code == 0
    assert "6 test sentences" in made.stdout
    found = translated_without_torch(exported.directory, "the cat")
    [expected] = Translator(run, device="cpu").translate(["the cat"], "de")
    assert found["text"] == expected.text
