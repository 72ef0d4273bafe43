"""Where the experiment files that come with Accord lie."""

from pathlib import Path

from accord.errors import AccordError

_PACKAGE = Path(__file__).parent
# Inside the installed package, or beside src/ in a checkout.
_PLACES = (_PACKAGE / "recipes", _PACKAGE.parents[1] / "recipes")


def recipe(name: str) -> Path:
    """The path of a recipe by its name, for example `demo`."""
    for place in _PLACES:
        if (place / f"{name}.yaml").is_file():
            return place / f"{name}.yaml"
    known = sorted({path.stem for place in _PLACES for path in place.glob("*.yaml")})
    raise AccordError(f"there is no recipe {name!r}", fix=f"recipes: {', '.join(known)}")
