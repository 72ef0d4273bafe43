"""From a run directory to an exported one, and translations with both."""

import json
import shutil
import subprocess
import sys

import pytest

import accord
from accord import SearchSettings, Translator
from accord.cli.publish import export
from accord.data.store import sealed
from accord.errors import AccordError
from accord.export.export_run import export_run
from accord.export.onnx.exporter import OnnxExporter
from accord.files import sha256_of
from accord.inference.backends.manifest import FileFacts, Manifest
from exportable import made_run, translated_without_torch

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

LINES = ["the big house.", "", "a cat sees the old dog and likes green", "house " * 90, "x\tŸ🙂"]
SEARCHES = [
    SearchSettings(beam=1),
    SearchSettings(beam=4, nbest=3),
    SearchSettings(beam=2, no_repeat_ngram=2, vocabulary="target", window=20),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="module")
def exported(run):
    return export_run(run, threads=1)


@pytest.fixture(scope="module")
def short(run):
    return export_run(run, precision="int8", compare=30, threads=1)


def test_translations_are_those_of_the_run(run, exported):
    mine, theirs = Translator(exported.directory, threads=1), Translator(run, device="cpu")
    assert mine.languages == theirs.languages == ("en", "de", "fr")
    assert mine.graph == theirs.graph
    for settings in SEARCHES:
        for to, via in (("de", None), ("fr", "en")):
            found = mine.translate(LINES, to, via=via, settings=settings)
            expected = theirs.translate(LINES, to, via=via, settings=settings)
            for one, other in zip(found, expected, strict=True):
                assert one.text == other.text
                assert (one.source, one.via, one.warnings) == (
                    *(other.source, other.via, other.warnings),
                )
                for a, b in zip(one.hypotheses, other.hypotheses, strict=True):
                    assert (a.ids, a.alignment, a.tokens) == (b.ids, b.alignment, b.tokens)
                    assert a.score == pytest.approx(b.score, rel=1e-5, abs=1e-5)


def test_the_account_is_whole(run, exported):
    manifest = Manifest.read(exported.directory)
    assert exported.directory == run / "onnx"
    assert (manifest.accord, manifest.precision) == (accord.__version__, "fp32")
    assert manifest.languages == ("en", "de", "fr")
    assert manifest.supervised == ("en-de", "en-fr", "de-en", "fr-en")
    assert (manifest.origin.checkpoint, manifest.origin.step) == ("step-00000007", 7)
    assert (manifest.model.units, manifest.model.encoder_layers) == (24, 3)
    assert manifest.model.input_feeding
    there = {file.name for file in exported.directory.iterdir()}
    assert there == {*manifest.files, "export.json"}
    assert exported.bytes == sum(file.stat().st_size for file in exported.directory.iterdir())


def test_the_comparison_covers_both_kinds(exported, short):
    for found in (exported, short):
        assert found.check == Manifest.read(found.directory).check
        assert found.check.split == "test"
        assert {kind: b.directions for kind, b in found.check.bleu.items()} == {
            "supervised": 4,
            "zero-shot": 2,
        }
    assert exported.check.same == exported.check.sentences == 6 * 12
    assert all(scores.change == 0 for scores in exported.check.bleu.values())
    assert short.check.sentences == 30
    assert short.bytes < 0.6 * exported.bytes


def test_nothing_to_compare_with(tmp_path):
    bare = made_run(tmp_path, held_out=False, preset="paper", input_feeding=False)
    assert export_run(bare, threads=1).check is None
    assert export_run(bare, tmp_path / "other", compare=0, threads=1).check is None
    assert Manifest.read(tmp_path / "other").model.encoder_layers == 2


