"""Synthetic pairs inside the trainer: off they change nothing, on they are exact and resume."""

import json
import os
import random
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from accord.data.vocabulary import PAD
from accord.errors import AccordError
from accord.models.checkpoint import Checkpoints, average
from accord.objectives.distillation.rounds import RoundMaker
from accord.objectives.distillation.teacher_weights import Guard, Quality
from accord.training.trainer import train
from accord.training.update import Updater
from toy_training import (
    HARD,
    Fault,
    Notes,
    arguments,
    checkpoint,
    checkpoints,
    experiment,
    metrics,
    prepared,
    run_fork,
    stop_at,
    weights,
)
from toy_training import story as plain_story

BASE, STEPS = 60, 80
# A model of a few steps says nothing sensible: let pass whatever it says.
OPEN = {"length_ratio": [0.0, 4.0], "distinct_bigrams": 0.0}
KINDS = {
    "frozen": {},
    "ema": {"kind": "ema", "decay": 0.9, "guard": False},
    "rounds": {"kind": "rounds", "guard": False},
    "guarded": {"kind": "rounds", "tolerance": 100.0},
}


@dataclass(frozen=True)
class Toy:
    """An experiment file, and a run that has learnt to end its sentences."""

    file: Path
    base: Path


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    file, base = prepared(tmp_path_factory.getbasetemp(), units=16), tmp_path_factory.mktemp("base")
    train(experiment(file, base, training__steps=BASE, training__save_every=BASE))
    return Toy(file, base)


def complete(**keys):
    return {"start": BASE, "every": 1, "pairs": 12, "uses": 1, "filters": OPEN, **keys}


def keys_of(toy, **keys):
    return {"training__steps": STEPS, "training__init_from": str(toy.base), **keys}


def basic(toy, run, **keys):
    return experiment(toy.file, run, **keys_of(toy, **keys))


def settings(toy, run, **keys):
    return basic(toy, run, **{"objective__complete": complete(), **keys})


def story(run, step=STEPS):
    found = plain_story(run, step)
    for tally in found["state"]["totals"]["objectives"].values():
        del tally["waited"]
    for line in found["metrics"]:
        line.pop("complete_wait", None)
    return found


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


def state(run, step=STEPS):
    return json.loads((checkpoint(run, step) / "state.json").read_text())["objectives"]["complete"]


def names(run, folder):
    return sorted(path.name for path in (run / folder).iterdir())


# --- off and on ------------------------------------------------------------------------------


def test_before_its_start_and_without_weight_the_run_is_basic(toy, tmp_path):
    train(basic(toy, tmp_path / "basic", training__steps=64, training__save_every=1))
    off, late = complete(weight=0.0), complete(start=63)
    train(settings(toy, tmp_path / "off", training__steps=64, objective__complete=off))
    train(settings(toy, tmp_path / "late", training__steps=63, objective__complete=late))
    train(settings(toy, tmp_path / "on", training__steps=64, objective__complete=late))
    assert same(weights(tmp_path / "off", 64), weights(tmp_path / "basic", 64))
    assert same(weights(tmp_path / "late", 63), weights(tmp_path / "basic", 63))
    assert not same(weights(tmp_path / "on", 64), weights(tmp_path / "basic", 64))
    assert not (tmp_path / "late" / "pool").exists()
    assert not any("complete_nll" in line for line in metrics(tmp_path / "off"))


def test_gold_numbers_stay_gold_and_synthetic_ones_are_logged(toy, tmp_path):
    notes, late = Notes(), complete(start=62)
    on = settings(toy, tmp_path / "on", training__log_every=1, objective__complete=late)
    train(on, progress=notes)
    train(basic(toy, tmp_path / "off", training__log_every=1))
    lines, plain = metrics(tmp_path / "on", "train"), metrics(tmp_path / "off", "train")
    for line, gold in zip(lines, plain, strict=True):
        assert ("complete_nll" in line) == (line["step"] > 62)
        for key in ("rows", "source_tokens", "target_tokens", "epoch"):
            assert line[key] == gold[key]
    assert lines[2]["nll"] == plain[2]["nll"]  # by the weights before the first synthetic update
    assert lines[3]["nll"] != plain[3]["nll"]
    for line in lines[2:]:
        assert 0.5 < line["complete_nll"] < 7
        assert 0 <= line["complete_wait"] <= line["seconds"]
    tokens = [sum(line[key] for line in lines[2:]) for key in ("complete_tokens", "target_tokens")]
    assert 0.25 < tokens[0] / tokens[1] < 1.25  # rounds of few pairs end with small batches


