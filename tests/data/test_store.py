import json
import os

import pytest

from accord.config.load import load
from accord.data.prepare import prepare
from accord.data.store import Store
from accord.errors import AccordError


@pytest.fixture
def store(toy):
    return prepare(load(toy)).store


def test_opening_reads_no_data_once_it_was_checked(store, monkeypatch):
    monkeypatch.setattr("accord.data.store.sha256_of", None)
    assert len(Store(store.directory).corpora) == 3


def test_a_store_that_was_copied_is_checked_once(store, monkeypatch):
    for name in store.manifest["files"]:
        os.utime(store.data / name, ns=(1, 1))
    Store(store.directory)
    monkeypatch.setattr("accord.data.store.sha256_of", None)
    Store(store.directory)


def test_an_up_to_date_prepare_keeps_what_opening_the_store_found_out(store, toy, monkeypatch):
    for name in store.manifest["files"]:
        os.utime(store.data / name, ns=(1, 1))
    assert not prepare(load(toy)).built
    monkeypatch.setattr("accord.data.store.sha256_of", None)
    Store(store.directory)


def test_truncated(store):
    path = store.data / "train/en-de.de.00000.ids"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(
        AccordError, match=r"en-de\.de\.00000\.ids: the file has .* bytes and should have"
    ):
        Store(store.directory)


def test_altered_at_the_same_length(store):
    path = store.data / "train/en-fr.en.00000.ids"
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    with pytest.raises(AccordError, match=r"en-fr\.en\.00000\.ids: the file was altered"):
        Store(store.directory)


def test_a_file_is_missing(store):
    (store.data / "vocabulary.model").unlink()
    with pytest.raises(AccordError, match="missing"):
        Store(store.directory)


def test_the_manifest_was_edited(store):
    path = store.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["corpora"][0]["lines"] += 1
    path.write_text(json.dumps(manifest))
    with pytest.raises(AccordError, match="manifest was altered"):
        Store(store.directory)
    path.write_text("{")
    with pytest.raises(AccordError, match="manifest is damaged"):
        Store(store.directory)


def test_nothing_there(tmp_path):
    with pytest.raises(AccordError, match="accord prepare"):
        Store(tmp_path)


def test_a_damaged_store_is_rebuilt_by_prepare(store, toy):
    (store.data / "train/en-de.de.00000.ids").write_bytes(b"")
    assert prepare(load(toy)).built
    assert Store(store.directory).manifest == store.manifest


def test_data_is_memory_mapped(store):
    import numpy as np

    ids = [side.ids for corpus in store.corpora for side in corpus.sides]
    assert all(isinstance(each.base, np.memmap) for each in ids)


def test_a_carriage_return_inside_a_line_is_no_line_break(toy):
    path = toy.parent / "dev.de"
    path.write_bytes(path.read_bytes().replace(b" ", b" \r ", 1))
    store = prepare(load(toy, ["cleaning.control_characters=false"])).store
    sources, references = store.held_out.pair("dev", "de", "en")
    assert len(sources) == len(references) == 20
