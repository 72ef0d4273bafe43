"""Columns of Parquet and Arrow files: as `datasets` writes them, streamed, with errors by row."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.config.schema import Cleaning, HeldOut
from accord.data.formats import read_pair, read_side, source_files
from accord.data.held_out import read_held_out
from accord.errors import AccordError

EN_DE = ("en", "de")
ROWS = [("one", "eins"), (" two\nlines ", "zwei"), ("", "drei"), ("x" * 1_000_001, "vier")]
READ = [("one", "eins"), ("two lines", "zwei"), ("", "drei"), (None, "vier")]


def struct_table(rows=ROWS):
    """The column of the Hugging Face convention, beside one that is of no interest."""
    pairs = [{"en": en, "de": de} for en, de in rows]
    kind = pa.struct({"en": pa.string(), "de": pa.string()})
    return pa.table({"id": list(range(len(rows))), "translation": pa.array(pairs, kind)})


def flat_table(names, rows=ROWS, kind=None):
    sides = zip(names, zip(*rows, strict=True), strict=True)
    return pa.table({name: pa.array(side, kind or pa.string()) for name, side in sides})


def save(path, table, *, batch=2):
    """As Parquet, as an Arrow stream (which `save_to_disk` writes) or, for .feather, as a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=batch)
        return str(path)
    new = pa.ipc.new_file if path.suffix == ".feather" else pa.ipc.new_stream
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=batch)
    return str(path)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_the_translation_column_of_hugging_face(tmp_path, ending):
    path = save(tmp_path / f"a.{ending}", struct_table())
    kind = "arrow" if ending == "feather" else "auto"
    assert list(read_pair(path, EN_DE, format=kind)) == READ
    assert list(read_pair(path, ("de", "en"), format=kind)) == [(b, a) for a, b in READ]
    assert list(read_side(path, "de", format=kind)) == [de for _, de in READ]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
)
def test_columns_named_as_languages_or_as_the_file_says(tmp_path, kind):
    path = save(tmp_path / "a.arrow", flat_table(("de", "en"), kind=kind))
    assert list(read_pair(path, ("de", "en"))) == READ
    path = save(tmp_path / "b.arrow", flat_table(("source", "target"), kind=kind))
    names = {"en": "source", "de": "target"}
    assert list(read_pair(path, EN_DE, columns=names)) == READ
    path = save(tmp_path / "c.parquet", struct_table())
    names = {"en": "translation.de", "de": "translation.en"}
    assert list(read_pair(path, EN_DE, columns=names)) == [(b, a) for a, b in READ]


