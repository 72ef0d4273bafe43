"""Tables of the documentation and the figures that they are bound to.

An HTML comment above a table names the JSON file and, for each row and column, the key of its
figures; what a key can say is in docs/results/README.md.

    <!-- figures: multi30k.json
    rows: basic-1 + basic-2 + basic-3; agree-1 + agree-2 + agree-3
    columns: updates; supervised; zero-shot
    -->
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

from accord.studies.paper import TABLES
from accord.studies.plan import slug

NOT_KEPT = "†"
_TABLE = re.compile(r"(?:<!-- figures: ((?:(?!-->)[\s\S])*?)\s*-->\n)?((?:^\|.*\n)+)", re.M)
_NUMBER = re.compile(r"[+−-]?\d[\d,]*(?:\.\d+)?(?: M\b)?")
_RUN = r"(?:[\w-]+: )?[\w.-]+"
_KEY = re.compile(rf"({_RUN}(?:(?: \+|,) {_RUN})*) (.+)")
_RUNS = re.compile(r" \+ |, ")
_JSON_DIGITS = 0.5e-4


@dataclass(frozen=True)
class Table:
    """A table of a page: its cells without head and label column, and what it is bound to."""

    page: Path
    labels: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    bound_to: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def has_figures(self) -> bool:
        return any(re.search(r"\d\.\d", cell) for row in self.cells for cell in row)


def tables(page: Path, text: str) -> list[Table]:
    """All tables of a page."""
    found = []
    for binding, body in _TABLE.findall(text):
        split = [[cell.strip() for cell in x.strip("|").split("|")] for x in body.splitlines()]
        head, *keys = re.split(r"\n(?=rows:|columns:)", binding)
        named = dict(key.split(":", 1) for key in keys)
        listed = {key: tuple(" ".join(value.split()).split("; ")) for key, value in named.items()}
        found.append(
            Table(
                page,
                tuple(row[0] for row in split[2:]),
                tuple(tuple(row[1:]) for row in split[2:]),
                head.strip(),
                listed.get("rows", ()),
                listed.get("columns", ()),
            )
        )
    return found


@dataclass(frozen=True)
class Figure:
    """What stands behind a cell: the numbers that it may show, in this order."""

    values: tuple[float, ...]
    kept: bool = True
    """Whether all can be computed again; if not, a cell with more than the first is marked."""


class Figures:
    """The JSON files that a table is bound to, by their stems."""

    def __init__(self, page: Path, bound_to: str) -> None:
        files, _, self.evaluation = bound_to.partition(" (")
        self.evaluation = self.evaluation.rstrip(")")
        self.files = {}
        for name in files.split(", "):
            path = page.parent / name
            self.files[path.stem] = _as_runs(json.loads(path.read_text(encoding="utf-8")))

    def of(self, key: str) -> Figure:
        """The figures of `[FILE: ]RUN WHAT`, of the mean of `RUN + RUN`, or of a list of runs.

        A file is that of the runs after it, too. `KEY & KEY` are the first figures of both.
        """
        if " & " in key:
            return Figure(tuple(self.of(part).values[0] for part in key.split(" & ")))
        runs, what = _KEY.fullmatch(key).groups()
        if runs.startswith("paper: "):
            return Figure((_paper(runs.removeprefix("paper: "), what),))
        if " − " in what and " + " in what:
            return Figure((self._difference_of_means(runs, what),))
        found, stem = [], ""
        for part in _RUNS.split(runs):
            own, _, run = part.rpartition(": ")
            stem = own or stem
            named = [self.files[stem]] if stem else list(self.files.values())
            found.append(self._figure(_with_run(named, run), run, what))
        if len(found) == 1:
            return found[0]
        first = tuple(item.values[0] for item in found)
        return Figure((fmean(first),) if " + " in runs else first)

    def _difference_of_means(self, runs: str, what: str) -> float:
        """Over seeds: `a-1 + a-2 zero-shot − pivot of b-1 + b-2`; there is no interval of it."""
        left, other = what.split(" − ")
        others = other.removeprefix("pivot of ")
        right = left if others == other else "via pivot"
        stem, colon, _ = runs.partition(": ")
        if colon and ": " not in others:
            others = f"{stem}: {others}"
        return self.of(f"{runs} {left}").values[0] - self.of(f"{others} {right}").values[0]

    def _figure(self, data: dict, name: str, what: str) -> Figure:
        if " − " in what:
            return self._difference(data, name, what)
        run = self._only([item for item in data["runs"] if item["run"] == name], name)
        return Figure(_of_run(run, what))

    def _difference(self, data: dict, name: str, what: str) -> Figure:
        """Of a mean (`zero-shot − basic-1`) or of one direction (`de-fr − basic-1`)."""
        left, other = what.split(" − ")
        lists = (data["differences"], data.get("not kept", {}).get("tests", []))
        for kept, tests in zip((True, False), lists, strict=True):
            some = [
                test if test["what"] == what else {**test, **test["directions"][left]}
                for test in tests
                if test["run"] == name
                if test["what"] == what
                or (test["what"].endswith(f" − {other}") and left in test.get("directions", {}))
            ]
            if some:
                test = self._only(some, f"{name} {what}")
                keys = ("difference", "low", "high", "p")
                return Figure(tuple(test[key] for key in keys if key in test), kept)
        raise KeyError(f"{name} {what}")

    def _only(self, items: list[dict], key: str) -> dict:
        some = [item for item in items if len(items) == 1 or item["evaluation"] == self.evaluation]
        if len(some) != 1:
            raise KeyError(f"{key}: {len(some)} entries; name the evaluation, as `FILE (NAME)`")
        return some[0]


def _as_runs(data: dict) -> dict:
    """Costs of a study are kept by branch: each is the run that a study makes of it."""
    if "branches" not in data:
        return data
    entries = data["branches"].items()
    return {"runs": [{"run": f"{slug(name)}-{each['variant']}", **each} for name, each in entries]}


def _with_run(files: list[dict], run: str) -> dict:
    for data in files:
        # Tests may be of a system, whose seeds are runs.
        if any(item["run"] == run for item in (*data["runs"], *data.get("differences", ()))):
            return data
    raise KeyError(run)


def _of_run(run: dict, what: str) -> tuple[float, ...]:
    what = "via pivot" if what == "zero-shot.via-en" else what
    first, _, rest = what.partition(" ")
    if " + " in what:
        return (fmean(_of_run(run, part)[0] for part in what.split(" + ")),)
    if first == "at":
        step, _, name = rest.partition(" ")
        found = run["validations"][step]
        names = ("supervised bleu", "zero-shot bleu") if name == "bleu" else (name,)
        return tuple(found[name] for name in names)
    if first == "spread":
        names = [name for name in run["directions"] if _zero_shot(name, rest)]
        return (pstdev(run["directions"][name]["bleu"] for name in names),)
    if first == "exact":
        direction = run["directions"].get(rest)
        return (100 * (direction["exact_match"] if direction else run["exact_match"][rest]),)
    if what == "off-target":
        return (100 * run["off_target"]["zero-shot"],)
    if first == "lowercase":
        return (run["bleu_lowercase"][rest],)
    if what in run.get("bleu", {}):
        return run["bleu"][what]["mean"], run["bleu"][what]["half_width"]
    if what in run.get("directions", {}):
        return run["directions"][what]["bleu"], run["directions"][what]["half_width"]
    return (run.get("speed", {}).get(what) or run[what],)


def _zero_shot(name: str, way: str) -> bool:
    """Of English-centric data."""
    direction, _, through = name.partition(".")
    return "en" not in direction.split("-") and through == way


def _paper(column: str, what: str) -> float:
    """What the paper prints in its Europarl table (`agree`) or in another one (`un1.dual-0`).

    Differences are from Pivot or Basic of the same table.
    """
    setting, _, system = column.rpartition(".")
    printed = TABLES[setting or "europarl"].published
    scores = {each.name.lower(): each.scores for each in printed}
    left, minus, other = what.partition(" − ")
    beside = scores["pivot" if other.startswith("pivot") else "basic"]
    return scores[system][left] - (beside[left] if minus else 0)


# --- Comparing.


def wrong_cells(table: Table) -> list[str]:
    """What is wrong with a table that is bound to figures, a line for each cell."""
    figures = Figures(table.page, table.bound_to)
    if len(table.rows) != len(table.cells):
        return [f"the binding names {len(table.rows)} rows, the table has {len(table.cells)}"]
    wrong = []
    for label, row_key, cells in zip(table.labels, table.rows, table.cells, strict=True):
        if len(table.columns) != len(cells):
            return [f"the binding names {len(table.columns)} columns, the table has {len(cells)}"]
        for column, cell in zip(table.columns, cells, strict=True):
            if "](" in cell:
                wrong += [f"row {label!r}: {lost}" for lost in _not_in_links(table.page, cell)]
                continue
            if "-" in (column, row_key) or cell in ("", "–"):
                continue
            key = key_of(row_key, column)
            try:
                said = _wrong(cell, figures.of(key))
            except (KeyError, AttributeError) as error:
                said = f"no such figure: {error}"
            if said:
                wrong.append(f"row {label!r}, cell {cell!r} ({key}): {said}")
    return wrong


def key_of(row: str, column: str) -> str:
    """The key of a cell: row and column, or the column with the row, or its parts, put in."""
    if "{" not in column:
        return f"{row} {column}"
    for number, part in enumerate(row.split(" | ")):
        column = column.replace(f"{{{number}}}", part)
    return column.replace("{}", row)


def _wrong(cell: str, figure: Figure) -> str:
    printed = numbers(cell)
    if not printed or len(printed) > len(figure.values):
        return f"{len(printed)} numbers, but {len(figure.values)} figures: {figure.values}"
    off = [
        f"{text} is printed, {value:.4f} is in the JSON"
        for text, value in zip(printed, figure.values, strict=False)
        if not _same(text, value)
    ]
    if not off and not figure.kept and (len(printed) > 1) != (NOT_KEPT in cell):
        return f"an interval that cannot be computed again has {NOT_KEPT}, others have none"
    return "; ".join(off)


def numbers(text: str) -> list[str]:
    """The numbers of a cell as they are printed."""
    return _NUMBER.findall(text)


def _same(text: str, value: float) -> bool:
    """Whether a number is this value, rounded to the digits that are printed."""
    plain = text.replace("−", "-").replace(",", "").removesuffix(" M")
    scale = 1e6 if text.endswith(" M") else 1
    digits = len(plain.partition(".")[2])
    return abs(float(plain) * scale - value) <= scale * 0.5 * 10**-digits + _JSON_DIGITS


def not_in_linked_pages(table: Table) -> list[str]:
    """Numbers of a table whose rows link to the pages that they are from."""
    return [
        f"row {label!r}: {lost}"
        for label, cells in zip(table.labels, table.cells, strict=True)
        for lost in _not_in_links(table.page, " ".join(cells))
    ]


def _not_in_links(page: Path, text: str) -> list[str]:
    links = re.findall(r"\]\(([^)#]+)", text)
    known = [
        float(number.replace("−", "-").replace(",", "").removesuffix(" M"))
        for link in links
        for number in numbers((page.parent / link).read_text(encoding="utf-8"))
    ]
    shown = numbers(re.sub(r"\]\([^)]*\)", "", text))
    return [
        f"{number} is not in {links}"
        for number in shown
        if not any(_same(number, value) for value in known)
    ]
