"""Which files the site is made of (a hook of mkdocs; see mkdocs.yml).

Pages lie in docs/, but also beside what they tell about: README.md, benchmarks/, research/. mkdocs
knows one folder. So all of them are handed to it under the paths of the repository, and relative
links mean the same on the site as in a checkout.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "docs/**/*.md", "benchmarks/*.md", "research/**/*.md")
STYLE = ROOT / "docs/site.css"


def github_anchor(title: str, separator: str) -> str:
    """The name of a heading in links, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> None:
    """Have headings named as on GitHub."""
    config.mdx_configs["toc"]["slugify"] = github_anchor


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take our files instead of those of docs/ alone; what comes from the theme stays."""
    theme = [file for file in files if file.src_dir != config.docs_dir]
    pages = sorted(page for pattern in PAGES for page in ROOT.glob(pattern))
    linked = {path for page in pages for path in linked_files(page)}
    ours = [
        File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
        for path in [*pages, STYLE, *sorted(linked - set(pages))]
    ]
    return Files([*theme, *ours])


def linked_files(page: Path) -> Iterator[Path]:
    """The files of the repository that a page links to or shows: figures, recipes, source."""
    for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        path = (page.parent / link).resolve()
        if path.is_file() and path.is_relative_to(ROOT):
            yield path
