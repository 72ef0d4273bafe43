"""Several runs as one system, a model for each direction: so bilingual baselines fill one matrix.

`accord combine` writes a directory that later commands take for a run:

    combined.json      the run of every direction, as seen from here, and the data that all share
    experiment.yaml, environment.json, manifest.json, vocabulary.model, token_counts.npz, held_out/

The last line is what any run holds beside its weights. These stay where they are.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.config.load import dump
from accord.config.objectives import ObjectiveSettings
from accord.config.schema import Experiment
from accord.config.third_languages import synthetic_directions
from accord.errors import AccordError
from accord.files import atomic_directory, atomic_write, clear_leftovers, reading_errors, sealed
from accord.graph import Direction
from accord.inference.backends.base import Backend, LoadSettings
from accord.inference.results import SearchSettings, Translation
from accord.run_directory import COMBINED, RunDirectory, with_seal

_FORMAT = 1
_AGAIN = "combine the runs again, into another directory"
_COPIES = ("manifest.json", "environment.json", "vocabulary.model", "token_counts.npz")


def is_combined(directory: Path) -> bool:
    """Whether this is what `accord combine` writes."""
    with reading_errors(directory):
        return (directory / COMBINED).is_file()


@dataclass(frozen=True)
class Combined:
    """Which run translates each direction, and the data that all of them were trained on."""

    runs: Mapping[Direction, Path]
    """Relative paths are as seen from the directory."""
    fingerprint: str

    def write(self, directory: Path) -> None:
        """Write it, sealed."""
        models = {str(direction): str(run) for direction, run in self.runs.items()}
        facts: dict[str, Any] = {"format": _FORMAT, "data": self.fingerprint, "models": models}
        with atomic_write(directory / COMBINED) as out:
            json.dump(sealed(facts), out, indent=1, ensure_ascii=False)

    @staticmethod
    def read(directory: Path) -> "Combined":
        """What is written in a directory; one that is altered is refused."""
        path = directory / COMBINED
        with reading_errors(path):
            text = path.read_bytes()
        try:
            facts = json.loads(text)
            if facts != sealed(facts) or facts["format"] != _FORMAT:
                raise ValueError("it is not what was written")
            runs = {Direction.parse(name): Path(run) for name, run in facts["models"].items()}
            return Combined(runs, str(facts["data"]))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            what = f"the account of combined runs is damaged: {error}"
            raise AccordError(what, where=str(path), fix=_AGAIN) from None


# --- Writing.


def combine(out: Path, models: Mapping[Direction, Path]) -> Combined:
    """Write a directory in which each of these runs translates its direction."""
    if out.exists():
        raise AccordError(
            "there is something already", where=str(out), fix="choose another name, or delete it"
        )
    opened = {path: RunDirectory(path) for path in dict.fromkeys(models.values())}
    experiments = {path: run.translator() for path, run in opened.items()}
    for direction, path in models.items():
        _check_run(direction, path, experiments[path])
    first = next(iter(opened.values()))
    fingerprint = str(first.manifest()["fingerprint"])
    for run in opened.values():
        _check_data(run, fingerprint, first.path)
    first.check_copies()
    place = out.resolve()
    seen = {d: Path(os.path.relpath(path.resolve(), place)) for d, path in models.items()}
    found = Combined(seen, fingerprint)
    clear_leftovers(out)
    with atomic_directory(out) as fresh:
        held_out = (file for file in (first.path / "held_out").rglob("*") if file.is_file())
        for file in [*(first.path / name for name in _COPIES), *held_out]:
            with atomic_write(fresh / file.relative_to(first.path), "wb") as copy:
                copy.write(file.read_bytes())
        with atomic_write(fresh / "experiment.yaml") as file_out:
            file_out.write(with_seal(dump(_together(experiments[first.path], out))))
        found.write(fresh)
    return found


def _together(experiment: Experiment, out: Path) -> Experiment:
    """The experiment of one of the runs without what is its own: the data decide on directions."""
    training = experiment.training.model_copy(update={"directions": None, "init_from": None})
    own = {"training": training, "objective": ObjectiveSettings(), "run": str(out)}
    return experiment.model_copy(update=own)


def _check_run(direction: Direction, path: Path, experiment: Experiment) -> None:
    """Refuse a run that does not know the languages, or that has not learnt this direction."""
    if is_combined(path):
        raise AccordError(
            "this is several runs already", where=str(path), fix="name the runs themselves"
        )
    for language in direction:
        if language not in experiment.languages:
            raise AccordError(
                f"the run for {direction} does not know the language '{language}'",
                where=str(path),
                fix=f"use {', '.join(experiment.languages)}",
            )
    trained, whole = _trained(experiment)
    if not whole and direction not in trained:
        raise AccordError(
            f"the run was not trained on {direction}, but on {', '.join(map(str, trained))}",
            where=str(path),
            fix=f"name another run for {direction}",
        )


def _trained(experiment: Experiment) -> tuple[list[Direction], bool]:
    """The directions that a run learns; and whether it may be asked for all others, too, as a
    model of many directions may."""
    gold = experiment.learns_from_gold
    found = {*synthetic_directions(experiment), *(experiment.graph.supervised if gold else ())}
    return sorted(found), gold and experiment.training.directions is None


def _check_data(run: RunDirectory, fingerprint: str, first: Path) -> None:
    found = run.manifest()["fingerprint"]
    if found != fingerprint:
        raise AccordError(
            f"the run was trained on other data ({found}) than {first} ({fingerprint}), and so has "
            "other test sentences",
            where=str(run.path),
            fix="combine runs of one store: training.directions trains on part of it",
        )


# --- Translating.


class CombinedBackend(Backend):
    """Translates each direction with its own run, opened by `load`."""

    def __init__(
        self,
        directory: Path,
        settings: LoadSettings,
        load: Callable[[Path, LoadSettings], Backend],
    ) -> None:
        combined, here = Combined.read(directory), RunDirectory(directory)
        self.graph = here.experiment().graph
        self.vocabulary = here.vocabulary()
        opened: dict[Path, Backend] = {}
        for direction, path in combined.runs.items():
            run = RunDirectory(directory / path)
            if path not in opened:
                _check_there(run, direction, directory)
                _check_data(run, combined.fingerprint, directory)
                opened[path] = load(run.path, settings)
        self._models = {direction: opened[path] for direction, path in combined.runs.items()}
        self.directions = frozenset(self._models)
        models = list(opened.values())
        self.has_likelihood = all(model.has_likelihood for model in models)
        self.reads_search_settings = any(model.reads_search_settings for model in models)
        self.step = max(model.step for model in models)
        self.device_name, self.precision_name = models[0].device_name, models[0].precision_name

    def translate(
        self,
        texts: Sequence[str],
        to: str,
        settings: SearchSettings,
        source: str | None = None,
    ) -> list[Translation]:
        """Direct translations, by the run of this direction."""
        return self._model(source, to).translate(texts, to, settings, source)

    def check_ensembles(self) -> None:
        """One search would have to follow several models."""
        raise AccordError(
            "several runs, one for each direction, cannot translate by an ensemble",
            fix="leave --ensemble out",
        )

    def cross_entropy(
        self, sources: Sequence[str], references: Sequence[str], to: str, source: str | None = None
    ) -> list[tuple[float, int]]:
        """-log P of each reference by the run of this direction."""
        return self._model(source, to).cross_entropy(sources, references, to, source)

    def close(self) -> None:
        """Close all runs."""
        for model in {id(model): model for model in self._models.values()}.values():
            model.close()

    def _model(self, source: str | None, to: str) -> Backend:
        found = None if source is None else self._models.get(Direction(source, to))
        if found is None:
            raise AccordError(
                f"there is no model for {source}-{to}",
                fix=f"translate {', '.join(map(str, sorted(self._models)))}",
            )
        return found


def _check_there(run: RunDirectory, direction: Direction, directory: Path) -> None:
    if not run.path.is_dir():
        raise AccordError(
            f"the run for {direction} is not there: {run.path}",
            where=str(directory / COMBINED),
            fix=f"put it back: it is looked for as seen from here; or {_AGAIN}",
        )
