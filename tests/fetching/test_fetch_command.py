"""`accord fetch` as a user meets it: the list, the terms, exit codes."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import accord.cli.data
from accord.cli import app
from accord.fetching import catalogue
from file_server import FileServer
from miniatures import ORIGINALS, pointed


@pytest.fixture
def server(monkeypatch):
    """All datasets in small, behind the real names."""
    files = {name: make() for name, make in ORIGINALS.items()}
    with FileServer({n: c for some in files.values() for n, c in some.items()}) as running:
        datasets = {
            name: pointed(item, running.base, files[name])
            for name, item in catalogue.DATASETS.items()
        }
        monkeypatch.setattr(catalogue, "DATASETS", datasets)
        yield running


def fetch(*arguments, code=0, **options):
    result = CliRunner().invoke(app, ["fetch", *map(str, arguments)], **options)
    assert result.exit_code == code, result.output
    return result


def test_without_a_name_all_are_listed():
    listed = fetch().stdout
    for item in catalogue.DATASETS.values():
        assert item.name in listed
        assert item.homepage in listed


def test_terms_must_be_accepted_where_they_ask_for_it(server, tmp_path):
    refused = fetch("multi30k", "--data", tmp_path, code=1)
    assert "--yes" in str(refused.exception)
    assert "licence:" in refused.stderr
    assert server.log == []
    done = fetch("multi30k", "--data", tmp_path, "--yes", "-q")
    assert f"{tmp_path}/multi30k: 12 files fetched" in done.stderr
    again = fetch("multi30k", "--data", tmp_path)  # nothing is fetched, so nothing is asked
    assert "up to date, nothing to do" in again.stderr


def test_a_person_is_asked(server, tmp_path, monkeypatch):
    monkeypatch.setattr(accord.cli.data, "_at_a_terminal", lambda: True)
    fetch("multi30k", "--data", tmp_path, input="n\n", code=1)
    assert server.log == []
    done = fetch("multi30k", "--data", tmp_path, input="y\n")
    assert "Do you accept these terms?" in done.stderr
    assert (tmp_path / "multi30k/train.en.gz").exists()


def test_free_data_is_fetched_without_a_question(server, tmp_path):
    done = fetch("europarl", "--data", tmp_path)
    assert "licence:" in done.stderr
    assert "no checksum is published for devsets.tgz; recorded in fetched.json" in done.stderr
    assert "europarl: 14 files fetched" in done.stderr


def test_errors_end_with_1_and_a_remedy(tmp_path):
    for arguments, part in (
        (["europal"], "datasets: europarl, iwslt17, multi30k, un"),
        (["multi30k", "--files", str(tmp_path / "none"), "--yes"], "name the one with the files"),
        (["multi30k", "--files", str(tmp_path), "--yes"], "put train.cs.gz there"),
    ):
        run = subprocess.run(
            [sys.executable, "-m", "accord", "fetch", *arguments, "--data", str(tmp_path / "data")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 1
        assert part in run.stderr
        assert "Traceback" not in run.stderr


def test_help_says_what_happens_without_a_checksum():
    assert "recorded in fetched.json" in fetch("--help").stdout
