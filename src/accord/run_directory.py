"""The run directory: all that a trained model is and all that is known about how it came to be.

    experiment.yaml    every key in force        environment.json   versions, commit, hardware
    manifest.json      the data's own account    vocabulary.model   subwords and tags
    checkpoints/       see models/checkpoint.py  metrics.jsonl      one JSON object per line
    held_out/          dev and test sentences    token_counts.npz   per language, in training
    tensorboard/       where it is installed     metrics.seal       how many lines that has
    directions/        of a phrase-based run, instead of checkpoints: see phrases/train.py

Every later command takes this directory and nothing else. Nothing here needs PyTorch.
"""

import difflib
import hashlib
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from accord.config.load import load
from accord.config.schema import Experiment
from accord.data.store import HeldOutSets, checksums, read_manifest
from accord.data.vocabulary import Vocabulary
from accord.errors import AccordError
from accord.files import (
    NPZ_ERRORS,
    atomic_write,
    names_in,
    read_checked,
    sealed,
    writing_errors,
)

# Where it is, the directory holds no model of its own, but names the runs that do.
COMBINED = "combined.json"
# Of what the run adds to the data's manifest. Runs from before it had one have no seals.
FORMAT = 2
_HEAL = (
    "restore it from a backup, or run `accord train` with the run's experiment: it writes the "
    "file anew from the store"
)
_HEAL_EXPERIMENT = (
    "restore it from a backup, or run `accord train` with the run's experiment and "
    "--accept-changes: it writes the file anew"
)