def test_no_round_is_made_that_would_not_be_used(toy, tmp_path, monkeypatch):
    made, make = [], RoundMaker.make
    monkeypatch.setattr(
        RoundMaker, "make", lambda *given: made.append(given[2]["round"]) or make(*given)
    )
    short, long = (
        settings(toy, tmp_path, training__steps=steps, objective__complete=complete(uses=20))
        for steps in (BASE + 4, BASE + 400)
    )
    train(short)
    assert made == [0]
    stop_at(monkeypatch, 2)
    train(long, accept_changes=True)  # now it does not last
    assert made == [0, 1]


def test_every_round_is_accounted_for(toy, tmp_path):
    notes = Notes()
    train(settings(toy, tmp_path), progress=notes)
    pool = metrics(tmp_path, "pool")
    assert [line["round"] for line in pool] == list(range(len(pool)))
    assert pool[0]["step"] == BASE + 1
    for line in pool:
        assert line["teacher"] == "step-00000060"
        assert line["pairs"] == line["translations"] == 12
        assert line["kept"] + sum(line["dropped"].values()) == 12
        assert line["length_ratio"] > 0
    assert sum("by step-00000060" in note for note in notes.notes) == len(pool) >= 3


@pytest.fixture
def seen(monkeypatch):
    """The synthetic batch of every update, or None."""
    seen = []
    plain = Updater.update

    def update(self, work, tokens):
        made = work[-1]
        if made.parts:  # its mean loss counts so much beside that of the gold pairs
            weight = pytest.approx(made.scales[0] * made.tokens / tokens)
            seen.append(SimpleNamespace(parts=made.parts, weight=weight))
        else:
            seen.append(None)
        return plain(self, work, tokens)

    monkeypatch.setattr(Updater, "update", update)
    return seen


def test_only_directions_without_data_are_added(toy, tmp_path, seen):
    train(settings(toy, tmp_path))
    parts = [part for synthetic in seen for part in synthetic.parts]
    tags = {int(tag) for part in parts for tag in part.pairs.source_BS[:, 0]}
    assert tags == {3, 4}  # into de and fr, never into en
    sizes = [part.pairs.source_BS.numel() for part in parts]
    assert 64 < max(sizes) <= 128  # `training.batch_tokens`, as for gold pairs


def test_every_nth_update_has_them_with_n_times_the_weight(toy, tmp_path, seen):
    chosen = complete(every=3, weight=0.2)
    for steps in (62, 70):  # goes on with an update that has none
        train(
            settings(toy, tmp_path, training__steps=steps, objective__complete=chosen),
            accept_changes=True,
        )
    weight_of = {step: item.weight for step, item in enumerate(seen, 61) if item is not None}
    assert weight_of == dict.fromkeys([61, 64, 67, 70], 0.2 * 3)


def test_a_teacher_may_say_how_sure_it_was(toy, tmp_path, seen):
    train(settings(toy, tmp_path / "chosen"))
    assert all(part.soft_targets is None for synthetic in seen for part in synthetic.parts)
    seen.clear()
    likely = complete(teacher={"tokens": 4})
    train(settings(toy, tmp_path / "likely", objective__complete=likely))
    assert not same(*(weights(tmp_path / run, STEPS) for run in ("likely", "chosen")))
    unsure = 0
    for part in (part for synthetic in seen for part in synthetic.parts):
        target_N, share_NK = part.pairs.target_BT.flatten(), part.soft_targets.share_NK
        assert len(part.soft_targets.token_NK) == len(target_N)
        gold_N = share_NK[:, 0] == 1
        assert torch.equal(part.soft_targets.token_NK[gold_N, 0], target_N[gold_N])
        unsure += int((~gold_N & (target_N != PAD)).sum())
    assert unsure > 100  # distillation: about half of all


