"""Studies that are followed without training: their runs are made on the spot."""

import subprocess
from pathlib import Path

import yaml
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import dump, load
from accord.studies import runner
from made_runs import experiment, make_run

PLAN = {
    "experiment": "toy.yaml",
    "basic": {"training.steps": 10, "objective.agreement": None},
    "branches": {
        "Agree, hard": {"training.steps": 20, "objective.agreement": {"weight": 0.3}},
        "Basic": {"training.steps": 20},
    },
    "evaluate": {"beam": 4, "split": "test"},
    "against": "Basic",
}


class Accord:
    """Stands for the processes: makes runs without training, and remembers what it was asked."""

    stopped = False

    def __init__(self, failing="", status=1, cut_short=()):
        self.trained, self.averaged, self.evaluated, self.seconds = {}, [], [], {}
        self.failing, self.status = failing, status
        self.cut_short = cut_short
        """Runs that somebody tells to stop before their end."""
        self.experiments = {}

    def stop(self):
        self.stopped = True

    def run(self, arguments, seconds):
        command, *rest = arguments
        self.seconds[command] = seconds
        if command == "train":
            sets = dict(item.split("=", 1) for item in rest[3::2])
            settings = {key: yaml.safe_load(value) for key, value in sets.items()}
            run = Path(settings.pop("run"))
            if self.failing and run.name.startswith(self.failing):
                raise subprocess.CalledProcessError(
                    self.status, "accord", stderr="accord: no memory"
                )
            self.trained[run.name] = settings
            self.experiments[run] = load(Path(rest[0]), rest[3::2])
            self.make_run(run, evaluated=False)
            (run / "checkpoints").mkdir(exist_ok=True)
            (run / "checkpoints/model.safetensors").write_text("large")
            return ""
        if command == "average":
            self.averaged.append((Path(rest[0]).name, *rest[1:]))
            return ""
        run, beam = Path(rest[0]), rest[rest.index("--beam") + 1]
        self.evaluated.append((run.name, beam))
        lost = 0.1 if run.name.startswith("agree") else 0.8
        self.make_run(run, lost=lost, name=f"test-beam{beam}")
        return (run / f"evaluation/test-beam{beam}/evaluation.json").read_text("utf-8")

    def has_trained(self, run, wanted):
        """Whether a run has come to its end."""
        return run.name in self.trained and run.name not in self.cut_short

    def make_run(self, run, **changes):
        """A run of the experiment that it was trained by."""
        make_run(run, **changes)
        if run in self.experiments:
            (run / "experiment.yaml").write_text(dump(self.experiments[run]), "utf-8")


def follower(tmp_path, monkeypatch):
    """Follow a plan without training; what it returns says what was asked of the processes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.yaml").write_text(dump(experiment()), "utf-8")
    monkeypatch.setattr(runner, "check_prepared", lambda study, journal: None)

    def follow(*options, accord=None, failing="", status=1, code=0, **changes):
        accord = accord or Accord(failing, status)
        monkeypatch.setattr(runner, "Processes", lambda: accord)
        monkeypatch.setattr(runner.state, "trained", accord.has_trained)
        given = {key: value for key, value in {**PLAN, **changes}.items() if value is not None}
        (tmp_path / "plan.yaml").write_text(yaml.safe_dump(given, sort_keys=False), "utf-8")
        result = CliRunner().invoke(app, ["study", "plan.yaml", "--out", "out", *options])
        assert result.exit_code == code, f"{result.output}\n{result.exception}"
        accord.said, accord.told = result.stderr, str(result.exception)
        accord.printed = result.stdout
        return accord

    return follow
