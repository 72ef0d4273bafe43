"""Commands that carry out whole studies: study (any plan) and reproduce (the paper's)."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.options import Overrides, Quiet

if TYPE_CHECKING:
    from accord.studies.plan import PlannedStudy
    from accord.studies.reproduction import Plan, Stage


def study(
    plan: Annotated[
        str,
        typer.Argument(metavar="PLAN", help="A plan file, or the name of one that comes along."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where the runs go; default studies/PLAN."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="BRANCH", help="Only this branch; may be repeated."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds of training instead of the plan's, as 1,2,3.")
    ] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Runs at the same time, instead of the plan's.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="When everything ends, instead of the plan's.")
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(metavar="FILE", help="Experiment file instead of the plan's.")
    ] = None,
    final: Annotated[
        bool, typer.Option("--final", help="Evaluate on test sentences; else on dev, as planned.")
    ] = False,
    pack: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep all but checkpoints in an archive (.tar.gz)."),
    ] = None,
    volume: Annotated[
        int | None, typer.Option(min=1, metavar="MIB", help="Cut the archive into pieces.")
    ] = None,
    costs: Annotated[
        bool, typer.Option("--costs", help="Measure what each branch costs, one at a time.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commands, and which are done; do nothing.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Carry out a plan: train branches, evaluate, compare.

    All branches start from one burn-in and are evaluated alike. Evaluations are on the dev set, by
    which settings are chosen, unless the plan says `split: test` or you say --final. Run again, it
    goes on where it stopped. Plans that come along: demo, multi30k, europarl and others, see
    docs/study.md.

    Example: accord study demo --dry-run
    """
    from accord.studies.plan import find_plan, plan_study

    found = plan_study(
        find_plan(plan),
        out,
        experiment=experiment,
        only=only or (),
        changes={"seeds": _whole(seeds), "parallel": parallel, "minutes": minutes},
        final=final,
    )
    if volume is not None and pack is None:
        raise typer.BadParameter("it cuts the archive: add --pack FILE", param_hint="--volume")
    if costs and (parallel is not None or minutes is not None):
        raise typer.BadParameter("leave --parallel and --minutes out", param_hint="--costs")
    if dry_run:
        (_print_measurements if costs else _print_commands)(found)
        return
    (_measure if costs else _carry_out)(found, pack, volume and volume << 20, quiet)


def _print_commands(found: "PlannedStudy") -> None:
    from accord.studies.estimates import space
    from accord.studies.journal import Journal
    from accord.studies.runner import commands

    left = []
    for number, item in enumerate(commands(found, Journal(found.out)), start=1):
        done = item.done()
        if item.kind == "train" and not done:
            left.append(item.run)
        state = " [done]" if done else ""
        typer.echo(f"{number}. {item.run.name}: {item.kind}{state}\n   {item.command}")
    typer.echo(f"Disk: {space(found, left).sentence}.")


