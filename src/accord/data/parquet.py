"""Columns of Parquet and Arrow files, as Hugging Face `datasets` keeps sentence pairs (pyarrow).

Rows stream in small batches: memory follows the longest batch, not the file.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accord.config.paths import input_files
from accord.data.markup import one_line
from accord.data.streams import MAX_LINE_BYTES
from accord.errors import AccordError

_ROWS = 1000  # of a batch
STRUCT = "translation"  # the column that `datasets` has for pairs: a struct, one field a language


def read_columns(
    path: str, languages: Sequence[str], kind: str, columns: Sequence[str] | None
) -> Iterator[list[str | None]]:
    """The sentences of each row; `path` may have a `*` for the pieces of one set.

    Without names the columns are `translation.LANGUAGE` or else LANGUAGE.
    """
    for file in input_files(path):
        yield from _read_file(file, languages, kind, columns)


def first_texts(path: str, kind: str) -> dict[str, list[str]]:
    """The first rows of all columns of text; those in structs are named as `translation.en`."""
    with _opened(input_files(path)[0], kind) as (schema, batches):
        names = [name for name, type_ in _leaves(schema).items() if _is_text(type_)]
        batch = next(batches(names), None)
        if batch is None:
            return {name: [] for name in names}
        rows = batch.slice(0, _ROWS)
        return {name: [text for text in _column(rows, name).to_pylist() if text] for name in names}


def _read_file(
    file: Path, languages: Sequence[str], kind: str, columns: Sequence[str] | None
) -> Iterator[list[str | None]]:
    with _opened(file, kind) as (schema, batches):
        names = _chosen(file, schema, languages, columns)
        row = 0
        for batch in batches(names):
            sides = [_texts(file, batch, name, row) for name in names]
            for texts in zip(*sides, strict=True):
                yield list(texts)
            row += batch.num_rows


def _leaves(schema: Any) -> dict[str, Any]:
    import pyarrow.types as types

    found: dict[str, Any] = {}
    for field in schema:
        if types.is_struct(field.type):
            found |= {f"{field.name}.{inner.name}": inner.type for inner in field.type}
        found[field.name] = field.type
    return found


def _chosen(
    file: Path, schema: Any, languages: Sequence[str], columns: Sequence[str] | None
) -> list[str]:
    import pyarrow.types as types

    leaves = _leaves(schema)
    ways = [
        list(columns) if columns is not None else [f"{STRUCT}.{name}" for name in languages],
        *([list(languages)] if columns is None else []),
    ]
    names = next((way for way in ways if all(name in leaves for name in way)), None)
    texts = [name for name, kind in leaves.items() if _is_text(kind)]
    listed = ", ".join(texts[:20]) or "none"
    if names is None:
        wanted = " and ".join(ways[0])
        other = "" if columns is not None else f", nor {' and '.join(languages)}"
        example = ", ".join(
            f"{language}: {text}" for language, text in zip(languages, texts, strict=False)
        )
        raise AccordError(
            f"the file has no columns {wanted}{other}",
            where=str(file),
            fix=f"its columns of text are: {listed}"
            + (f"; say which is which: columns: {{{example}}}" if texts else ""),
        )
    for name in names:
        if not _is_text(leaves[name]):
            kind = "a struct" if types.is_struct(leaves[name]) else str(leaves[name])
            raise AccordError(
                f"the column is {kind}, not text",
                where=f"{file}, column {name}",
                fix=f"its columns of text are: {listed}",
            )
    return names


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(
        is_kind(kind) for is_kind in (types.is_string, types.is_large_string, types.is_string_view)
    )


def _column(batch: Any, name: str) -> Any:
    import pyarrow.compute as compute
    import pyarrow.types as types

    if name in batch.schema.names:
        column = batch.column(name)
    else:
        struct, field = name.split(".", 1)
        column = compute.struct_field(batch.column(struct), [field])
    return column.dictionary_decode() if types.is_dictionary(column.type) else column


def _texts(file: Path, batch: Any, name: str, start: int) -> list[str | None]:
    """The column of a batch whose first row is `start`, from 0."""
    found: list[str | None] = []
    for index, value in enumerate(_column(batch, name)):
        where = f"{file}, row {start + index + 1:,}, column {name}"
        try:
            text = value.as_py()
        except UnicodeDecodeError as error:
            raise AccordError(
                f"the text is not valid UTF-8: {error.reason}",
                where=where,
                fix="write the file again from text that is",
            ) from None
        if text is None:
            raise AccordError(
                "there is no text (null)", where=where, fix="leave such rows out of the file"
            )
        long = len(text) * 4 > MAX_LINE_BYTES and len(text.encode()) > MAX_LINE_BYTES
        found.append(None if long else one_line(text))
    return found


@contextmanager
def _opened(file: Path, kind: str) -> Iterator[tuple[Any, Any]]:
    """The schema, and a function from names of columns to batches of rows."""
    try:
        import pyarrow
    except ImportError:
        raise AccordError(
            f"reading {kind} files needs pyarrow, which is not installed",
            where=str(file),
            fix="pip install 'accord[parquet]'",
        ) from None
    try:
        if kind == "parquet":
            from pyarrow.parquet import ParquetFile

            with ParquetFile(file, buffer_size=1 << 20) as table:

                def rows(names: Sequence[str]) -> Iterator[Any]:
                    # One thread: with more, whole row groups are decoded ahead.
                    batches: Iterator[Any] = table.iter_batches(
                        _ROWS, columns=list(names), use_threads=False
                    )
                    return batches

                yield table.schema_arrow, rows
        else:
            with pyarrow.memory_map(str(file)) as source:
                reader, batches = _arrow_batches(source)
                yield reader.schema, lambda names: _slices(batches)
    except (pyarrow.ArrowException, OSError) as error:
        raise AccordError(
            f"this cannot be read as {kind}: {' '.join(str(error).split())[:200]}",
            where=str(file),
            fix="fetch or copy it again, or set its format",
        ) from None


def _arrow_batches(source: Any) -> tuple[Any, Iterator[Any]]:
    """Of a stream, as `datasets` saves it, or of an IPC file (Feather), which has a magic word."""
    import pyarrow

    magic = source.read(6)
    source.seek(0)
    if magic == b"ARROW1":
        reader = pyarrow.ipc.open_file(source)
        return reader, (reader.get_batch(i) for i in range(reader.num_record_batches))
    stream = pyarrow.ipc.open_stream(source)
    return stream, iter(stream)


def _slices(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)