class RunDirectory:
    """Paths inside a run, and what can be read there: all of it is compared with its checksum."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"

    def experiment(self) -> Experiment:
        """The experiment that the run was made by, every key in force."""
        file = self.path / "experiment.yaml"
        if not file.is_file():
            raise _no_run(self.path)
        text, seal = _taken_apart(read_checked(file, None, _HEAL_EXPERIMENT), _YAML_SEAL)
        if (seal is None and self._must_be_sealed()) or seal not in (None, _seal_of(text)):
            raise AccordError(
                "the file was altered since the run wrote it",
                where=str(file),
                fix=_HEAL_EXPERIMENT,
            )
        return load(file)

    def translator(self) -> Experiment:
        """The experiment of a run that is asked to translate, which a language model cannot."""
        found = self.experiment()
        if not found.model.translates:
            raise AccordError(
                f"a {found.model.kind} translates nothing",
                where=f"{self.path}, key model.kind",
                fix="name a run of a translation model; how good this one is, its validations say "
                "(metrics.jsonl), and what it is for is objective.dual.language_model",
            )
        return found

    def environment(self) -> dict[str, Any]:
        """Versions, commit, hardware."""
        file = self.path / "environment.json"
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            whole = found == sealed(found) if "seal" in found else not self._must_be_sealed()
        except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
            raise AccordError(
                f"the run's environment cannot be read: {error}",
                where=str(file),
                fix="run `accord train` again; it writes the file anew",
            ) from None
        if not whole:
            raise AccordError(
                "the file was altered since the run wrote it",
                where=str(file),
                fix="run `accord train` again; it writes the file anew",
            )
        return {key: value for key, value in found.items() if key != "seal"}

    def manifest(self) -> Mapping[str, Any]:
        """The account of the data that the run was trained on, and what the run adds: `run`."""
        return read_manifest(self.path, _HEAL)

    def _must_be_sealed(self) -> bool:
        """Whether a seal that is not there was lost: runs of former versions have none."""
        if not (self.path / "manifest.json").is_file():
            return False
        return "run" in self.manifest()

    @property
    def held_out(self) -> HeldOutSets:
        """The dev and test sentences, kept here so that a run can be moved without its store."""
        manifest = self.manifest()
        return HeldOutSets(manifest["held_out"], self.path / "held_out", checksums(manifest), _HEAL)

    def vocabulary(self) -> Vocabulary:
        """Subwords and tags."""
        languages = self.experiment().languages
        words, sums = self.path / "vocabulary.model", checksums(self.manifest())
        return Vocabulary.load(words, languages, sums[words.name], _HEAL)

    def token_counts_file(self) -> bytes:
        """How often each entry of the vocabulary occurs in each language, as it lies on disk."""
        known = self.manifest().get("run", {}).get("token_counts.npz")
        return read_checked(self.path / "token_counts.npz", known, _HEAL)

    def token_counts(self, language: str) -> npt.NDArray[np.int64]:
        """How often each entry of the vocabulary occurs in the training text of a language."""
        try:
            with np.load(io.BytesIO(self.token_counts_file())) as counts:
                found: npt.NDArray[np.int64] = counts[language]
        except NPZ_ERRORS as error:
            file = self.path / "token_counts.npz"
            raise AccordError(f"cannot be read: {error}", where=str(file), fix=_HEAL) from None
        return found

    def check_copies(self) -> None:
        """Refuse copies of the data, text and counts, that are not those the manifest names."""
        self.vocabulary()
        self.token_counts_file()
        held_out = self.held_out
        for split in held_out.entries:
            for item in held_out.sets(split):
                for language in item.languages:
                    item.lines(language)


def _no_run(path: Path) -> AccordError:
    """What somebody gave in place of a run directory."""
    what, fix = "it has no experiment.yaml", "give the directory that `accord train` wrote"
    if not path.exists():
        near = difflib.get_close_matches(path.name, names_in(path.parent), n=1)
        what = "it is not there"
        fix = f"did you mean {path.with_name(near[0])}?" if near else f"check the path; {fix}"
    elif not path.is_dir():
        what = "it is a file"
    elif (path / "export.json").is_file():
        what = "it is an exported model, which translates and serves only"
        fix = "give the run that was exported"
    elif (path / "checkpoints").is_dir():
        fix = _HEAL_EXPERIMENT
    elif (path / "manifest.json").is_file():
        what = "it is a store, as `accord prepare` writes it"
        fix = "train on it, and give the directory that `accord train` wrote"
    return AccordError(f"this is no run directory: {what}", where=str(path), fix=fix)


# --- Seals: a checksum in a file itself, so that it cannot part from what it is of.


_YAML_SEAL = re.compile(rb"# seal: ([0-9a-f]{16})\n\Z")
_LINE_SEAL = re.compile(rb', "seal": "([0-9a-f]{16})"\}\Z')


def with_seal(text: str) -> str:
    """A YAML text with a checksum of it as its last line, a comment."""
    return f"{text}# seal: {_seal_of(text.encode())}\n"


def _seal_of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def _taken_apart(text: bytes, form: re.Pattern[bytes]) -> tuple[bytes, str | None]:
    """What a seal is of, and the seal; None where there is none."""
    found = form.search(text)
    return (text[: found.start()], found[1].decode()) if found else (text, None)


# --- metrics.jsonl: what is measured while training, one JSON object per line -------------------
#
# Every line has `kind` and `step`. `train`: means over the updates since the line before (loss,
# nll, rates, what each objective reports), and how many CUDA graphs were recorded meanwhile, if
# any. `validation`: dev scores by direction. `pool`: a round of synthetic pairs that came into use.


class Logger(Protocol):
    """Where figures go beside metrics.jsonl, such as TensorBoard."""

    def write(self, figures: Mapping[str, float], step: int) -> None:
        """Figures of a step, by names such as train/loss."""

    def close(self) -> None:
        """Nothing more to write."""


class MetricsLog:
    """Appends one JSON object a line. Lines after the step that a run resumes from are dropped,
    so that the file always tells the story of one uninterrupted run.

    Every line ends with a checksum of itself, and metrics.seal says how many there were at the last
    `sync`: what is damaged or lost since is an error to read; resuming leaves it out, with a note.
    """

    def __init__(
        self,
        path: Path,
        resume_step: int,
        note: Callable[[str], None] = lambda text: None,
        loggers: Sequence[Logger] = (),
    ) -> None:
        self._path = path
        self._note = note
        self._loggers = list(loggers)
        found = _read_log(path)
        for problem in found.problems:
            note(f"{path.name}: {problem}; left out")
        kept = [entry for entry in found.entries if entry["step"] <= resume_step]
        self._lines = len(kept)
        self._seal()  # first: more lines than it promises do no harm
        if path.is_file():
            with atomic_write(path) as file:
                file.writelines(f"{_sealed_line(entry)}\n" for entry in kept)
        with writing_errors(path):
            self._file = path.open("a", encoding="utf-8")

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """One line, on its way to disk at once; a number that is not finite becomes null."""
        line = _sealed_line({"kind": kind, "step": step, **values})
        with writing_errors(self._path):
            self._file.write(line + "\n")
            self._file.flush()
        self._lines += 1
        figures = {f"{kind}/{name}": value for name, value in _flat(values)}
        self._tell(lambda logger: logger.write(figures, step))

    def sync(self) -> None:
        """Wait until all lines are on disk: a checkpoint must not be ahead of its log."""
        with writing_errors(self._path):
            os.fsync(self._file.fileno())
        self._seal()

    def _seal(self) -> None:
        with atomic_write(_seal_file(self._path)) as file:
            json.dump(sealed({"lines": self._lines}), file)

    def close(self) -> None:
        """Nothing more to write."""
        self._file.close()
        self._tell(lambda logger: logger.close())

    def _tell(self, say: Callable[[Logger], None]) -> None:
        """What fails there does not end training: it is left out from then on."""
        for logger in list(self._loggers):
            try:
                say(logger)
            except Exception as error:  # noqa: BLE001 (other people's code, and a network)
                self._note(f"left out from now on: {type(logger).__name__.strip('_')}: {error}")
                self._loggers.remove(logger)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            found.append((prefix + name, float(value)))
    return found


def _sealed_line(entry: Mapping[str, Any]) -> str:
    text = json.dumps(_finite(dict(entry)), allow_nan=False)
    return f'{text[:-1]}, "seal": "{_seal_of(text.encode())}"}}'


def _seal_file(log: Path) -> Path:
    return log.with_name("metrics.seal")


@dataclass(frozen=True)
class _Log:
    """The lines that are whole, and what is wrong with the others."""

    entries: list[dict[str, Any]]
    problems: list[str]


def _read_log(path: Path) -> _Log:
    *lines, rest = path.read_bytes().split(b"\n") if path.is_file() else [b""]
    if _entry(rest):  # whole but for its end; anything else here was cut off by a kill
        lines.append(rest)
    has_seals = any(_LINE_SEAL.search(line) for line in lines)  # else it is of a former version
    entries, problems = [], []
    for number, line in enumerate(lines, start=1):
        entry = _entry(line)
        if entry is None or (has_seals and not _LINE_SEAL.search(line)):
            problems.append(f"line {number} is not what was written")
        else:
            entries.append(entry)
    try:
        if len(lines) < (least := _promised_lines(path, has_seals)):
            problems.append(f"it has {len(lines):,} lines where there were {least:,}")
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        problems.append(f"{_seal_file(path).name} is missing or not what was written")
    return _Log(entries, problems)


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line says, unless it is damaged."""
    text, seal = _taken_apart(line, _LINE_SEAL)
    whole = text if seal is None else text + b"}"
    try:
        found = json.loads(whole)
    except (ValueError, RecursionError):
        return None
    if seal not in (None, _seal_of(whole)) or not isinstance(found, dict):
        return None
    return found if isinstance(found.get("step"), int) and "kind" in found else None


def _promised_lines(path: Path, must: bool) -> int:
    file = _seal_file(path)
    if not must and not file.exists():
        return 0
    kept = json.loads(file.read_bytes())
    if kept != sealed(kept):
        raise ValueError("altered")
    return int(kept["lines"])


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of metrics.jsonl in order; a run without one has none."""
    found = _read_log(path)
    if found.problems:
        raise _bad_log(path, "; ".join(found.problems[:3]))
    yield from found.entries


@contextmanager
def log_errors(path: Path) -> Iterator[None]:
    """Say that lines of a log lack what they should hold: only seals tell that in general."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise _bad_log(path, f"a line lacks what it should hold ({error!r})") from None


def _bad_log(path: Path, what: str) -> AccordError:
    return AccordError(
        f"the log is damaged: {what}",
        where=str(path),
        fix="restore it from a backup, or run `accord train` with the run's experiment: it leaves "
        "out what is damaged and says so",
    )