@pytest.mark.parametrize(
    "keys",
    [
        {"parts": ["distillation"]},
        {"parts": ["back-translation"], "uses": 3},
        {"parts": ["distillation", "round-trip"]},
        {"teacher": {"vote": 0.5}, "search": {"vocabulary": "target"}},
        {"teacher": {"tokens": 3}, "parts": ["distillation", "back-translation", "latent"]},
        {"search": {"beam": 3, "nbest": 2}, "select": "agreement"},
        {"filters": {**OPEN, "round_trip": -50.0}, "every": 3},
    ],
    ids=["distillation", "back-translation", "return", "vote", "tokens", "agreement", "round-trip"],
)
def test_every_option_trains_and_resumes(toy, tmp_path, keys):
    chosen = complete(**keys)
    train(settings(toy, tmp_path / "one", training__steps=68, objective__complete=chosen))
    for steps in (64, 68):
        train(
            settings(toy, tmp_path / "two", training__steps=steps, objective__complete=chosen),
            accept_changes=True,
        )
    assert same(weights(tmp_path / "one", 68), weights(tmp_path / "two", 68))
    assert metrics(tmp_path / "one", "train")[-1]["complete_tokens"] > 0


def test_beside_agreement(toy, tmp_path):
    agree = {**HARD, "start": 65, "max_length": 6}
    train(settings(toy, tmp_path, objective__agreement=agree))
    last = metrics(tmp_path, "train")[-1]
    assert last["agreement_loss"] > 0
    assert last["complete_nll"] > 0


def test_accumulation_changes_nothing(toy, tmp_path):
    keys = {"model__dropout": 0.0, "training__steps": 66}
    for parts in (1, 3):
        run = tmp_path / str(parts)
        train(settings(toy, run, training__accumulation=parts, **keys))
    one, three = weights(tmp_path / "1", 66), weights(tmp_path / "3", 66)
    assert all(torch.allclose(one[name], three[name], atol=1e-4) for name in one)


# --- resuming --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def straight(toy, tmp_path_factory):
    """The stories of runs that nothing happened to, by kind of teacher."""
    found = {}
    for name, teacher in KINDS.items():
        run = tmp_path_factory.mktemp(name)
        train(settings(toy, run, objective__complete=complete(teacher=teacher)))
        found[name] = story(run)
    return found


def test_other_teachers_make_other_models(straight):
    sums = [each["state"]["files"]["model.safetensors"] for each in straight.values()]
    assert len(set(sums)) >= 3  # the guard may find that only the first is good enough
    for name, each in straight.items():
        pool = [line for line in each["metrics"] if line["kind"] == "pool"]
        teachers = [line["teacher"] for line in pool]
        assert len(pool) >= 3
        assert (len(set(teachers)) > 1) == (name != "frozen") or name == "guarded"
        assert teachers == sorted(teachers)
        assert all(("guard" in line) == (name == "guarded") for line in pool)


@pytest.mark.parametrize("kind", KINDS)
def test_told_to_stop_after_every_step(toy, straight, tmp_path, monkeypatch, kind):
    chosen = settings(toy, tmp_path, objective__complete=complete(teacher=KINDS[kind]))
    for step in range(BASE + 1, STEPS):
        stop_at(monkeypatch, 1)
        assert train(chosen).step == step
        monkeypatch.undo()
    train(chosen)
    # More checkpoints were made than in the other run, but what they hold is the same.
    assert story(tmp_path) == straight[kind]


@pytest.mark.parametrize("kind", ["frozen", "ema"])
@pytest.mark.parametrize("number", [0, 2])
def test_told_to_stop_while_waiting_for_a_round(toy, straight, tmp_path, monkeypatch, kind, number):
    """Nobody waits for the end of the round, and nothing is lost."""
    chosen = settings(toy, tmp_path, objective__complete=complete(teacher=KINDS[kind]))
    plain = RoundMaker.make

    def make(self, picks, facts):
        if facts["round"] < number:
            return plain(self, picks, facts)
        time.sleep(0.3)  # until it is waited for
        os.kill(os.getpid(), signal.SIGTERM)
        while True:
            self.teacher._check()
            time.sleep(0.01)

    monkeypatch.setattr(RoundMaker, "make", make)
    result = train(chosen)
    assert result.reason == "told to stop"
    assert not result.finished
    assert checkpoints(tmp_path)[-1] == result.step
    assert (result.step == BASE) == (number == 0)
    monkeypatch.undo()
    train(chosen)
    assert story(tmp_path) == straight[kind]