def _whole(given: str | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    try:
        return tuple(dict.fromkeys(int(seed) for seed in given.split(",")))
    except ValueError:
        raise typer.BadParameter("give whole numbers, as 1,2,3", param_hint="--seeds") from None


def _keeper(found: "PlannedStudy", archive: Path | None, volume: int | None) -> Callable[[], None]:
    if archive is not None:  # a place that cannot be written to shows before the work
        _pack(found, archive, volume)
    return partial(_keep, found, archive, volume)


def _keep(found: "PlannedStudy", archive: Path | None, volume: int | None) -> None:
    """What there is so far; runs go on where that fails, for example since one is written."""
    from accord.errors import AccordError
    from accord.studies.study_table import write_table

    page = found.out / "table.md"
    try:
        write_table(found, page)
        if archive is not None:
            _pack(found, archive, volume)
    except (OSError, AccordError) as error:
        typer.echo(f"accord: note: {page} or the archive was not written: {error}", err=True)


def _pack(found: "PlannedStudy", archive: Path, volume: int | None) -> None:
    """All runs of the study, also those that --only or --seeds leave alone: the archive of before
    may have been the only copy that was kept of them."""
    from accord.studies.runner import pack

    runs = sorted(file.parent for file in found.out.glob("*/experiment.yaml"))
    others = [file for name in ("table.md", "costs.json") if (file := found.out / name).is_file()]
    pack(runs, others, archive, volume)


def _say(quiet: bool, text: str) -> None:
    if not quiet:
        typer.echo(text, err=True)


def _carry_out(
    found: "PlannedStudy", archive: Path | None, volume: int | None, quiet: bool
) -> None:
    from accord.cli.reporting import print_tables
    from accord.errors import AccordError
    from accord.files import exclusive
    from accord.studies.estimates import shortage
    from accord.studies.journal import Journal
    from accord.studies.runner import Runner, check_prepared
    from accord.studies.study_table import study_tables

    say = partial(_say, quiet)
    if any(options.split == "dev" for options in found.plan.evaluate):
        say("evaluating on dev sentences, by which settings are chosen; --final: on test ones")
    journal = Journal(found.out)
    check_prepared(found, journal)
    # Not progress: with -q too. Not an error: it is an estimate.
    if (wanting := shortage(found, journal)) is not None:
        typer.echo(f"accord: note: {wanting.sentence}\n  fix: {wanting.fix}", err=True)
    keep = _keeper(found, archive, volume)
    with exclusive(found.out, "accord study"):
        failed = Runner(found, journal, say).make(keep)
    keep()
    made = study_tables(found)
    print_tables(made.grids, made.notes)
    typer.echo(f"wrote {found.out / 'table.md'}", err=True)
    if failed:
        raise AccordError(
            f"{failed} of {len(found.branches)} branches failed",
            where=str(found.out),
            fix="see above; the same command goes on where it stopped",
        )


def _print_measurements(found: "PlannedStudy") -> None:
    from accord.studies.costs import Costs, measurements
    from accord.studies.journal import Journal

    costs = Costs(found.out, found.plan.against)
    for number, item in enumerate(measurements(found, Journal(found.out), costs), start=1):
        state = " [done]" if item.done() else ""
        typer.echo(f"{number}. {item.run.branch}: measure{state}\n   {item.command}")


def _measure(found: "PlannedStudy", archive: Path | None, volume: int | None, quiet: bool) -> None:
    from accord.cli.reporting import print_tables
    from accord.errors import AccordError
    from accord.files import exclusive
    from accord.studies.costs import Costs, measure, measurements, unmeasured
    from accord.studies.journal import Journal

    say, costs = partial(_say, quiet), Costs(found.out, found.plan.against)
    planned = measurements(found, Journal(found.out), costs)
    for run in found.branches:
        if run.variant == found.variants[0] and (reason := unmeasured(run)):
            say(f"{run.branch}: has no cost: {reason}")
    keep = _keeper(found, archive, volume)
    with exclusive(found.out, "accord study"):
        failed = measure(planned, costs, say)
    keep()
    print_tables([costs.table()])
    typer.echo(f"wrote {costs.file}", err=True)
    if failed:
        raise AccordError(
            f"not measured: {', '.join(failed)}",
            where=str(found.out),
            fix="see above; the same command measures what is missing",
        )


def reproduce(
    setting: Annotated[
        str,
        typer.Argument(
            metavar="SETTING",
            help="europarl, un1, un2, iwslt17, iwslt17-star or small-data.",
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="full: as the paper. small: an hour on one GPU.")
    ] = "full",
    complete: Annotated[
        bool,
        typer.Option("--complete/--no-complete", help="Complete, a column the paper has not."),
    ] = True,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam size of the evaluation.")] = 10,
    checkpoint: Annotated[
        str,
        typer.Option(help="Which is evaluated: last (matched in updates) or best (on dev)."),
    ] = "last",
    sizes: Annotated[
        str | None,
        typer.Option(help="For small-data: lines a corpus, separated by commas."),
    ] = None,
    data: Annotated[Path, typer.Option(help="Where fetched data lies or goes.")] = Path("data"),
    to: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where all results go; default reproduce/SETTING."
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--files", metavar="DIR", help="Take the data from here, not from the net."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="The licence of the data is read and accepted.")
    ] = False,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print stages, commands, hours and disk; do nothing.")
    ] = False,
    speed: Annotated[
        float | None,
        typer.Option(min=1.0, help="Target tokens a second of Basic, for the estimate of hours."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce a setting of the paper, beside its numbers.

    Fetches, prepares, trains, evaluates, compares. Basic is trained up to where agreement begins;
    from that checkpoint on, more Basic, Agree and Complete get the same number of updates. Run
    again, it goes on where it stopped.

    Example: accord reproduce europarl --scale small --dry-run
    """
    # As `accord train` does, before anything loads the OpenMP library.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from accord.studies.branches import Options
    from accord.studies.estimates import overview
    from accord.studies.paper import find_setting
    from accord.studies.reproduction import make_plan

    found = find_setting(setting)
    if scale not in ("full", "small"):
        raise typer.BadParameter(f"{scale!r} is neither full nor small", param_hint="--scale")
    if checkpoint not in ("best", "last"):
        raise typer.BadParameter(f"{checkpoint!r} is neither best nor last")
    plan = make_plan(
        found,
        scale=scale,  # type: ignore[arg-type]  # checked above
        data=data,
        to=to,
        source=source,
        accepted=yes,
        overrides=overrides or (),
        sizes=_sizes(sizes, found.by_size),
        options=Options(found.split, beam, checkpoint, complete),
    )
    if dry_run:
        typer.echo(overview(plan, speed), nl=False)
        return
    _follow(plan, quiet)


def _sizes(given: str | None, wanted: bool) -> tuple[int, ...]:
    from accord.studies.paper import SIZES

    if not wanted:
        if given is not None:
            raise typer.BadParameter("only small-data has sizes", param_hint="--sizes")
        return ()
    if given is None:
        return SIZES
    try:
        found = tuple(sorted({int(size) for size in given.split(",")}))
    except ValueError:
        found = (0,)
    if found[0] < 1:
        raise typer.BadParameter("give whole numbers, as 50000,150000", param_hint="--sizes")
    return found


def _follow(plan: "Plan", quiet: bool) -> None:
    """Every stage that is not done, then the page."""
    from accord.files import check_writable, exclusive
    from accord.studies.reproduction import check_origin

    for study in plan.studies:
        study.check_unchanged()
    check_origin(plan)
    check_writable(plan.page)
    with exclusive(plan.directory, "accord reproduce"):
        for number, stage in enumerate(plan.stages, start=1):
            done = stage.done()
            title = f"{number}/{len(plan.stages)} {plan.title(stage)}"
            typer.echo(f"\n{title}{', done already' if done else ''}", err=True)
            if not done and not _carried_out(stage, quiet):
                raise typer.Exit(1)  # the command itself has said why, and how to go on
        _conclude(plan)


def _carried_out(stage: "Stage", quiet: bool) -> bool:
    """Run the stage's own command; whether it came to its end."""
    from accord.cli import app
    from accord.config.load import dump
    from accord.files import atomic_write

    if stage.output is not None and stage.study is not None:
        with atomic_write(stage.output) as file:
            file.write(dump(stage.study.experiment))
        return True
    typer.echo(stage.command, err=True)
    silent = ("-q",) if quiet and stage.kind != "report" else ()
    refused = app([*stage.arguments, *silent], standalone_mode=False)
    _free_the_device()
    # Training that is told to stop saves, and returns like one that has finished.
    return not refused and (stage.kind == "report" or stage.done())


def _free_the_device() -> None:
    """Give back what the stage before held, graphs included: the next one measures what is free."""
    import gc

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def _conclude(plan: "Plan") -> None:
    from accord.studies.outcome import read_outcome
    from accord.studies.page import verdicts, write_page
    from accord.studies.sizes_figure import draw_sizes

    outcomes = [read_outcome(study, plan.options) for study in plan.studies]
    if plan.sizes:
        draw_sizes(list(zip(plan.sizes, outcomes, strict=True)), plan.figure)
    write_page(plan, outcomes)
    typer.echo()
    for item in verdicts(plan, outcomes):
        typer.echo(f"{item.claim.number}. {item.claim.text}: {item.verdict}\n   {item.because}")
    typer.echo(f"wrote {plan.page}", err=True)
