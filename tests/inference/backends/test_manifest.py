"""Manifests whose seal is right, though what they say is not."""

import json
from pathlib import Path

import pytest

from accord.errors import AccordError
from accord.files import sealed
from accord.inference.backends.manifest import (
    NAME,
    Bleu,
    Check,
    FileFacts,
    Manifest,
    ModelFacts,
    Origin,
)

SOUND = Manifest(
    format="onnx",
    accord="1.0",
    precision="int8",
    languages=("en", "de", "fr"),
    supervised=("en-de", "de-en"),
    model=ModelFacts(
        preset="paper",
        units=8,
        encoder_layers=1,
        decoder_layers=2,
        input_feeding=True,
        vocabulary=40,
        parameters=999,
    ),
    origin=Origin(experiment="x", run="r", checkpoint="step-00000007", step=7, fingerprint="f"),
    files={"encoder.onnx": FileFacts(bytes=3, sha256="00")},
    check=Check(
        split="test",
        sentences=9,
        same=8,
        bleu={"zero-shot": Bleu(directions=2, pytorch=20.0, exported=19.5)},
    ),
)
ABSENT = object()


def written(directory: Path, key: str, value: object) -> Path:
    """A manifest with one entry altered, or taken out, and sealed all the same."""
    SOUND.write(directory)
    entries = json.loads((directory / NAME).read_text())
    *parents, last = key.split("/")
    inner = entries
    for parent in parents:
        inner = inner[parent]
    if value is ABSENT:
        del inner[last]
    else:
        inner[last] = value
    (directory / NAME).write_text(json.dumps(sealed(entries)))
    return directory / NAME


def test_what_is_written_is_read(tmp_path):
    SOUND.write(tmp_path)
    assert Manifest.read(tmp_path) == SOUND


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("accord", ABSENT),
        ("accord", 1),
        ("format", True),
        ("precision", "int3"),
        ("languages", "en"),
        ("languages", [1, 2]),
        ("languages", None),
        ("supervised", {"en": "de"}),
        ("model", []),
        ("model/units", "8"),
        ("model/units", -1),
        ("model/input_feeding", 1),
        ("model/parameters", ABSENT),
        ("origin", None),
        ("origin/step", -7),
        ("origin/step", 7.5),
        ("files", ["encoder.onnx"]),
        ("files/encoder.onnx", "00"),
        ("files/encoder.onnx/bytes", -3),
        ("files/encoder.onnx/sha256", None),
        ("check", "passed"),
        ("check/same", -1),
        ("check/bleu/zero-shot/exported", "high"),
        ("colour", "red"),
    ],
)
def test_an_entry_that_makes_no_sense_is_named(tmp_path, key, value):
    path = written(tmp_path, key, value)
    with pytest.raises(AccordError, match="the manifest is damaged: ") as error:
        Manifest.read(tmp_path)
    assert error.value.where.startswith(f"{path}, key {key.replace('/', '.')}")
    assert error.value.fix == "export the run again"


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("languages", ["en", "EN", "de"], "'EN' is not a language code"),
        ("languages", ["en", "de", "en"], "en more than once"),
        ("languages", [], "two languages or more"),
        ("supervised", ["en-xx"], "unknown language 'xx'"),
        ("supervised", ["en"], "'en' is not a direction"),
        ("supervised", ["de-de"], "into itself"),
    ],
)
def test_languages_that_fit_no_graph_are_named(tmp_path, key, value, what):
    path = written(tmp_path, key, value)
    with pytest.raises(AccordError, match=what) as error:
        Manifest.read(tmp_path)
    assert error.value.where.startswith(f"{path}, key ")
    assert key in error.value.where


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b"1" * 5000, b"[" * 100_000])
def test_what_is_no_manifest_at_all(tmp_path, text):
    (tmp_path / NAME).write_bytes(text)
    with pytest.raises(AccordError, match=r"damaged|another format") as error:
        Manifest.read(tmp_path)
    assert error.value.where == str(tmp_path / NAME)


def test_a_file_that_is_not_named(tmp_path):
    with pytest.raises(AccordError, match="not named") as error:
        SOUND.file(tmp_path, "decoder.onnx")
    assert error.value.where == f"{tmp_path / NAME}, key files.decoder.onnx"
