"""Fields of settings classes: default, limits and help in one place.

The class checks its values by them, and the command line makes its options of them.
"""

import math
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any

from accord.errors import AccordError


def setting(
    default: Any,
    text: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
) -> Any:
    """A field of a frozen dataclass that `text` describes; numbers may have limits."""
    limits = {"least": least, "most": most, "above": above}
    return field(default=default, metadata={"text": text, **limits})


def check_settings(settings: Any, called: Callable[[str], str] = str) -> None:
    """Refuse values outside their limits; `called` turns a field into the name users know."""
    for item in fields(settings):
        least, most, above = (item.metadata.get(key) for key in ("least", "most", "above"))
        if least is None and above is None:
            continue
        value = getattr(settings, item.name)
        inside = (
            (least is None or value >= least)
            and (above is None or value > above)
            and (most is None or value <= most)
            and value < math.inf
        )
        if above is not None:
            fix = f"give more than {above:g}"
        else:
            fix = f"give {least:g} to {most:g}" if most is not None else f"give {least:g} or more"
        require(called(item.name), inside, value, fix)


def require(name: str, good: bool, value: object, fix: str) -> None:
    """Say which setting cannot have its value, unless all is well."""
    if not good:
        raise AccordError(f"{name} cannot be {value}", fix=fix)


def flag(name: str) -> str:
    """A field as the command line calls it: max_body is --max-body."""
    return f"--{name.replace('_', '-')}"
