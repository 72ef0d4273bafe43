"""`accord study`: the runs of a plan, their table and their archive, without training."""

import json
import math
import re
import stat
import subprocess
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from accord.cli import app
from accord.cli.reporting import print_tables
from accord.config.load import dump
from accord.config.schema import HeldOut
from accord.errors import AccordError
from accord.evaluation.folder import read
from accord.evaluation.records import Evaluation
from accord.studies import commands, runner
from accord.studies.journal import Journal
from accord.studies.plan import find_plan, plan_study
from accord.studies.study_table import study_tables
from made_runs import experiment
from made_studies import PLAN, Accord, follower

PLANS = sorted((Path(__file__).parents[2] / "recipes/plans").glob("*.yaml"))
SIZES = {
    "50": {"store": "small", "basic": {"training.steps": 5}, "training.steps": 7},
    "100": {"store": "large"},
}
TWO = [{"beam": 4, "split": "test"}, {"beam": 10, "split": "test"}]


@pytest.fixture
def made(tmp_path, monkeypatch):
    return follower(tmp_path, monkeypatch)


def unpacked(archive, to):
    with tarfile.open(archive) as file:
        file.extractall(to, filter="data")
    return to


def rows(tmp_path, table=0):
    """The rows of a table of the page; the last one is about what the branches took."""
    text = (tmp_path / "out/table.md").read_text("utf-8")
    tables = [part for part in text.split("\n\n") if part.startswith("|")]
    lines = tables[table].splitlines()[2:]
    return {line.split(" | ")[0].strip("| "): line for line in lines}


