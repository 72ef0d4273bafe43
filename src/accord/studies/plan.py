"""The plan of a study: a burn-in, branches off it, seeds or variants, time, evaluations.

A plan is a YAML file, as strict as an experiment file. Its settings are those of the experiment,
written as for `--set`; in them `{out}` is the study's directory, `{variant}` the seed or variant.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from accord.config.load import load, load_section
from accord.config.schema import Experiment
from accord.config.section import Location, Real, Section, Whole
from accord.config.shipped import recipe, shipped_plan
from accord.errors import AccordError
from accord.evaluation.matrix import evaluation_name
from accord.evaluation.records import parse_lines, parse_split
from accord.inference.ensemble import Ensemble
from accord.inference.results import SearchSettings
from accord.studies.commands import as_typed, assignment

BURN_IN = "burn-in"
Settings = Annotated[dict[str, Any], BeforeValidator(lambda value: {} if value is None else value)]
_HELP = "start from one of recipes/plans/*.yaml; docs/study.md lists the keys"


def _checked_lines(text: str) -> str:
    try:
        parse_lines(text)
    except AccordError as error:
        raise ValueError(f"{error.what}: {error.fix}") from None
    return text


def _checked_split(text: str) -> str:
    try:
        name, path = parse_split(text)
    except AccordError as error:
        raise ValueError(f"{error.what}: {error.fix}") from None
    if path is None and name not in ("dev", "test"):
        raise ValueError(f"{text!r} is neither dev nor test, nor a name and a path: news=PATH")
    return text


class EvaluationOptions(Section):
    """How a run is evaluated: options of `accord evaluate`."""

    split: Annotated[str, AfterValidator(_checked_split)] = "dev"
    """dev, by which settings are chosen, test, or another set: news=news.{lang}.gz."""
    beam: Annotated[Whole, Field(ge=1)] = 4
    """Beam size; 1 is greedy search."""
    checkpoint: str = "best"
    """best, last, average or step-00001000."""
    limit: Annotated[Whole, Field(ge=1)] | None = None
    """Only the first so many sentences of each set."""
    lines: Annotated[str, AfterValidator(_checked_lines)] | None = None
    """Only these lines of each set, counted from 1: 1001-2000."""
    ensemble: str | None = None
    """Search with the text and its pivots at once: direct,via:en."""
    pivot: bool = True
    """Zero-shot directions through their pivot as well."""
    agreement: bool = True
    """How far translations into a third language agree."""

    @property
    def name(self) -> str:
        """The name of the evaluation that runs get by it."""
        lines = None if self.lines is None else parse_lines(self.lines)
        search = SearchSettings(beam=self.beam)
        split, _ = parse_split(self.split)
        return evaluation_name(split, search, self.checkpoint, self.limit, lines)

    @property
    def arguments(self) -> tuple[str, ...]:
        """For the command line."""
        some = ["--split", self.split, "--beam", str(self.beam), "--checkpoint", self.checkpoint]
        some += ["--limit", str(self.limit)] if self.limit is not None else []
        some += ["--lines", self.lines] if self.lines is not None else []
        some += ["--ensemble", self.ensemble] if self.ensemble is not None else []
        some += [] if self.pivot else ["--no-pivot"]
        return (*some, *([] if self.agreement else ["--no-agreement"]))


Evaluations = Annotated[
    tuple[EvaluationOptions, ...],
    BeforeValidator(lambda value: value if isinstance(value, list | tuple) else [value or {}]),
    Field(min_length=1),
]


class StudyPlan(Section):
    """A plan of `accord study`."""

    experiment: Annotated[str, Field(min_length=1)]
    """An experiment file whose data are prepared, or the name of a recipe that comes along."""
    before: tuple[str, ...] = ()
    """Commands that make what the study needs; they are shown where it is missing."""
    basic: dict[str, Any] | None = None
    """Settings of the run that all branches continue; without it each of them begins afresh, as
    does a branch with `training.init_from: null`."""
    first: dict[str, Settings] = Field(default_factory=dict)
    """Settings of runs that branches read, such as language models, by name: trained before all
    branches, afresh, and not evaluated."""
    branches: Annotated[dict[str, Settings], Field(min_length=1)]
    """Settings of the branches, by name."""
    seeds: Annotated[tuple[Annotated[Whole, Field(ge=0)], ...], Field(min_length=1)] = (1, 2, 3)
    """Seeds of training; all is trained once with each."""
    variants: dict[str, Settings] = Field(default_factory=dict)
    """Instead of seeds: settings by name for all runs, below `basic` for the common one."""
    average: Annotated[Whole, Field(ge=2)] | None = None
    """How many of its newest checkpoints `accord average` takes when a run is trained."""
    evaluate: Evaluations = (EvaluationOptions(),)
    """Options of `accord evaluate`, or a list of several."""
    final: Evaluations | None = None
    """The same for `accord study --final`; by default `evaluate` on the test set."""
    against: str | None = None
    """The branch that all others are tested against, by paired bootstrap."""
    parallel: Annotated[Whole, Field(ge=1)] = 1
    """Runs at the same time."""
    minutes: Annotated[Real, Field(gt=0)] | None = None
    """When everything ends: training early enough for its evaluations to take their time."""
    train_seconds: Annotated[Real, Field(gt=0)] | None = None
    """The most that training may take; then it saves, stops, and is evaluated as it is."""
    evaluate_seconds: Annotated[Real, Field(gt=0)] | None = None
    """The most that an evaluation may take; then it is given up."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study, and the experiment that it is trained by."""

    branch: str
    """As the plan calls it; `burn-in` for the run that the others continue."""
    variant: str
    directory: Path
    changes: tuple[str, ...]
    """What `--set` has to change in the plan's experiment."""
    experiment: Experiment

    @property
    def name(self) -> str:
        """For example `basic-1`."""
        return self.directory.name

    def reads(self, other: "PlannedRun") -> bool:
        """Whether it goes on from another run, or a setting of it names that one."""
        named = re.compile(rf"{re.escape(str(other.directory))}(?![\w-])")
        return any(named.search(change) for change in self.changes)


