"""What file names tell about a corpus: its language, what it is for, which files go together."""

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

Role = Literal["train", "dev", "test"]

# A code stands between characters that are neither letters nor digits; a region or script may
# follow, as in pt_BR or zho_Hant.
_BARE = r"([a-z]{2,3}(?:_[A-Z][A-Za-z]{1,3})?)"
_CODE = re.compile(rf"(?<![A-Za-z0-9]){_BARE}(?![A-Za-z0-9])")
_PAIR = re.compile(rf"(?<![A-Za-z0-9]){_BARE}[-_]{_BARE}(?![A-Za-z0-9])")
_ROLES: dict[Role, re.Pattern[str]] = {
    "dev": re.compile(r"(?:news)?(?:dev|devset|val|valid|validation|tune)\d*", re.I),
    "test": re.compile(r"(?:news)?(?:test|testset|tst|devtest|eval)\d*", re.I),
    "train": re.compile(r"train(?:ing)?", re.I),
}


@functools.cache
def known_codes() -> frozenset[str]:
    """Codes that are taken for a language where a name has them.

    All of two letters, and of three those that language identification knows: many three-letter
    codes are also words (`new`, `bin`, `mad`).
    """
    from babel import Locale

    from accord.data.language_id import identifiable

    codes = map(str, Locale("en").languages)
    return frozenset(code for code in codes if len(code) == 2) | identifiable()


def is_code(text: str) -> bool:
    """Whether a text as a whole is the code of a language, such as en, pt_BR or zho_Hant."""
    if not re.fullmatch(r"[a-z]{2,3}(_[A-Za-z0-9]+)?", text):
        return False
    return text.split("_")[0] in known_codes() or bool(
        re.fullmatch(r"[a-z]{3}_[A-Z][a-z]{3}", text)
    )


def role_of(path: str) -> Role:
    """What a file is for: said by a word of its name, or else by one of its folders."""
    parts = [part for part in re.split(r"::|/", path) if part]
    for part in reversed(parts):
        for word in re.split(r"[^A-Za-z0-9]+", part):
            for role, pattern in _ROLES.items():
                if pattern.fullmatch(word):
                    return role
    return "train"


@dataclass(frozen=True)
class Group:
    """Files that have the same name but for the language: `pattern` has {lang} in its place."""

    pattern: str
    files: dict[str, str]
    """The file of each language."""

    @property
    def pair(self) -> tuple[str, str] | None:
        """The pair that the name speaks of, as in `corpus.en-de.{lang}`, if both are there."""
        for first, second in _pairs_in(PurePath(self.pattern).name):
            if first in self.files and second in self.files:
                return first, second
        return None


def pair_in(path: str) -> tuple[str, str] | None:
    """The pair of languages that a file's name speaks of, as in `memory.en-de.tsv`."""
    return next(_pairs_in(PurePath(path).name), None)


def _pairs_in(name: str) -> Iterator[tuple[str, str]]:
    for found in _PAIR.finditer(name):
        if found[1] != found[2] and is_code(found[1]) and is_code(found[2]):
            yield found[1], found[2]


def grouped_by_language(paths: Iterable[str]) -> tuple[list[Group], list[str]]:
    """The groups of two languages or more, and the files that belong to none.

    A name may have several codes: of `corpus.en-de.en` the last one counts, if there is another
    file that differs in it alone.
    """
    paths = list(paths)
    members: dict[str, dict[str, str]] = defaultdict(dict)
    for path in paths:
        for pattern, code in _patterns(path):
            members[pattern][code] = path
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    alone = []
    for path in paths:
        fitting = [(p, code) for p, code in _patterns(path) if len(members[p]) > 1]
        if fitting:
            pattern, code = fitting[0]
            groups[pattern][code] = path
        else:
            alone.append(path)
    whole = [Group(pattern, files) for pattern, files in groups.items() if len(files) > 1]
    alone += [path for files in groups.values() if len(files) == 1 for path in files.values()]
    return whole, alone


def _patterns(path: str) -> list[tuple[str, str]]:
    """The ways to put {lang} into a path, with the code it stands for; the likeliest first."""
    found = [match for match in _CODE.finditer(path) if is_code(match[1])]
    ways = [
        (f"{path[: match.start(1)]}{{lang}}{path[match.end(1) :]}", match[1])
        for match in reversed(found)
    ]
    for code in dict.fromkeys(match[1] for match in reversed(found)):
        same = [match for match in found if match[1] == code]
        if len(same) > 1:  # en/train.en and de/train.de
            pattern, end = "", 0
            for match in same:
                pattern += f"{path[end : match.start(1)]}{{lang}}"
                end = match.end(1)
            ways.append((pattern + path[end:], code))
    return ways
