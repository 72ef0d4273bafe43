"""Phrases of the built-in corpus: one meaning, put into words in nine languages by CLDR's rules."""

import re
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from babel import Locale


Kind = Literal["number", "date", "time", "duration", "money", "measure", "list"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Numbers = Literal["digits", "words"]

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "ro", "ru", "cs")
# British English writes dates, units and lists the way most of the other languages do.
_ENGLISH = "en_GB"

# Above this, num2words makes mistakes such as "veintiuno mil" and "zweihunderteinstausend".
LARGEST = 19_999

DURATIONS = (
    "duration-year",
    "duration-month",
    "duration-week",
    "duration-day",
    "duration-hour",
    "duration-minute",
    "duration-second",
)
MEASURES = (
    "length-kilometer",
    "length-meter",
    "length-centimeter",
    "length-foot",
    "length-light-year",
    "mass-kilogram",
    "mass-gram",
    "volume-liter",
    "volume-cubic-meter",
    "area-square-kilometer",
    "area-square-meter",
    "temperature-celsius",
    "speed-kilometer-per-hour",
)
CURRENCIES = ("EUR", "USD", "GBP", "CHF", "CZK", "RON", "RUB", "SEK", "CAD", "INR")


class Meaning(NamedTuple):
    """What a sentence says, in no language.

    `name` is the style of a date, or the unit or currency (as CLDR calls it) of an amount; `values`
    are the number, (year, month, day), (weekday, hour, minute) or amount; a list has `parts`.
    """

    kind: Kind
    name: str = ""
    values: tuple[int, ...] = ()
    parts: tuple["Meaning", ...] = ()


def render(meaning: Meaning, language: str, numbers: Numbers = "digits") -> str:
    """The meaning in one language; `numbers` says how amounts are written before nouns.

    Dates and times always have digits: in words they would need ordinals in the right case, which
    num2words does not know for every language.
    """
    match meaning.kind:
        case "number":
            text = _words(meaning.values[0], language)
        case "date":
            text = _date(meaning, language)
        case "time":
            text = _time(meaning, language)
        case "list":
            text = _list([render(part, language, numbers) for part in meaning.parts], language)
        case _:
            text = _amount(meaning, language, numbers)
    return text.replace("\u00a0", " ").replace("\u202f", " ")


@lru_cache
def _locale(language: str) -> "Locale":
    from babel import Locale

    return Locale.parse(_ENGLISH if language == "en" else language)


def _date(meaning: Meaning, language: str) -> str:
    from babel.dates import format_date

    style: Literal["full", "long"] = "full" if meaning.name == "full" else "long"
    return format_date(date(*meaning.values), style, locale=_locale(language))


def _time(meaning: Meaning, language: str) -> str:
    from babel.dates import format_datetime

    weekday, hour, minute = meaning.values
    # 5 January 1970 was a Monday; only the day of the week is shown.
    moment = datetime(1970, 1, 5 + weekday, hour, minute)
    return format_datetime(moment, _time_pattern(language), locale=_locale(language))


@lru_cache
def _time_pattern(language: str) -> str:
    """CLDR's weekday, hour, minute and part of the day, the names written out in full."""
    pattern = _locale(language).datetime_skeletons["EBhm"].pattern
    return re.sub(r"([EcB])\1*", lambda field: field[1] * 4, pattern)


def _list(parts: list[str], language: str) -> str:
    from babel.lists import format_list

    return format_list(parts, locale=_locale(language))


def _amount(meaning: Meaning, language: str, numbers: Numbers) -> str:
    from babel.numbers import format_decimal

    (amount,) = meaning.values
    text = (_money if meaning.kind == "money" else _unit)(amount, meaning.name, language)
    if numbers == "digits":
        return text
    noun = text.removeprefix(format_decimal(amount, locale=_locale(language)))
    text = _words(amount, language, _gender(meaning.name, language)) + noun
    return re.sub(r"^una (?=[aeiou])", "un’", text) if language == "it" else text


def _money(amount: int, currency: str, language: str) -> str:
    from babel.numbers import format_currency

    return format_currency(
        amount,
        currency,
        "#,##0",
        locale=_locale(language),
        currency_digits=False,
        format_type="name",
    )


def _unit(amount: int, unit: str, language: str) -> str:
    from babel.units import format_unit

    text = format_unit(amount, unit, "long", locale=_locale(language))
    if unit not in text:
        return text
    # CLDR leaves a long form out where it is the same as the short one ("5 giorni"); Babel then
    # prints the name of the unit.
    return format_unit(amount, unit, "short", locale=_locale(language))


@lru_cache(maxsize=1 << 16)
def _words(number: int, language: str, gender: str = "") -> str:
    """A number in words; with a gender, as it stands before a noun of that gender."""
    from num2words import num2words

    words: str = num2words(number, lang=language)
    if language == "cs":
        # num2words joins what Czech writes apart: "dvě stě", "pět set" (but not "deset").
        words = re.sub(r"\b(dvě|tři|čtyři|pět|šest|sedm|osm|devět)(stě|sta|set)\b", r"\1 \2", words)
    for genders, pattern, replacement in _AGREEMENT.get(language, ()):
        if gender and gender in genders:
            words = re.sub(pattern, replacement, words)
    return words


# How the number before a noun bends to the noun's gender: genders, what is replaced, by what.
_AGREEMENT = {
    "de": (("mn", "^eins$", "ein"), ("f", "^eins$", "eine")),
    "fr": (("f", r"\bun$", "une"),),
    "es": (
        ("m", "veintiuno$", "veintiún"),
        ("m", r"\buno$", "un"),
        ("f", "uno$", "una"),
        ("f", r"ientos\b", "ientas"),
    ),
    "it": (("m", "^uno$", "un"), ("f", "^uno$", "una")),
    "ro": (
        ("mn", "^unu$", "un"),
        ("f", "^unu$", "o"),
        ("f", r"\bunu$", "una"),
        ("fn", r"\bdoi$", "două"),
        ("fn", r"\bdoisprezece$", "douăsprezece"),
    ),
    "ru": (("f", r"\bодин$", "одна"), ("f", r"\bдва$", "две")),
    "cs": (("m", "^jedna$", "jeden"), ("n", "^jedna$", "jedno"), ("fn", "^dva$", "dvě")),
}

# The nouns that are not masculine, where it matters to the number before them.
_FEMININE = {
    "de": "week hour minute second CZK SEK INR",
    "fr": "week hour minute second light-year GBP CZK SEK INR",
    "es": "week hour GBP CZK SEK INR",
    "it": "week hour GBP CZK SEK INR",
    "ro": "month week day hour second GBP CZK SEK RUB INR",
    "ru": "week minute second CZK SEK INR",
    "cs": "hour minute second foot GBP CZK SEK INR",
}
_NEUTER = {"ro": "minute foot kilogram gram celsius", "cs": "EUR"}


def _gender(name: str, language: str) -> str:
    noun = name.split("-", 1)[-1]
    if noun in _FEMININE.get(language, "").split():
        return "f"
    return "n" if noun in _NEUTER.get(language, "").split() else "m"
