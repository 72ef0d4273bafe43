"""One study: an experiment file, a burn-in, and branches off it that are matched in updates."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accord.config.load import load, store_directory
from accord.config.schema import DATA_KEYS, Experiment
from accord.data.store import read_manifest
from accord.errors import AccordError
from accord.evaluation.folder import evaluation_directory
from accord.evaluation.records import Evaluation
from accord.models.checkpoint import Checkpoints, find_checkpoint
from accord.phrases.train import directory_of, end_of
from accord.run_directory import RunDirectory
from accord.studies.commands import assignment
from accord.studies.plan import BURN_IN, EvaluationOptions
from accord.training.begin import flat
from accord.training.stopping import goal
from accord.training.train_state import TrainState

Branch = Literal["basic", "agree", "complete"]


@dataclass(frozen=True)
class Options:
    """How the branches of a study are evaluated, and whether Complete is one of them."""

    split: str = "test"
    beam: int = 10
    checkpoint: str = "last"
    complete: bool = True

    @property
    def how(self) -> EvaluationOptions:
        """For `accord evaluate`."""
        return EvaluationOptions.model_validate(
            {"split": self.split, "beam": self.beam, "checkpoint": self.checkpoint}
        )

    @property
    def evaluation(self) -> str:
        """The name of the evaluation that all branches have."""
        return self.how.name

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The systems that are trained from the burn-in on."""
        return ("basic", "agree", "complete") if self.complete else ("basic", "agree")


@dataclass(frozen=True)
class Study:
    """What is trained in one directory. `overrides` make the study's experiment of the recipe."""

    directory: Path
    recipe: Path
    overrides: tuple[str, ...]
    experiment: Experiment
    """The one that Agree is trained by, but for the place it begins from."""

    @staticmethod
    def make(directory: Path, recipe: Path, overrides: tuple[str, ...]) -> "Study":
        """Read the recipe and check that there is something to branch."""
        experiment = load(recipe, overrides)
        agreement = experiment.objective.agreement
        if agreement is None or not 0 < agreement.start < experiment.training.steps:
            raise AccordError(
                "Agree needs a burn-in and steps after it: objective.agreement.start is "
                f"{agreement.start if agreement else 'not set'}, training.steps is "
                f"{experiment.training.steps}",
                where=str(recipe),
                fix="set 0 < objective.agreement.start < training.steps",
            )
        training = experiment.training
        if training.minutes is not None or training.branch_minutes is not None:
            raise AccordError(
                "branches are matched in updates, but training.minutes or training.branch_minutes "
                "would end them by the clock",
                where=str(recipe),
                fix="leave it out, and set training.steps",
            )
        return Study(directory, recipe, overrides, experiment)

    @property
    def file(self) -> Path:
        """The study's experiment file."""
        return self.directory / "experiment.yaml"

    @property
    def start(self) -> int:
        """Where the branches part: the last step of the burn-in."""
        agreement = self.experiment.objective.agreement
        return agreement.start if agreement else 0

    def run(self, name: str) -> Path:
        """The run directory of the burn-in or of a branch."""
        return self.directory / name

    def begun(self, name: str) -> bool:
        """Whether a run has a checkpoint."""
        return any(self.run(name).glob("checkpoints/step-*"))

    def changes(self, name: str) -> tuple[str, ...]:
        """What `--set` has to change in the study's experiment for a run."""
        sets = [assignment("run", str(self.run(name)))]
        if name == BURN_IN:
            sets.append(f"training.steps={self.start}")
        else:
            sets.append(assignment("training.init_from", str(self.run(BURN_IN))))
        off = {"agreement": name != "agree", "complete": name != "complete"}
        objective = self.experiment.objective
        sets += [
            f"objective.{key}=null"
            for key, unwanted in off.items()
            if unwanted and getattr(objective, key) is not None
        ]
        if name == "complete":
            sets.append(f"objective.complete.start={self.start}")
        return tuple(sets)

    def run_experiment(self, name: str) -> Experiment:
        """The experiment of a run, as it will stand in its directory."""
        return load(self.recipe, [*self.overrides, *self.changes(name)])

    def check_unchanged(self) -> None:
        """Refuse to go on with other settings in a directory that has trained models.

        Those of Complete concern it alone, and may change until it is begun.
        """
        if not self.file.is_file() or not any(self.directory.glob("*/checkpoints/step-*")):
            return
        old, new = (
            flat(item.model_dump(mode="json")) for item in (load(self.file), self.experiment)
        )
        changes = [
            f"  {key}: {old.get(key, 'not set')}, now {new.get(key, 'not set')}"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
            and (self.begun("complete") or not key.startswith("objective.complete"))
        ]
        if changes:
            raise AccordError(
                "models were trained here with other settings:\n" + "\n".join(changes),
                where=str(self.file),
                fix="give the settings of before, or another place: --out DIR",
            )


# --- What a study has done already, as its files tell: results that belong to these settings.


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


def of_other_data(run: Path, wanted: Experiment) -> bool:
    """Whether the run learnt from other data than are prepared now; a store may also be gone."""
    try:
        now = read_manifest(store_directory(wanted))["fingerprint"]
    except AccordError:
        return False
    return bool(RunDirectory(run).manifest()["fingerprint"] != now)


def trained(run: Path, wanted: Experiment) -> bool:
    """Whether the run was trained by this experiment and has come to its end."""
    directory, settings = RunDirectory(run), wanted.training
    try:
        if directory.experiment() != wanted or of_other_data(run, wanted):
            return False
        if not wanted.model.is_network:
            return all(file.is_file() for file in _ends(run, wanted))
        newest, _ = Checkpoints(directory.checkpoints).newest()
    except AccordError:
        return False  # `accord train` will say what is wrong
    if newest is None:
        return False
    state = TrainState.of(newest)
    return goal(settings, state) is not None or state.seconds >= state.time_limit(settings)


def evaluated(run: Path, name: str, checkpoint: str, against: Path | None = None) -> bool:
    """Whether the run as it stands now was evaluated, and compared with `against` as that stands.

    A run that has been trained on since has another step; one that was trained anew has newer
    checkpoints.
    """
    folder = evaluation_directory(run, name)
    try:
        found = Evaluation.load(folder)
        step, files = _scored(run, checkpoint)
        same = RunDirectory(run).manifest()["fingerprint"] == found.origin.fingerprint
        if found.origin.step != step or not same:
            return False
        if _written_at(folder / "evaluation.json") < max(map(_written_at, files)):
            return False
        return against is None or _compared(run, name, found, against)
    except (AccordError, FileNotFoundError):
        return False


def _scored(run: Path, checkpoint: str) -> tuple[int, Sequence[Path]]:
    """The step of what is evaluated, and the files that were written when it was whole."""
    experiment = RunDirectory(run).experiment()
    if not experiment.model.is_network:
        return 0, _ends(run, experiment)
    chosen = find_checkpoint(run, checkpoint)
    return chosen.step, [chosen.path / "state.json"]


def _ends(run: Path, experiment: Experiment) -> list[Path]:
    """What the systems of a phrase-based run have when they are trained."""
    return [end_of(directory_of(run, d)) for d in experiment.graph.supervised_directions]


def _written_at(file: Path) -> int:
    return file.stat().st_mtime_ns


def _compared(run: Path, name: str, found: Evaluation, against: Path) -> bool:
    """The tests are as new as both evaluations: each of these is replaced as a whole."""
    other = Evaluation.load(evaluation_directory(against, name))
    file = evaluation_directory(run, name) / f"against-{against.resolve().name}.json"
    return file.is_file() and other.date <= found.date