@dataclass(frozen=True)
class PlannedStudy:
    """All runs of a plan: first those that others continue, read, or are tested against."""

    file: Path
    plan: StudyPlan
    experiment: Path
    out: Path
    variants: tuple[str, ...]
    origins: tuple[PlannedRun, ...]
    """With --only, those that one of its branches goes on from or reads."""
    branches: tuple[PlannedRun, ...]

    @property
    def runs(self) -> tuple[PlannedRun, ...]:
        """In the order of training."""
        return (*self.origins, *self.branches)

    def run(self, branch: str, variant: str) -> PlannedRun | None:
        """The run of a branch, if it is made at all."""
        some = (item for item in self.runs if (item.branch, item.variant) == (branch, variant))
        return next(some, None)


def find_plan(name: str) -> Path:
    """A plan by its path or, if it comes with Accord, by its name."""
    given = Path(name)
    return given if given.suffix or len(given.parts) > 1 else shipped_plan(name)


def plan_study(
    file: Path,
    out: Path | None = None,
    *,
    experiment: str | None = None,
    only: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    final: bool = False,
) -> PlannedStudy:
    """Read a plan, put `changes` in the place of its keys, and check every run's experiment.

    If it is `final`, its evaluations are those of its key `final`, or all on test sentences.
    """
    plan, where = load_section(file, StudyPlan, "plan", _HELP)
    given = {key: value for key, value in (changes or {}).items() if value is not None}
    if plan.variants and "seeds" in given:
        raise AccordError(
            "the plan has variants instead of seeds",
            where=where(("variants",)),
            fix="leave --seeds out, and set training.seed in the variants",
        )
    if final:
        on_test = (item.model_copy(update={"split": "test"}) for item in plan.evaluate)
        given["evaluate"] = plan.final or tuple(dict.fromkeys(on_test))
    plan = plan.model_copy(update=given)
    _check(plan, only, where)
    place = out or Path("studies") / file.stem
    seeds = {str(seed): {"training.seed": seed} for seed in plan.seeds}
    source = _experiment(experiment or plan.experiment)
    made = _Planner(plan, source, place, plan.variants or seeds, where)
    # The others need the one that they are tested against.
    names = sorted(only or plan.branches, key=lambda name: name != plan.against)
    branches = tuple(made.branch(name, v) for name in names for v in made.variants)
    origins = tuple(
        run
        for v in made.variants
        for run in made.origins(v)
        if not only or any(branch.reads(run) for branch in branches)
    )
    study = PlannedStudy(file, plan, source, place, tuple(made.variants), origins, branches)
    _check_sets(study)
    return study


def _check_sets(study: PlannedStudy) -> None:
    """The sentences to evaluate on are known before any time is spent on training."""
    for run in study.branches:
        for options in study.plan.evaluate:
            if "=" not in options.split and options.split not in run.experiment.held_out:
                dev = options.split == "dev"
                raise AccordError(
                    f"{run.name} is to be evaluated on the {options.split} set, but the experiment "
                    "names none",
                    where=str(study.experiment),
                    fix=f"add `{options.split}` to the experiment and prepare it again"
                    + (", or evaluate on test sentences: --final" if dev else ""),
                )


def _experiment(name: str) -> Path:
    given = Path(name)
    return given if given.suffix or len(given.parts) > 1 else as_typed(recipe(name))


