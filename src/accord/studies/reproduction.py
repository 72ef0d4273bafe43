"""The way from nothing to a finished reproduction: stages, each with the command that does it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from accord.config.load import load
from accord.config.schema import Experiment
from accord.config.shipped import recipe
from accord.errors import AccordError
from accord.fetching.catalogue import dataset
from accord.fetching.fetch import missing
from accord.studies import branches as state
from accord.studies.beside_paper import on_paper_data
from accord.studies.branches import Options, Study
from accord.studies.commands import Command, as_typed, assignment, set_options
from accord.studies.paper import TABLES, Scale, Setting, size_name
from accord.studies.plan import BURN_IN

Kind = Literal["fetch", "experiment", "prepare", "train", "evaluate", "report"]

# Where the recipes look for text.
_DATA = Path("data")
_TITLES = {
    BURN_IN: "Basic, up to where the branches part",
    "basic": "more Basic",
    "agree": "Agree, from the same checkpoint, as many updates",
    "complete": "Complete, from the same checkpoint, as many updates",
}
# Decided by the plan, so that branches have one origin and lie where they are looked for.
_OURS = ("run", "training.init_from")


@dataclass(frozen=True, kw_only=True)
class Stage(Command):
    """One step of the way."""

    kind: Kind
    title: str
    study: Study | None = None
    run: str = ""
    """For training and evaluation: which run of the study."""


@dataclass(frozen=True)
class Plan:
    """All stages of a reproduction, in order."""

    setting: Setting
    scale: Scale
    directory: Path
    data: Path
    options: Options
    studies: tuple[Study, ...]
    stages: tuple[Stage, ...]
    sizes: tuple[int, ...] = ()
    """One for each study, where the setting is run for several."""

    @property
    def page(self) -> Path:
        """The report of the whole."""
        return self.directory / "reproduction.md"

    @property
    def figure(self) -> Path:
        """BLEU against size, where there are several."""
        return self.directory / f"{self.setting.name}.svg"

    def title(self, stage: Stage) -> str:
        """What a stage is called, with the size where there are several."""
        place = f"{stage.study.directory.name}: " if self.sizes and stage.study else ""
        return f"{stage.kind}: {place}{stage.title}"


def make_plan(
    setting: Setting,
    *,
    scale: Scale = "full",
    data: Path = _DATA,
    to: Path | None = None,
    source: Path | None = None,
    accepted: bool = False,
    overrides: Sequence[str] = (),
    sizes: Sequence[int] = (),
    options: Options | None = None,
) -> Plan:
    """Plan a setting; `accepted` says that the licence of its data is, `source` replaces the net.

    `overrides` are the user's own changes to the experiment, and `sizes` are for the small-data
    study alone.
    """
    for item in overrides:
        _refuse(item)
    name = setting.recipe(scale)
    directory = to or Path("reproduce") / f"{setting.name}{'-small' if scale == 'small' else ''}"
    options = options or Options(split=setting.split)
    studies = []
    for size in sizes or (None,):
        place = directory if size is None else directory / size_name(size)
        changes = [*_changes(setting, scale, name, place, data, size), *overrides]
        studies.append(Study.make(place, as_typed(recipe(name)), tuple(changes)))
    fetching = ["fetch", setting.dataset, "--data", str(data)]
    fetching += ["--files", str(source)] if source else []
    fetching += ["--yes"] if accepted else []
    first = Stage(
        kind="fetch",
        title=f"the data: {dataset(setting.dataset).title}",
        arguments=tuple(fetching),
        done=partial(_fetched, setting, data, studies, options),
    )
    shown = _published(setting, studies)
    stages = (first, *(stage for study in studies for stage in _stages(study, options, shown)))
    return Plan(setting, scale, directory, data, options, tuple(studies), stages, tuple(sizes))


def check_origin(plan: Plan) -> None:
    """Refuse a further branch where the burn-in of the others is gone.

    A reproduction that was begun without Complete gets it from the same checkpoint, or not at all.
    """
    for study in plan.studies:
        begun = [name for name in plan.options.branches if study.begun(name)]
        lacking = [name for name in plan.options.branches if name not in begun]
        if begun and lacking and not _trained(study, (BURN_IN,)):
            raise AccordError(
                f"{lacking[0]} has no checkpoint to begin from: {begun[0]} was trained here, but "
                f"the burn-in that it branched off is gone or was trained otherwise",
                where=str(study.run(BURN_IN)),
                fix="restore it, or give another place: --out DIR"
                + ("; --no-complete leaves Complete out" if lacking == ["complete"] else ""),
            )


def _refuse(override: str) -> None:
    key = override.partition("=")[0]
    if key in _OURS:
        raise AccordError(
            f"{key} is decided by the reproduction itself",
            where=f"--set {override}",
            fix="choose where runs lie with --out DIR",
        )


def _fetched(setting: Setting, data: Path, studies: Sequence[Study], options: Options) -> bool:
    """Text is not missed any more when all of it has been prepared."""
    return not missing(dataset(setting.dataset), data) or all(
        _prepared(study, options) for study in studies
    )


def _prepared(study: Study, options: Options) -> bool:
    """The store is not missed any more when all has been trained."""
    return state.prepared(study.experiment) or _trained(study, options.branches)


def _trained(study: Study, runs: Sequence[str]) -> bool:
    return all(state.trained(study.run(name), study.run_experiment(name)) for name in runs)


def _burnt_in(study: Study, options: Options) -> bool:
    """Nor is the burn-in when all branches have been trained."""
    return _trained(study, (BURN_IN,)) or _trained(study, options.branches)


def _changes(
    setting: Setting, scale: Scale, name: str, place: Path, data: Path, size: int | None
) -> Iterator[str]:
    """What makes the recipe the study's own; the user's changes come after these."""
    experiment = load(recipe(name))
    if data != _DATA:
        yield from _moved(experiment, data)
    yield assignment("store", str(place / "store"))
    # Early stopping would end the branches after different numbers of updates.
    yield "training.validation.patience=null"
    if scale == "small":
        yield from setting.small_overrides
    if size is not None:
        yield f"name={setting.name}-{size_name(size)}"
        yield from (f"corpora.{i}.limit={size}" for i in range(len(experiment.corpora)))


def _moved(experiment: Experiment, data: Path) -> Iterator[str]:
    """The recipe's files below another directory."""

    def below(path: str) -> str:
        return str(data / Path(path).relative_to(_DATA))

    for i, corpus in enumerate(experiment.corpora):
        yield assignment(f"corpora.{i}.train", below(corpus.train[0].path))
    for split, held_out in experiment.held_out.items():
        if held_out.path:
            yield assignment(split, below(held_out.path))
        for i, item in enumerate(held_out.sets):
            yield assignment(f"{split}.{i}.path", below(item.path))


