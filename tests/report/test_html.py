"""The page: whole, safe whatever the sentences contain, and in need of nothing else."""

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from accord.report.contents import build
from accord.report.html import html, write_html
from accord.report.markdown import markdown, write_markdown
from made_runs import make_run

EVIL = '<script>alert("x")</script> <img src=http://evil.example/x onerror=alert(1)> & \'"'
VOID = {"meta", "br", "img", "link", "input", "path", "circle", "rect"}


class Page(HTMLParser):
    """All elements, checked to be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.text = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def attributes(self, *names):
        return [a[name] for _, a in self.elements for name in names if name in a]


def evil(lines):
    """Sources, references and translations that try to get out of their place."""
    return tuple(
        replace(
            item,
            sources=(EVIL,) * len(item.sources),
            references=(EVIL,) * len(item.references),
            hypotheses=(EVIL,) * len(item.hypotheses),
        )
        for item in lines
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    base = tmp_path_factory.mktemp("page")
    runs = [
        make_run(base / "a<b>&", languages=("en", "de", "fr", "es"), lost=0.3),
        make_run(base / "other", languages=("en", "de", "fr", "es"), lost=0.6),
    ]
    return build(runs)


@pytest.fixture(scope="module")
def page(report):
    return Page(html(report))


def test_all_elements_are_closed(page):
    assert page.open == []


def test_what_sentences_contain_stays_text(tmp_path):
    report = build([make_run(tmp_path / "run", change=evil)])
    page = Page(html(report))
    assert len([tag for tag, _ in page.elements if tag == "script"]) == 1
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert EVIL in page.text
    text = markdown(report)
    assert "<script>" not in text
    assert "<img" not in text


def test_a_run_may_have_any_name(page, report):
    assert "Accord report: a<b>&, other" in page.text
    assert not [tag for tag, _ in page.elements if tag == "b>"]


def test_nothing_is_loaded_from_anywhere(page):
    assert page.attributes("src", "data", "srcset", "action", "poster", "background") == []
    assert all(link.startswith("#") for link in page.attributes("href", "xlink:href"))
    assert not [tag for tag, _ in page.elements if tag in ("link", "iframe", "object", "base")]
    assert not re.search(r"url\(\s*['\"]?(?!#)|@import", page.text)
    styles = " ".join(page.attributes("style"))
    assert "url(" not in styles


def test_links_lead_somewhere_and_ids_are_used_once(page):
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.attributes("href")} <= set(ids)


def test_the_answer_comes_first(page, report):
    assert page.text.index(report.answer.headline.split(":")[1]) < page.text.index("Tables")
    assert page.text.index("Does it translate") < page.text.index("All directions")


def test_every_direction_has_a_cell_and_examples(page, report):
    graph = report.main.experiment.graph
    cells = [a for tag, a in page.elements if a.get("class", "").startswith("cell ")]
    titles = [a["title"] for a in cells]
    # BLEU and off-target rates of two runs.
    for direction in graph.directions:
        kind = "supervised" if graph.is_supervised(*direction) else "zero-shot"
        assert titles.count(f"{direction}, {kind}") == 4
        assert f"direction={direction}" in page.attributes("id")
    assert {a["class"] for a in cells} == {"cell supervised", "cell zero-shot"}


def test_examples_show_the_reference_and_the_pivot(page):
    text = page.text[page.text.index("Examples", page.text.index("Held-out sets")) :]
    assert "a<b>&, pivot" in text
    assert "reference" in text
    assert "as reference" in text
    assert "worst" in text


def test_data_accounting_shows_overlap_before_and_after(page):
    assert re.search(r"en-de and en-fr\s*en\s*yes\s*2,964\s*0", page.text)
    assert "−1,960" in page.text


def test_signatures_and_environment_are_there(page, report):
    assert report.main.evaluation.directions[0].bleu.signature in page.text
    assert "accord train" in page.text
    assert "\\begin{tabular}" in page.text


def test_an_evaluation_without_pivots_or_validations_makes_a_page(tmp_path):
    run = make_run(tmp_path / "run", pivot=False, off_target=None, validate_all=False)
    text = html(build([run]))
    assert "training.validation.watch: all" in text
    assert "Off target" not in text
    (run / "metrics.jsonl").unlink()
    assert "No metrics were logged." in html(build([run]))


def test_a_bilingual_run_makes_a_page(tmp_path):
    text = html(build([make_run(tmp_path / "run", languages=("en", "de"))]))
    assert "Open:" in text


def test_many_languages_stay_small(tmp_path):
    languages = ("en", "de", "fr", "es", "it", "nl", "ro", "pt")
    report = build([make_run(tmp_path / "run", languages=languages)])
    assert len(html(report).encode()) < 500_000


def test_writing_replaces_the_file_as_a_whole(tmp_path, report):
    for write, name in ((write_html, "report.html"), (write_markdown, "report.md")):
        path = tmp_path / "deep" / name
        write(report, path)
        first = path.read_bytes()
        write(report, path)
        assert path.read_bytes() == first
    assert {p.name for p in (tmp_path / "deep").iterdir()} == {"report.html", "report.md"}


def test_markdown_tables_are_regular(report):
    text = markdown(report)
    assert report.answer.headline.replace("\u00a0", " ") in text.replace("\\", "")
    assert "a&lt;b&gt;&amp;" in text
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.M)
    assert len(tables) > 15
    for each in tables:
        rows = each.splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
        assert set(rows[1]) <= set("|-:")


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHOOSE = """<script>
  var select = document.getElementById("direction");
  select.value = "fr-de";
  select.dispatchEvent(new Event("change"));
</script>"""
CLICK = """<script>document.querySelector("a[href='#direction=es-fr']").click();</script>"""
ALL = """<script>location.hash = "#direction=all";</script>"""


def opened(path, fragment, profile):
    """The page as it stands after its scripts have run."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command = [
        CHROMIUM,
        *flags,
        "--virtual-time-budget=500",
        "--dump-dom",
        path.as_uri() + fragment,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the page in")
@pytest.mark.parametrize(
    ("fragment", "script", "shown"),
    [
        ("", "", "de-fr"),
        ("#direction=es-de", "", "es-de"),
        ("#direction=nonsense", "", "de-fr"),
        ("", CHOOSE, "fr-de"),
        ("", CLICK, "es-fr"),
        ("#direction=es-de", ALL, "all"),
    ],
)
def test_the_switcher_shows_one_direction(tmp_path, report, fragment, script, shown):
    path = tmp_path / "report.html"
    path.write_text(html(report).replace("</body>", f"{script}</body>"), "utf-8")
    dom = opened(path, fragment, tmp_path / "profile")
    assert '<html lang="en" class="js">' in dom
    sections = [
        a for tag, a in Page(dom).elements if tag == "details" and a.get("class") == "direction"
    ]
    assert len(sections) == 12
    visible = [a["data-direction"] for a in sections if "hidden" not in a]
    unfolded = [a["data-direction"] for a in sections if "open" in a]
    if shown == "all":
        assert len(visible) == 12
    else:
        assert visible == unfolded == [shown]