def test_branches_continue_the_basic_run_of_their_seed(made):
    accord = made("--seeds", "1,2", "--parallel", "2")
    assert accord.trained["burn-in-2"] == {
        "training.steps": 10,
        "objective.agreement": None,
        "training.seed": 2,
    }
    assert accord.trained["agree-hard-2"] == {
        "training.steps": 20,
        "objective.agreement": {"weight": 0.3},
        "training.seed": 2,
        "training.init_from": "out/burn-in-2",
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
    assert {run: s["store"] for run, s in accord.trained.items() if "100" in run} == {
        "burn-in-100": "large",
        "basic-100": "large",
        "agree-hard-100": "large",
    }
    assert list(rows(tmp_path)) == [
        f"{name}, {size}" for name in ("Basic", "Agree, hard") for size in (50, 100)
    ]
    assert "has variants" in made("--seeds", "1", variants=SIZES, code=1).told


def test_without_a_basic_run_each_branch_begins_afresh(made):
    accord = made("--seeds", "1", basic=None)
    assert sorted(accord.trained) == ["agree-hard-1", "basic-1"]
    assert not any("training.init_from" in settings for settings in accord.trained.values())


def test_what_branches_read_is_trained_before_them_and_not_evaluated(made):
    first = {"Language model": {"training.steps": 5}}
    reading = {"Basic": {"training.steps": 20, "objective.complete.teacher.run": "{out}/basic-1"}}
    accord = made("--seeds", "1,2", "--parallel", "2", first=first, branches=reading)
    assert accord.trained["language-model-2"] == {"training.steps": 5, "training.seed": 2}
    order = list(accord.trained)
    assert order.index("language-model-2") < order.index("basic-2")
    assert {run for run, _ in accord.evaluated} == {"basic-1", "basic-2"}
    same = {"Basic": {"training.steps": 5}}
    assert "two names" in made("--seeds", "1", first=same, branches=reading, code=1).told


READING = {"training.steps": 20, "objective.complete.teacher.run": "{out}/language-model-{variant}"}


def test_branches_wait_for_all_that_they_read_and_for_nothing_else(made):
    first = {"Language model": {"training.steps": 5}}
    branches = {"Basic": READING, "Other": {"training.steps": 20}}
    accord = made("--seeds", "1", first=first, branches=branches, failing="language-model", code=1)
    assert sorted(accord.trained) == ["burn-in-1", "other-1"]


def test_what_no_chosen_branch_reads_is_not_trained(made):
    first = {"Language model": {"training.steps": 5}}
    fresh = {"training.init_from": None, "training.steps": 20}
    branches = {"Basic": {"training.steps": 20}, "Reading": READING, "Fresh": fresh}
    chosen = {"first": first, "branches": branches}
    assert sorted(made("--seeds", "1", "--only", "Fresh", **chosen).trained) == ["fresh-1"]
    assert sorted(made("--seeds", "1", "--only", "Reading", **chosen).trained) == [
        "burn-in-1",
        "language-model-1",
        "reading-1",
    ]


def test_a_run_of_seed_10_does_not_read_that_of_seed_1(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = tmp_path / "plan.yaml"
    plan.write_text(yaml.safe_dump({**PLAN, "experiment": "demo", "seeds": [1, 10]}), "utf-8")
    study = plan_study(plan)
    read = {
        run.name: [each.name for each in study.origins if run.reads(each)] for run in study.branches
    }
    assert read["basic-1"] == ["burn-in-1"]
    assert read["basic-10"] == ["burn-in-10"]


def test_a_branch_may_begin_afresh_beside_those_that_continue(made):
    fresh = {"training.init_from": None, "training.steps": 20}
    accord = made("--seeds", "1", branches={**PLAN["branches"], "Fresh": fresh})
    assert accord.trained["fresh-1"]["training.init_from"] is None
    assert accord.trained["basic-1"]["training.init_from"] == "out/burn-in-1"
    other = {"training.init_from": "elsewhere", "training.steps": 20}
    told = made("--seeds", "1", branches={**PLAN["branches"], "Other": other}, code=1).told
    assert "decided by the study itself" in told


def test_settings_may_name_the_place_and_the_variant(made):
    teacher = {"training.init_from": "{out}/other-{variant}", "training.steps": 20}
    accord = made("--seeds", "3", basic=None, branches={"Basic": teacher}, against=None)
    assert accord.trained["basic-3"]["training.init_from"] == "out/other-3"


def test_gains_are_tested_and_stand_in_a_table_an_evaluation(made, tmp_path):
    accord = made("--seeds", "1", evaluate=TWO)
    assert accord.evaluated == [
        (f"{run}-1", b) for run in ("basic", "agree-hard") for b in "4 10".split()
    ]
    text = (tmp_path / "out/table.md").read_text("utf-8")
    for beam in (4, 10):
        test = tmp_path / f"out/agree-hard-1/evaluation/test-beam{beam}/against-basic-1.json"
        mean = json.loads(test.read_text("utf-8"))["averages"]["zero_shot"]["bleu"]
        gain = f"{mean['difference']:+.2f} ({mean['low']:+.2f} to {mean['high']:+.2f})"
        some = text.partition(f"test-beam{beam}, mean BLEU")[2].splitlines()
        row = next(row for row in some if row.startswith("| Agree, hard |"))
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
    made("--seeds", "1,2", against=None)
    folder = tmp_path / "out/basic-1/evaluation/test-beam4"
    score = Evaluation.load(folder).averages["zero_shot"].bleu
    assert f"| {score:.1f} ({score:.1f}, {score:.1f}) |" in rows(tmp_path)["Basic"]


def test_a_table_says_what_branches_are_and_what_they_took(made, tmp_path):
    made("--seeds", "1,2")
    for name, seconds in (("basic", 10.0), ("agree-hard", 25.0)):
        line = {"kind": "train", "step": 401, "nll": 1.0, "seconds": seconds, "target_tokens": 2e6}
        for seed in (1, 2):
            log = tmp_path / f"out/{name}-{seed}/metrics.jsonl"
            log.write_text(json.dumps(line) + "\n", "utf-8")
    study = plan_study(Path("plan.yaml"), Path("out"), changes={"seeds": (1, 2)})
    table = study_tables(study).grids[-1]
    assert all(len(row) == len(table.head) for row in table.rows)
    assert table.head[-4:] == ("weights", "gold tokens", "other tokens", "cost")
    basic, agree = table.rows
    assert basic == ("Basic", "one", "direct", "100.0\u00a0%", "55.1 M", "2.0 M", "–", "×1.00")
    assert agree[-3:] == ("2.0 M", "–", "×2.50")


def test_the_table_has_room_for_the_names_of_branches(made, capsys, monkeypatch):
    made("--seeds", "1")
    study = plan_study(Path("plan.yaml"), Path("out"), changes={"seeds": (1,)})
    table = study_tables(study).grids[-1]
    some = ("55.1 M", "12.0 M", "11.9 M", "×2.00")
    rows = (
        ("Contextual generator", "one", "direct", "12.3\u00a0%", *some),
        ("Phrase-based system", "per direction", "by pivot", "1.0\u00a0%", "–", "–", "–", "–"),
    )
    monkeypatch.setenv("COLUMNS", "80")
    print_tables([replace(table, rows=rows)])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert all(word in printed for row in rows for cell in row for word in cell.split(" "))


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ([{"complete_nll": 1.0, "complete_tokens": 6e5}, {}], "0.6 M"),
        ([{"denoise_nll": 1.0, "denoise_tokens": 3e5}, {"back_translation_nll": 1.0,
          "back_translation_tokens": 8e5, "denoise_nll": 1.0, "denoise_tokens": 4e5}], "1.5 M"),
        # Former versions did not log how many there were: then the rest is not all of it.
        ([{"complete_nll": 1.0, "complete_tokens": 6e5, "denoise_nll": 1.0}, {}], "–"),
        ([{"back_translation_nll": 1.0}, {"back_translation_nll": 1.0,
          "back_translation_tokens": 8e5}], "–"),
    ],
)  # fmt: skip
def test_a_table_says_how_much_else_was_learnt_from(made, tmp_path, lines, shown):
    made("--seeds", "1")
    base = {"kind": "train", "nll": 1.0, "seconds": 9.0, "target_tokens": 1e6}
    text = [json.dumps({**base, "step": 401 + k, **line}) for k, line in enumerate(lines)]
    (tmp_path / "out/agree-hard-1/metrics.jsonl").write_text("\n".join(text) + "\n", "utf-8")
    study = plan_study(Path("plan.yaml"), Path("out"), changes={"seeds": (1,)})
    agree = study_tables(study).grids[-1].rows[1]
    assert agree[-3:-1] == ("2.0 M", shown)


