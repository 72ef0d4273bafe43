"""Runs of benchmarks/branches.py as `accord reproduce` sees its own: Basic, Pivot, Agree, tested.

The branches must be called Basic, Agree and, where there is one, Complete; another may stand for
Agree.
"""

from dataclasses import dataclass
from pathlib import Path

from accord.errors import AccordError
from accord.run_directory import RunDirectory
from accord.studies.branches import Options, Study
from accord.studies.outcome import Outcome, read_outcome
from branch_table import evaluations

AGREE = "agree"
"""The branch whose table it is, as `accord reproduce` calls it."""


@dataclass(frozen=True)
class _Branches(Study):
    """One variant: its branches lie beside those of others."""

    variant: str = ""
    agree: str = AGREE

    def run(self, name: str) -> Path:
        branch = self.agree if name == AGREE else name
        return self.directory / f"{branch}-{self.variant}"


@dataclass(frozen=True)
class _Evaluated(Options):
    """An evaluation by its name, whatever it was made with."""

    name: str = ""

    @property
    def evaluation(self) -> str:
        return self.name


def outcome_of(results: Path, variant: str, evaluation: str, agree: str = AGREE) -> Outcome:
    """What came out of one variant, or seed, of a plan."""
    experiment = RunDirectory(results / f"{agree}-{variant}").experiment()
    study = _Branches(results, Path(), (), experiment, variant, agree)
    complete = (results / f"complete-{variant}" / "evaluation" / evaluation).is_dir()
    return read_outcome(study, _Evaluated(complete=complete, name=evaluation))


def evaluations_of(results: Path, variants: list[str], agree: str = AGREE) -> list[str]:
    """The names of the evaluations that all these have of Basic and of Agree."""
    names = [
        {file.parent.name for file in evaluations(results / f"{branch}-{variant}")}
        for branch in ("basic", agree)
        for variant in variants
    ]
    shared = sorted(set.intersection(*names)) if names else []
    if not shared:
        raise AccordError(
            f"no evaluation is of Basic and Agree for all of {', '.join(variants) or 'no run'}",
            where=str(results),
            fix=f"name the folder with basic-… and {agree}-…, evaluated alike",
        )
    return shared
