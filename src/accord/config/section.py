"""What all sections of an experiment are made of."""

from collections.abc import Callable
from typing import Annotated

from pydantic import AllowInfNan, BaseModel, ConfigDict, Strict, StringConstraints

# Strict: YAML's yes and true are no numbers, and nothing here may be endless.
Whole = Annotated[int, Strict()]
Real = Annotated[float, Strict(), AllowInfNan(False)]
FilePath = Annotated[str, StringConstraints(min_length=1)]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(_[A-Za-z0-9]+)?$")]
Pair = Annotated[
    str, StringConstraints(pattern=r"^[a-z]{2,3}(_[A-Za-z0-9]+)?-[a-z]{2,3}(_[A-Za-z0-9]+)?$")
]

# Where a key stands; and what is wrong with its value, and how to mend it.
Location = tuple[str | int, ...]
Complaint = tuple[Location, str, str]

# How users are told of a key: with its file and line, or the --set that gave it, where it has one.
Naming = Callable[[Location], str]


class Section(BaseModel):
    """A part of the experiment file: strict, frozen, its field docstrings are the help text."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True
    )
