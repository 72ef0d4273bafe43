"""Loggers: TensorBoard as it is, the others by stand-ins that write down what they are told."""

import json
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from accord.errors import AccordError
from accord.run_directory import MetricsLog, read_metrics
from accord.training.trainer import train
from toy_training import Notes, experiment, prepared

WANDB = """
import json, pathlib
class Settings:
    def __init__(self, **keys): self.keys = keys
class Run:
    def __init__(self, keys): self.keys, self.said = keys, []
    def define_metric(self, name, step_metric): self.said.append([name, step_metric])
    def log(self, values): self.said.append(values)
    def finish(self):
        path = pathlib.Path(self.keys["dir"]) / "wandb.json"
        old = json.loads(path.read_text()) if path.exists() else []
        keys = {k: v for k, v in self.keys.items() if k in ("id", "name", "project", "resume")}
        new = {**keys, "seed": self.keys["config"]["seed"], "said": self.said}
        path.write_text(json.dumps([*old, new]))
def init(**keys):
    import os
    if os.environ.get("WANDB_MODE") != "offline":
        raise RuntimeError("No API key configured.")
    return Run(keys)
"""
MLFLOW = """
import json, pathlib
from types import SimpleNamespace
class MlflowClient:
    def __init__(self, tracking_uri):
        self.path = pathlib.Path(tracking_uri.removeprefix("sqlite:///"))
        there = self.path.exists()
        self.kept = json.loads(self.path.read_text()) if there else {"runs": {}, "names": []}
    def _write(self): self.path.write_text(json.dumps(self.kept))
    def get_experiment_by_name(self, name): return None
    def create_experiment(self, name):
        self.kept["names"].append(name)
        return "7"
    def create_run(self, experiment_id, run_name):
        number = f"run-{len(self.kept['runs'])}"
        self.kept["runs"][number] = {"name": run_name, "params": {}, "metrics": [], "status": []}
        self._write()
        return SimpleNamespace(info=SimpleNamespace(run_id=number))
    def update_run(self, run_id, status): self.kept["runs"][run_id]["status"].append(status)
    def log_batch(self, run_id, params=(), metrics=()):
        assert len(params) <= 100
        run = self.kept["runs"][run_id]
        run["params"].update(params)
        run["metrics"] += [[m[0], m[1], m[3]] for m in metrics]
    def set_terminated(self, run_id):
        self.kept["runs"][run_id]["status"].append("FINISHED")
        self._write()
"""
ENTITIES = """
def Param(key, value):
    assert isinstance(value, str)
    return key, value
def Metric(name, value, timestamp, step): return name, value, timestamp, step
"""


@pytest.fixture
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """Packages of these names, found before any that are installed, and forgotten afterwards."""
    for path, text in (("wandb/__init__", WANDB), ("mlflow/__init__", MLFLOW)):
        file = tmp_path / "packages" / f"{path}.py"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    (tmp_path / "packages/mlflow/entities.py").write_text(ENTITIES)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    yield
    for name in ("wandb", "mlflow", "mlflow.entities"):
        sys.modules.pop(name, None)


def logged(run, kind, name):
    """What metrics.jsonl says of a figure."""
    lines = read_metrics(run / "metrics.jsonl")
    return [(line["step"], pytest.approx(line[name])) for line in lines if line["kind"] == kind]


def shorter(toy, run, steps, *loggers):
    return experiment(toy, run, training__steps=steps, training__loggers=list(loggers))


def test_tensorboard_has_the_figures_of_the_log(toy, tmp_path):
    train(shorter(toy, tmp_path, 18, "tensorboard"))
    found = EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    for kind, name in (("train", "loss"), ("validation", "cross_entropy")):
        events = [(event.step, event.value) for event in found.Scalars(f"{kind}/{name}")]
        assert events == logged(tmp_path, kind, name)
        assert len(events) > 1


def test_by_default_tensorboard_where_it_is_installed_and_none_by_an_empty_list(toy, tmp_path):
    train(experiment(toy, tmp_path / "default", training__steps=1, training__loggers=None))
    assert list((tmp_path / "default/tensorboard").glob("events*"))
    train(shorter(toy, tmp_path / "none", 1))
    assert not (tmp_path / "none/tensorboard").exists()
    assert not (tmp_path / "none/loggers.json").exists()


def test_wandb_gets_the_figures_and_a_resumed_run_is_the_same_there(toy, tmp_path, stand_ins):
    train(shorter(toy, tmp_path, 5, "wandb"))
    train(shorter(toy, tmp_path, 10, "wandb"), accept_changes=True)
    first, second = json.loads((tmp_path / "wandb.json").read_text())
    known = {"name": "toy", "project": "accord", "resume": "allow", "seed": 1}
    assert {key: first[key] for key in known} == known
    assert (
        first["id"] == second["id"] == json.loads((tmp_path / "loggers.json").read_text())["wandb"]
    )
    assert first["said"][0] == ["*", "step"]
    said = [*first["said"][1:], *second["said"][1:]]
    losses = [(line["step"], line["train/loss"]) for line in said if "train/loss" in line]
    assert losses == logged(tmp_path, "train", "loss")
    assert [step for step, _ in losses] == [5, 10]


def test_mlflow_gets_keys_and_figures_and_a_resumed_run_is_the_same_there(toy, tmp_path, stand_ins):
    train(shorter(toy, tmp_path, 5, "mlflow"))
    train(shorter(toy, tmp_path, 10, "mlflow"), accept_changes=True)
    kept = json.loads((tmp_path / "mlflow.db").read_text())
    ((_, run),) = kept["runs"].items()
    assert (run["name"], kept["names"]) == ("toy", ["accord"])
    assert run["status"] == ["RUNNING", "FINISHED"] * 2
    assert run["params"]["training.batch_tokens"] == "128"
    losses = [(step, value) for name, value, step in run["metrics"] if name == "train/loss"]
    assert losses == logged(tmp_path, "train", "loss")


def test_a_package_that_is_missing_is_named_before_anything_is_done(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("accord.training.loggers.find_spec", lambda name: None)
    for name in ("tensorboard", "wandb", "mlflow"):
        with pytest.raises(AccordError, match=f"package {name} is not installed") as error:
            train(shorter(toy, tmp_path / "run", 5, name))
        assert f"pip install 'accord[{name}]'" in error.value.fix
    assert not (tmp_path / "run").exists()


def test_a_logger_that_cannot_be_opened_says_what_to_do(toy, tmp_path, stand_ins, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    with pytest.raises(AccordError, match="No API key") as error:
        train(shorter(toy, tmp_path, 5, "wandb"))
    assert "WANDB_MODE=offline" in error.value.fix


def test_a_logger_that_fails_does_not_end_training(tmp_path):
    class Broken:
        def __init__(self):
            self.asked = 0

        def write(self, figures, step):
            self.asked += 1
            raise OSError("the network is down")

        def close(self):
            raise AssertionError("it was left out")

    notes, broken = Notes(), Broken()
    log = MetricsLog(tmp_path / "metrics.jsonl", 0, notes.note, [broken])
    for step in (1, 2):
        log.write("train", step, {"loss": 1.0})
    log.close()
    assert notes.notes == ["left out from now on: Broken: the network is down"]
    assert broken.asked == 1
    assert len(list(read_metrics(tmp_path / "metrics.jsonl"))) == 2