def test_gold_pairs_that_are_only_read_are_not_counted_but_set_the_pace(made, tmp_path):
    alone = {"preset": "sentence-beam", "gold": False, "teacher": {"run": "teacher"}}
    settings = {"training.steps": 20, "training.validation": {"directions": "all"}}
    branches = {**PLAN["branches"], "Agree, hard": {**settings, "objective.complete": alone}}
    made("--seeds", "1", branches=branches)
    base = {"kind": "train", "step": 401, "nll": 1.0, "seconds": 9.0, "target_tokens": 1e6}
    more = {"seconds": 18.0, "complete_nll": 1.0, "complete_tokens": 7e5}
    for name, line in (("basic", base), ("agree-hard", base | more)):
        (tmp_path / f"out/{name}-1/metrics.jsonl").write_text(json.dumps(line) + "\n", "utf-8")
    study = plan_study(Path("plan.yaml"), Path("out"), changes={"seeds": (1,)})
    rows = {row[0]: row[-3:] for row in study_tables(study).grids[-1].rows}
    assert rows["Basic"] == ("1.0 M", "–", "×1.00")
    assert rows["Agree, hard"] == ("–", "0.7 M", "×2.00")


def test_a_run_of_other_settings_is_no_result_of_the_plan(made, tmp_path):
    branches = {"Basic": {"training.steps": 20}, "Agree, hard": {"training.steps": 30}}
    made("--seeds", "1", branches=branches)
    assert set(rows(tmp_path)) == {"Basic", "Agree, hard"}
    # As `accord train` does where another experiment made the run: it refuses, the others go on.
    accord = made("--seeds", "1", failing="agree", code=1)
    assert set(rows(tmp_path)) == {"Basic"}
    assert "agree-hard-1 was trained by other settings: left out" in accord.printed
    assert "left out" in (tmp_path / "out/table.md").read_text("utf-8")


