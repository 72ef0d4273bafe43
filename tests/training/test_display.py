"""What is said before training, and while it goes on."""

import json
import math
import time

import pytest

from accord.training.display import Display, duration, prospect
from accord.training.trainer import train
from accord.training.validation import DirectionScores, Scores
from toy_training import Notes, experiment, prepared


@pytest.fixture
def toy(tmp_path_factory):
    return prepared(tmp_path_factory.getbasetemp())


class Seen(Notes):
    """Remembers lines and rows as well."""

    def __init__(self):
        super().__init__()
        self.lines, self.rows = [], []

    def reach(self, done, detail="", line=None):
        super().reach(done, detail)
        self.lines.append(line)

    def row(self, cells, text):
        self.rows.append(cells)


def values(loss=2.0, seconds=4.0, steps=2, speed=1234.5):
    plain = {"perplexity": 7.4, "lr": 0.01, "source_tokens_per_s": 900.0, "wait_share": 0.0}
    return plain | {
        "loss": loss,
        "seconds": seconds,
        "steps": steps,
        "target_tokens_per_s": speed,
    }


def coming(settings, **facts):
    known = {"parameters": 1_234_567, "per_epoch": 50, "done": 0, "seconds": 0.0, "limit": math.inf}
    return list(prospect(settings, **known | {"per_update": 0.5, "on_cpu": True} | facts))


def test_what_is_to_come(toy, tmp_path):
    settings = experiment(toy, tmp_path, training__steps=100)
    assert coming(settings) == [
        "gnmt: 1,234,567 parameters; batches of 128 tokens, 50 updates per epoch",
        "100 updates to do (2.0 epochs): about 50 seconds, validations not counted",
    ]
    assert coming(settings, done=80)[1].startswith("20 updates to do (0.4 epochs): about 10 s")
    assert coming(settings, per_update=None)[1] == "100 updates (2.0 epochs) to do"


def test_minutes_end_it_earlier_than_steps(toy, tmp_path):
    settings = experiment(toy, tmp_path, training__steps=100_000)
    first, *more = coming(settings, limit=300.0)[1:]
    assert first.startswith("600 updates to do (12.0 epochs): about 5.0 minutes")
    assert not more
    assert coming(settings, limit=300.0, seconds=240.0)[1].startswith("120 updates to do")
    assert len(coming(settings, limit=300.0, seconds=301.0)) == 1
    assert len(coming(settings, limit=300.0, done=100_000)) == 1


def test_a_long_run_on_a_cpu_is_warned_of_with_the_setting_to_change(toy, tmp_path):
    settings = experiment(toy, tmp_path, training__steps=100_000)
    *_, warning = coming(settings)
    assert "--set training.minutes=10" in warning
    assert "1,200 updates" in warning
    assert len(coming(settings, on_cpu=False)) == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 second"), (90, "90 seconds"), (150, "2.5 minutes"), (9000, "2.5 hours")],
)
def test_lengths_of_time_in_words(seconds, words):
    assert duration(seconds) == words


def test_the_line_says_step_loss_speed_and_time_left(toy, tmp_path):
    seen = Seen()
    display = Display(seen, experiment(toy, tmp_path, training__steps=1000).training)
    display.logged(500, 60.0, values())
    line = seen.lines[-1]
    assert (line.count, line.share) == ("500/1,000", 0.5)
    assert line.text == "loss 2.000 1.23k tok/s left 16:40"
    display.logged(510, 60.0, values(loss=None, seconds=10.0, steps=10, speed=2_345_678.0))
    # 14 seconds in the last twelve updates
    assert seen.lines[-1].text == "loss nan 2.35M tok/s left 9:31"


def test_the_line_says_the_share_of_minutes(toy, tmp_path):
    seen = Seen()
    display = Display(seen, experiment(toy, tmp_path, training__steps=1000).training)
    display.begin(0, 600.0)
    display.logged(10, 150.0, values())
    line = seen.lines[-1]
    assert (line.count, line.share) == ("10 in 2.5/10 min", 0.25)
    assert line.text.endswith("left 7:30")


def test_between_lines_of_the_log_it_looks_once_a_second(toy, tmp_path, monkeypatch):
    now, looks, seen = 50.0, [], Seen()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    display = Display(seen, experiment(toy, tmp_path).training)
    for step in range(1, 31):
        display.updated(step, 1.0, lambda: looks.append(1) or values())
        now += 0.1
    assert len(looks) == 3
    assert len(seen.lines) == 3
    assert set(seen.details) == {""}


def scores(agreement=None, bleu=12.34):
    found = {
        "en-de": DirectionScores("supervised", 2.0, bleu, 0.05),
        "de-fr": DirectionScores("zero-shot", 4.0, bleu and bleu / 2, 0.0),
    }
    return Scores(found, "cross_entropy", 2.0, bleu, bleu and 0.05, agreement)


def test_a_row_for_each_validation(toy, tmp_path):
    seen = Seen()
    display = Display(seen, experiment(toy, tmp_path).training)
    display.validated(1500, 75.0, scores(agreement=33.3), best=True)
    display.validated(3000, 150.0, scores(bleu=None), best=False)
    assert seen.rows == [
        {
            "step": "1,500",
            "time": "1:15",
            "dev loss": "2.000",
            "BLEU": "12.3",
            "exact": "5%",
            "zero-shot BLEU": "6.2",
            "agreement": "33.3",
            "": "best",
        },
        {"step": "3,000", "time": "2:30", "dev loss": "2.000", "": ""},
    ]


def test_a_run_is_seen_at_work_before_its_first_line_of_the_log(toy, tmp_path):
    """And what is shown is what the log says in the end, if nothing is added in between."""
    seen = Seen()
    settings = experiment(toy, tmp_path, training__steps=1, training__log_every=1000)
    train(settings, progress=seen, estimate=True)
    said = " ".join(seen.notes)
    assert "updates per epoch" in said
    assert "1 updates to do" in said
    first, *_, last = [line for line in seen.lines if line is not None]
    assert first.text.startswith("loss ")
    assert first.text.split()[:2] == last.text.split()[:2]


@pytest.mark.parametrize("objective", [{}, {"agreement": {"weight": 0.1, "start": 1}}])
def test_trying_a_batch_first_changes_nothing(toy, tmp_path, objective):
    found = []
    for estimate in (False, True):
        run = tmp_path / str(estimate)
        train(experiment(toy, run, training__steps=3, objective=objective), estimate=estimate)
        lines = (run / "metrics.jsonl").read_text().splitlines()
        found.append([json.loads(line).get("loss") for line in lines])
    assert found[0] == found[1]


def test_the_best_row_is_marked_and_those_that_are_worse_are_not(toy, tmp_path, monkeypatch):
    seen = Seen()
    settings = experiment(
        toy, tmp_path, training__steps=3, training__validation={"every": 1, "sentences": 0}
    )
    losses = iter([2.0, 3.0, 1.0])

    def measured(self, model):
        return Scores({}, "cross_entropy", next(losses), None, None)

    monkeypatch.setattr("accord.training.validation.Validator.__call__", measured)
    train(settings, progress=seen)
    assert [row[""] for row in seen.rows] == ["best", "", "best"]
