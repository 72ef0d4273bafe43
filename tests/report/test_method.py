"""Which method a run is, what to set next, and how far language identification can be trusted."""

from dataclasses import replace

import pytest

from accord.evaluation.records import Evaluated
from accord.report.contents import build
from accord.report.html import html
from accord.report.identification import identification
from accord.report.markdown import markdown
from accord.report.method import advice, method
from made_runs import experiment, make_run

AGREE = {"agreement": {"start": 100, "weight": 0.3, "decoding": "hard"}}
COMPLETE = {"complete": {"start": 100}}
ENCODINGS = {
    "agreement": {
        "start": 100,
        "weight": 0,
        "encoder_weight": 1,
        "encoder_measure": "contrastive",
    }
}
DUAL = {"dual": {"start": 5, "language_model": "runs/lm"}}
PUBLISHED = {"start": 5, "language_model": "runs/lm", "likelihood": False}
BACK = {"back_translation": {"start": 100}}
ALL = {"complete": {"start": 0, "weight": 1, "every": 1}}


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ({}, "Basic; GNMT of"),
        (AGREE, "Basic with agreement (Agree: hard, weight 0.3, from step 101); GNMT"),
        (COMPLETE, "Basic with synthetic pairs (Complete: frozen teacher, weight 0.5, from st"),
        ({"consistency": {}}, "Basic with consistency (CrossConST: weight 0.25, from step 1);"),
        (ENCODINGS, "Basic with agreement of encodings (contrastive, weight 1, from step 101); G"),
        ({"denoise": {}}, "Basic with denoising (weight 0.5, from step 1); GNMT"),
        (BACK, "Basic with online back-translation (RoBT: all, weight 1, from step 101); GNMT"),
        (DUAL, "Basic with dual learning (Dual-0: alpha 0.01, weight 0.1, from step 6);"),
        ({"tie": {}}, "Basic with tied vectors of en (Soft pivot: weight 0.1, from step 1); GNMT"),
        (AGREE | COMPLETE, "Basic with agreement (Agree: hard, weight 0.3, from step 101) and syn"),
        ({"agreement": {"start": 400}}, "Basic; not begun by step 400: agreement (Agree"),
        ({"agreement": {"weight": 0}}, "Basic; GNMT of"),
    ],
)
def test_the_method(objective, said):
    assert method(experiment(objective=objective), 400).startswith(said)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "Basic up to step 5, then no likelihood of gold pairs, but dual learning (Dual-0: al"),
        ({"start": 0}, "No likelihood of gold pairs, but dual learning (Dual-0: alpha 0.01, w"),
        ({"start": 399}, "Basic up to step 399, then no likelihood of gold pairs, but dual learn"),
        ({"start": 400}, "Basic; not begun by step 400: dual learning (Dual-0: alpha 0.01, weight"),
        ({"weight": 0}, "Basic; GNMT of"),
    ],
)
def test_dual_learning_that_takes_the_place_of_gold_pairs_is_not_beside_them(keys, said):
    chosen = {"dual": PUBLISHED | keys}
    assert method(experiment(objective=chosen), 400).startswith(said)


SHARED = ", one table for sources and targets (model.tables: shared)"
SEPARATE = ", separate tables for sources and targets (model.tables: separate)"


@pytest.mark.parametrize(
    ("kind", "tables", "said"),
    [
        ("gnmt", None, ""),
        ("gnmt", "separate", ""),
        ("gnmt", "shared", SHARED),
        ("transformer", None, ""),
        ("transformer", "shared", ""),
        ("transformer", "separate", SEPARATE),
    ],
)
def test_tables_are_named_that_others_of_the_kind_do_not_have(kind, tables, said):
    found = method(experiment(model={"kind": kind, "tables": tables}), 400)
    assert found.endswith(f" of 512 units{said}.")


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ({}, "objective: {complete: {start: 400}}, see docs/complete.md, or objective: {agreement"),
        (AGREE, "branch off from this run (training.init_from) with objective: {complete: {start"),
        (COMPLETE, "objective.complete.weight: 1 and objective.complete.every: 1"),
        (ALL, "let a better model teach (objective.complete.teacher.run)"),
        ({"agreement": {"start": 400}}, "had not begun by step 400"),
    ],
)
def test_the_key_to_set_next(tmp_path, objective, said):
    report = build([make_run(tmp_path / "run", off_target=0.8, objective=objective)])
    assert report.answer.verdict == "no"
    assert said in report.advice
    assert report.advice.split(":")[0] in html(report)
    assert "**Next:** " in markdown(report)


def test_a_run_that_cannot_translate_at_all_trains_longer(tmp_path):
    report = build([make_run(tmp_path / "run", off_target=0.8)])
    averages = report.main.evaluation.averages
    poor = averages | {"supervised": replace(averages["supervised"], bleu=2.5)}
    evaluation = replace(report.main.evaluation, averages=poor)
    said = advice("no", report.main.experiment, evaluation)
    assert said.startswith("Directions with data do not work yet either (BLEU 2.5): train longer")


@pytest.mark.parametrize("objective", [{}, {"tie": {}}, {"agreement": {"weight": 0}}])
def test_nothing_is_advised_that_a_model_with_a_generator_is_refused(tmp_path, objective):
    """Whoever did as a plain model's report says would only see an error."""
    model = {"generator": {"size": 8}}
    chosen = experiment(objective=objective, model=model)
    report = build([make_run(tmp_path / "run", off_target=0.8)])
    said = advice("no", chosen, report.main.evaluation)
    assert "training.init_from" not in said
    assert "objective: {" not in said
    assert "by way of a pivot (accord translate --via auto)" in said
    assert "a model without a generator" in said


def test_a_good_run_needs_no_advice(tmp_path):
    report = build([make_run(tmp_path / "run", lost=0.0)])
    assert report.answer.verdict == "yes"
    assert report.advice == ""
    assert "Next:" not in html(report)


SENTENCES = {
    "en": "the old house stands at the end of the long road",
    "de": "das alte Haus steht am Ende der langen Straße dort",
    "fr": "la vieille maison se trouve au bout de la longue rue",
}


def with_references(found: Evaluated, wrong: int) -> Evaluated:
    """Real sentences for references, `wrong` of the English ones in French."""

    def made(language, number):
        real = "fr" if language == "en" and number < wrong else language
        return f"{SENTENCES[real]} {number}"

    return replace(
        found,
        lines=tuple(
            replace(
                item,
                references=tuple(made(item.direction.target, i) for i in range(len(item.sources))),
            )
            for item in found.lines
        ),
    )


@pytest.mark.parametrize("wrong", [0, 4])
def test_language_identification_is_measured_on_the_references(tmp_path, wrong):
    report = build([make_run(tmp_path / "run")])
    found = identification(with_references(report.main.evaluated, wrong))
    assert found.errors == {"en": (wrong, 40), "de": (0, 40), "fr": (0, 40)}
    right = "was right on all 120 references"
    share = "takes 3.3\u00a0% of the references themselves for another language (4 of 120; "
    assert (share if wrong else right) in found.words
    report.__dict__["identification"] = found
    for text in (html(report), markdown(report)):
        assert "references" in text
        assert ("10.0\u00a0%" in text) == bool(wrong)


def test_nothing_is_said_of_identification_where_there_are_no_rates(tmp_path):
    report = build([make_run(tmp_path / "run", off_target=None, pivot=False)])
    assert report.identification is None
    assert "Language identification" not in html(report)
