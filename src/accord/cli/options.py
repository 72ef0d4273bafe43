"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ExperimentFile = Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="Experiment file.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key, e.g. vocabulary.size=8000."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")]