@pytest.mark.timeout(600)  # a busy machine is no failure
def test_killed_again_and_again(toy, straight, tmp_path):
    """kill -9 before an update or a step of writing, that of rounds and teachers too."""
    choose, deaths, output = random.Random(5), 0, tmp_path / "output"
    keys = keys_of(toy, objective__complete=complete(teacher=KINDS["ema"]))
    args = arguments(toy.file, tmp_path / "run", **keys)
    while (
        code := run_fork(args, output, Fault(choose.randint(20, 99), events="update+disk"))
    ) != 0:
        assert code == -signal.SIGKILL, output.read_text()
        deaths += 1
        assert deaths < 30
    assert deaths > 1
    assert story(tmp_path / "run") == straight["ema"]


def test_a_round_that_was_lost_is_made_again(toy, straight, tmp_path, monkeypatch):
    chosen = settings(toy, tmp_path)
    stop_at(monkeypatch, 9)
    train(chosen)
    monkeypatch.undo()
    for path in (tmp_path / "pool").iterdir():
        path.write_bytes(path.read_bytes()[:-9])
    (tmp_path / "pool" / ".round-000001.npz.xyz").write_bytes(b"half")
    train(chosen)
    assert story(tmp_path) == straight["frozen"]
    assert not list((tmp_path / "pool").glob(".*"))


def test_a_damaged_teacher_teaches_no_more_but_another_may(toy, tmp_path, monkeypatch):
    stop_at(monkeypatch, 9)
    train(settings(toy, tmp_path))
    monkeypatch.undo()
    [path] = (tmp_path / "teacher").iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with pytest.raises(AccordError, match="not what was written") as error:
        train(settings(toy, tmp_path))
    assert error.value.where == str(path)
    other = complete(teacher=KINDS["rounds"])
    train(settings(toy, tmp_path, objective__complete=other), accept_changes=True)
    assert metrics(tmp_path, "pool")[-1]["teacher"] > path.stem


def test_what_no_checkpoint_needs_is_deleted(toy, tmp_path):
    chosen = complete(teacher=KINDS["rounds"], pairs=6)
    train(settings(toy, tmp_path, objective__complete=chosen, training__keep=1))
    needed = [state(tmp_path, step) for step in checkpoints(tmp_path)]
    rounds = {each["round"] + more for each in needed for more in (0, 1)}
    teachers = {each[key] for each in needed for key in ("teacher", "next_teacher")}
    assert max(rounds) >= 5
    assert {int(name[6:12]) for name in names(tmp_path, "pool")} <= rounds
    assert names(tmp_path, "teacher") == sorted(f"{name}.safetensors" for name in teachers)


def test_other_settings_continue_with_the_next_round(toy, tmp_path):
    train(settings(toy, tmp_path, training__steps=69))
    before, notes = state(tmp_path, 69), Notes()
    assert before["batch"] > 0
    changed = settings(toy, tmp_path, objective__complete=complete(pairs=11), training__steps=70)
    train(changed, accept_changes=True, progress=notes)
    after = state(tmp_path, 70)
    assert after["round"] == before["round"] + 1
    assert after["teacher"] == before["teacher"]
    assert any("continuing with the next round" in note for note in notes.notes)


def test_a_branch_begins_a_pool_of_its_own(toy, tmp_path):
    train(settings(toy, tmp_path / "trunk", training__steps=69))
    trunk = str(tmp_path / "trunk")
    train(settings(toy, tmp_path / "branch", training__init_from=trunk, training__steps=70))
    assert state(tmp_path / "branch", 70)["round"] == 0
    assert state(tmp_path / "branch", 70)["teacher"] == "step-00000069"


# --- who teaches -----------------------------------------------------------------------------