def _published(setting: Setting, studies: Sequence[Study]) -> tuple[str, ...]:
    """For `accord report`: the columns of the paper, where its text is ours."""
    has_table = setting.name in TABLES and all(
        on_paper_data(study.experiment, setting.name) for study in studies
    )
    return ("--paper", setting.name) if has_table else ()


def _stages(study: Study, options: Options, published: Sequence[str]) -> Iterator[Stage]:
    file = str(study.file)
    yield Stage(
        kind="experiment",
        title="the experiment of this study",
        arguments=("config", str(study.recipe), *set_options(study.overrides)),
        done=partial(state.written, study.file, study.experiment),
        output=study.file,
        study=study,
    )
    yield Stage(
        kind="prepare",
        title="clean, disjoint and tokenised",
        arguments=("prepare", file),
        done=partial(_prepared, study, options),
        study=study,
    )
    for name in (BURN_IN, *options.branches):
        study.run_experiment(name)  # a setting that cannot be is said now
        yield Stage(
            kind="train",
            title=_TITLES[name],
            arguments=("train", file, *set_options(study.changes(name))),
            done=partial(_burnt_in, study, options)
            if name == BURN_IN
            else partial(_trained, study, (name,)),
            study=study,
            run=name,
        )
    yield from _evaluations(study, options)
    runs = [str(study.run(name)) for name in sorted(options.branches, key=_place)]
    pages = [f"--{kind}={study.directory / f'report.{end}'}" for kind, end in _PAGES]
    yield Stage(
        kind="report",
        title="the report",
        arguments=("report", *runs, "--name", options.evaluation, *published, *pages),
        done=bool,  # never done: it takes seconds, and is always of the newest figures
        study=study,
    )


_PAGES = (("html", "html"), ("markdown", "md"), ("latex", "tex"))


def _place(name: str) -> int:
    """The order in a report: Agree is what it is about."""
    return ("agree", "basic", "complete").index(name)


def _evaluations(study: Study, options: Options) -> Iterator[Stage]:
    basic = study.run("basic")
    for name in options.branches:
        against = None if name == "basic" else basic
        tested = ["--against", str(basic)] if against else []
        yield Stage(
            kind="evaluate",
            title=f"all directions of {name}, direct and through pivots",
            arguments=("evaluate", str(study.run(name)), *options.how.arguments, *tested),
            done=partial(
                state.evaluated, study.run(name), options.evaluation, options.checkpoint, against
            ),
            study=study,
            run=name,
        )
