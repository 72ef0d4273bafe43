"""benchmarks/branches.py: the runs of a plan, their table and their archive."""

import json
import stat
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
import yaml

from accord.config.load import load
from accord.evaluation.folder import read
from made_runs import make_run
from scripts import BENCHMARKS, script

branches, branch_table, packing = map(script, ("branches", "branch_table", "packing"))

PLAN = {
    "experiment": "toy.yaml",
    "basic": {"training.steps": 10, "objective.agreement": None},
    "branches": {
        "Agree, hard": {"training.steps": 20, "objective.agreement": {"weight": 0.3}},
        "Basic": {"training.steps": 20},
    },
    "evaluate": ["--beam", 4],
    "against": "Basic",
}
SIZES = {
    "50": {"store": "small", "basic": {"training.steps": 5}, "training.steps": 7},
    "100": {"store": "large"},
}


class Accord:
    """Stands for the command: makes runs without training, and remembers what it was asked."""

    def __init__(self, failing=""):
        self.trained, self.averaged, self.evaluated, self.seconds = {}, [], [], {}
        self.failing = failing

    def __call__(self, command, *arguments, seconds):
        self.seconds[command] = seconds
        if command == "train":
            sets = dict(item.split("=", 1) for item in arguments[3::2])
            settings = {key: json.loads(value) for key, value in sets.items()}
            run = Path(settings.pop("run"))
            if self.failing and run.name.startswith(self.failing):
                raise subprocess.CalledProcessError(1, "accord", stderr="accord: no memory")
            self.trained[run.name] = settings
            make_run(run, evaluated=False)
            (run / "checkpoints").mkdir(exist_ok=True)
            (run / "checkpoints/model.safetensors").write_text("large")
            return ""
        if command == "average":
            self.averaged.append((Path(arguments[0]).name, *arguments[1:]))
            return ""
        run, beam = Path(arguments[0]), arguments[arguments.index("--beam") + 1]
        self.evaluated.append((run.name, beam))
        lost = 0.1 if run.name.startswith("agree") else 0.8
        make_run(run, lost=lost, name=f"test-beam{beam}")
        return (run / f"evaluation/test-beam{beam}/evaluation.json").read_text("utf-8")


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Follow a plan without training; returns what was asked of the command."""
    monkeypatch.setattr(branch_table, "where", lambda: "here")

    def follow(*options, failing="", **changes):
        accord = Accord(failing)
        monkeypatch.setattr(branches, "accord", accord)
        plan = tmp_path / "plan.yaml"
        given = {key: value for key, value in {**PLAN, **changes}.items() if value is not None}
        plan.write_text(yaml.safe_dump(given, sort_keys=False), "utf-8")
        branches.main([str(plan), str(tmp_path / "out"), *options])
        return accord

    return follow


def unpacked(archive, to):
    with tarfile.open(archive) as file:
        file.extractall(to, filter="data")
    return to


def test_branches_continue_the_basic_run_of_their_seed(made, tmp_path):
    accord = made("--seeds", "1", "2", "--parallel", "2")
    out = tmp_path / "out"
    assert accord.trained["burn-in-2"] == {
        "training.steps": 10,
        "objective.agreement": None,
        "training.seed": 2,
    }
    assert accord.trained["agree-hard-2"] == {
        "training.steps": 20,
        "objective.agreement": {"weight": 0.3},
        "training.seed": 2,
        "training.init_from": str(out / "burn-in-2"),
    }
    assert sorted(accord.trained) == [
        f"{name}-{seed}" for name in ("agree-hard", "basic", "burn-in") for seed in (1, 2)
    ]
    assert accord.evaluated[0][0].startswith("basic-")  # the others are tested against it


def test_variants_take_the_place_of_seeds(made, tmp_path):
    accord = made(variants=SIZES)
    assert accord.trained["burn-in-50"]["training.steps"] == 5
    assert accord.trained["basic-50"]["training.steps"] == 7
    assert accord.trained["burn-in-100"]["training.steps"] == 10
    assert {
        run: s["store"]
        for run, s in accord.trained.items()
        if "100" in run
    } == {
        "burn-in-100": "large",
        "basic-100": "large",
        "agree-hard-100": "large",
    }
    text = (tmp_path / "out/table.md").read_text("utf-8")
    assert [line.split(" | ")[0] for line in text.splitlines()[4:]] == [
        f"| {name}, {size}" for name in ("Basic", "Agree, hard") for size in (50, 100)
    ]
    with pytest.raises(SystemExit, match="has variants"):
        made("--seeds", "1", variants=SIZES)


def test_without_a_basic_run_each_branch_begins_afresh(made):
    accord = made("--seeds", "1", basic=None)
    assert sorted(accord.trained) == ["agree-hard-1", "basic-1"]
    assert not any(
        "training.init_from" in settings
        for settings in accord.trained.values()
    )


def test_gains_are_tested_and_stand_in_a_table_an_evaluation(made, tmp_path):
    accord = made("--seeds", "1", evaluate=[["--beam", 4], ["--beam", 10]])
    assert accord.evaluated == [
        (f"{run}-1", b) for run in ("basic", "agree-hard") for b in "4 10".split()
    ]
    text = (tmp_path / "out/table.md").read_text("utf-8")
    for beam in (4, 10):
        test = tmp_path / f"out/agree-hard-1/evaluation/test-beam{beam}/against-basic-1.json"
        mean = json.loads(test.read_text("utf-8"))["averages"]["zero_shot"]["bleu"]
        gain = f"{mean['difference']:+.2f} ({mean['low']:+.2f} to {mean['high']:+.2f})"
        rows = text.partition(f"| test-beam{beam} |")[2].splitlines()
        row = next(row for row in rows if row.startswith("| Agree, hard |"))
        assert mean["low"] > 0
        assert row.startswith("| Agree, hard | 400 | ")
        assert row.endswith(f" | {gain} |")
    assert not list((tmp_path / "out/basic-1").rglob("against-*"))


def test_checkpoints_are_averaged_where_the_plan_says_so(made):
    assert made("--seeds", "1").averaged == []
    accord = made("--seeds", "1", average=5)
    runs = ("burn-in", "basic", "agree-hard")
    assert accord.averaged == [(f"{run}-1", "--last", "5") for run in runs]


def test_seeds_stand_in_one_row_with_their_mean(made, tmp_path):
    made("--seeds", "1", "2", against=None)
    text = (tmp_path / "out/table.md").read_text("utf-8")
    score = branch_table.bleu(
        tmp_path / "out/basic-1/evaluation/test-beam4/evaluation.json", "zero-shot"
    )
    assert f"| **{score:.1f}** ({score:.1f}, {score:.1f}) |" in text


def test_the_archive_has_all_but_checkpoints(made, tmp_path):
    made("--seeds", "1")
    there = unpacked(tmp_path / "out/results.tar.gz", tmp_path / "there")
    run = there / "agree-hard-1"
    before = read(tmp_path / "out/agree-hard-1/evaluation/test-beam4")
    after = read(run / "evaluation/test-beam4")
    assert after.evaluation == before.evaluation
    assert after.lines == before.lines
    assert (run / "evaluation/test-beam4/against-basic-1.json").is_file()
    assert sorted(path.name for path in run.iterdir()) == [
        "environment.json",
        "evaluation",
        "experiment.yaml",
        "manifest.json",
        "metrics.jsonl",
    ]
    assert (there / "burn-in-1/metrics.jsonl").is_file()
    assert (there / "table.md").read_text() == (tmp_path / "out/table.md").read_text()


def test_the_same_text_is_packed_once(tmp_path):
    for name in "ab":
        (tmp_path / name / "evaluation/x").mkdir(parents=True)
        (tmp_path / name / "evaluation/x/ref.txt").write_text("the same")
        (tmp_path / name / "evaluation/.y").mkdir()
        (tmp_path / name / "evaluation/.y/hyp.txt").write_text("half")
    packing.pack([tmp_path / "a", tmp_path / "b"], [], tmp_path / "deep/x.tar.gz")
    with tarfile.open(tmp_path / "deep/x.tar.gz") as file:
        names = {item.name: item.islnk() for item in file}
    assert names == {"a/evaluation/x/ref.txt": False, "b/evaluation/x/ref.txt": True}
    there = unpacked(tmp_path / "deep/x.tar.gz", tmp_path / "there")
    assert (there / "b/evaluation/x/ref.txt").read_text() == "the same"


def test_an_archive_in_volumes_is_the_same(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r/metrics.jsonl").write_text("some lines")
    packing.pack([tmp_path / "r"], [], tmp_path / "x.tar.gz", volume=50)
    parts = sorted(tmp_path.glob("x.tar.gz.*"))
    assert len(parts) > 1
    assert {part.stat().st_size for part in parts[:-1]} == {50}
    (tmp_path / "x.tar.gz").write_bytes(b"".join(part.read_bytes() for part in parts))
    there = unpacked(tmp_path / "x.tar.gz", tmp_path / "there")
    assert (there / "r/metrics.jsonl").read_text() == "some lines"


def test_others_go_on_when_a_run_fails(made, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2 of 4 runs failed"):
        made("--seeds", "1", "2", failing="burn-in-1")
    there = unpacked(tmp_path / "out/results.tar.gz", tmp_path / "there")
    assert sorted(path.name for path in there.glob("*-[12]")) == [
        "agree-hard-2",
        "basic-2",
        "burn-in-2",
    ]
    assert "burn-in-1: train failed\naccord: no memory" in capsys.readouterr().err


def test_training_leaves_time_for_evaluation(made):
    bounds = {"train_seconds": 1000, "evaluate_seconds": 100}
    accord = made("--seeds", "1", **bounds)
    assert accord.seconds == {"train": 1000, "evaluate": 100}
    several = [["--beam", 4], ["--beam", 10]]
    accord = made("--seeds", "1", "--minutes", "5", evaluate=several, **bounds)
    assert 60 < accord.seconds["train"] <= 100
    assert accord.seconds["evaluate"] == 100
    with pytest.raises(SystemExit, match="2 of 2 runs failed"):
        made("--seeds", "1", "--minutes", "3", evaluate=several, **bounds)
    with pytest.raises(SystemExit, match="asks for evaluate_seconds"):
        made("--seeds", "1", "--minutes", "5")


def test_a_mistaken_name_is_told(made):
    with pytest.raises(SystemExit, match=r"no such branch.*: Agree"):
        made("--only", "Agree")
    with pytest.raises(SystemExit, match=r"no such branch.*: Pivot"):
        made(against="Pivot")


@pytest.mark.parametrize("text", [None, "a: [", "just words", "languages: [en]"])
def test_a_file_that_is_no_plan_is_named(tmp_path, text):
    path = tmp_path / "plan.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=r"plan\.yaml is no plan"):
        branches.main([str(path), str(tmp_path / "out")])


@pytest.mark.parametrize(
    ("on_term", "failed"),
    [("echo saved; exit 0", False), ("echo told >&2; exit 143", True), ("", True)],
)
def test_a_command_that_takes_too_long_is_stopped(tmp_path, monkeypatch, on_term, failed):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ntrap '{on_term}' TERM\nwhile :; do sleep 0.05; done\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(branches.sys, "executable", str(python))
    monkeypatch.setattr(branches, "GRACE", 0.3)
    began = time.monotonic()
    if failed:
        with pytest.raises(subprocess.CalledProcessError):
            branches.accord("train", seconds=0.3)
    else:
        assert branches.accord("train", seconds=0.3) == "saved\n"
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("plans/*.yaml")), ids=lambda p: p.name)
def test_the_settings_of_every_plan_are_valid(path):
    plan = branches.Plan(**yaml.safe_load(path.read_text("utf-8")))
    assert plan.against is None or plan.against in plan.branches
    for variant in (plan.variants or {"": {}}).values():
        apart = {key: value for key, value in variant.items() if key != "basic"}
        runs = [*plan.branches.values(), {**(plan.basic or {}), **variant.get("basic", {})}]
        for run in runs:
            sets = [f"{key}={json.dumps(value)}" for key, value in {**apart, **run}.items()]
            load(BENCHMARKS.parent / plan.experiment, sets)
