"""`accord study --costs`: what is measured, how it is counted, and what the table makes of it."""

import json
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest
import yaml

from accord.errors import AccordError
from accord.files import sealed
from accord.studies import costs, counted_updates
from accord.studies.costs import Cost, Costs
from accord.studies.journal import Journal
from accord.studies.plan import plan_study
from accord.studies.study_table import study_tables, write_table
from made_runs import make_run
from made_studies import PLAN, Accord, follower

BEGAN = 10
SECONDS = {"basic": 2.0, "agree-hard": 5.0, "complete": 3.0}
STORE = {"corpora": [{"lines": 100, "tokens": {"en": 900, "de": 1100}}] * 2}
COMPLETE = {"training.steps": 20, "objective.complete": {"start": 0, "every": 2, "uses": 1}}


def line(step, seconds=2.0, kind="train"):
    return {"kind": kind, "step": step, "nll": 1.0, "seconds": seconds, "target_tokens": 1e4}


class Timed(Accord):
    """Trains in no time, and logs the time that a branch would take for 50 updates."""

    def __init__(self, failing=""):
        super().__init__(failing)
        self.measured, self.stopped_at = [], []

    def run(self, arguments, seconds=None, enough=None):
        if not any(item.startswith("run=out/costs/") for item in arguments):
            return super().run(arguments, seconds)
        sets = dict(item.split("=", 1) for item in arguments[4::2])
        run = Path(sets["run"])
        assert not run.exists()  # what a stop has left must not be gone on with
        self.measured.append({key: yaml.safe_load(value) for key, value in sets.items()})
        make_run(run, evaluated=False)
        (run / "environment.json").write_text(json.dumps({"device": "a GPU", "commit": "abc"}))
        (run / "checkpoints").mkdir()
        if self.failing and run.name.startswith(self.failing):
            raise subprocess.CalledProcessError(1, "accord", stderr="accord: no memory")
        took = SECONDS[run.name.removesuffix("-1").removesuffix("-50")]
        done, first = [], BEGAN + (20 if run.name.startswith("agree") else 100)
        for step in range(10, 1000, 10):  # until it is told to stop
            begins = {} if step > first else {"seconds": 10.0, "recordings": 5}
            done.append(line(step, took) | begins)
            done += [line(step, kind="pool")] * (step % 40 == 0)
            (run / "metrics.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in done))
            if enough():
                self.stopped_at.append(step)
                return ""
        raise AssertionError("nobody told it to stop")


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Follow a plan; with --costs, the runs that branches go on from are there."""
    monkeypatch.setattr(costs, "prepared", lambda experiment: True)
    monkeypatch.setattr(costs, "is_trained", lambda run, journal: True)
    monkeypatch.setattr(costs, "_began", lambda origin: 0 if origin is None else BEGAN)
    monkeypatch.setattr(costs, "read_manifest", lambda store: STORE)
    follow = follower(tmp_path, monkeypatch)

    def call(*options, failing="", **changes):
        accord = Timed(failing)
        monkeypatch.setattr(costs, "Processes", lambda: accord)
        return follow(*options, accord=accord, **changes)

    return call


def written(tmp_path):
    return json.loads((tmp_path / "out/costs.json").read_text("utf-8"))


# --- What is known.


def cost(seconds, device="a GPU"):
    return Cost("1", 200, seconds, 4e4, 0, None, device, "abc", "2026-11-18", "accord train")


def test_costs_are_relative_to_a_branch_that_may_be_measured_later(tmp_path):
    found = Costs(tmp_path, "Basic")
    found.add("Agree", cost(20.0))
    assert written_costs(tmp_path) == {"Agree": None}
    found.add("Basic", cost(8.0))
    found.add("Elsewhere", cost(8.0, "another GPU"))
    assert written_costs(tmp_path) == {"Agree": 2.5, "Basic": 1.0, "Elsewhere": None}
    again = Costs(tmp_path, "Basic")
    assert again.known == found.known
    assert again.relative("Agree") == 2.5
    assert Costs(tmp_path, None).relative("Agree") is None


def written_costs(folder):
    data = json.loads((folder / "costs.json").read_text("utf-8"))
    assert data == sealed(data)
    return {branch: entry["cost"] for branch, entry in data["branches"].items()}


def test_costs_that_were_altered_are_told(tmp_path):
    Costs(tmp_path, "Basic").add("Basic", cost(8.0))
    file = tmp_path / "costs.json"
    for text in (file.read_text().replace("8.0", "9.0"), "{", "[]"):
        file.write_text(text)
        with pytest.raises(AccordError, match="costs of the study cannot be read"):
            Costs(tmp_path, "Basic")


# --- Measuring.


def test_each_branch_is_trained_a_little_further_by_itself(made, tmp_path):
    accord = made("--seeds", "1,2", "--costs")
    basic, agree = accord.measured  # of the first seed alone
    assert basic == {
        "training.seed": 1,
        "training.init_from": "out/burn-in-1",
        "run": "out/costs/basic-1",
        "training.steps": BEGAN + 1_000_000,
        "training.log_every": 10,
        "training.save_every": BEGAN + 1_000_000,
        "training.keep": 1,
        "training.loggers": [],
        "training.validation": {"every": BEGAN + 1_000_000, "sentences": 0},
    }
    # It would have begun with update 100,001, after what is measured.
    assert agree["objective.agreement.start"] == BEGAN
    assert agree["run"] == "out/costs/agree-hard-1"
    assert agree["training.log_every"] == 2
    assert accord.stopped_at == [BEGAN + 100 + 150, BEGAN + 20 + 60]
    found = written(tmp_path)["branches"]
    assert found["Basic"]["updates"] == 150
    assert found["Basic"]["seconds"] == 30
    assert found["Basic"]["tokens_per_second"] == 5000
    assert found["Agree, hard"]["cost"] == 2.5
    assert found["Agree, hard"]["command"].startswith("accord train toy.yaml -q --set ")
    assert "2/2 Agree, hard: 2,000 gold tokens a second, ×2.50 of Basic" in accord.said
    assert "×2.50" in accord.printed
    assert not list(tmp_path.glob("out/costs/*/checkpoints"))


def test_no_branch_ends_by_its_own_clock(made):
    timed = {
        "training.steps": 20,
        "training.branch_minutes": 5,
        "training.optimizer": {"kind": "adam", "decay_minutes": 1},
    }
    (found,) = made("--seeds", "1", "--costs", branches={"Basic": timed}).measured
    assert found["training.optimizer.decay_minutes"] is None
    assert "training.minutes" not in found
    assert found["training.branch_minutes"] is None


def test_rounds_are_so_short_that_several_count(made, tmp_path):
    branches = {"Basic": {"training.steps": 20}, "Complete": COMPLETE}
    accord = made("--seeds", "1", "--costs", branches=branches)
    # 0.87 of 4096 tokens are 356 sentences of 10; every second of 50 updates, two of each pair.
    assert accord.measured[1]["objective.complete.pairs"] == 4455
    found = written(tmp_path)["branches"]["Complete"]
    assert (found["pairs"], found["rounds"], found["cost"]) == (4455, 3, 1.5)
    assert accord.stopped_at[1] == 7 * 40
    assert "rough" not in accord.said
    few = {**COMPLETE, "objective.complete.pairs": 4000}
    accord = made("--seeds", "1", "--costs", branches={**branches, "Complete": few})
    assert accord.measured[0]["objective.complete.pairs"] == 4000  # as planned
    assert written(tmp_path)["branches"]["Complete"]["pairs"] is None


def test_too_few_rounds_are_told(made, monkeypatch):
    monkeypatch.setattr(
        counted_updates, "ROUNDS", counted_updates.Pace(warm_up=0, enough=3, line=10, rounds=True)
    )
    branches = {"Basic": {"training.steps": 20}, "Complete": COMPLETE}
    assert "Complete: note: only 1 rounds in 40 updates, a rough figure" in (
        made("--seeds", "1", "--costs", branches=branches).said
    )


def test_what_is_measured_is_not_measured_again(made, tmp_path):
    assert len(made("--seeds", "1", "--costs", "--only", "Basic").measured) == 1
    accord = made("--seeds", "1", "--costs")
    assert [found["run"] for found in accord.measured] == ["out/costs/agree-hard-1"]
    assert "1/2 Basic: measured already, 5,000 gold tokens a second" in accord.said
    other = {**PLAN["branches"], "Basic": {"training.batch_tokens": 2048}}
    accord = made("--seeds", "1", "--costs", branches=other)
    assert [found["run"] for found in accord.measured] == ["out/costs/basic-1"]


def test_what_somebody_else_stopped_is_not_measured(made, tmp_path, monkeypatch):
    """A signal to the whole group of processes ends training, which says that all went well."""
    run = Timed.run

    def stopped(self, arguments, seconds=None, enough=None):
        return run(self, arguments, seconds, lambda: True)

    monkeypatch.setattr(Timed, "run", stopped)
    accord = made("--seeds", "1", "--costs", "--only", "Basic", code=1)
    assert "1/1 Basic: stopped before enough was measured" in accord.said
    assert "not measured: Basic" in accord.told
    assert not (tmp_path / "out/costs.json").exists()


def test_others_are_measured_when_a_branch_fails(made, tmp_path):
    accord = made("--seeds", "1", "--costs", failing="basic", code=1)
    assert "not measured: Basic" in accord.told
    assert "1/2 Basic: training failed\naccord: no memory" in accord.said
    assert list(written(tmp_path)["branches"]) == ["Agree, hard"]
    assert written(tmp_path)["branches"]["Agree, hard"]["cost"] is None
    assert len(made("--seeds", "1", "--costs").measured) == 1
    assert written(tmp_path)["branches"]["Agree, hard"]["cost"] == 2.5


def test_some_branches_have_no_cost(made, monkeypatch):
    none = {"training.steps": 20, "training.init_from": None}
    branches = {
        "Basic": {**none, "objective.agreement": {"weight": 0.3, "start": 15}},
        "Phrases": {"model": {"kind": "phrase-based"}, "training": {}, "training.init_from": None},
        "Afresh": {**none, "objective.agreement": {"weight": 0.3, "start": 5000}},
        "Complete": {**none, "objective.complete": {"start": 0, "teacher": {"run": "a-teacher"}}},
    }
    monkeypatch.setattr(costs, "prepared", lambda experiment: experiment.model.is_network)
    accord = made("--seeds", "1", "--costs", branches=branches)
    basic, complete = accord.measured
    assert complete["run"] == "out/costs/complete-1"
    assert basic["training.steps"] == 1_000_000
    assert "objective.agreement.start" not in basic  # it comes in while nothing counts yet
    assert "Phrases: has no cost: it is no network" in accord.said
    assert "Afresh: has no cost: it begins afresh, and objective.agreement counts" in accord.said


def test_what_branches_go_on_from_must_be_there(made, monkeypatch, tmp_path):
    monkeypatch.setattr(costs, "is_trained", lambda run, journal: False)
    told = made("--costs", code=1).told
    assert "out/burn-in-1: burn-in-1 is not trained" in told
    assert "fix: run `accord study plan.yaml --out out` first" in told
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(costs, "is_trained", lambda run, journal: True)
    monkeypatch.setattr(costs, "prepared", lambda experiment: False)
    assert "are not prepared" in made("--costs", code=1).told


def test_a_dry_run_lists_what_would_be_measured(made, tmp_path):
    made("--seeds", "1", "--costs", "--only", "Basic")
    printed = made("--seeds", "1", "--costs", "--dry-run").printed
    assert "1. Basic: measure [done]\n   accord train toy.yaml -q" in printed
    assert "2. Agree, hard: measure\n   accord train toy.yaml -q" in printed
    assert list(written(tmp_path)["branches"]) == ["Basic"]
    made("--costs", "--parallel", "2", code=2)


# --- The table.


def table(**changes):
    found = study_tables(plan_study(Path("plan.yaml"), Path("out"), changes=changes))
    return {row[0]: row[-1] for row in found.grids[-1].rows}, " ".join(found.notes)


def logged(tmp_path, seeds=(1,)):
    for name, seconds in (("basic", 10.0), ("agree-hard", 30.0)):
        for seed in seeds:
            log = tmp_path / f"out/{name}-{seed}/metrics.jsonl"
            log.write_text(json.dumps(line(401, seconds)) + "\n", "utf-8")


def test_time_that_was_shared_is_no_cost(made, tmp_path):
    made("--seeds", "1,2")
    logged(tmp_path, (1, 2))
    assert table(seeds=(1, 2)) == ({"Basic": "×1.00", "Agree, hard": "×3.00"}, "")
    journal = Journal(tmp_path / "out")
    journal.share("agree-hard-1")
    log = tmp_path / "out/agree-hard-1/metrics.jsonl"
    log.write_text(json.dumps(line(401, 500.0)) + "\n", "utf-8")
    assert table(seeds=(1, 2))[0]["Agree, hard"] == "×3.00"  # of the other seed
    journal.share("agree-hard-2")
    cells, notes = table(seeds=(1, 2))
    assert cells == {"Basic": "×1.00", "Agree, hard": "–"}
    assert notes.startswith("no cost where runs shared the machine")
    write_table(plan_study(Path("plan.yaml"), Path("out"), changes={"seeds": (1, 2)}), Path("page"))
    assert f"\nNote: {notes}.\n" in Path("page").read_text("utf-8")


def test_of_former_versions_only_the_plan_tells(made, tmp_path):
    made("--seeds", "1")
    logged(tmp_path)
    file = tmp_path / "out/study.json"
    file.write_text('{"trained": {"basic-1": {"seconds": 1.0}, "agree-hard-1": {"seconds": 1.0}}}')
    assert table(seeds=(1,), parallel=1)[0]["Agree, hard"] == "×3.00"
    assert table(seeds=(1,), parallel=2)[0]["Agree, hard"] == "–"
    file.unlink()
    assert table(seeds=(1,), parallel=2)[0]["Agree, hard"] == "–"


def test_costs_that_were_measured_stand_in_the_table(made, tmp_path):
    made("--seeds", "1,2")
    logged(tmp_path, (1, 2))
    made("--seeds", "1,2", "--costs")
    cells, notes = table(seeds=(1, 2), parallel=2)
    assert cells == {"Basic": "×1.00", "Agree, hard": "×2.50"}
    assert notes.startswith("costs are of each branch by itself, on a GPU, 20")
    assert "| ×2.50 |" in (tmp_path / "out/table.md").read_text("utf-8")
    made("--seeds", "1,2", "--costs", "--pack", "kept.tar.gz")
    with tarfile.open("kept.tar.gz") as archive:
        assert {"table.md", "costs.json", "basic-1/metrics.jsonl"} <= set(archive.getnames())


def test_a_variant_has_a_cost_of_its_own(made):
    sizes = {"50": {"training.batch_tokens": 512}, "100": {"training.batch_tokens": 1024}}
    made(variants=sizes)
    made("--costs", variants=sizes)
    cells, _ = table()
    assert cells["Agree, hard, 50"] == "×2.50"
    assert cells["Agree, hard, 100"] == "–"


# --- Who shared the machine.


class Together(Accord):
    """Two burn-ins meet, so that both are being trained at once."""

    def __init__(self):
        super().__init__()
        self.meeting = threading.Barrier(2, timeout=60)

    def run(self, arguments, seconds):
        if arguments[0] == "train" and any("run=out/burn-in" in item for item in arguments):
            self.meeting.wait()
        return super().run(arguments, seconds)


def test_the_journal_knows_which_training_shared_the_machine(tmp_path, monkeypatch):
    made = follower(tmp_path, monkeypatch)
    made("--seeds", "1,2")
    journal = Journal(tmp_path / "out")
    assert [journal.shared(f"burn-in-{seed}") for seed in (1, 2)] == [False, False]
    assert journal.shared("agree-hard-2") is False
    assert journal.shared("unknown") is None
    (tmp_path / "out/study.json").unlink()
    made("--seeds", "1,2", "--parallel", "2", accord=Together())
    journal = Journal(tmp_path / "out")
    assert [journal.shared(f"burn-in-{seed}") for seed in (1, 2)] == [True, True]


def test_a_mark_stays_when_training_goes_on(tmp_path):
    journal = Journal(tmp_path)
    journal.add("alone", 5.0, time_was_up=False)
    journal.share("killed")  # before its time was ever noted
    journal.add("killed", 7.0, time_was_up=False)
    again = Journal(tmp_path)
    assert (again.shared("alone"), again.shared("killed")) == (False, True)
    assert again.seconds("killed") == 7
    (tmp_path / "study.json").write_text('{"trained": {"old": {"seconds": 1.0}}}')
    old = Journal(tmp_path)
    old.add("old", 1.0, time_was_up=False)
    assert old.shared("old") is None  # its first part nobody knows