def test_the_archive_has_all_but_checkpoints(made, tmp_path):
    made("--seeds", "1", "--pack", "out/results.tar.gz")
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
        "scored.jsonl",
    ]
    assert (there / "burn-in-1/metrics.jsonl").is_file()
    assert (there / "table.md").read_text() == (tmp_path / "out/table.md").read_text()


def test_the_archive_keeps_what_another_call_has_made(made, tmp_path):
    archive = ("--seeds", "1", "--pack", "kept.tar.gz")
    made("--only", "Basic", *archive)
    made("--only", "Agree, hard", *archive)
    made("--only", "Agree, hard", *archive, failing="agree", code=1, evaluate={"beam": 9})
    there = unpacked(tmp_path / "kept.tar.gz", tmp_path / "there")
    assert (there / "basic-1/evaluation/test-beam4/evaluation.json").is_file()
    assert (there / "agree-hard-1/evaluation/test-beam4/evaluation.json").is_file()


def test_the_same_text_is_packed_once(tmp_path):
    for name in "ab":
        (tmp_path / name / "evaluation/x").mkdir(parents=True)
        (tmp_path / name / "evaluation/x/ref.txt").write_text("the same")
        (tmp_path / name / "evaluation/.y").mkdir()
        (tmp_path / name / "evaluation/.y/hyp.txt").write_text("half")
    runner.pack([tmp_path / "a", tmp_path / "b"], [], tmp_path / "deep/x.tar.gz")
    with tarfile.open(tmp_path / "deep/x.tar.gz") as file:
        names = {item.name: item.islnk() for item in file}
    assert names == {"a/evaluation/x/ref.txt": False, "b/evaluation/x/ref.txt": True}
    there = unpacked(tmp_path / "deep/x.tar.gz", tmp_path / "there")
    assert (there / "b/evaluation/x/ref.txt").read_text() == "the same"


