"""Plans: stages, commands, estimates, for every setting and scale; nothing is run."""

from pathlib import Path

import pytest

from accord.config.load import load
from accord.config.schema import DATA_KEYS
from accord.config.shipped import recipe
from accord.studies.branches import Options
from accord.studies.commands import assignment
from accord.studies.estimates import disk, hours, overview
from accord.studies.paper import SETTINGS, find_setting, size_name
from accord.studies.reproduction import make_plan

TABLES = [name for name, setting in SETTINGS.items() if not setting.by_size]


def plan_of(name, **keys):
    return make_plan(find_setting(name), **keys)


def experiments(plan):
    return {
        stage.run: stage.study.run_experiment(stage.run)
        for stage in plan.stages
        if stage.kind == "train"
    }


@pytest.mark.parametrize("scale", ["full", "small"])
@pytest.mark.parametrize("name", TABLES)
def test_branches_differ_in_the_objective_alone(name, scale, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = experiments(plan_of(name, scale=scale, options=Options(complete=True)))
    assert list(found) == ["burn-in", "basic", "agree", "complete"]
    start = found["agree"].objective.agreement.start
    assert found["burn-in"].training.steps == start
    assert found["complete"].objective.complete.start == start
    for name_of, experiment in found.items():
        assert (experiment.objective.agreement is not None) == (name_of == "agree")
        assert (experiment.objective.complete is not None) == (name_of == "complete")
    branches = [found[name] for name in ("basic", "agree", "complete")]
    assert len({e.training for e in branches}) == 1  # steps and origin among them
    assert branches[0].training.validation.patience is None
    assert (
        len({e.model_dump_json(exclude={"objective", "run", "training"}) for e in found.values()})
        == 1
    )


@pytest.mark.parametrize("name", TABLES)
def test_the_data_is_the_recipe_s(name):
    mine = plan_of(name).studies[0].experiment
    assert mine.model_dump(include=set(DATA_KEYS)) == load(recipe(name)).model_dump(
        include=set(DATA_KEYS)
    )


@pytest.mark.parametrize("name", TABLES)
def test_data_elsewhere(name):
    """Every file is looked for below --data, and nothing else changes."""
    mine = plan_of(name, data=Path("/big disk")).studies[0].experiment
    texts = mine.model_dump_json(include={"corpora", "dev", "test"})
    dataset = SETTINGS[name].dataset
    assert texts.count('"data/') == 0
    assert texts.count(f"/big disk/{dataset}/") >= len(mine.corpora) + 2
    usual = plan_of(name).studies[0].experiment
    assert texts.replace("/big disk/", "data/") == usual.model_dump_json(
        include={"corpora", "dev", "test"}
    )


def test_small_scale_is_the_small_recipe_in_its_own_place():
    full, small = plan_of("un2"), plan_of("un2", scale="small")
    assert (str(full.directory), str(small.directory)) == ("reproduce/un2", "reproduce/un2-small")
    assert small.studies[0].recipe.name == "un2-small.yaml"
    assert small.studies[0].experiment.store == "reproduce/un2-small/store"


@pytest.mark.parametrize("scale", ["full", "small"])
def test_small_data_is_a_study_a_size(scale):
    plan = plan_of("small-data", scale=scale, sizes=(50_000, 450_000))
    assert [study.directory.name for study in plan.studies] == ["50k", "450k"]
    for study, size in zip(plan.studies, plan.sizes, strict=True):
        assert {corpus.limit for corpus in study.experiment.corpora} == {size}
        assert study.experiment.name == f"small-data-{size_name(size)}"
    assert plan.options.split == "dev"
    assert [stage.kind for stage in plan.stages].count("fetch") == 1
    full = load(recipe("small-data")).training.steps
    assert plan.studies[0].experiment.training.steps == (full if scale == "full" else 6000)


def test_the_user_s_changes_come_last():
    plan = plan_of("europarl", overrides=["training.validation.patience=7", "seed=3"])
    training = experiments(plan)["basic"].training
    assert training.validation.patience == 7
    assert {experiment.seed for experiment in experiments(plan).values()} == {3}


def test_complete_takes_the_user_s_settings_and_others_do_not():
    changes = ["objective.complete.weight=0.3"]
    found = experiments(plan_of("europarl", overrides=changes, options=Options(complete=True)))
    assert found["complete"].objective.complete.weight == 0.3
    assert found["basic"].objective.complete is found["agree"].objective.complete is None


@pytest.mark.parametrize("scale", ["full", "small"])
def test_complete_has_a_stage_with_its_time_unless_it_is_left_out(scale):
    """What a reproduction was before Complete is what it is without: the same stages but for it."""
    with_it = plan_of("europarl", scale=scale)
    without = plan_of("europarl", scale=scale, options=Options(complete=False))
    shown = overview(with_it)
    assert "Complete, from the same checkpoint, as many updates [about" in shown
    assert "omplete" not in overview(without)
    kept = [stage.command for stage in with_it.stages if "/complete" not in stage.command]
    assert kept == [stage.command for stage in without.stages[:-1]]


def test_the_report_has_published_columns_where_the_text_is_the_paper_s():
    def reports(*arguments, **keys):
        plan = plan_of(*arguments, **keys)
        return [stage.command for stage in plan.stages if stage.kind == "report"]

    assert "--paper europarl" in reports("europarl", scale="small")[0]
    assert "--paper" not in reports("europarl", overrides=["corpora.0.limit=1000"])[0]
    assert not any("--paper" in command for command in reports("small-data", sizes=(50_000,)))


def test_fetch_is_told_where_from_and_that_terms_are_accepted():
    plan = plan_of("un1", data=Path("d"), source=Path("my files"), accepted=True)
    assert plan.stages[0].command == "accord fetch un --data d --files 'my files' --yes"


@pytest.mark.parametrize("value", ["plain/path", "a: b", "123", "null", "- x", "[x", "'", "a #b"])
def test_values_are_read_back_as_they_are(value, tmp_path):
    file = tmp_path / "e.yaml"
    file.write_text("{languages: [en, de], corpora: [{pair: en-de, train: 't.{lang}'}]}", "utf-8")
    assert load(file, [assignment("run", value)]).run == value


# --- estimates -------------------------------------------------------------------------------


def test_an_hour_on_one_gpu():
    """What the small recipes promise, by the figures of the benchmarks; text apart."""
    for name in TABLES:
        plan = plan_of(name, scale="small")
        work = [stage for stage in plan.stages if stage.kind in ("train", "evaluate")]
        assert 0.1 < sum(hours(stage, plan) for stage in work) < 1


def test_complete_costs_by_how_often_and_how_fresh():
    def times_basic(*changes):
        plan = plan_of("europarl", overrides=changes, options=Options(complete=True))
        stages = {stage.run: stage for stage in plan.stages if stage.kind == "train"}
        return hours(stages["complete"], plan) / hours(stages["basic"], plan)

    assert times_basic() == pytest.approx(1.41, abs=0.01)  # as measured
    assert times_basic("objective.complete.uses=1") > times_basic()
    assert times_basic("objective.complete.every=2") > times_basic()


def test_speed_is_in_tokens_a_second():
    plan = plan_of("europarl")
    burn_in = next(stage for stage in plan.stages if stage.kind == "train")
    tokens = 100_000 * 0.87 * 4096
    assert hours(burn_in, plan, 100_000) == pytest.approx(tokens / 100_000 / 3600)
    assert hours(burn_in, plan, 50_000) == pytest.approx(2 * hours(burn_in, plan, 100_000))


def test_a_measured_update_is_what_was_measured():
    """31.0 ms at 25,177 target tokens without input feeding, in bf16."""
    plan = plan_of("europarl", scale="small")
    burn_in = next(stage for stage in plan.stages if stage.kind == "train")
    assert hours(burn_in, plan) * 3600 / 20_000 == pytest.approx(0.031, rel=0.03)


@pytest.mark.parametrize(
    ("preset", "milliseconds"), [("transformer", 23.6), ("transformer-6+6", 23.6 * 26.4 / 20.7)]
)
def test_so_is_that_of_a_transformer(preset, milliseconds):
    """With 23,260 target tokens and 32,000 subwords; tables that are only read cost nothing."""
    model = f"model={{kind: transformer, preset: {preset}, tables: TABLES}}"
    size = ("vocabulary.size=32000", f"training.batch_tokens={round(23_260 / 0.87)}")
    for tables in ("shared", "separate"):
        changes = (model.replace("TABLES", tables), *size)
        plan = plan_of("europarl", scale="small", overrides=changes)
        burn_in = next(stage for stage in plan.stages if stage.kind == "train")
        found = hours(burn_in, plan) * 3600 / 20_000
        assert found == pytest.approx(milliseconds / 1000, rel=0.03)


def test_checkpoints_are_what_fills_the_disk():
    small, full = (disk(plan_of("europarl", scale=scale)) for scale in ("small", "full"))
    assert full.runs == pytest.approx(4 * 4 * 4 * 55_853_056 / 1e9, rel=0.01)
    assert small.runs == pytest.approx(3 * full.runs, rel=0.1)
    limited = disk(plan_of("un1"))
    assert limited.stores == pytest.approx(2e6 * 150 / 1e9)


def test_the_overview_has_commands_hours_and_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = plan_of("europarl")
    text = overview(plan)
    for stage in plan.stages:
        assert stage.command in text
    for part in ("An estimate", "H200", "Disk: data 0.7 GB", "checkpoints about 3.6 GB"):
        assert part in text
    assert "hours" in overview(plan, speed=10_000)
    assert list(tmp_path.iterdir()) == []