def _check(plan: StudyPlan, only: Sequence[str], where: Callable[[Location], str]) -> None:
    """What no single key shows to be wrong."""
    if plan.against is not None and plan.against not in plan.branches:
        raise _no_branch(plan, plan.against, f"{where(('against',))}, key against")
    for name in only:
        if name not in plan.branches:
            raise _no_branch(plan, name, f"--only {name}")
    if plan.minutes is not None and plan.evaluate_seconds is None:
        raise AccordError(
            "minutes without evaluate_seconds: training cannot tell when it has to end",
            where=where(("minutes",)),
            fix="set evaluate_seconds to what an evaluation takes at most",
        )
    for location, names in _directories(plan):
        slugs = [slug(name) for name in names]
        twice = next((s for s in slugs if not s or slugs.count(s) > 1 or s == BURN_IN), None)
        if twice is not None:
            raise AccordError(
                f"two names, or none, give the directory {twice or 'without a name'!r}",
                where=where(location),
                fix=f"give other names; {BURN_IN!r} is the common run",
            )
    for number, options in enumerate(plan.evaluate):
        if options.ensemble is not None:
            Ensemble.parse(options.ensemble)
        if options.limit is not None and options.lines is not None:
            raise AccordError(
                f"both limit {options.limit} and lines {options.lines} are given",
                where=where(("evaluate", number)),
                fix="give one of them",
            )


def _directories(plan: StudyPlan) -> Iterator[tuple[Location, Sequence[str]]]:
    yield ("branches",), [*plan.first, *plan.branches]
    yield ("variants",), list(plan.variants)


def _no_branch(plan: StudyPlan, name: str, where: str) -> AccordError:
    return AccordError(
        f"no such branch in the plan: {name}",
        where=where,
        fix=f"branches: {'; '.join(plan.branches)}",
    )


@dataclass(frozen=True)
class _Planner:
    plan: StudyPlan
    experiment: Path
    out: Path
    variants: Mapping[str, dict[str, Any]]
    where: Callable[[Location], str]

    def origins(self, variant: str) -> Iterator[PlannedRun]:
        """What has to be there before the branches."""
        if self.plan.basic is not None:
            settings = {**self.plan.basic, **self.variants[variant]}
            settings |= settings.pop("basic", None) or {}
            yield self._run(BURN_IN, variant, settings, ("basic",))
        for name, given in self.plan.first.items():
            yield self._run(name, variant, self._with_variant(given, variant), ("first", name))

    def branch(self, name: str, variant: str) -> PlannedRun:
        settings = self._with_variant(self.plan.branches[name], variant)
        return self._run(name, variant, settings, ("branches", name))

    def _with_variant(self, given: Mapping[str, Any], variant: str) -> dict[str, Any]:
        settings = {**given, **self.variants[variant]}
        settings.pop("basic", None)
        return settings

    def _directory(self, branch: str, variant: str) -> Path:
        return self.out / f"{slug(branch)}-{slug(variant)}"

    def _run(
        self, branch: str, variant: str, settings: Mapping[str, Any], at: Location
    ) -> PlannedRun:
        self._refuse_ours(settings, at)
        directory = self._directory(branch, variant)
        places = {"{out}": str(self.out), "{variant}": slug(variant)}
        filled = {"run": str(directory), **{k: _filled(v, places) for k, v in settings.items()}}
        if self.plan.basic is not None and at[0] == "branches":
            filled.setdefault("training.init_from", str(self._directory(BURN_IN, variant)))
        changes = tuple(assignment(key, value) for key, value in filled.items())
        try:
            experiment = load(self.experiment, changes)
        except AccordError as error:
            raise self._located(error, variant, settings, at) from None
        return PlannedRun(branch, variant, directory, changes, experiment)

    def _refuse_ours(self, settings: Mapping[str, Any], at: Location) -> None:
        """Decided by the plan, so that runs lie where they are looked for."""
        ours = {"run": "--out says where runs lie"}
        if self.plan.basic and settings.get("training.init_from") is not None:
            ours["training.init_from"] = "leave it out, or `basic`; null begins afresh"
        for key, fix in ours.items():
            if key in settings:
                where = f"{self.where((*at, key))}, key {key}"
                raise AccordError(f"{key} is decided by the study itself", where=where, fix=fix)

    def _located(
        self, error: AccordError, variant: str, settings: Mapping[str, Any], at: Location
    ) -> AccordError:
        """The same complaint with the place in the plan, where it is about one of its settings."""
        guilty = (key for key in settings if (error.where or "").startswith(f"--set {key}="))
        key = next(guilty, None)
        if key is None and error.where:
            return error  # the experiment file itself
        of_variant = key is not None and key in self.variants[variant] and self.plan.variants
        place: Location = ("variants", variant) if of_variant else at
        if key is not None:
            place = (*place, key)
        named = ".".join(map(str, place))
        return AccordError(error.what, where=f"{self.where(place)}, key {named}", fix=error.fix)


def _filled(value: Any, places: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for mark, text in places.items():
            value = value.replace(mark, text)
        return value
    if isinstance(value, dict):
        return {key: _filled(inner, places) for key, inner in value.items()}
    return [_filled(inner, places) for inner in value] if isinstance(value, list) else value


def slug(name: str) -> str:
    """A name as part of a directory's: `Agree, hard` becomes `agree-hard`."""
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