def test_an_archive_in_volumes_is_the_same(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r/metrics.jsonl").write_text("some lines")
    runner.pack([tmp_path / "r"], [], tmp_path / "x.tar.gz", volume=50)
    parts = sorted(tmp_path.glob("x.tar.gz.*"))
    assert len(parts) > 1
    assert {part.stat().st_size for part in parts[:-1]} == {50}
    (tmp_path / "x.tar.gz").write_bytes(b"".join(part.read_bytes() for part in parts))
    there = unpacked(tmp_path / "x.tar.gz", tmp_path / "there")
    assert (there / "r/metrics.jsonl").read_text() == "some lines"


def test_others_go_on_when_a_run_fails(made, tmp_path):
    options = ("--seeds", "1,2", "--pack", "kept.tar.gz")
    accord = made(*options, failing="burn-in-1", code=1)
    assert "2 of 4 branches failed" in accord.told
    there = unpacked(tmp_path / "kept.tar.gz", tmp_path / "there")
    assert sorted(path.name for path in there.glob("*-[12]")) == [
        "agree-hard-2",
        "basic-2",
        "burn-in-2",
    ]
    assert "burn-in-1: train failed\naccord: no memory" in accord.said


class SmallGpu(Accord):
    """Has room for so much training at a time; what finds none fails as PyTorch does."""

    def __init__(self, room, together):
        super().__init__()
        self.room, self.lock = room, threading.Lock()
        self.now, self.failures = 0, []
        self.together = threading.Barrier(together)  # so that as many are at work at first

    def run(self, arguments, seconds):
        run = next((x.removeprefix("run=") for x in arguments if x.startswith("run=")), None)
        if arguments[0] != "train" or "burn-in" in run:
            return super().run(arguments, seconds)
        with self.lock:
            self.now += 1
        if not self.failures:
            self.together.wait(timeout=60)
        try:
            with self.lock:
                if self.now > self.room:
                    self.failures.append(run)
                    raise subprocess.CalledProcessError(1, "accord", stderr="CUDA out of memory.")
            return super().run(arguments, seconds)
        finally:
            with self.lock:
                self.now -= 1


def test_what_finds_no_memory_beside_others_is_run_again_beside_fewer(made):
    branches = {f"B{number}": {"training.steps": 20} for number in range(4)}
    gpu = SmallGpu(room=1, together=4)
    options = ("--seeds", "1", "--parallel", "4")
    accord = made(*options, accord=gpu, branches=branches, against=None)
    assert len(gpu.failures) >= 3
    assert "no memory left on the GPU; it is run again, with 1 beside it at most" in accord.said
    assert sorted(accord.trained) == ["b0-1", "b1-1", "b2-1", "b3-1", "burn-in-1"]
    assert len(accord.evaluated) == 4


def test_what_finds_no_memory_alone_has_failed(made):
    gpu = SmallGpu(room=0, together=1)
    accord = made("--seeds", "1", accord=gpu, branches={"Basic": {"training.steps": 20}}, code=1)
    assert len(gpu.failures) == 1
    assert "basic-1: train failed\nCUDA out of memory." in accord.said


def test_training_that_ctrl_c_ended_has_saved_so_its_time_counts(made, tmp_path):
    accord = made("--seeds", "1", failing="burn-in-1", status=130, code=1)
    assert "train failed" not in accord.said
    assert list(json.loads((tmp_path / "out/study.json").read_text())["trained"]) == ["burn-in-1"]


def test_what_somebody_else_told_to_stop_is_not_evaluated(made):
    accord = made("--seeds", "1", accord=Accord(cut_short=["basic-1"]), code=1)
    assert re.search(r"basic-1: training ended after \d+ s, before it was done", accord.said)
    assert "1 of 2 branches failed" in accord.told
    assert [run for run, _ in accord.evaluated] == ["agree-hard-1"]


def test_training_leaves_time_for_evaluation(made, tmp_path):
    def fresh():
        (tmp_path / "out/study.json").unlink()

    bounds = {"train_seconds": 1000, "evaluate_seconds": 100}
    accord = made("--seeds", "1", **bounds)
    assert accord.seconds["evaluate"] == 100
    assert 999 < accord.seconds["train"] <= 1000
    fresh()
    accord = made("--seeds", "1", "--minutes", "5", evaluate=TWO, **bounds)
    assert 60 < accord.seconds["train"] <= 100
    assert accord.seconds["evaluate"] == 100
    fresh()
    accord = made("--seeds", "1", "--minutes", "3", evaluate=TWO, code=1, **bounds)
    assert "2 of 2 branches failed" in accord.told
    assert "minutes without evaluate_seconds" in made("--minutes", "5", code=1).told


def test_training_that_was_ended_by_the_clock_is_done_and_other_time_is_counted(tmp_path):
    journal = Journal(tmp_path)
    journal.add("basic-1", 100.0, time_was_up=False)
    assert not journal.time_was_up("basic-1")
    journal.add("basic-1", 50.0, time_was_up=True)
    again = Journal(tmp_path)
    assert again.seconds("basic-1") == 150
    assert again.time_was_up("basic-1")
    journal_file = tmp_path / "study.json"
    altered = journal_file.read_text().replace("150", "151")
    for text in ("{", "[]", altered):
        journal_file.write_text(text)
        with pytest.raises(Exception, match="journal cannot be read"):
            Journal(tmp_path)
    journal_file.write_text('{"trained": {"basic-1": {"seconds": 1.0}}}')  # of a former version
    assert Journal(tmp_path).seconds("basic-1") == 1


@pytest.mark.parametrize(
    ("on_term", "failed"),
    [("echo saved; exit 0", False), ("echo told >&2; exit 143", True), ("", True)],
)
def test_a_command_that_takes_too_long_is_stopped(tmp_path, monkeypatch, on_term, failed):
    stub(tmp_path, monkeypatch, f"trap '{on_term}' TERM\nwhile :; do sleep 0.05; done")
    monkeypatch.setattr(commands, "GRACE", 0.3)
    began = time.monotonic()
    if failed:
        with pytest.raises(subprocess.CalledProcessError):
            commands.Processes().run(["train"], seconds=0.3)
    else:
        assert commands.Processes().run(["train"], seconds=0.3) == "saved\n"
    assert time.monotonic() - began < 10


def stub(tmp_path, monkeypatch, script):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(commands.sys, "executable", str(python))


def test_a_command_that_has_done_enough_is_stopped(tmp_path, monkeypatch):
    stub(tmp_path, monkeypatch, "trap 'echo saved; exit 0' TERM\nwhile :; do sleep 0.05; done")
    answers = iter([False, False, True])
    assert commands.Processes().run(["train"], enough=lambda: next(answers)) == "saved\n"
    assert list(answers) == []
    # Where asking fails, nothing goes on unseen.
    told = tmp_path / "told"
    stub(tmp_path, monkeypatch, f"trap 'touch {told}; exit 0' TERM\nwhile :; do sleep 0.05; done")
    with pytest.raises(ZeroDivisionError):
        commands.Processes().run(["train"], enough=lambda: 1 / 0)
    assert told.exists()


def test_a_command_that_ends_by_itself_is_not_told_to(tmp_path, monkeypatch):
    stub(tmp_path, monkeypatch, "trap 'echo told; exit 1' TERM\necho done")
    assert commands.Processes().run(["train"], enough=lambda: False) == "done\n"


def test_what_runs_is_told_to_stop_when_the_study_is(tmp_path, monkeypatch):
    stub(tmp_path, monkeypatch, "trap 'echo saved; exit 0' TERM\nwhile :; do sleep 0.05; done")
    processes = commands.Processes()
    from threading import Timer

    Timer(0.5, processes.stop).start()
    began = time.monotonic()
    assert processes.run(["train"], math.inf) == "saved\n"
    assert time.monotonic() - began < 10


# --- Plans: strict, and mistakes are told with their place.


def refused(tmp_path, text, *options):
    (tmp_path / "toy.yaml").write_text(dump(experiment()), "utf-8")
    path = tmp_path / "plan.yaml"
    if text is not None:
        path.write_text(text, "utf-8")
    result = CliRunner().invoke(app, ["study", str(path), *options])
    assert result.exit_code == 1, result.output
    return str(result.exception)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no such plan"),
        ("a: [", "not a readable YAML file"),
        ("just words", "a plan is a mapping of keys to values"),
        ("experiment: toy.yaml\nbranchs: {}", "line 2, key branchs: unknown key 'branchs'"),
        ("experiment: toy.yaml\nbranchs: {}", "did you mean 'branches'"),
        ("branches: {A: {}}", "the key 'experiment' is missing"),
        (
            "experiment: toy.yaml\nbranches: {A: {}}\nevaluate: {beem: 4}",
            "line 3, key evaluate.0.beem: unknown key 'beem'\n  fix: did you mean 'beam'?",
        ),
        ("experiment: toy.yaml\nbranches: {A: {}}\nparallel: yes", "line 3, key parallel: True"),
        (
            "experiment: toy.yaml\nbranches:\n  A:\n    training.stps: 5",
            "line 4, key branches.A.training.stps: unknown key 'stps'\n  fix: did you mean 'steps'",
        ),
        (
            "experiment: toy.yaml\nbranches: {A: {}}\nvariants:\n  x:\n    training.steps: no",
            "line 5, key variants.x.training.steps: False is not allowed",
        ),
        ("experiment: toy.yaml\nbranches: {A: {}}\nagainst: B", "no such branch in the plan: B"),
        ("experiment: toy.yaml\nbranches: {A: {run: x}}", "run is decided by the study itself"),
        (
            "experiment: toy.yaml\nbasic: {training.steps: 5}\n"
            "branches: {A: {training.init_from: x}}",
            "training.init_from is decided by the study itself",
        ),
        ("experiment: toy.yaml\nbranches: {A, b: {}, 'a!': {}}", "two names, or none"),
        ("experiment: nothing\nbranches: {A: {}}", "there is no recipe 'nothing'"),
    ],
)
def test_a_bad_plan_is_told_with_file_line_key_and_fix(tmp_path, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    found = refused(tmp_path, text)
    assert said in found
    assert "fix: " in found
    assert "plan.yaml" in found or "recipe" in found


def test_a_mistaken_name_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = yaml.safe_dump(PLAN)
    assert "no such branch in the plan: Agree" in refused(tmp_path, text, "--only", "Agree")
    result = CliRunner().invoke(app, ["study", "multi30"])
    assert "there is no plan 'multi30'\n  fix: did you mean 'multi30k'?" in str(result.exception)


def test_data_that_are_missing_are_told_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = refused(tmp_path, yaml.safe_dump({**PLAN, "variants": {"x": {"store": "s"}}}))
    assert "s: the data of burn-in-x are not prepared" in told
    assert "accord prepare toy.yaml --set store=s" in told
    told = refused(tmp_path, yaml.safe_dump({**PLAN, "before": ["accord builtin text"]}))
    assert told.endswith("fix: run\n       accord builtin text")
    assert not (tmp_path / "studies").exists()


def evaluations(path, **asked):
    return [options.name for options in plan_study(path, **asked).plan.evaluate]


def test_settings_are_chosen_on_dev_unless_this_is_final(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("toy.yaml").write_text(dump(experiment()), "utf-8")
    some = [{}, {"split": "test"}, {"beam": 1, "lines": "11-20"}]
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({**PLAN, "evaluate": some}), "utf-8")
    assert evaluations(path) == ["dev-beam4", "test-beam4", "dev-beam1-lines11-20"]
    assert evaluations(path, final=True) == ["test-beam4", "test-beam1-lines11-20"]
    last = [{"split": "test", "lines": "11-20"}, {"split": "news=n.{lang}", "beam": 1}]
    path.write_text(yaml.safe_dump({**PLAN, "evaluate": some, "final": last}), "utf-8")
    assert evaluations(path)[0] == "dev-beam4"
    assert evaluations(path, final=True) == ["test-beam4-lines11-20", "news-beam1"]
    path.write_text(yaml.safe_dump({**PLAN, "evaluate": some}), "utf-8")
    for more, split in (([], "dev"), (["--final"], "test")):
        printed = CliRunner().invoke(app, ["study", str(path), "--dry-run", *more]).stdout
        assert f"--split {split} --beam 1 --checkpoint best --lines 11-20" in printed
    Path("toy.yaml").write_text(dump(experiment().model_copy(update={"dev": HeldOut()})), "utf-8")
    with pytest.raises(AccordError, match="is to be evaluated on the dev set") as error:
        plan_study(path)
    assert "evaluate on test sentences: --final" in error.value.fix
    assert evaluations(path, final=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lines": "20-11"}, "key evaluate.0.lines: '20-11' is not allowed"),
        ({"split": "news"}, "key evaluate.0.split: 'news' is not allowed"),
        ({"lines": "1-5", "limit": 5}, "both limit 5 and lines 1-5 are given"),
    ],
)
def test_bad_lines_of_a_plan_are_told(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    assert said in refused(tmp_path, yaml.safe_dump({**PLAN, "evaluate": options}))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_plan_that_comes_along_is_found_by_name_and_valid(path):
    assert find_plan(path.stem) == path
    study = plan_study(path)
    assert study.branches
    assert study.out == Path("studies") / path.stem


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_saves_as_many_checkpoints_as_it_averages(path):
    """With fewer, `accord average` fails, and the branch is not evaluated."""
    study = plan_study(path)
    wanted = study.plan.average or 0
    for run in study.runs:
        training = run.experiment.training
        origin = next((one for one in study.origins if one.variant == run.variant), run)
        began = 0 if origin is run else origin.experiment.training.steps
        saved = {step // training.save_every for step in range(began, training.steps)}
        by_clock = training.branch_minutes is not None  # then nobody knows how far it comes
        assert by_clock or len(saved) >= wanted, run.name
        assert training.keep >= wanted


def test_commands_name_a_recipe_of_this_directory_without_the_machines_path(tmp_path, monkeypatch):
    checkout = Path(__file__).parents[2]
    monkeypatch.chdir(checkout)
    assert plan_study(find_plan("demo")).experiment == Path("recipes/demo.yaml")
    monkeypatch.chdir(tmp_path)
    assert plan_study(find_plan("demo")).experiment == checkout / "recipes/demo.yaml"


def test_the_guide_lists_every_plan():
    guide = (Path(__file__).parents[2] / "docs/study.md").read_text("utf-8")
    assert [path.stem for path in PLANS if f"`{path.stem}`" not in guide] == []
