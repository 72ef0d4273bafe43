"""`accord study` and `accord compare` end to end: a tiny plan, trained, repeated, compared."""

import json
import shutil

import pytest
import yaml
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import load, store_directory
from accord.data.store import write_manifest
from accord.models.checkpoint import Checkpoints
from accord.studies import counted_updates
from toy_training import HARD, prepared

PLAN = {
    "basic": {"training.steps": 4},
    "branches": {
        "Basic": {"training.steps": 8},
        "Agree": {"training.steps": 8, "objective.agreement": {**HARD, "start": 0}},
    },
    "seeds": [3],
    "parallel": 2,
    "evaluate": {"split": "dev", "beam": 1, "checkpoint": "last", "agreement": False},
    "against": "Basic",
}


def call(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    base = tmp_path_factory.mktemp("study")
    plan = base / "tiny.yaml"
    toy = prepared(tmp_path_factory.mktemp("toy"))
    plan.write_text(yaml.safe_dump({"experiment": str(toy), **PLAN}, sort_keys=False), "utf-8")
    line = ("study", plan, "--out", base / "out", "--pack", base / "kept.tar.gz")
    planned = call(*line, "--dry-run").stdout
    assert not (base / "out").exists()
    return base, line, planned, call(*line)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_branches_are_trained_evaluated_and_compared(made):
    base, _, planned, result = made
    assert planned.count("accord train") == 3
    assert planned.count("accord evaluate") == 2
    out = base / "out"
    for name in ("basic-3", "agree-3"):
        newest, _ = Checkpoints(out / name / "checkpoints").newest()
        assert newest.step == 8
        experiment = load(out / name / "experiment.yaml")
        assert experiment.training.init_from == str(out / "burn-in-3")
        assert (experiment.objective.agreement is not None) == (name == "agree-3")
    table = (out / "table.md").read_text("utf-8")
    assert "| Agree | 8 | " in table
    assert "zero-shot − Basic" in table
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert (out / "agree-3/evaluation/dev-beam1-last/against-basic-3.json").is_file()
    assert (base / "kept.tar.gz").is_file()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_run_again_it_finds_everything_done(made):
    base, line, _, _ = made
    before = (base / "out/agree-3/metrics.jsonl").read_bytes()
    again = call(*line)
    assert again.stderr.count("done already") == 5
    assert (base / "out/agree-3/metrics.jsonl").read_bytes() == before
    assert call(*line, "--dry-run").stdout.count("[done]") == 5
    # What is missing is made, and nothing else.
    shutil.rmtree(base / "out/agree-3/evaluation")
    once_more = call(*line)
    assert once_more.stderr.count("done already") == 4
    assert "agree-3: evaluated, dev-beam1-last" in once_more.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_runs_of_other_data_are_not_taken_for_done(made):
    base, line, _, _ = made
    store = store_directory(load(base / "out/agree-3/experiment.yaml"))
    before = (store / "manifest.json").read_bytes()
    write_manifest(store, {**json.loads(before), "fingerprint": "prepared anew"})
    try:
        assert call(*line, "--dry-run").stdout.count("[done]") == 2  # evaluations of the old runs
        again = CliRunner().invoke(app, [*map(str, line)], env={"COLUMNS": "80"})
    finally:
        (store / "manifest.json").write_bytes(before)
    assert again.exit_code == 1
    assert "the prepared data" in again.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_its_runs_can_be_compared(made):
    base, _, _, _ = made
    out, file = base / "out", base / "figures.json"
    printed = call("compare", out / "agree-3", "--against", out / "basic-3", "--json", file).stdout
    assert "zero-shot − pivot of basic-3" in printed
    data = json.loads(file.read_text("utf-8"))
    assert [run["run"] for run in data["runs"]] == ["basic-3", "agree-3"]
    assert all(run["updates"] == 8 and run["seconds"] > 0 for run in data["runs"])
    assert "train" in data["runs"][0]["command"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_costs_are_measured_apart_from_runs_that_shared_the_machine(made, monkeypatch):
    base, (_, plan, *_), _, result = made
    assert "note: no cost where runs shared the machine" in result.stdout
    for name in ("USUAL", "DECODING"):
        monkeypatch.setattr(
            counted_updates, name, counted_updates.Pace(warm_up=4, enough=8, line=2)
        )
    line = ("study", plan, "--out", base / "out", "--costs")
    measured = call(*line)
    assert max(map(len, measured.stdout.splitlines())) <= 80
    data = json.loads((base / "out/costs.json").read_text("utf-8"))
    for branch in ("Basic", "Agree"):
        found = data["branches"][branch]
        assert found["updates"] >= 8  # it is told to stop then, and may make a few more
        assert found["seconds"] > 0
        assert found["target_tokens"] > 0
        assert found["device"]
    assert data["branches"]["Basic"]["cost"] == 1
    assert not list((base / "out/costs").rglob("*.safetensors"))
    # The study itself is not touched, but for its table.
    newest, _ = Checkpoints(base / "out/agree-3/checkpoints").newest()
    assert newest.step == 8
    table = (base / "out/table.md").read_text("utf-8")
    assert f"| ×{data['branches']['Agree']['cost']:.2f} |" in table
    assert call(*line).stderr.count("measured already") == 2
