"""What preparing will take, told from a sample."""

import gzip
import json
import random
import tarfile
import zipfile

import pytest
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import load
from accord.data.estimate import estimate
from accord.data.prepare import prepare
from accord.data.streams import metered, read_lines
from accord.errors import AccordError
from toy_corpus import sentence


def test_small_data_is_counted_and_nothing_is_left_behind(toy):
    found = estimate(load(toy), workers=3)
    assert [(corpus.lines, corpus.counted) for corpus in found.corpora] == [(600, True)] * 3
    assert (found.sampled, found.workers) == (1800, 3)
    assert {"reading", "cleaning", "encoding", "checking"} <= set(found.core_seconds)
    assert not (toy.parent / "store").exists()
    prepared = prepare(load(toy, ["overlap=keep"])).store
    size = sum(entry["bytes"] for entry in prepared.manifest["files"].values())
    assert found.disk_store == size
    assert found.disk_building > size


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """60,000 lines of noise: as plain text, compressed, and as members of archives."""
    folder = tmp_path_factory.mktemp("long")
    draw = random.Random(1)
    text = "".join(f"{draw.getrandbits(200 + i % 150):x} {i}\n" for i in range(60_000)).encode()
    (folder / "plain").write_bytes(text)
    (folder / "packed.gz").write_bytes(gzip.compress(text, 1))
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("other", text)
        archive.writestr("member", text)
    with tarfile.open(folder / "a.tar.gz", "w:gz", compresslevel=1) as archive:
        for name in ("other", "member"):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, (folder / "plain").open("rb"))
    return folder


@pytest.mark.parametrize("name", ["plain", "packed.gz", "a.zip::member", "a.tar.gz::member"])
def test_a_part_of_a_file_tells_how_many_lines_there_are(long, name):
    with metered() as meter:
        lines = read_lines(str(long / name))
        for _ in range(20_000):
            next(lines)
        assert 20_000 * meter.total / meter.read == pytest.approx(60_000, rel=0.08)


def test_large_files_are_not_read_to_their_end(long, toy):
    for language in ("en", "de", "fr", "es"):
        lines = [f"{sentence(i, language)} {i:040d}" for i in range(50_000)]
        (toy.parent / f"train.{language}").write_text("".join(f"{x}\n" for x in lines))
    # A vocabulary that is too large for the sample may be right for the whole.
    found = estimate(load(toy, ["vocabulary.size=60000"]), sample=1500)
    assert found.sampled == 3 * 1500
    for corpus in found.corpora:
        assert not corpus.counted
        assert corpus.lines == pytest.approx(50_000, rel=0.15)


def test_a_vocabulary_that_is_too_large_for_the_whole_is_refused(toy):
    with pytest.raises(AccordError, match=r"vocabulary\.size = 5000 is too large"):
        estimate(load(toy, ["vocabulary.size=5000"]))


def test_the_command_prints_it(toy):
    result = CliRunner().invoke(app, ["prepare", str(toy), "--estimate", "--quiet"])
    assert result.exit_code == 0, result.output
    assert "scaled up from 1,800 lines" in result.output
    as_json = CliRunner().invoke(app, ["prepare", str(toy), "--estimate", "-q", "--json", "-"])
    assert json.loads(as_json.stdout)["corpora"][0]["lines"] == 600
    refused = CliRunner().invoke(app, ["prepare", str(toy), "--address", "auto"])
    assert refused.exit_code == 2
