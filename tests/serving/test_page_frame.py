"""Around what the page does: its looks, its safety, its words, and the real server behind it."""

import re
from urllib.parse import urlsplit

import pytest

from page_browser import PIVOT, Open, expect
from page_stub import GERMAN, PAGE, Stub

pytest_plugins = ("page_fixtures",)


def test_no_request_leaves_for_another_host(visit: Open, stub: Stub) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    it.translated(PIVOT, "pivot")
    assert it.hosts == {urlsplit(stub.url).netloc}


def test_the_files_name_no_other_host() -> None:
    for file in PAGE.iterdir():
        found = set(re.findall(r"https?://[^\s\"'<>]+", file.read_text("utf-8")))
        assert found <= {"http://www.w3.org/2000/svg"}, file.name


def test_the_policy_is_in_force(visit: Open) -> None:
    it = visit()
    it.page.evaluate(
        "() => { const s = document.createElement('script');"
        " s.textContent = 'document.title = \"owned\"'; document.body.append(s); }"
    )
    assert it.page.title() == "Accord: translate"
    assert any("Content Security Policy" in text for text in it.complaints)
    it.complaints.clear()


def test_the_mirror_lies_letter_on_letter(visit: Open) -> None:
    it = visit(viewport={"width": 390, "height": 844})
    it.write("Ein Wort und noch ein Wort, sehr lang. " * 20 + "\n\nEnde\n")
    area, mirror = (it.page.locator(name).bounding_box() for name in ("#text", "#mirror"))
    assert area == mirror
    sizes = it.page.evaluate("[text.scrollHeight, text.clientHeight, text.scrollWidth]")
    assert sizes[0] <= sizes[1]


@pytest.mark.parametrize("fails", [False, True])
def test_a_narrow_screen_needs_no_sideways_scrolling(visit: Open, stub: Stub, fails: bool) -> None:
    if fails:
        stub.fail = (429, {"Retry-After": "30"}, {"error": "x" * 200})
    it = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    it.page.select_option("#source", "de")
    it.write(f"{GERMAN} {'Donaudampfschiff' * 8}")
    expect(it.page.locator("#alert" if fails else "#agreement")).to_be_visible()
    assert it.page.evaluate("document.documentElement.scrollWidth") == 390
    wide = it.page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('.unseen'))"
        ".filter(e => e.getBoundingClientRect().right > 391).map(e => e.id || e.className)"
    )
    assert wide == []


# For each selector: the text's colour and the first opaque colour behind it.
COLOURS = """selectors => selectors.map(selector => {
  const element = document.querySelector(selector);
  const clear = colour => colour === 'transparent' || colour === 'rgba(0, 0, 0, 0)';
  let behind = element;
  while (behind.parentElement && clear(getComputedStyle(behind).backgroundColor)) {
    behind = behind.parentElement;
  }
  return [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
})"""
TEXTS = [
    "#text",
    "#direct .output",
    "#direct .differs",
    "#direct .marked",
    "#direct-readout",
    "#kind",
    "#pivot .tag",
    "#between-name",
    "#agreement-words",
    "#agreement summary",
    "#translate",
    "#direct .copy",
    "#source",
    "label[for=source]",
    "#summary",
    "#direction-text",
    "footer a",
    ".keys li",
    "#alert-title",
    "#alert-server",
    "#count",
    "#caution",
    "#examples-name",
    "#open-file",
    "#file-link",
    "#training-text",
]


def luminance(colour: str) -> float:
    channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(part * share for part, share in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(visit: Open, scheme: str) -> None:
    it = visit(color_scheme=scheme)
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    it.translated(PIVOT, "pivot")
    it.page.evaluate("document.getElementById('alert').hidden = false")
    it.page.locator("#direct .word").first.hover()
    page = luminance(it.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (page > 0.5) is (scheme == "light")
    for selector, (text, behind) in zip(TEXTS, it.page.evaluate(COLOURS, TEXTS), strict=True):
        lighter, darker = sorted((luminance(text), luminance(behind)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, f"{selector}: {text} on {behind}"


def test_reduced_motion(visit: Open, stub: Stub) -> None:
    stub.delay = 0.5
    it = visit(reduced_motion="reduce")
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    expect(it.page.locator("#direct")).to_have_class(re.compile("busy"))
    expect(it.page.locator("#direct-readout")).to_have_text("Translating…")
    moving = "getComputedStyle(document.getElementById('direct'), '::before').animationName"
    assert it.page.evaluate(moving) == "none"


def test_every_control_has_a_name(visit: Open) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    it.translated(PIVOT, "pivot")
    controls = it.page.locator("button:visible, select:visible, textarea:visible, [role=button]")
    for control in controls.all():
        name = control.aria_snapshot()
        assert re.search(r'(button|combobox|textbox) "\w', name), name


def test_words_and_numbers(visit: Open) -> None:
    """The parts that need no page: words, agreement, differences, tokens in bytes."""
    it = visit()
    call = "([name, ...args]) => import('./words.js').then(m => m[name](...args))"

    def run(*args: object) -> object:
        return it.page.evaluate(call, list(args))

    def texts(text: str) -> list[str]:
        found = run("words", text)
        assert isinstance(found, list)
        return [word["text"] for word in found]

    assert texts("Don't, e-mail 3.5!") == ["Don't", ",", "e-mail", "3.5", "!"]
    assert texts("你好 abc。") == ["你", "好", "abc", "。"]
    assert run("agreement", "a b", "a b") == 100
    assert run("agreement", "abc", "xyz") == 0
    assert run("agreement", "", "x") == 0
    near = run("agreement", "the old house", "the new house")
    assert near == run("agreement", "the new house", "the old house")
    assert isinstance(near, int)
    assert 30 < near < 90
    assert run("agreement", "x" * 3000, "x" * 2999) == 99
    assert run("locate", ["▁a", "<0xC3>", "<0xA9>", "▁", "▁b"], "aé  b") == [
        [0, 1],
        [1, 2],
        [1, 2],
        None,
        [4, 5],
    ]


def test_the_page_of_the_real_server(visit: Open) -> None:
    fakes = pytest.importorskip("serving_fakes")
    with fakes.Running() as running:
        it = visit(f"{running.url}/")
        it.page.select_option("#source", "de")
        it.page.select_option("#target", "fr")
        it.write("das alte Haus")
        it.translated("fr: das alte Haus")
        it.translated("fr: en: das alte Haus", "pivot")
        expect(it.page.locator(".between")).to_have_text("In English: en: das alte Haus")
        expect(it.page.locator("#others-list li")).to_have_count(3)
        for pane in ("direct", "pivot"):
            it.page.locator(f"#{pane} .word", has_text="Haus").hover()
            assert it.marked("#mirror") == ["Haus"]
        it.page.select_option("#target", "en")
        it.translated("en: das alte Haus")
        expect(it.page.locator("#pivot")).to_be_hidden()
        it.page.select_option("#source", "auto")
        it.write("Das ist ein sehr altes Haus in der Stadt.")
        expect(it.page.locator("#detected")).to_have_text("detected: German")
