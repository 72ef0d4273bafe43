"""What a study has done already, as its files tell: results that belong to these settings."""

from pathlib import Path

from accord.config import DATA_KEYS, Experiment
from accord.corpus.store import read_manifest
from accord.errors import AccordError
from accord.evaluation.folder import evaluation_directory
from accord.evaluation.result import Evaluation
from accord.experiment_file import load, store_directory
from accord.training.run import RunDirectory, find_checkpoint


def written(file: Path, wanted: Experiment) -> bool:
    """Whether the experiment file is there and says this."""
    try:
        return load(file) == wanted
    except AccordError:
        return False


def prepared(wanted: Experiment) -> bool:
    """Whether the store was prepared with these settings. The text itself may be gone by now."""
    try:
        found = read_manifest(store_directory(wanted))
    except AccordError:
        return False
    return bool(found["settings"] == wanted.model_dump(mode="json", include=set(DATA_KEYS)))


def trained(run: Path, wanted: Experiment) -> bool:
    """Whether the run was trained by this experiment and has come to its end."""
    directory, settings = RunDirectory(run), wanted.training
    try:
        if directory.experiment() != wanted:
            return False
        newest, _ = directory.checkpoints.newest()
    except AccordError:
        return False  # `accord train` will say what is wrong
    if newest is None:
        return False
    patience = settings.validation.patience
    return newest.step >= settings.steps or (
        patience is not None and newest.state["without_best"] >= patience
    )


def evaluated(run: Path, name: str, checkpoint: str, against: Path | None = None) -> bool:
    """Whether the run as it stands now was evaluated, and compared with `against` as that stands.

    A run that has been trained on since has another step; one that was trained anew has newer
    checkpoints.
    """
    folder = evaluation_directory(run, name)
    try:
        found = Evaluation.load(folder)
        chosen = find_checkpoint(RunDirectory(run), checkpoint)
        same = read_manifest(run)["fingerprint"] == found.origin.fingerprint
        if found.origin.step != chosen.step or not same:
            return False
        if _written_at(folder / "evaluation.json") < _written_at(chosen.path / "state.json"):
            return False
        return against is None or _compared(run, name, found, against)
    except AccordError:
        return False


def _written_at(file: Path) -> int:
    return file.stat().st_mtime_ns


def _compared(run: Path, name: str, found: Evaluation, against: Path) -> bool:
    """The tests are as new as both evaluations: each of these is replaced as a whole."""
    other = Evaluation.load(evaluation_directory(against, name))
    file = evaluation_directory(run, name) / f"against-{against.resolve().name}.json"
    return file.is_file() and other.date <= found.date