def test_another_run_may_teach(toy, tmp_path):
    """Even one of another size, and from the first step on; its weights are copied."""
    other, run = tmp_path / "other", tmp_path / "run"
    train(experiment(toy.file, other, training__steps=70, model__units=12))
    newest = json.loads((checkpoint(other, 70) / "state.json").read_text())
    chosen = {"objective__complete": complete(start=0, teacher={"run": str(other)})}
    train(experiment(toy.file, run, training__steps=5, **chosen))
    assert {line["teacher"] for line in metrics(run, "pool")} == {f"step-{newest['best_step']:08d}"}
    other.rename(tmp_path / "moved")
    train(experiment(toy.file, run, training__steps=9, **chosen), accept_changes=True)
    assert metrics(run, "train")[-1]["complete_tokens"] > 0


def test_the_average_of_another_run_may_teach(toy, tmp_path):
    other, run = tmp_path / "other", tmp_path / "run"
    train(experiment(toy.file, other, training__steps=70, training__save_every=5))
    chosen = complete(start=0, teacher={"run": str(other), "checkpoint": "average"})
    asked = experiment(toy.file, run, training__steps=5, objective__complete=chosen)
    with pytest.raises(AccordError, match="no checkpoint 'average'") as error:
        train(asked)
    assert error.value.fix == f"make it with `accord average {other}`"
    average(Checkpoints(other / "checkpoints").paths()[-2:], other / "checkpoints/average")
    train(asked)
    assert {line["teacher"] for line in metrics(run, "pool")} == {"step-00000070-average"}
    taught = load_file(run / "teacher/step-00000070-average.safetensors")
    mean = load_file(other / "checkpoints/average/model.safetensors")
    assert all(torch.equal(taught[name], mean[name]) for name in mean)
    assert names(run, "teacher") == ["step-00000070-average.safetensors"]


def test_the_last_checkpoints_of_another_run_may_teach_together(toy, tmp_path):
    other, run = tmp_path / "other", tmp_path / "run"

    def student(teacher, steps):
        asked = {"run": str(teacher), "checkpoint": "ensemble", "tokens": 3}
        chosen = complete(start=0, teacher=asked)
        return experiment(toy.file, run, training__steps=steps, objective__complete=chosen)

    train(experiment(toy.file, tmp_path / "one", training__steps=2))
    with pytest.raises(AccordError, match="the run has 1 checkpoint") as error:
        train(student(tmp_path / "one", 3))
    assert error.value.where == "objective.complete.teacher.run"
    assert error.value.what.startswith(f"{tmp_path / 'one'}: an ensemble has several members")
    train(basic(toy, other, training__steps=BASE + 4, training__save_every=2))
    train(student(other, 3))
    (version,) = names(run, "teacher")
    assert version == f"step-{BASE + 4:08d}-ensemble.safetensors"
    taught, kept = load_file(run / "teacher" / version), Checkpoints(other / "checkpoints").paths()
    for member, path in enumerate(kept[-2:]):
        for name, value in load_file(path / "model.safetensors").items():
            assert torch.equal(taught.pop(f"members.{member}.{name}"), value)
    assert not taught
    train(student(other, 5), accept_changes=True)
    assert metrics(run, "train")[-1]["complete_tokens"] > 0


def test_another_teacher_takes_over_when_it_is_asked_for(toy, tmp_path):
    """In the middle of a run, and although its model is of another size."""
    other, run = tmp_path / "other", tmp_path / "run"
    train(experiment(toy.file, other, training__steps=30, model__units=12))
    best = json.loads((checkpoint(other, 30) / "state.json").read_text())["best_step"]

    def taught(steps, **keys):
        chosen = settings(toy, run, training__steps=steps, objective__complete=complete(**keys))
        train(chosen, accept_changes=True)
        return state(run, steps)["teacher"]

    assert taught(61) == "step-00000060"
    assert taught(62, teacher={"run": str(other)}) == f"step-{best:08d}"
    moved = {"teacher": {"run": str(other)}, "pairs": 9}
    other.rename(tmp_path / "moved")
    assert taught(63, **moved) == f"step-{best:08d}"  # other rounds, but the same teacher
    assert taught(64, teacher={"kind": "rounds", "tolerance": 100.0}) == "step-00000063"
    assert metrics(run, "pool")[-1]["guard"]["accepted"]
    assert taught(65) == "step-00000064"
    assert "guard" not in metrics(run, "pool")[-1]


