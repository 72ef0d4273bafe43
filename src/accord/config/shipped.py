"""The experiment files and plans that come with Accord: where they lie, by name."""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accord.errors import AccordError

_PACKAGE = Path(__file__).parents[1]
# Inside the installed package, or beside src/ in a checkout.
_PLACES = (_PACKAGE / "recipes", _PACKAGE.parents[1] / "recipes")
_PLANS = "plans"


@dataclass(frozen=True)
class Shipped:
    """A file that comes along; plans are named `plans/NAME`, as they lie."""

    name: str
    kind: Literal["recipe", "plan"]
    path: Path

    @property
    def title(self) -> str:
        """The first sentence of the comment it begins with."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        comment: list[str] = []
        for line in lines:
            if not line.startswith("# "):
                break
            comment.append(line[2:].strip())
        return re.split(r"(?<! al)\. ", " ".join(comment))[0].rstrip(".:")


def shipped() -> list[Shipped]:
    """All recipes, then all plans."""
    return [
        *(Shipped(path.stem, "recipe", path) for path in _found("")),
        *(Shipped(f"{_PLANS}/{path.stem}", "plan", path) for path in _found(_PLANS)),
    ]


def recipe(name: str) -> Path:
    """The path of a recipe by its name, for example `demo`."""
    return _by_name(name, "", "recipe")


def shipped_plan(name: str) -> Path:
    """The path of a plan of `accord study` by its name, for example `demo`."""
    return _by_name(name, _PLANS, "plan")


def _found(folder: str) -> list[Path]:
    found = {path.stem: path for place in _PLACES for path in (place / folder).glob("*.yaml")}
    return [found[name] for name in sorted(found)]


def _by_name(name: str, folder: str, what: str) -> Path:
    known = {path.stem: path for path in _found(folder)}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]!r}? " if near else ""
    raise AccordError(f"there is no {what} {name!r}", fix=f"{guess}{what}s: {', '.join(known)}")
