import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from accord.cli import app
from accord.errors import AccordError
from accord.evaluation.folder import evaluation_directory, write
from accord.evaluation.matrix import evaluate
from accord.evaluation.selection import (
    Point,
    choices,
    evaluations,
    kendall,
    pearson,
    ranks,
    validations,
)
from accord.inference.results import SearchSettings
from fake_translator import Tools


def test_correlations_by_hand():
    one, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 5.0])
    assert pearson(one, other) == pytest.approx(np.corrcoef(one, other)[0, 1])
    assert pearson(ranks(one), ranks(other)) == pytest.approx(0.8)
    assert kendall(one, other) == pytest.approx(4 / 6)  # five pairs in order, one not
    assert kendall(one, -one) == pytest.approx(-1)
    assert ranks(np.array([5.0, 1.0, 5.0, 7.0])).tolist() == [2.5, 1, 2.5, 4]
    # tau-b with one tie: two pairs in order of 3, of which 2 are untied in the first list.
    tied = kendall(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert tied == pytest.approx(2 / math.sqrt(2 * 3))
    assert math.isnan(pearson(np.ones(3), one[:3]))
    assert math.isnan(kendall(np.ones(3), one[:3]))


def test_what_a_score_chooses_and_what_that_costs():
    points = [
        Point("early", 5.0, {"good": 1.0, "bad": 9.0}),
        Point("middle", 12.0, {"good": 2.0, "bad": 1.0}),
        Point("late", 11.0, {"good": 3.0, "bad": 2.0}),
    ]
    good, bad = choices(points)
    assert (good.score, good.chosen, good.bleu, good.best) == ("good", "late", 11.0, 12.0)
    assert (bad.chosen, bad.bleu) == ("early", 5.0)
    assert bad.pearson < 0 < good.pearson
    assert good.points == 3


def validation(step, agreement, supervised, zero_shot):
    rows = {"en-de": ("supervised", supervised), "de-fr": ("zero-shot", zero_shot)}
    return {
        "kind": "validation",
        "step": step,
        "agreement": agreement,
        "directions": {
            name: {"kind": kind, "bleu": bleu, "cross_entropy": 3.0 - step / 1000}
            for name, (kind, bleu) in rows.items()
            if bleu is not None
        },
    }


def written(run, lines):
    run.mkdir()
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (run / "metrics.jsonl").write_text(text + '{"kind": "valid', "utf-8")  # killed while writing
    return run


def test_validations_that_watched_everything_are_points(tmp_path):
    run = written(
        tmp_path / "run",
        [
            {"kind": "train", "step": 50},
            validation(100, 36.0, 25.0, 4.0),
            validation(200, None, 25.0, 4.0),
            validation(300, 49.0, 25.0, None),
            validation(1400, 49.0, 36.0, 9.0),
        ],
    )
    one, two = validations(run)
    assert (one.name, two.name) == ("run, step 100", "run, step 1,400")
    assert (one.zero_shot, two.zero_shot) == (4.0, 9.0)
    assert list(two.scores.values()) == pytest.approx([49.0, 42.0, 36.0, -1.6])
    with pytest.raises(AccordError, match="run directory"):
        validations(tmp_path / "nothing")


def test_evaluations_alike_are_points_of_one_group(tmp_path):
    make = Tools(tmp_path)
    graph = make.star("en", "de", "fr", "es")
    held_out = make.held_out([("all", graph.languages, range(30))])
    runs = [tmp_path / name for name in ("a", "b", "c")]
    for run, rate in zip(runs, (2, 4, 9), strict=True):
        translator = make.translator(graph, make.loses_words(graph, rate))
        for beam in (1, 4):
            found = evaluate(translator, held_out, make.origin, settings=SearchSettings(beam=beam))
            write(found, evaluation_directory(run, found.evaluation.name))
    groups = evaluations(runs)
    assert set(groups) == {"test-beam1", "test-beam4"}
    for points in groups.values():
        assert [point.name for point in points] == ["a, best", "b, best", "c, best"]
        by_score = {choice.score: choice for choice in choices(points)}
        assert by_score["agreement"].spearman == pytest.approx(1)
        assert by_score["agreement"].chosen == "c, best"


def test_the_command_prints_tables(tmp_path):
    lines = [validation(step, 20.0 + step / 10, 30.0, step / 20) for step in (100, 200, 300)]
    runs = [written(tmp_path / name, lines[: 3 if name == "one" else 1]) for name in ("one", "two")]
    line = ["compare", *map(str, runs), "--selection", "validations"]
    found = CliRunner().invoke(app, line).stdout
    assert "| agreement | +1.000 | +1.000 | +1.000 | one, step 300 | 15.00 | 15.00 |" in found
    assert "1 points: too few" in found
    assert "## all runs" in found
    assert CliRunner().invoke(app, [*line[:-1], "epochs"]).exit_code == 2
