"""An evaluation on disk: RUN/evaluation/NAME.

    evaluation.json               all figures; SHA-256 of the other files, and a seal
    statistics.npz                what BLEU and chrF counted in each sentence, for paired tests
    src.de-fr.txt ref.de-fr.txt   the test set as it was used, one sentence a line
    hyp.de-fr.txt                 direct translations
    hyp.de-fr.via-en.txt          those through a pivot
    hyp.de-fr.ensemble-direct-via-en.txt   those of an ensemble
    against-RUN.json              paired tests against another run

`sacrebleu ref.de-fr.txt -i hyp.de-fr.txt` gives the numbers of evaluation.json; the tokeniser
(`-tok`) and case (`-lc`) are in the signature.
"""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accord.errors import AccordError
from accord.evaluation.records import Evaluated, Lines, Statistics, load_with_sums
from accord.evaluation.significance import Comparison
from accord.files import (
    NPZ_ERRORS,
    atomic_directory,
    atomic_write,
    clear_leftovers,
    read_checked,
    sealed,
    sha256_of,
)
from accord.graph import Direction

_STATISTICS = "statistics.npz"
_AGAIN = "evaluate that run again"


def evaluation_directory(run: Path, name: str) -> Path:
    """Where a run keeps an evaluation."""
    return run / "evaluation" / name


def write(evaluated: Evaluated, directory: Path) -> None:
    """Write an evaluation; an earlier one of the same name is replaced as a whole.

    Everything is written beside the directory first, so that a crash can leave no mixture of old
    figures and new texts.
    """
    clear_leftovers(directory)
    with atomic_directory(directory) as fresh:
        for item in evaluated.lines:
            _write_lines(fresh / f"hyp.{item.name}.txt", item.hypotheses)
        for direction, item in {item.direction: item for item in evaluated.lines}.items():
            _write_lines(fresh / f"src.{direction}.txt", item.sources)
            _write_lines(fresh / f"ref.{direction}.txt", item.references)
        _write_statistics(fresh / _STATISTICS, evaluated.statistics)
        sums = {file.name: sha256_of(file) for file in sorted(fresh.iterdir())}
        write_json(
            fresh / "evaluation.json", sealed(evaluated.evaluation.as_dict() | {"files": sums})
        )


def write_json(path: Path, data: object) -> None:
    """Write plain data, readable by people too."""
    with atomic_write(path) as file:
        json.dump(data, file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def write_comparison(file: Path, found: Comparison) -> None:
    """Write paired tests, beside the figures of our system."""
    write_json(file, sealed(found.as_dict()))


def read_comparison(file: Path) -> dict[str, Any]:
    """Paired tests that were written before; those of former versions have no seal."""
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
        old = load_with_sums(file.parent)[0].format == 1
        if found != sealed(found) and not (old and "seal" not in found):
            raise ValueError("it was altered since it was written")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise AccordError(
            f"the comparison cannot be read: {error}",
            where=str(file),
            fix="delete it and run the command that compares again",
        ) from None
    return found


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    with atomic_write(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def _write_statistics(path: Path, statistics: Mapping[str, Statistics]) -> None:
    arrays = {
        f"{name}/{metric}": counts.astype(np.int32)
        for name, item in statistics.items()
        for metric, counts in (("bleu", item.bleu), ("chrf", item.chrf))
    }
    with atomic_write(path, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read(directory: Path) -> Evaluated:
    """An evaluation that was written before."""
    evaluation, sums = load_with_sums(directory / "evaluation.json")

    def text(name: str, expected: int) -> tuple[str, ...]:
        return _read_lines(directory / name, sums.get(name), expected)

    lines = []
    for row in evaluation.rows:
        item = Lines(
            direction=Direction(row.source, row.target),
            kind=row.kind,
            test_set=row.test_set,
            sources=text(f"src.{row.direction}.txt", row.sentences),
            hypotheses=text(f"hyp.{row.name}.txt", row.sentences),
            references=text(f"ref.{row.direction}.txt", row.sentences),
            via=row.via,
            ensemble=row.ensemble,
        )
        lines.append(item)
    counts = read_checked(directory / _STATISTICS, sums.get(_STATISTICS), _AGAIN)
    statistics = _read_statistics(directory / _STATISTICS, counts, lines)
    return Evaluated(evaluation, tuple(lines), statistics)


def _read_statistics(path: Path, data: bytes, lines: Sequence[Lines]) -> dict[str, Statistics]:
    found = {}
    try:
        with np.load(io.BytesIO(data)) as arrays:
            for item in lines:
                counts = (arrays[f"{item.name}/{metric}"] for metric in ("bleu", "chrf"))
                found[item.name] = Statistics(*(some.astype(np.int64) for some in counts))
    except NPZ_ERRORS as error:
        raise AccordError(
            f"the statistics cannot be read: {error}", where=str(path), fix=_AGAIN
        ) from None
    return found


def _read_lines(path: Path, sha256: str | None, expected: int) -> tuple[str, ...]:
    data = read_checked(path, sha256, _AGAIN)
    try:
        # Not read_text(): a carriage return inside a line is not the end of it.
        lines = data.decode("utf-8").split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise AccordError(
            f"a text of the evaluation cannot be read: {error}", where=str(path), fix=_AGAIN
        ) from None
    if len(lines) != expected:
        raise AccordError(
            f"{len(lines):,} lines where the evaluation had {expected:,}",
            where=str(path),
            fix=_AGAIN,
        )
    return tuple(lines)
