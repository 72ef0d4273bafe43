"""Accord: one translation model for all directions, also those without data.

from accord import Translator

translator = Translator("runs/x")
print(translator.translate(["Guten Tag."], to="fr")[0].text)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.errors import AccordError
    from accord.inference.results import Hypothesis, SearchSettings, Translation
    from accord.inference.translator import Translator

__version__ = "0.1.0.dev0"
__all__ = [
    "AccordError",
    "Hypothesis",
    "SearchSettings",
    "Translation",
    "Translator",
    "__version__",
]

_HOMES = {
    "AccordError": "accord.errors",
    "Hypothesis": "accord.inference.results",
    "SearchSettings": "accord.inference.results",
    "Translation": "accord.inference.results",
    "Translator": "accord.inference.translator",
}


def __getattr__(name: str) -> Any:
    # Looked up when asked for: `import accord` and `accord --help` stay quick.
    if name not in _HOMES:
        raise AttributeError(f"module 'accord' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