def test_what_is_there_is_not_overwritten(run, exported, tmp_path):
    copy = shutil.copytree(exported.directory, tmp_path / "there")
    with pytest.raises(AccordError, match="--force"):
        export_run(run, copy)
    before = (copy / "decoder.onnx").read_bytes()
    killed = tmp_path / ".there.12345678"
    killed.mkdir()
    (killed / ".lock").write_text("accord export, process 1 on nowhere")
    export_run(run, copy, precision="int8", compare=0, force=True)
    assert (copy / "decoder.onnx").read_bytes() != before
    (copy / "export.json").unlink()
    with pytest.raises(AccordError, match="something else"):
        export_run(run, copy, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


def test_a_failure_leaves_nothing_and_keeps_what_was_there(run, exported, tmp_path, monkeypatch):
    copy = shutil.copytree(exported.directory, tmp_path / "there")

    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(OnnxExporter, "compare", broken)
    with pytest.raises(KeyboardInterrupt):
        export_run(run, copy, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert Manifest.read(copy) == Manifest.read(exported.directory)


@pytest.mark.parametrize("name", ["encoder.onnx", "vocabulary.model", "export.json"])
def test_altered_files_are_refused(exported, tmp_path, name):
    copy = shutil.copytree(exported.directory, tmp_path / "there")
    file = copy / name
    file.write_bytes(file.read_bytes().replace(b"e", b"f", 1))
    with pytest.raises(AccordError, match=r"altered|damaged"):
        Translator(copy)
    file.unlink()
    with pytest.raises(AccordError, match=r"cannot be read|no run directory"):
        Translator(copy)


@pytest.mark.parametrize(
    "name", ["encoder.onnx", "decoder.onnx", "vocabulary.model", "token_counts.npz"]
)
def test_files_that_never_were_right_are_named(exported, tmp_path, name):
    """Their checksums are those of the manifest, but nobody can load them."""
    copy = shutil.copytree(exported.directory, tmp_path / "there")
    (copy / name).write_bytes(b"garbage")
    facts = FileFacts(bytes=7, sha256=sha256_of(copy / name))
    manifest = Manifest.read(copy)
    manifest.model_copy(update={"files": manifest.files | {name: facts}}).write(copy)
    with pytest.raises(AccordError, match="cannot be loaded") as error:
        Translator(copy, threads=1)
    assert name in str(error.value)


def test_languages_that_the_model_does_not_have_are_named(exported, tmp_path):
    copy = shutil.copytree(exported.directory, tmp_path / "there")
    manifest = Manifest.read(copy)
    for languages in (("en", "de", "fr", "es"), ("en", "de", "es")):
        changes = {"languages": languages, "supervised": ("en-de",)}
        manifest.model_copy(update=changes).write(copy)
        with pytest.raises(AccordError, match=r"es are not the languages of") as error:
            Translator(copy, threads=1)
        assert error.value.where == f"{copy / 'export.json'}, key languages"


def test_another_format_is_refused(exported, tmp_path):
    copy = shutil.copytree(exported.directory, tmp_path / "there")
    entries = json.loads((copy / "export.json").read_text())
    (copy / "export.json").write_text(json.dumps(entries | {"format": 99}))
    with pytest.raises(AccordError, match="another format"):
        Translator(copy)


def test_manifests_from_before_formats_had_names_are_read_as_onnx(exported, tmp_path):
    copy = shutil.copytree(exported.directory, tmp_path / "there")
    entries = json.loads((copy / "export.json").read_text())
    assert entries["format"] == "onnx"
    (copy / "export.json").write_text(json.dumps(sealed(entries | {"format": 1})))
    assert Manifest.read(copy) == Manifest.read(exported.directory)
    found, expected = (Translator(path, threads=1) for path in (copy, exported.directory))
    assert found.translate(LINES, "de") == expected.translate(LINES, "de")


def test_what_an_export_cannot_do_is_said(exported):
    for choice in ({"device": "cuda"}, {"checkpoint": "last"}, {"precision": "bf16"}):
        with pytest.raises(AccordError, match="no choice of"):
            Translator(exported.directory, **choice)
    translator = Translator(exported.directory, threads=1)
    with pytest.raises(AccordError, match="how likely"):
        translator.cross_entropy(["a"], ["b"], "de")
    with pytest.raises(AccordError, match="ensemble"):
        translator.translate_together([["a"], ["b"]], "de")
    with pytest.raises(AccordError, match="ensemble"):  # before any line is read
        translator.stream(iter(()), "de", ensemble="direct,via:fr")


def test_an_open_model_outlives_its_directory(exported, tmp_path):
    copy = shutil.copytree(exported.directory, tmp_path / "there")
    translator, settings = Translator(copy, threads=1), SearchSettings(vocabulary="target")
    shutil.rmtree(copy)
    expected = Translator(exported.directory, threads=1).translate(LINES, "de", settings=settings)
    assert translator.translate(LINES, "de", settings=settings) == expected


def test_a_missing_package_is_named(run, exported, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(AccordError, match=r"pip install 'accord\[export\]'"):
        Translator(exported.directory)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(AccordError, match=r"pip install 'accord\[export\]'"):
        export_run(run, tmp_path / "other")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_exported_model_needs_no_torch(exported):
    code = (
        "import sys\nfrom accord import Translator\n"
        f"found = Translator({str(exported.directory)!r}).translate(['the cat'], to='fr')\n"
        "print(found[0].text)\n"
        "assert 'torch' not in sys.modules\nassert 'onnx' not in sys.modules"
    )
    expected = Translator(exported.directory, threads=1).translate(["the cat"], to="fr")[0].text
    assert python(code) == f"{expected}\n"


def test_the_commands(run, short, tmp_path):
    def accord_command(*arguments):
        return [sys.executable, "-m", "accord", *map(str, arguments)]

    output = tmp_path / "model"
    made = subprocess.run(
        accord_command(
            "export", run, "--format", "onnx", "--int8", "--check", 12, "--output", output
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "12 test sentences" in made.stdout
    assert "BLEU, zero-shot (2 directions)" in made.stdout
    assert f"{output}: " in made.stderr
    assert Manifest.read(output).files == Manifest.read(short.directory).files
    found = translated_without_torch(output, "the cat")
    assert found["source"] == "the cat"
    with pytest.raises(AccordError, match="no export to 'tflite'") as error:
        export(run, to="tflite")
    assert error.value.fix == "use onnx, ctranslate2"