def test_pieces_are_read_in_order_and_none_may_be_missing(tmp_path):
    for number, row in enumerate(ROWS[:3]):
        save(tmp_path / f"train-{number:05d}-of-00003.parquet", struct_table([row]))
    save(tmp_path / "test-00000-of-00001.parquet", struct_table(ROWS[:1]))
    path = f"{tmp_path}/train-*.parquet"
    assert list(read_pair(path, EN_DE)) == READ[:3]
    assert [file.name[:11] for file in source_files(path, EN_DE)] == [
        f"train-0000{i}" for i in range(3)
    ]
    with pytest.raises(AccordError, match=r"several sets: test-\*\.parquet, train-\*\.parquet"):
        read_pair(f"{tmp_path}/*.parquet", EN_DE)
    (tmp_path / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(AccordError, match=r"2 of 3 pieces .* train-00001-of-00003.parquet"):
        read_pair(path, EN_DE)
    with pytest.raises(AccordError, match=r"no file is named like dev-\*.parquet"):
        read_pair(f"{tmp_path}/dev-*.parquet", EN_DE)


def test_a_saved_directory_is_not_a_file_but_the_error_names_what_is_in_it(tmp_path):
    save(tmp_path / "set/train/data-00000-of-00001.arrow", struct_table())
    (tmp_path / "set/train/state.json").write_text(json.dumps({"_format_type": None}))
    with pytest.raises(AccordError, match="this is a directory") as caught:
        read_pair(f"{tmp_path}/set/train", EN_DE, format="arrow")
    path = caught.value.fix.removeprefix("name what lies in it: ")
    assert list(read_pair(path, EN_DE)) == READ


def test_dev_and_test_sets_may_be_tables(tmp_path):
    path = save(tmp_path / "dev.parquet", struct_table(ROWS[:2]))
    (found,) = read_held_out(HeldOut(path=path), EN_DE, Cleaning())
    assert found.lines == {"en": ["one", "two lines"], "de": ["eins", "zwei"]}


def failure(path, **keys):
    with pytest.raises(AccordError) as caught:
        list(read_pair(path, EN_DE, **keys))
    return caught.value


def test_columns_that_are_not_there(tmp_path):
    error = failure(save(tmp_path / "a.parquet", flat_table(("src", "tgt"))))
    assert error.what == "the file has no columns translation.en and translation.de, nor en and de"
    assert "src, tgt" in error.fix
    assert "columns: {en: src, de: tgt}" in error.fix
    path = save(tmp_path / "b.arrow", struct_table())
    error = failure(path, columns={"en": "id", "de": "translation.de"})
    assert (error.what, error.where) == ("the column is int64, not text", f"{path}, column id")
    error = failure(path, columns={"en": "translation", "de": "translation.de"})
    assert error.what == "the column is a struct, not text"
    assert "columns does not name the column of de" in failure(path, columns={"en": "id"}).what
    assert "columns does not name" in failure(path, columns={"en": 0, "de": 1}).what


def test_a_missing_text_is_said_with_file_row_and_column(tmp_path):
    rows = [("a", "b")] * 1500 + [("c", None)]
    for ending in ("parquet", "arrow"):
        path = save(tmp_path / f"a.{ending}", struct_table(rows), batch=700)
        error = failure(path)
        assert error.where == f"{path}, row 1,501, column translation.de"
        assert "null" in error.what
    nothing = pa.array([{"en": "a", "de": "b"}, None], struct_table().schema.field(1).type)
    path = save(tmp_path / "b.parquet", pa.table({"translation": nothing}))
    assert failure(path).where == f"{path}, row 2, column translation.en"


def test_bytes_that_are_no_text(tmp_path):
    bad = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
    path = save(tmp_path / "a.arrow", pa.table({"en": bad, "de": ["a", "b"]}))
    assert failure(path).where == f"{path}, row 2, column en"


def test_damaged_files(tmp_path):
    for ending in ("parquet", "arrow"):
        path = Path(save(tmp_path / f"a.{ending}", struct_table()))
        path.write_bytes(path.read_bytes()[:-200])
        assert f"cannot be read as {ending}" in failure(str(path)).what
        path.write_bytes(b"")
        assert f"cannot be read as {ending}" in failure(str(path)).what


def test_a_name_of_the_hub_is_not_read_over_the_network():
    assert "accord fetch hf:owner/books;" in failure("hf:owner/books").fix


@pytest.mark.parametrize("path", ["a.parquet.gz", "a.zip::x.parquet", "a.tar.gz::x.arrow"])
def test_tables_inside_something_else_are_refused_without_a_look(path):
    assert "must lie on the disk as it is" in failure(path).what


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    path = save(tmp_path / "a.parquet", struct_table())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert failure(path).fix == "pip install 'accord[parquet]'"


def test_a_row_group_is_never_held_as_a_whole(tmp_path):
    """60 MB of text in one row group: what Arrow holds at any row stays far below it."""
    rows = [(f"{i} " * 300, f"{-i} " * 300) for i in range(20_000)]
    table = struct_table(rows)
    path, size = save(tmp_path / "a.parquet", table, batch=len(rows)), table.nbytes
    del table
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in read_pair(path, EN_DE)]
    assert len(held) == len(rows)
    assert size > 60_000_000
    assert max(held) < 25_000_000
