"""Rounds are made once, by the right teacher, and found again."""

import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from accord.config.third_languages import Triads
from accord.data.store import ParallelCorpus, Sentences
from accord.errors import AccordError
from accord.graph import Direction, TranslationGraph
from accord.objectives.distillation.background import Worker
from accord.objectives.distillation.filters import FATES
from accord.objectives.distillation.pool import Pool, prune_rounds
from accord.objectives.distillation.rounds import Origins, Round
from accord.objectives.distillation.sampling import Picker
from accord.objectives.distillation.teacher import Cancelled
from accord.ops.distributed import World

CPU = torch.device("cpu")
GRAPH = TranslationGraph(
    ("en", "de", "fr"),
    frozenset(Direction(*d) for x in ("de", "fr") for d in (("en", x), (x, "en"))),
)
SIDE = Sentences.of([[7]] * 10)
CORPORA = [ParallelCorpus(("en", x), (SIDE, SIDE), (("en", x),)) for x in ("de", "fr")]


class Maker:
    """Puts the number of a line into its translation."""

    def __init__(self):
        self.made = []

    def make(self, picks, facts):
        self.made.append((facts["round"], facts["teacher"]))
        columns = picks.place_N, picks.corpus_N, picks.line_N, picks.side_N, picks.third_N
        account = {"pairs": len(picks), "fates": dict.fromkeys(FATES, 0), "source_tokens": 1,
                   "target_tokens": 1, "seconds": 0.0}  # fmt: skip
        return Round(
            Origins(*columns), Sentences.of([[i] for i in picks.line_N.tolist()]), facts | account
        )


def a_pool(directory, maker, loaded=None):
    picker = Picker(CORPORA, Triads(GRAPH, ["distillation"]), pairs=6, seed=1)
    loads = [] if loaded is None else loaded
    return Pool(directory, picker, maker, Worker(CPU), World(0, 1, CPU), loads.append)


def test_a_round_is_on_disk_when_it_is_taken_and_not_made_twice(tmp_path):
    maker, loaded = Maker(), []
    pool = a_pool(tmp_path, maker, loaded)
    pool.request(3, "step-1", "x")
    made = pool.take(3)
    assert loaded == ["step-1"]
    assert Round.load(pool.path(3)).sentences.ids.tolist() == made.sentences.ids.tolist()
    again = a_pool(tmp_path, maker, loaded)
    again.request(3, "step-1", "x")
    assert again.take(3).origins.line_N.tolist() == made.origins.line_N.tolist()
    assert maker.made == [(3, "step-1")]
    assert loaded == ["step-1"]


@pytest.mark.parametrize(("teacher", "settings"), [("step-2", "x"), ("step-1", "y")])
def test_a_round_of_another_teacher_or_other_settings_is_another(tmp_path, teacher, settings):
    maker = Maker()
    for key in (("step-1", "x"), (teacher, settings)):
        pool = a_pool(tmp_path, maker)
        pool.request(0, *key)
        found = pool.take(0)
    assert len(maker.made) == 2
    assert (found.facts["teacher"], found.facts["settings"]) == (teacher, settings)


def test_what_goes_wrong_is_raised_when_the_round_is_wanted(tmp_path):
    pool = a_pool(tmp_path, Maker())
    pool.maker.make = lambda *_: 1 / 0
    pool.request(0, "step-1", "x")
    with pytest.raises(ZeroDivisionError):
        pool.take(0)
    assert not list(tmp_path.iterdir())


def test_waiting_can_be_given_up(tmp_path):
    pool, go_on = a_pool(tmp_path, Maker()), threading.Event()
    pool.maker.make = lambda *_: go_on.wait(20)
    pool._told = lambda: True
    pool.request(0, "step-1", "x")
    with pytest.raises(Cancelled):
        pool.take(0)
    go_on.set()


@dataclass(frozen=True)
class Two(World):
    """One of two processes; `others` are the flags that the other one has up, in turn."""

    others: list = field(default_factory=list)

    def any(self, flag):
        return (self.others.pop(0) if self.others else False) or flag

    def share(self, text):
        return text


@pytest.mark.parametrize("damage", [None, "gone", "cut"])
def test_a_round_without_one_of_its_shares_is_none(tmp_path, damage):
    shares = [Maker(), Maker()]
    pools = [a_pool(tmp_path, maker) for maker in shares]
    for rank, pool in enumerate(pools):
        pool.world = Two(rank, 2, CPU)
        pool.worker.start(lambda pool=pool: pool._make(0, {"round": 0, "teacher": "a"}))
        pool.worker.wait(20)
    path = pools[1]._share(0, 1)
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-7])
    if damage is None:
        assert len(pools[0].take(0)) == 6
        return
    with pytest.raises(AccordError, match="cannot be read") as error:
        pools[0].take(0)
    assert error.value.where == str(path)
    assert not pools[0].path(0).exists()


def test_what_goes_wrong_in_another_process_is_said_to_be_there(tmp_path):
    pool = a_pool(tmp_path, Maker())
    pool.world = Two(0, 2, CPU, [False, True])  # it has ended, and badly
    pool.request(0, "step-1", "x")
    with pytest.raises(AccordError, match="another process could not"):
        pool.take(0)


def test_rounds_that_nobody_needs_are_deleted(tmp_path):
    kept = ["round-000002.npz", "round-000003.1-of-2.npz", "round-1000000.npz", "other.txt"]
    for name in [*kept, "round-000001.npz", "round-000001.0-of-2.npz", "round-x"]:
        (tmp_path / name).write_text("")
    prune_rounds(tmp_path, {2, 3, 10**6})
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(kept)
    prune_rounds(tmp_path / "not there", {1})


def test_rounds_differ(tmp_path):
    pool = a_pool(tmp_path, Maker())
    lines = []
    for number in range(3):
        pool.request(number, "step-1", "x")
        lines.append(pool.take(number).origins.line_N)
    assert not np.array_equal(lines[0], lines[1])
