"""Options that several commands share: arguments, and groups that are settings classes."""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import typer

from accord.machine import MOST_THREADS
from accord.settings_fields import flag, setting

ExperimentFile = Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="Experiment file.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key, e.g. vocabulary.size=8000."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")]
ModelPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run directory, or what `accord export` wrote.")
]
_CHECKPOINTS = "best, last, average or step-00001000."
CheckpointName = Annotated[str, typer.Option("--checkpoint", help=_CHECKPOINTS)]
EnsembleMembers = Annotated[
    str | None,
    typer.Option(
        "--ensemble",
        metavar="MEMBERS",
        help="Search with the text and its pivots at once: direct,via:en (direct:0.5,via:en:0.5).",
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, max=MOST_THREADS, help="CPU threads.")
]


@dataclass(frozen=True)
class ModelOptions:
    """Which weights of a run to open, and what computes with them."""

    checkpoint: str = setting("best", _CHECKPOINTS)
    device: str | None = setting(None, "cpu, cuda, cuda:1; else the best.")
    threads: int | None = setting(None, "CPU threads.", least=1, most=MOST_THREADS)
    precision: str = setting("auto", "auto (bf16 on a GPU, fp32 on a CPU), fp32 or bf16.")


# --- Groups: a parameter that is a settings class stands for an option for each of its fields.


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its settings as options.

    Names, defaults, limits and help are those of `setting` in the class; fields made without it
    are no options. The command gets the settings, checked.
    """
    given = inspect.signature(command)
    kinds = {parameter.name: parameter.annotation for parameter in given.parameters.values()}
    groups = {name: kind for name, kind in kinds.items() if _is_settings(kind)}
    parameters: list[inspect.Parameter] = []
    for parameter in given.parameters.values():
        group = groups.get(parameter.name)
        parameters += [parameter] if group is None else _options(group)
    signature = given.replace(parameters=parameters)

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        values = signature.bind(*args, **kwargs).arguments
        for name, group in groups.items():
            chosen = {p.name: values.pop(p.name) for p in _options(group) if p.name in values}
            values[name] = group(**chosen)
        command(**values)

    run.__signature__ = signature  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return run


def _is_settings(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


def _options(group: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group)
    for item in fields(group):
        about = item.metadata
        if "text" not in about:
            continue
        kind = hints[item.name]
        kind = str if get_origin(kind) is Literal else kind  # the class itself refuses others
        option = typer.Option(
            flag(item.name), help=about["text"], min=about["least"], max=about["most"]
        )
        yield inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=item.default,
            annotation=Annotated[kind, option],
        )
