"""Every table of README and docs/results says what the committed figures say."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from published import not_in_linked_pages, numbers, tables, wrong_cells

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "docs/results").glob("*.md"))
PAGES = [ROOT / "README.md", *RESULTS]
LINKED, NONE_KEPT = "in the linked pages", "not kept"
COMMIT = re.compile(r'"commit": "([^"]+)"|commits? ([0-9a-f]{7})')


def tables_of(page):
    return tables(page, page.read_text(encoding="utf-8"))


CASES = [
    pytest.param(table, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, table in enumerate(tables_of(page))
    if table.bound_to not in ("", NONE_KEPT)
]


@pytest.mark.parametrize("table", CASES)
def test_the_table_says_what_its_figures_say(table):
    check = not_in_linked_pages if table.bound_to == LINKED else wrong_cells
    wrong = check(table)
    assert not wrong, f"{table.page.relative_to(ROOT)}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_table_with_figures_is_bound(page):
    for table in tables_of(page):
        assert table.bound_to or not table.has_figures, (
            f"{page.relative_to(ROOT)}: the table that begins with {table.labels[0]!r} has figures "
            "but no comment `<!-- figures: FILE.json … -->` above it (docs/results/README.md)"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_was_not_kept_is_said(page):
    text = page.read_text(encoding="utf-8")
    assert ("†" in text) == ("†:" in text), "a mark is explained where it is used, and only there"
    for part in text.split(f"<!-- figures: {NONE_KEPT} -->")[1:]:
        after = part.split("\n\n")[1]
        assert "not kept" in after, f"the paragraph after the table must say so: {after[:80]!r}"


def test_a_number_that_the_linked_page_does_not_have_is_found():
    [table] = [found for found in tables_of(ROOT / "README.md") if found.bound_to == LINKED]
    altered = tuple(tuple(cell.replace("7.7 GB", "7.6 GB") for cell in row) for row in table.cells)
    [wrong] = not_in_linked_pages(replace(table, cells=altered))
    assert "7.6 is not in" in wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_figure_that_is_altered_is_found(page):
    """The binding of every page sees a change in the last digit of each number."""
    for table in tables_of(page):
        if table.bound_to in ("", NONE_KEPT, LINKED):
            continue
        for place, row in enumerate(table.cells):
            for number, cell in enumerate(row):
                keys = (table.columns[number], table.rows[place])
                if not numbers(cell) or "-" in keys or "](" in cell:
                    continue
                text = numbers(cell)[-1].removesuffix(" M")
                other = text[:-1] + str((int(text[-1]) + 5) % 10)
                changed = re.sub(rf"{re.escape(text)}(?!.*{re.escape(text)})", other, cell)
                cells = list(table.cells)
                cells[place] = (*row[:number], changed, *row[number + 1 :])
                found = wrong_cells(replace(table, cells=tuple(cells)))
                assert len(found) == 1, (cell, changed)
                assert other in found[0]


def git(*arguments):
    try:
        done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    except FileNotFoundError:  # no git here
        return []
    return done.stdout.split() if done.returncode == 0 else []


def test_the_commits_of_figures_are_in_the_history():
    """A commit that was redone after it was measured is nobody's to look at; README lists them."""
    # A prefix: these files lie in somebody else's checkout.
    if git("rev-parse", "--show-prefix", "--is-shallow-repository") != ["false"]:
        pytest.skip("needs a checkout with the whole history")
    history = {commit[:7] for commit in git("rev-list", "HEAD")}
    named = set()
    for path in (ROOT / "docs/results").iterdir():
        for said in COMMIT.findall(path.read_text(encoding="utf-8")):
            named |= set(re.findall(r"\b[0-9a-f]{7}\b", " ".join(said)))
    text = (ROOT / "docs/results/README.md").read_text(encoding="utf-8")
    [part] = [part for part in text.split("\n## ") if part.startswith("Commits\n")]
    rows = [row.split("|")[1] for row in part.splitlines() if row.startswith("| `")]
    assert named - history == set(re.findall(r"`(\w+)`", " ".join(rows)))
