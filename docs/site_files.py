"""Which files the site is made of (a hook of mkdocs; see mkdocs.yml).

Pages lie in docs/, but also beside what they tell about: README.md, benchmarks/, research/. mkdocs
knows one folder. So all of them are handed to it under the paths of the repository, and relative
links mean the same on the site as in a checkout.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# What pages show or link to, beside the pages themselves.
PATTERNS = (
    "*.md",
    "LICENSE",
    "docs/*.css",
    "docs/*.md",
    "docs/*.png",
    "docs/figures/*.svg",
    "docs/results/*.json",
    "docs/results/*.md",
    "benchmarks/*.md",
    "benchmarks/*.py",
    "recipes/**/*.yaml",
    "research/theory/*.md",
    "research/theory/*.svg",
)


def github_anchor(title: str, separator: str) -> str:
    """The name of a heading in links, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> None:
    """Have headings named as on GitHub."""
    config.mdx_configs["toc"]["slugify"] = github_anchor


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take our files instead of those of docs/ alone; what comes from the theme stays."""
    theme = [file for file in files if file.src_dir != config.docs_dir]
    ours = [
        File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
        for pattern in PATTERNS
        for path in sorted(ROOT.glob(pattern))
    ]
    return Files([*theme, *ours])
