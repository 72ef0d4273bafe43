"""Datasets of the Hugging Face hub: what is asked, what is brought, what is refused."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from accord.cli import app
from accord.data.formats import read_pair
from accord.errors import AccordError
from accord.fetching import hub
from file_server import FileServer

PAIRS = {"train": [("one", "eins"), ("two", "zwei"), ("three", "drei")], "test": [("four", "vier")]}


def table(rows):
    kind = pa.struct({"en": pa.string(), "de": pa.string()})
    column = pa.array([{"en": en, "de": de} for en, de in rows], kind)
    buffer = io.BytesIO()
    pq.write_table(pa.table({"translation": column}), buffer)
    return buffer.getvalue()


@pytest.fixture
def server(monkeypatch):
    """A hub that has one dataset, its training text in two pieces."""
    files = {
        "train/0000.parquet": table(PAIRS["train"][:2]),
        "train/0001.parquet": table(PAIRS["train"][2:]),
        "test/0000.parquet": table(PAIRS["test"]),
    }
    with FileServer(files) as running:
        running.listing = {
            "parquet_files": [
                {
                    "config": "de-en",
                    "split": name.split("/")[0],
                    "url": f"{running.base}/{name}",
                    "filename": name.split("/")[1],
                    "size": len(content),
                }
                for name, content in reversed(files.items())
            ],
            "pending": [],
            "failed": [],
            "partial": False,
        }
        answer(running)
        monkeypatch.setattr(hub, "_SERVER", f"{running.base}/parquet")
        yield running


def answer(server, **changes):
    server.files["parquet"] = json.dumps(server.listing | changes).encode()


def test_a_dataset_is_fetched_by_name_and_read(server, tmp_path):
    options = ["fetch", "hf:owner/books", "--to", str(tmp_path), "-q"]
    refused = CliRunner().invoke(app, options)
    assert "--yes" in str(refused.exception)  # whose terms are not known here
    done = CliRunner().invoke(app, [*options, "--yes"])
    assert done.exit_code == 0, done.output
    assert "owner/books of the Hugging Face hub" in done.stderr
    assert server.log[0][0] == "/parquet?dataset=owner%2Fbooks"
    for split, rows in PAIRS.items():
        assert list(read_pair(f"{tmp_path}/books/{split}-*.parquet", ("en", "de"))) == rows
    again = CliRunner().invoke(app, options)
    assert "up to date, nothing to do" in again.stderr


def test_something_else_than_parquet_is_refused(server, tmp_path):
    server.files["test/0000.parquet"] = b"x" * len(server.files["test/0000.parquet"])
    options = ["fetch", "hf:owner/books", "--to", str(tmp_path), "-q", "--yes"]
    refused = str(CliRunner().invoke(app, options).exception)
    assert "what comes is not Parquet" in refused
    assert "accord fetch hf:owner/books --files DIR" in refused
    assert not (tmp_path / "books/test-00000-of-00001.parquet").exists()


def failure(name):
    with pytest.raises(AccordError) as caught:
        hub.hub_dataset(name)
    return caught.value


def test_one_of_several_configurations_must_be_named(server):
    others = [file | {"config": "fr-en"} for file in server.listing["parquet_files"]]
    answer(server, parquet_files=[*server.listing["parquet_files"], *others])
    error = failure("hf:owner/books")
    assert error.fix == "name one of them: hf:owner/books:de-en, hf:owner/books:fr-en"
    assert hub.hub_dataset("hf:owner/books:fr-en").name == "books.fr-en"
    assert "no configuration 'it-en'" in failure("hf:owner/books:it-en").what


@pytest.mark.parametrize("change", [{"partial": True}, {"pending": ["x"]}, {"failed": ["x"]}])
def test_a_part_of_a_dataset_is_refused(server, change):
    answer(server, **change)
    assert failure("hf:owner/books").what == "the hub has Parquet files of a part of it only"


def test_answers_that_are_no_list(server, monkeypatch):
    for content in (b"<html>", b"[]", b'{"parquet_files": [{"config": "a"}]}', b'{"error": "x"}'):
        server.files["parquet"] = content
        assert failure("hf:owner/books").where == "hf:owner/books"
    del server.files["parquet"]
    assert "HTTP 404" in failure("hf:owner/books").what
    assert "names no dataset of the hub" in failure("hf:a/b/c").what
    monkeypatch.setattr(hub, "_SERVER", "http://127.0.0.1:9/parquet")
    assert "cannot be asked" in failure("hf:owner/books").what