@pytest.mark.parametrize("kind", ["rounds", "ema"])
def test_the_guard_keeps_bad_teachers_out(toy, tmp_path, monkeypatch, kind):
    """Not too far below the best BLEU, and not much longer or shorter than at first."""
    values = iter([(20, 1), (19.8, 1.09), (19.4, 1), (21, 0.95), (30, 1.11), (30, 0.89)])
    monkeypatch.setattr(Guard, "measure", lambda *_: Quality(*map(float, next(values, (99, 1)))))
    notes = Notes()
    chosen = complete(pairs=3, teacher={"kind": kind, "tolerance": 0.5})
    train(settings(toy, tmp_path, objective__complete=chosen), progress=notes)
    pool = metrics(tmp_path, "pool")
    verdicts = [line["guard"]["accepted"] for line in pool[:6]]
    assert verdicts == [True, True, False, True, False, False]
    assert pool[2]["teacher"] == pool[1]["teacher"] != pool[2]["guard"]["candidate"]
    assert pool[5]["teacher"] == pool[4]["teacher"] == pool[3]["teacher"]
    said = [note for note in notes.notes if "may not teach" in note]
    assert "BLEU 19.40 on the dev set, 20.00 before" in said[0]
    assert "length ratio 1.11 on the dev set, 1.00 at first" in said[1]
    assert state(tmp_path)["best_bleu"] == 99


@pytest.mark.parametrize(
    ("keys", "what", "where"),
    [
        ({"select": "agreement"}, "only one", "select"),
        ({"search": {"nbest": 3}}, "finds no 3", "search.nbest"),
        ({"teacher": {"kind": "ema", "run": "x"}}, "cannot teach", "teacher.run"),
        ({"teacher": {"checkpoint": "average"}}, "of another run", "teacher.checkpoint"),
        (
            {"select": "agreement", "search": {"beam": 2, "nbest": 2}, "teacher": {"vote": 0.5}},
            "heard twice",
            "select",
        ),
        ({"filters": {"length_ratio": [2.0, 1.0]}}, "no length", "length_ratio"),
        ({"teacher": {"run": "no-such-run"}}, "no-such-run: this is no run dir", "teacher.run"),
        ({"parts": ["latent"]}, "no training pair can be completed", "objective.complete"),
        ({"parts": ["round-trip"]}, "no training pair can be completed", "objective.complete"),
    ],
)
def test_what_cannot_be_done_is_said_at_once(toy, tmp_path, keys, what, where):
    with pytest.raises(AccordError, match=what) as error:
        train(settings(toy, tmp_path, objective__complete=complete(start=10**6, **keys)))
    assert where in error.value.where


def test_a_model_that_has_learnt_nothing_may_not_teach(toy, tmp_path):
    with pytest.raises(AccordError, match="learnt nothing yet") as error:
        train(experiment(toy.file, tmp_path, objective__complete=complete(start=0)))
    assert "teacher.run" in error.value.fix


def test_a_teacher_of_which_nothing_is_kept_ends_the_run(toy, tmp_path):
    chosen = complete(filters={"length_ratio": [0.9999, 1.0]})
    with pytest.raises(AccordError, match="no translation of the teacher was kept in round 0"):
        train(settings(toy, tmp_path, objective__complete=chosen))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_error_of_training_tells_what_failed_before_it(toy, tmp_path, monkeypatch):
    """As on a GPU, where a recording that fails in the thread makes the next update fail."""
    made = RoundMaker.make

    def make(self, picks, facts):
        if facts["round"]:
            raise ValueError("the cause")
        return made(self, picks, facts)

    def update(*_):
        while any(thread.name == "pool" for thread in threading.enumerate()):
            time.sleep(0.001)
        raise RuntimeError("the symptom")

    monkeypatch.setattr(RoundMaker, "make", make)
    monkeypatch.setattr(Updater, "update", update)
    with pytest.raises(RuntimeError, match="the symptom") as error:
        train(settings(toy, tmp_path))
    assert "ValueError: the cause" in error.value.__notes__[0]


def test_without_dev_sentences_there_is_no_guard(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("accord.data.store.HeldOutSets.pair", lambda *_: ([], []))
    with pytest.raises(AccordError, match="no dev sentences"):
        train(settings(toy, tmp_path, objective__complete=complete(teacher={"kind": "rounds"})))
