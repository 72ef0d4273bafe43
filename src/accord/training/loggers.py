"""Loggers: TensorBoard, Weights & Biases and MLflow get the figures of metrics.jsonl as well.

Each is an extra of the package (`training.loggers` names them). A run that resumes goes on in the
same place there: RUN/loggers.json keeps what Weights & Biases and MLflow know it by.
"""

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accord.config.schema import Experiment
from accord.errors import AccordError
from accord.files import atomic_write
from accord.run_directory import Logger
from accord.training.begin import flat


def check_loggers(experiment: Experiment) -> None:
    """Refuse, before anything is done, to train with a logger whose package is missing."""
    for name in experiment.training.loggers or ():
        if find_spec(name) is None:
            raise AccordError(
                f"the package {name} is not installed",
                where="training.loggers",
                fix=f"pip install 'accord[{name}]', or leave {name} out",
            )


def open_loggers(experiment: Experiment, run: Path, step: int) -> list[Logger]:
    """Those that the experiment names; if it says nothing, TensorBoard where it is installed."""
    names: tuple[str, ...] | None = experiment.training.loggers
    if names is None:
        names = ("tensorboard",) if find_spec("tensorboard") else ()
    return [_open(name, experiment, run, step) for name in names]


def _open(name: str, experiment: Experiment, run: Path, step: int) -> Logger:
    try:
        return _LOGGERS[name](experiment, run, step)
    except Exception as error:  # other people's code, a network, an account
        raise AccordError(
            f"{name} cannot be opened: {error}", where="training.loggers", fix=_FIXES[name]
        ) from error


_FIXES = {
    "tensorboard": "pip install 'accord[tensorboard]', or leave it out",
    "wandb": "log in with `wandb login`, or set WANDB_MODE=offline and `wandb sync` later",
    "mlflow": "check MLFLOW_TRACKING_URI; without it, figures go to RUN/mlflow.db",
}


class _TensorBoard:
    """Event files in RUN/tensorboard; what lies behind the step that a run resumes from is cut."""

    def __init__(self, experiment: Experiment, run: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        make: Callable[..., Any] = SummaryWriter
        self._writer = make(str(run / "tensorboard"), purge_step=step + 1)

    def write(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _WeightsAndBiases:
    """A run of the project WANDB_PROJECT, or accord; WANDB_MODE=offline needs no network."""

    def __init__(self, experiment: Experiment, run: Path, step: int) -> None:
        import wandb

        identity = _known(run, "wandb") or secrets.token_hex(4)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "accord"),
            name=experiment.name,
            id=identity,
            resume="allow",
            dir=str(run),
            config=experiment.model_dump(mode="json"),
            settings=wandb.Settings(console="off"),  # the terminal is ours
        )
        # Steps of our own: a run that resumes goes back behind the last one it had reached.
        self._run.define_metric("*", step_metric="step")
        _keep(run, "wandb", identity)

    def write(self, figures: Mapping[str, float], step: int) -> None:
        self._run.log({**figures, "step": step})

    def close(self) -> None:
        self._run.finish()


class _MLflow:
    """A run of the experiment MLFLOW_EXPERIMENT_NAME, or accord; by default in RUN/mlflow.db."""

    def __init__(self, experiment: Experiment, run: Path, step: int) -> None:
        import mlflow
        from mlflow.entities import Metric, Param

        self._metric = Metric
        # Not its folders of files, which MLflow has given up for databases.
        own = f"sqlite:///{(run / 'mlflow.db').resolve()}"
        place = os.environ.get("MLFLOW_TRACKING_URI") or own
        self._client = mlflow.MlflowClient(tracking_uri=place)
        self._id = _known(run, "mlflow") or self._new(experiment.name)
        _keep(run, "mlflow", self._id)
        self._client.update_run(self._id, status="RUNNING")
        if step == 0:  # they cannot be changed later
            keys = flat(experiment.model_dump(mode="json"))
            params = [Param(key, str(value)) for key, value in keys.items()]
            for some in range(0, len(params), 100):  # as many as it takes at once
                self._client.log_batch(self._id, params=params[some : some + 100])

    def _new(self, name: str) -> str:
        title = os.environ.get("MLFLOW_EXPERIMENT_NAME", "accord")
        found = self._client.get_experiment_by_name(title)
        group = found.experiment_id if found else self._client.create_experiment(title)
        return str(self._client.create_run(group, run_name=name).info.run_id)

    def write(self, figures: Mapping[str, float], step: int) -> None:
        now = int(1000 * time.time())
        metrics = [self._metric(name, value, now, step) for name, value in figures.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def close(self) -> None:
        self._client.set_terminated(self._id)


def _known(run: Path, name: str) -> str | None:
    """What this run is called there."""
    file = run / "loggers.json"
    return json.loads(file.read_text(encoding="utf-8")).get(name) if file.is_file() else None


def _keep(run: Path, name: str, identity: str) -> None:
    file = run / "loggers.json"
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    with atomic_write(file) as out:
        json.dump(known | {name: identity}, out)


_LOGGERS: dict[str, Callable[[Experiment, Path, int], Logger]] = {
    "tensorboard": _TensorBoard,
    "wandb": _WeightsAndBiases,
    "mlflow": _MLflow,
}
