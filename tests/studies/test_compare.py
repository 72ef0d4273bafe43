"""`accord compare`: runs side by side, tested against one and pivots, beside the paper, by size."""

import json
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from accord.cli import app
from accord.config.load import dump, load
from accord.config.model_settings import ModelSettings
from accord.config.shipped import recipe
from accord.inference.ensemble import Ensemble
from accord.inference.results import SearchSettings
from accord.studies.outcome import outcome_of
from accord.studies.systems import system_of
from made_runs import experiment, make_run

EUROPARL = ("en", "de", "es", "fr")
SYSTEMS = ("basic", "agree", "complete")
OBJECTIVES = {"agree": {"agreement": {}}, "complete": {"complete": {}}}


def compare(*arguments, code=0):
    """The runs are evaluated on test sentences, so this is final, or named."""
    said = ["compare", *map(str, arguments), *([] if "--name" in arguments else ["--final"])]
    result = CliRunner().invoke(app, said, env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def figures(directory, *arguments):
    compare(*arguments, "--json", directory / "figures.json")
    return json.loads((directory / "figures.json").read_text("utf-8"))


def differences(data, run):
    return {item["what"]: item for item in data["differences"] if item["run"] == run}


@pytest.fixture
def two(tmp_path):
    make_run(tmp_path / "basic", lost=0.8)
    make_run(tmp_path / "ours", lost=0.1, ensemble=Ensemble.parse("direct,via:en"))
    return tmp_path


def test_both_pivots_are_met(two):
    data = figures(two, two / "ours", two / "basic", "--against", two / "basic")
    ours, basic = differences(data, "ours"), differences(data, "basic")
    assert list(basic) == ["zero-shot − own pivot"]  # not against itself
    assert basic["zero-shot − own pivot"]["difference"] < 0
    assert list(ours) == [
        "supervised − basic",
        "zero-shot − basic",
        "zero-shot − pivot of basic",
        "ensemble − pivot of basic",
        "zero-shot − own pivot",
    ]
    gain = ours["zero-shot − basic"]
    assert gain["low"] > 0
    assert gain["low"] <= gain["difference"] <= gain["high"]
    assert gain["p"] < 0.01
    assert (
        ours["zero-shot − pivot of basic"]["difference"]
        > (basic["zero-shot − own pivot"]["difference"])
    )
    assert data["against"] == "basic"


def test_every_direction_is_in_the_figures(two):
    data = figures(two, two / "ours", two / "basic", "--against", two / "basic")
    ours = data["runs"][0]
    rows = json.loads((two / "ours/evaluation/test-beam4/evaluation.json").read_text("utf-8"))
    for row in (*rows["directions"], *rows["via_pivot"], *rows["by_ensemble"]):
        way = ".via-en" if row["via"] else ".ensemble-direct-via-en" if row["ensemble"] else ""
        found = ours["directions"][f"{row['source']}-{row['target']}{way}"]
        assert found["bleu"] == pytest.approx(row["bleu"]["score"], abs=1e-4)
        assert found["half_width"] == pytest.approx(row["bleu"]["confidence_var"], abs=1e-4)
        assert found["exact_match"] == pytest.approx(row["exact_match"], abs=1e-4)
    assert ours["exact_match"]["via pivot"] == pytest.approx(
        rows["averages"]["zero_shot_via_pivot"]["exact_match"], abs=1e-4
    )
    tests = differences(data, "ours")
    assert set(tests["supervised − basic"]["directions"]) == {"en-de", "en-fr", "de-en", "fr-en"}
    for item in tests.values():
        each = item["directions"].values()
        mean = sum(one["difference"] for one in each) / len(each)
        assert mean == pytest.approx(item["difference"], abs=1e-3)
        assert all(one["low"] <= one["high"] and 0 < one["p"] <= 1 for one in each)


def test_figures_stand_in_one_table(two):
    printed = compare(two / "basic", two / "ours").stdout
    first = printed.partition("Differences")[0]
    rows = {line.split()[0]: line.split() for line in first.splitlines() if line.strip()}
    data = figures(two, two / "basic", two / "ours")
    for run in data["runs"]:
        row = rows[run["run"]]
        assert row[1] == "400"
        for column in run["bleu"].values():
            assert f"{column['mean']:.2f}" in row
    assert "ensemble" in printed
    basic, ours = data["runs"]
    assert "ensemble" not in basic["bleu"]
    assert ours["bleu"]["ensemble"]["half_width"] > 0
    assert (data["evaluation"], basic["command"]) == ("test-beam4", "accord train")
    assert {"commit", "date", "accord", "how"} <= data.keys()


def test_a_run_to_test_against_need_not_be_listed(two):
    data = figures(two, two / "ours", "--against", two / "basic")
    assert [run["run"] for run in data["runs"]] == ["basic", "ours"]
    assert "zero-shot − basic" in differences(data, "ours")


def test_figures_tell_how_training_went(two):
    def logged(run, each, **more):
        shared = {"kind": "train", "nll": 2.0, "target_tokens": 3000.0, "seconds": each}
        dev = {"de-fr": {"kind": "zero-shot", "cross_entropy": 3.0, "bleu": 7.0}}
        lines = [
            {**shared, "step": 100, "training_seconds": 50.0 + each},
            {"kind": "validation", "step": 200, "directions": dev},
            {**shared, "step": 200, "training_seconds": 50.0 + 2 * each},
            *([{"kind": "pool", "step": 200, **more}] if more else []),
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (two / run / "metrics.jsonl").write_text(text, "utf-8")

    logged("basic", 2.0)
    logged("ours", 3.0, pairs=60, kept=50, seconds=7.0, dropped={"too_long": 10})
    data = figures(two, two / "ours", two / "basic", "--against", two / "basic")
    ours, basic = data["runs"]
    assert (basic["gold tokens per second"], basic["cost"], basic["rounds"]) == (1500, 1.0, [])
    assert (ours["gold tokens per second"], ours["cost"]) == (1000, 1.5)
    assert ours["rounds"] == [{"pairs": 60, "kept": 50, "seconds": 7.0}]
    assert ours["validations"] == {
        "200": {
            "seconds": 56.0,
            "supervised cross-entropy": None,
            "supervised bleu": None,
            "zero-shot cross-entropy": 3.0,
            "zero-shot bleu": 7.0,
        }
    }


@pytest.fixture
def seeds(tmp_path):
    """Three seeds of two systems, of which the third is another story."""
    for seed, (basic, ours) in enumerate([(0.8, 0.1), (0.7, 0.1), (0.75, 0.5)], start=1):
        make_run(tmp_path / f"basic-{seed}", lost=basic)
        make_run(tmp_path / f"ours-{seed}", lost=ours)
    return [tmp_path / f"{name}-{seed}" for name in ("basic", "ours") for seed in (1, 2, 3)]


def test_seeds_are_tested_one_by_one_and_together(seeds, tmp_path):
    data = figures(tmp_path, *seeds, "--against", seeds[0], "--over-seeds")
    each = [differences(data, f"ours-{seed}") for seed in (1, 2, 3)]
    own = [found[f"zero-shot − basic-{seed}"] for seed, found in enumerate(each, start=1)]
    pooled = differences(data, "ours")
    assert list(pooled) == [
        "supervised − basic",
        "zero-shot − basic",
        "zero-shot − pivot of basic",
        "zero-shot − own pivot",
    ]
    mean = pooled["zero-shot − basic"]
    assert mean["difference"] == pytest.approx(sum(x["difference"] for x in own) / 3, abs=1e-3)
    assert list(differences(data, "basic")) == ["zero-shot − own pivot"]
    # Seeds differ here by more than sentences do, and the interval knows.
    width = mean["high"] - mean["low"]
    assert width > 1.5 * max(x["high"] - x["low"] for x in own)
    assert min(x["difference"] for x in own) < mean["high"]
    assert set(mean["directions"]) == {"de-fr", "fr-de"}
    printed = compare(*seeds, "--against", seeds[0], "--over-seeds").stdout
    row = next(line for line in printed.splitlines() if line.split()[:1] == ["ours"])
    zero_shot = [run["bleu"]["zero-shot"]["mean"] for run in data["runs"][3:]]
    assert f"{sum(zero_shot) / 3:.2f}" in row.split()


def test_equal_seeds_add_no_doubt(tmp_path):
    runs = [tmp_path / name for name in ("basic-1", "basic-2", "ours-1", "ours-2")]
    for run in runs:
        make_run(run, lost=0.8 if run.name.startswith("basic") else 0.1)
    data = figures(tmp_path, *runs, "--against", runs[1], "--over-seeds")
    alone, pooled = (differences(data, name) for name in ("ours-1", "ours"))
    keys = ("difference", "low", "high", "p")
    one, all_of = alone["zero-shot − basic-1"], pooled["zero-shot − basic"]
    assert [one[key] for key in keys] == [all_of[key] for key in keys]


def test_seeds_without_a_partner_or_a_number(seeds, tmp_path):
    said = str(compare(*seeds[1:], "--against", seeds[1], "--over-seeds", code=1).exception)
    assert "there is no run basic-1 to test ours-1 against" in said
    make_run(tmp_path / "other", lost=0.5)
    said = str(compare(tmp_path / "other", *seeds, "--over-seeds", code=1).exception)
    assert "other does not say which seed of which system it is" in said


def test_tables_fit_eighty_columns(two):
    line = ["compare", str(two / "ours"), "--against", str(two / "basic"), "--final"]
    printed = CliRunner().invoke(app, line, env={"COLUMNS": "80"}).stdout
    assert max(map(len, printed.splitlines())) <= 80
    assert "zero-shot − pivot of basic" in printed


def test_what_was_not_evaluated_is_named(tmp_path):
    make_run(tmp_path / "basic", evaluated=False)
    told = str(compare(tmp_path / "basic", code=1).exception)
    assert "was not evaluated yet" in told
    assert "accord evaluate" in told


def test_dev_decides_unless_this_is_final(two):
    arguments = ["compare", str(two / "ours"), "--against", str(two / "basic")]

    def call(*more):
        return CliRunner().invoke(app, [*arguments, *more], env={"COLUMNS": "200"})

    told = str(call().exception)
    assert "no evaluation on dev sentences in common" in told
    assert "accord evaluate RUN --split dev" in told
    assert "--final or --name test-beam4" in told
    for run in ("ours", "basic"):
        make_run(two / run, split="dev", name="dev-beam4")
    assert call().stdout.startswith("dev-beam4: mean BLEU")
    assert "test sentences" not in call().stdout
    for more in (["--final"], ["--name", "test-beam4"]):
        printed = call(*more).stdout
        assert printed.startswith("test-beam4: mean BLEU")
        assert "note: these are test sentences" in printed
    assert call("--final", "--name", "test-beam4").exit_code == 2
    assert "on test sentences in common" in str(
        CliRunner().invoke(app, ["compare", str(only_dev(two)), "--final"]).exception
    )


def only_dev(directory):
    return make_run(directory / "only", split="dev", name="dev-beam4")


def test_other_lines_are_other_sentences(two):
    make_run(two / "first", lines=(1, 20), name="part")
    make_run(two / "second", lines=(21, 40), name="part")
    told = str(compare(two / "first", two / "second", "--name", "part", code=1).exception)
    assert "not evaluated alike: lines (1, 20) and (21, 40)" in told
    assert "with the same options" in told


def test_how_often_the_sentences_were_scored_is_kept(two):
    make_run(two / "ours", lost=0.1)
    data = figures(two, two / "ours", "--against", two / "basic")
    assert [run["times scored"] for run in data["runs"]] == [{"all": 1}, {"all": 2}]


def test_runs_that_were_not_evaluated_alike_are_refused(two):
    make_run(two / "wide", name="test-beam10", settings=SearchSettings(beam=10))
    told = str(compare(two / "basic", two / "wide", code=1).exception)
    assert "not evaluated alike: " in told
    assert "fix: run `accord evaluate`" in told
    make_run(two / "renamed", settings=SearchSettings(beam=10))  # under the same name
    told = str(compare(two / "basic", two / "renamed", code=1).exception)
    assert "basic and renamed were not evaluated alike: beam 4 and 10" in told
    make_run(two / "elsewhere", seed=5)
    told = str(compare(two / "basic", two / "elsewhere", code=1).exception)
    assert "basic and elsewhere were evaluated on different sentences" in told
    assert "fix: evaluate runs of the same test set" in told


def sentences(data):
    return {key: data["how"][key] for key in ("split", "limit", "lines")}


@pytest.mark.parametrize("written_as", [2, 3])
def test_a_search_of_its_own_is_compared_with_networks_under_one_name(two, written_as):
    """Format 2 has a beam for it, too."""
    wide, own = SearchSettings(beam=10), {"reads_search_settings": False}
    make_run(two / "wide", settings=wide)
    phrases = make_run(two / "phrases", settings=wide, written_as=written_as, **own)
    for runs in ((two / "basic", phrases), (phrases, two / "basic")):
        data = figures(two, *runs)
        assert (data["how"]["beam"], data["how"]["length_penalty"]) == (4, 0.6)
    told = str(compare(phrases, two / "basic", two / "wide", code=1).exception)
    assert "basic and wide were not evaluated alike: beam 4 and 10" in told
    data = figures(two, phrases, make_run(two / "other", **own))
    assert data["how"] == sentences(data)
    make_run(two / "part", limit=20, **own)
    told = str(compare(phrases, two / "part", code=1).exception)
    assert "phrases and part were not evaluated alike: limit None and 20" in told


# --- Beside the paper and by size.


def runs(directory, sizes, *, lost=None, **options):
    made = []
    for size in sizes:
        for name, share in (lost or {"basic": 0.8, "agree": 0.3}).items():
            objective = OBJECTIVES.get(name.partition("-")[0])
            run = directory / f"{name}-{size}"
            made.append(make_run(run, lost=share, objective=objective, pairs=size, **options))
    return made


def cells(page, label):
    line = next(x for x in page.splitlines() if x.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def outcome(directory, size, name="test-beam4", agree="agree"):
    made = {"basic": directory / f"basic-{size}", "agree": directory / f"{agree}-{size}"}
    if (directory / f"complete-{size}").is_dir():
        made["complete"] = directory / f"complete-{size}"
    return outcome_of(made, name)


def test_every_size_has_its_points(tmp_path):
    some = runs(tmp_path, (500, 1000))
    more = runs(tmp_path, (8000,), lost={"basic": 0.7, "agree": 0.2, "complete": 0.1})
    files = ["--markdown", tmp_path / "page.md", "--svg", tmp_path / "sizes.svg"]
    printed = compare(*more, *some, "--by-size", *files).stdout
    page = (tmp_path / "page.md").read_text("utf-8")
    largest = outcome(tmp_path, 8000)
    for system in ("Basic", "Pivot", "Agree", "Complete"):
        mean = largest.average(system.lower(), "zero_shot")
        assert cells(page, f"8,000, {system}")[2] == f"{mean.bleu:.2f}"
    gain = largest.tests["complete", "basic"].averages["zero_shot"].bleu
    assert cells(page, "8,000, Complete")[3] == f"{gain.difference:+.2f}"
    assert [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| 1,000")] == [
        "| 1,000",
        "| 1,000, Basic",
        "| 1,000, Pivot",
        "| 1,000, Agree",
    ]
    assert "at every size: **holds**" in page
    assert "at every size: holds" in printed
    svg = (tmp_path / "sizes.svg").read_text("utf-8")
    ElementTree.fromstring(svg)
    assert ">Complete<" in svg
    for tick in (">0.5<", ">1<", ">8<"):  # one at every size
        assert tick in svg


def test_a_size_needs_basic_and_agree(tmp_path):
    some = runs(tmp_path, (500,))
    told = str(compare(some[0], "--by-size", code=1).exception)
    assert "500 pairs of a corpus: 0 runs are Agree (none)" in told
    assert compare(*some, "--svg", tmp_path / "x.svg", code=2)


def test_one_evaluation_is_compared(tmp_path):
    some = runs(tmp_path, (500, 1000), name="test-beam4")
    runs(tmp_path, (500,), name="test-beam10")
    assert figures(tmp_path, *some, "--by-size")["evaluation"] == "test-beam4"
    runs(tmp_path, (1000,), name="test-beam10")
    for name in ("test-beam4", "test-beam10"):
        assert figures(tmp_path, *some, "--by-size", "--name", name)["evaluation"] == name
    assert "no evaluation 'x'" in str(compare(*some, "--name", "x", code=1).exception)


def with_the_papers_text(run):
    """As if it had been trained on Europarl v7, whose files may lie anywhere."""
    paper = load(recipe("europarl"), ["dev=other/dev2006.{lang}"])
    ours = load(run / "experiment.yaml")
    changes = {"corpora": paper.corpora, "dev": paper.dev, "test": paper.test}
    (run / "experiment.yaml").write_text(dump(ours.model_copy(update=changes)), "utf-8")


def test_the_paper_stands_beside(tmp_path):
    some = runs(tmp_path, (200_000,), languages=EUROPARL)
    for run in some:
        with_the_papers_text(run)
    data = figures(tmp_path, *some, "--paper", "europarl", "--markdown", tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text("utf-8")
    score = outcome(tmp_path, 200_000).row("agree", "de-fr").bleu
    row = cells(page.partition("beside the paper")[2], "de-fr")
    assert row[7:9] == ["24.45", f"{score.score:.2f} ±{score.confidence_var:.2f}"]
    assert page.count("**holds**") + page.count("**does not hold**") == 3
    assert len(data["paper"]["verdicts"]) == 3
    assert data["paper"]["averages"]["zero-shot"]["agree"] == 24.60
    assert data["paper"]["same data"] is True
    assert "26.28" in compare(*some, "--paper", "europarl").output
    assert compare(*some, "--paper", "europarle", code=2)


@pytest.mark.parametrize("limit", [None, 30])
def test_on_another_text_only_differences_stand_beside_the_paper(tmp_path, limit):
    some = runs(tmp_path, (200_000,), languages=EUROPARL, limit=limit)
    if limit:  # the paper's text, but not all of its test set
        for run in some:
            with_the_papers_text(run)
    data = figures(tmp_path, *some, "--paper", "europarl", "--markdown", tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text("utf-8").partition("beside the paper")[2]
    score = outcome(tmp_path, 200_000).row("agree", "de-fr").bleu
    assert cells(page, "de-fr")[3] == f"{score.score:.2f} ±{score.confidence_var:.2f}"
    assert "Not the paper's text" in page
    said = compare(*some, "--paper", "europarl").output
    for text in (page, said):
        assert "24.60" not in text
        assert "26.28" not in text
        assert "+2.35" in text  # Agree − Basic, as printed
        assert "−1.68" in text  # Agree − Pivot
    assert data["paper"]["same data"] is False


def test_every_run_with_agreement_gets_its_table(tmp_path):
    lost = {"basic": 0.8, "agree": 0.5, "agree-hard": 0.1}
    some = runs(tmp_path, (200_000,), lost=lost, languages=EUROPARL)
    compare(*some, "--paper", "europarl", "--markdown", tmp_path / "page.md")
    plain, hard = (tmp_path / "page.md").read_text("utf-8").split("beside the paper")[1:]
    scores = []
    for text, name in ((plain, "agree"), (hard, "agree-hard")):
        score = outcome(tmp_path, 200_000, agree=name).row("agree", "de-fr").bleu
        assert cells(text, "de-fr")[3] == f"{score.score:.2f} ±{score.confidence_var:.2f}"
        scores.append(score.score)
    assert scores[0] < scores[1]


def test_several_runs_with_complete_do_not_vanish_without_a_word(tmp_path):
    lost = {"basic": 0.8, "agree": 0.5, "complete": 0.2, "complete-more": 0.1}
    some = runs(tmp_path, (200_000,), lost=lost, languages=EUROPARL)
    said = "several runs have it (complete-200000, complete-more-200000). Name only one of them."
    printed = compare(*some, "--paper", "europarl", "--markdown", tmp_path / "page.md").output
    assert said in printed
    assert said in (tmp_path / "page.md").read_text("utf-8")
    printed = compare(*some[:3], "--paper", "europarl", "--markdown", tmp_path / "page.md").output
    assert "several runs have it" not in printed
    assert "| Complete |" in (tmp_path / "page.md").read_text("utf-8")


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": {"agreement": {"weight": 0, "encoder_weight": 1}}},
        {"objective": {"complete": {"preset": "sentence-greedy"}}},
        {"model": {"kind": "phrase-based"}},
        {"model": {"generator": {"size": 2}}},
    ],
)
def test_a_rival_is_none_of_the_paper_s_systems(tmp_path, changes):
    systems = {system_of(experiment(objective=OBJECTIVES.get(name))): name for name in SYSTEMS}
    assert systems == {name: name for name in SYSTEMS}
    off = {"agreement": {"weight": 0}, "complete": {"weight": 0}}
    assert system_of(experiment(objective=off)) == "basic"
    rival = experiment(objective=changes.get("objective"))
    kinds = {"model": ModelSettings.model_validate(changes["model"])} if "model" in changes else {}
    assert system_of(rival.model_copy(update=kinds)) is None


def test_who_is_basic_must_be_clear(tmp_path):
    some = runs(tmp_path, (200_000,), lost={"basic": 0.8, "agree": 0.3}, languages=EUROPARL)
    other = make_run(tmp_path / "more", lost=0.7, languages=EUROPARL, pairs=200_000)
    told = str(compare(*some, other, "--paper", "europarl", code=1).exception)
    assert "2 runs are Basic" in told
    assert "--against" in told
    assert compare(*some, other, "--against", other, "--paper", "europarl")
    told = str(compare(some[0], "--paper", "europarl", code=1).exception)
    assert "no run was trained with agreement" in told
