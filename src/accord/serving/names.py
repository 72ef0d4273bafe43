"""What languages are called in English."""

from accord.graph import LANGUAGE


def language_name(code: str) -> str:
    """The name of a language as CLDR has it (with its script or region), or its code."""
    from babel import Locale
    from babel.core import get_global

    if not LANGUAGE.fullmatch(code):
        return code
    english = Locale("en")
    base, _, more = code.partition("_")
    name = english.languages.get(get_global("language_aliases").get(base, base), base)
    inside = english.scripts.get(more) or english.territories.get(more.upper()) or more
    return f"{name} ({inside})" if more else str(name)
