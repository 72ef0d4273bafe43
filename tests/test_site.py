"""The site: every page is in it, no link is broken, nothing comes from elsewhere (`make site`)."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from lxml import html
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
# What a reader of Markdown makes of a page, and the same in HTML.
PARTS = {"table": "table", "tr": "tr", "bullet_list": "ul", "ordered_list": "ol", "list_item": "li"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """All pages, built once; --strict makes an error of a page or link that leads nowhere."""
    to = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(to)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return to


def articles(site):
    """The pages with the Markdown they were made from."""
    for page in sorted(site.rglob("*.html")):
        name = page.relative_to(site).with_suffix(".md")
        source = ROOT / (name.with_name("README.md") if name.stem == "index" else name)
        if source.exists():
            yield source, html.parse(page).getroot()


def test_every_page_is_there(site):
    pages = {source.relative_to(ROOT).as_posix() for source, _ in articles(site)}
    wanted = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
    assert {path.relative_to(ROOT).as_posix() for path in wanted} <= pages


def test_nothing_is_fetched_from_elsewhere(site):
    loaded = "//script/@src | //link/@href | //img/@src | //iframe/@src"
    for source, page in articles(site):
        outside = [link for link in page.xpath(loaded) if re.match(r"(\w+:)?//", link)]
        assert not outside, source
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert not re.search(r"(url\(|@import )['\"]?(\w+:)?//", sheet.read_text("utf-8")), sheet


def test_pages_have_the_tables_and_lists_that_github_shows(site):
    """mkdocs reads Markdown by stricter rules, and makes plain text of what does not keep them."""
    reader = MarkdownIt("commonmark").enable("table")
    for source, page in articles(site):
        kinds = Counter(token.type for token in reader.parse(source.read_text("utf-8")))
        [article] = page.xpath("//article")
        for part, tag in PARTS.items():
            assert len(article.findall(f".//{tag}")) == kinds[f"{part}_open"], (source, part)
