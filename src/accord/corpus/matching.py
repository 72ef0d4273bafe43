"""When two sentences count as the same: 64-bit hashes of the text, exact or normalised."""

import hashlib
import unicodedata
from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt

Matching = Literal["exact", "normalised"]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


class _LettersOnly(dict[int, int | None]):
    """A `str.translate` table that fills itself: punctuation, symbols, spaces, controls go."""

    def __missing__(self, code: int) -> int | None:
        keep = unicodedata.category(chr(code))[0] not in "PSZC"
        self[code] = code if keep else None
        return self[code]


_LETTERS_ONLY = _LettersOnly()


def match_key(text: str, matching: Matching) -> str:
    """What is compared: the text, or the text without case, punctuation and spacing."""
    if matching == "exact":
        return text
    key = unicodedata.normalize("NFKC", text).casefold().translate(_LETTERS_ONLY)
    # A line of punctuation only would match every other such line.
    return key or text


def hash_lines(lines: Iterable[str], matching: Matching = "exact") -> Hashes:
    """One 64-bit hash a line, the same on every machine and for every PYTHONHASHSEED."""
    digests = bytearray()
    for line in lines:
        digests += hash_line(match_key(line, matching))
    return np.frombuffer(bytes(digests), dtype="<u8")


def hash_line(text: str) -> bytes:
    """The eight bytes that stand for a text."""
    return hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()


def priority(hashes: Hashes, seed: int, *salt: str) -> Hashes:
    """A pseudo-random order of hashes that depends on nothing but seed and salt.

    Every random choice about lines is made by comparing these numbers, so it is the same for any
    order of lines, number of workers and machine; and the first n by priority are nested subsets.
    """
    text = "\x1f".join((str(seed), *salt))
    start = np.frombuffer(hash_line(text), dtype="<u8")[0]
    with np.errstate(over="ignore"):
        # The finaliser of SplitMix64: a bijection that spreads every input bit over the output.
        mixed: Hashes = hashes + start
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def distinct(hashes: Hashes) -> Hashes:
    """Sorted and each once; np.unique hashes again, which takes 15 times as long and more room."""
    ordered = np.sort(hashes)
    if not len(ordered):
        return ordered
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def contains(sorted_unique: Hashes, values: Hashes) -> Mask:
    """For each value, whether it stands in a sorted array."""
    if len(sorted_unique) == 0:
        return np.zeros(len(values), dtype=np.bool_)
    places = np.searchsorted(sorted_unique, values)
    places[places == len(sorted_unique)] = 0
    return np.asarray(sorted_unique[places] == values)


def repeated_pairs(first: Hashes, second: Hashes) -> Mask:
    """Marks every line whose two hashes stood together in an earlier line."""
    order = np.lexsort((second, first))  # stable: of equal pairs, the earliest line comes first
    same = (first[order[1:]] == first[order[:-1]]) & (second[order[1:]] == second[order[:-1]])
    repeated = np.zeros(len(first), dtype=np.bool_)
    repeated[order[1:][same]] = True
    return repeated


def lowest(priorities: Hashes, count: int) -> Mask:
    """Marks the `count` lowest priorities, or all where there are fewer."""
    chosen = np.ones(len(priorities), dtype=np.bool_)
    if count < len(priorities):
        chosen[np.argpartition(priorities, count)[count:]] = False
    return chosen
