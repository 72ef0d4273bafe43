"""How often off-target and mixed rates miss a sentence that is part English, and cry wolf.

    python benchmarks/mixed_sentences.py 'test.{lang}.xz' de,en,es,fr

Line n of the files is the same sentence. Mixtures are made of the words of two of them: the first
share in one language, the rest in English, or the other way round. References are all languages.
"""

import sys
from collections.abc import Sequence

from accord.data.streams import read_lines
from accord.evaluation.scores import mixed, off_target
from where import where

_ENGLISH = "en"


def main(pattern: str, listed: str) -> None:
    """Print the table."""
    languages = tuple(listed.split(","))
    text = {x: [y or "" for y in read_lines(pattern.replace("{lang}", x))] for x in languages}
    flagged = [_count(mixed(lines, languages)) for lines in text.values()]
    wrong = [_count(off_target(lines, x, languages)) for x, lines in text.items()]
    print(f"{pattern}: {where()}\n")
    print("| sentences | off-target | mixed |\n|---|--:|--:|")
    print(f"| references | {_shown(wrong)} | {_shown(flagged)} |")
    for share in (0.5, 0.25, 0.15):
        for first in (True, False):
            off, caught = [], []
            for x in languages:
                if x != _ENGLISH:
                    made = _mixtures(text[x], text[_ENGLISH], share, first)
                    off.append(_count(off_target(made, x, languages)))
                    caught.append(_count(mixed(made, languages)))
            place = "first" if first else "last"
            print(f"| the {place} {share:.0%} English | {_shown(off)} | {_shown(caught)} |")


def _mixtures(lines: Sequence[str], english: Sequence[str], share: float, first: bool) -> list[str]:
    made = []
    for line, other in zip(lines, english, strict=True):
        words, more = line.split(), other.split()
        if first:
            part = [*more[: round(share * len(more))], *words[round(share * len(words)) :]]
        else:
            keep = 1 - share
            part = [*words[: round(keep * len(words))], *more[round(keep * len(more)) :]]
        made.append(" ".join(part))
    return made


def _count(found: tuple[float | None, int]) -> tuple[int, int]:
    rate, checked = found
    return round((rate or 0.0) * checked), checked


def _shown(counts: Sequence[tuple[int, int]]) -> str:
    some, all_of_them = (sum(column) for column in zip(*counts, strict=True))
    rates = [hits / checked for hits, checked in counts if checked]
    return (
        f"{some:,} of {all_of_them:,}, {some / all_of_them:.2%} "
        f"({min(rates):.1%} to {max(rates):.1%})"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
