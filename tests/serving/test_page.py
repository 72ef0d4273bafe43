"""What the page does, in a real browser, against a server that answers as `accord serve` does."""

import re

import pytest

from page_browser import DIRECT, PIVOT, Open, expect
from page_stub import ENGLISH, GERMAN, Stub

pytest_plugins = ("page_fixtures",)
XSS = "<img src=x onerror=\"document.title='owned'\"> <script>document.title='owned'</script>"


def test_a_zero_shot_translation_stands_beside_its_pivot(visit: Open, stub: Stub) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    it.translated(DIRECT)
    it.translated(PIVOT, "pivot")
    expect(it.page.locator("#kind")).to_have_text("zero-shot")
    expect(it.page.locator("#pivot-name")).to_have_text("French, through English")
    expect(it.page.locator(".between")).to_have_text(f"In English: {' '.join(ENGLISH)}")
    assert {asked.get("via") for asked in stub.asked} == {None, "auto"}
    left, right = (it.page.locator(f"#{name}").bounding_box() for name in ("direct", "pivot"))
    assert left
    assert right
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]


def test_agreement_is_a_number_and_marks_what_differs(visit: Open) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    expect(it.page.locator("#agreement-number")).to_have_text("82")
    assert it.page.locator("#direct .differs").all_text_contents() == ["présenté", "aujourd’hui"]
    assert it.page.locator("#pivot .differs").all_text_contents() == ["déposé", "aujourd’hui"]
    expect(it.page.locator("#agreement-words")).to_have_text("10 of 12 words in common.")
    expect(it.page.locator("#agreement details p")).to_be_hidden()
    it.page.click("#agreement summary")
    expect(it.page.locator("#agreement details p")).to_contain_text("letter sequences")


def test_a_supervised_direction_has_no_pivot(visit: Open, stub: Stub) -> None:
    it = visit()
    it.page.select_option("#source", "en")
    it.write("The house.")
    it.translated("THE HOUSE.")
    expect(it.page.locator("#kind")).to_have_text("supervised")
    for name in ("pivot", "agreement"):
        expect(it.page.locator(f"#{name}")).to_be_hidden()
    assert [asked.get("via") for asked in stub.asked] == [None]


def test_a_detected_source_gets_its_pivot_as_well(visit: Open, stub: Stub) -> None:
    it = visit()
    it.write(GERMAN)
    it.translated(PIVOT, "pivot")
    expect(it.page.locator("#detected")).to_have_text("detected: German")
    assert [(asked["source"], asked.get("via")) for asked in stub.asked] == [
        ("auto", None),
        ("de", "auto"),
    ]
    it.write("The house.")
    it.translated("THE HOUSE.")
    expect(it.page.locator("#pivot")).to_be_hidden()


@pytest.mark.parametrize("from_server", [False, True])
def test_markup_stays_text(visit: Open, stub: Stub, from_server: bool) -> None:
    stub.answer = XSS if from_server else None
    it = visit()
    it.page.select_option("#source", "de")
    it.write(XSS)
    for pane in ("direct", "pivot"):
        expect(it.page.locator(f"#{pane} .output")).to_contain_text(re.compile("<script>", re.I))
    assert it.page.locator("main img, main script").count() == 0
    assert it.page.title() == "Accord: translate"


def test_markup_in_an_error_stays_text(visit: Open, stub: Stub) -> None:
    stub.fail = (400, {}, {"error": XSS})
    it = visit()
    it.write("Hallo")
    expect(it.page.locator("#alert-server")).to_have_text(f"The server says: {XSS}")
    assert it.page.locator("main img, main script").count() == 0


def test_pointing_marks_where_words_come_from(visit: Open) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    it.translated(PIVOT, "pivot")
    it.page.locator("#direct .word", has_text="proposition").hover()
    assert it.marked("#mirror") == ["Vorschlag"]
    expect(it.page.locator("#direct-readout")).to_have_text("proposition ← Vorschlag")
    it.page.locator("#pivot .word", has_text="examinerons").hover()
    assert it.marked("#mirror") == ["werden", "ihn", "prüfen"]
    assert it.marked("#direct") == []
    it.page.locator("#graph-name").hover()
    assert it.marked("main") == []


def test_pointing_at_the_source_marks_the_translations(visit: Open) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    it.translated(PIVOT, "pivot")
    box = it.page.locator("#mirror .word", has_text="heute").bounding_box()
    assert box
    it.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert it.marked("#direct") == ["aujourd’hui"]
    assert it.marked("#pivot") == ["aujourd’hui"]
    it.page.mouse.move(5, 5)
    it.page.focus("#text")
    for _ in range(2):
        it.page.keyboard.press("Control+Home")
        it.page.keyboard.press("ArrowRight")
    assert it.marked("#direct") == ["La"]
    it.page.keyboard.type("x")
    assert it.marked("main") == []


def test_places_are_counted_in_characters(visit: Open) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write("🎉🎉 Ja! Guten Tag.")
    it.translated("🎉🎉 JA! GUTEN TAG.")
    it.page.locator("#direct .word", has_text="GUTEN").hover()
    assert it.marked("#mirror") == ["Guten"]


def test_copy(visit: Open) -> None:
    it = visit(permissions=["clipboard-read", "clipboard-write"])
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    it.translated(PIVOT, "pivot")
    for pane, text in (("direct", DIRECT), ("pivot", PIVOT)):
        button = it.page.locator(f"#{pane} .copy")
        button.click()
        expect(button).to_have_text("Copied")
        assert it.page.evaluate("navigator.clipboard.readText()") == text


def test_copy_without_a_clipboard_to_write_to(visit: Open) -> None:
    it = visit(permissions=["clipboard-read"])
    it.page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }"
    )
    it.write("The house.")
    it.translated("THE HOUSE.")
    it.page.click("#direct .copy")
    expect(it.page.locator("#direct .copy")).to_have_text("Copied")
    assert it.page.evaluate("navigator.clipboard.readText()") == "THE HOUSE."


def test_other_translations(visit: Open) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    others = it.page.locator("#others-list li")
    expect(others).to_have_count(2)
    assert others.first.locator(".differs").all_text_contents() == ["soumis"]


def test_swap_takes_the_translation_along(visit: Open, stub: Stub) -> None:
    it = visit()
    expect(it.page.locator("#swap")).to_be_disabled()
    it.write(GERMAN)
    it.translated(DIRECT)
    it.page.click("#swap")
    assert it.page.input_value("#source") == "fr"
    assert it.page.input_value("#target") == "de"
    assert it.page.input_value("#text") == DIRECT
    it.translated(DIRECT.upper())


def test_a_language_is_never_translated_into_itself(visit: Open) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.page.select_option("#target", "de")
    assert it.page.input_value("#source") == "fr"
    it.page.select_option("#source", "de")
    assert it.page.input_value("#target") == "fr"


def test_languages_are_remembered(visit: Open, stub: Stub) -> None:
    it = visit()
    it.page.select_option("#source", "es")
    it.page.select_option("#target", "it")
    it.page.reload()
    expect(it.page.locator("#source")).to_have_value("es")
    expect(it.page.locator("#target")).to_have_value("it")


def test_keyboard_only(visit: Open, stub: Stub) -> None:
    stub.settings["frontendTimeout"] = 60_000
    it = visit()
    expect(it.page.locator("#source")).to_be_enabled()
    assert it.focused() == "text"
    it.page.keyboard.press("Shift+Tab")
    assert it.focused() == "target"
    it.page.keyboard.press("Shift+Tab")
    assert it.focused() == "source"
    it.page.keyboard.press("G")
    assert it.page.input_value("#source") == "de"
    it.page.focus("#text")
    it.page.keyboard.insert_text(GERMAN)
    it.page.keyboard.press("Control+Enter")
    it.translated(PIVOT, "pivot")
    stops = []
    for _ in range(4):
        it.page.keyboard.press("Tab")
        stops.append(it.focused())
    assert stops == ["translate", "La", "Copy", "La"]
    assert it.marked("#mirror") == ["Die"]
    it.page.keyboard.press("ArrowRight")
    assert it.focused() == "Commission"
    assert it.marked("#mirror") == ["Kommission"]
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert it.page.evaluate(outline) == "solid"


def test_results_are_announced(visit: Open) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    status = it.page.locator("#status[aria-live=polite]")
    expect(status).to_have_text(f"French: {DIRECT} Agreement with the pivot: 82 of 100.")


def test_the_graph_chooses_languages(visit: Open, stub: Stub) -> None:
    it = visit()
    node = '#graph [data-code="{}"]'.format
    it.page.click(node("es"))
    expect(it.page.locator("#graph-hint")).to_contain_text("From Spanish")
    it.page.focus(node("it"))
    it.page.keyboard.press("Enter")
    assert it.page.input_value("#source") == "es"
    assert it.page.input_value("#target") == "it"
    lines = it.page.locator("#graph .chosen path")
    assert [line.get_attribute("class") for line in lines.all()] == [
        "supervised strong",
        "supervised strong",
        "zero-shot strong",
    ]
    expect(it.page.locator("#graph .via")).to_have_attribute("data-code", "en")
    it.page.click(node("en"))
    it.page.keyboard.press("Escape")
    expect(it.page.locator("#graph .picked")).to_have_count(0)
    assert it.page.locator("#graph .lines path").count() == 10


REFUSALS = [
    (400, None, "could not use this request"),
    (413, None, "too long for this server"),
    (429, 7, "busy"),
    (500, None, "inside the server"),
    (503, 7, "not ready"),
    (504, None, "took too long"),
]


def test_refusals_in_plain_words(visit: Open, stub: Stub) -> None:
    it = visit()
    alert = it.page.locator("[role=alert]")
    for status, wait, words in REFUSALS:
        headers = {"Retry-After": str(wait)} if wait else {}
        stub.fail = (status, headers, {"error": f"reason {status}"})
        it.write(f"The {status}.")
        expect(alert).to_contain_text(words)
        expect(alert).to_contain_text(f"The server says: reason {status}")
        expect(alert.get_by_text(f"wait {wait} s")).to_have_count(1 if wait else 0)
        stub.fail = None
        it.page.click("#again")
        it.translated(f"THE {status}.")
        expect(alert).to_be_hidden()


def test_a_busy_server_is_asked_again_after_the_wait(visit: Open, stub: Stub) -> None:
    stub.fail, stub.times = (429, {"Retry-After": "1"}, {"error": "full"}), 1
    it = visit()
    it.write("The house.")
    expect(it.page.locator("#again")).to_have_text("Try again now (1 s)")
    it.translated("THE HOUSE.")
    assert len(stub.asked) == 2


def test_an_answer_that_is_no_json(visit: Open, stub: Stub) -> None:
    stub.fail = (502, {}, "a proxy's page")
    it = visit()
    it.write("Hallo")
    expect(it.page.locator("#alert")).to_contain_text("refused the request (502)")


def test_offline_and_online_again(visit: Open) -> None:
    it = visit(offline=False)
    it.page.context.set_offline(True)
    it.write("The house.")
    expect(it.page.locator("#alert")).to_contain_text("You are offline.")
    it.page.context.set_offline(False)
    it.translated("THE HOUSE.")


def test_a_server_that_is_not_there_at_first(visit: Open, stub: Stub) -> None:
    stub.missing = {"/languages", "/graph"}
    it = visit()
    it.write("The house.")
    expect(it.page.locator("#alert")).to_contain_text("not ready")
    stub.missing = {"/graph", "/frontend/settings"}
    it.page.click("#again")
    it.page.select_option("#target", "fr")
    it.translated("THE HOUSE.")
    expect(it.page.locator("#graph-card")).to_be_hidden()
    expect(it.page.locator("#kind")).to_be_hidden()


def test_a_failing_pivot_leaves_the_direct_translation(visit: Open, stub: Stub) -> None:
    stub.fail_pivot = (504, {}, {"error": "late"})
    it = visit()
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    it.translated(DIRECT)
    expect(it.page.locator("#pivot .output")).to_have_attribute(
        "data-empty", re.compile("took too long")
    )
    expect(it.page.locator("#alert")).to_be_hidden()


def test_the_key_is_asked_for_only_when_needed(visit: Open, stub: Stub) -> None:
    stub.key = "secret"
    it = visit()
    expect(it.page.locator("#source")).to_be_enabled()
    expect(it.page.locator("#key")).to_be_hidden()
    it.write("The house.")
    expect(it.page.locator("#key")).to_be_visible()
    assert it.focused() == "text"
    it.page.click("#again")
    expect(it.page.locator("#api-key")).to_be_focused()
    it.page.keyboard.type("secret")
    it.page.keyboard.press("Enter")
    it.translated("THE HOUSE.")
    assert stub.asked[-1]["api_key"] == "secret"
    stub.settings["keyRequired"] = True
    it.page.reload()
    expect(it.page.locator("#api-key")).to_have_value("secret")


def test_the_limit_is_kept(visit: Open, stub: Stub) -> None:
    stub.settings["charLimit"] = 10
    it = visit()
    it.write("The 🎉.")
    expect(it.page.locator("#count")).to_have_text("6 / 10")
    it.translated("THE 🎉.")
    it.write("The house is old.")
    expect(it.page.locator("#count")).to_have_text("7 characters over the limit of 10")
    it.page.keyboard.press("Control+Enter")
    it.translated("")
    assert len(stub.asked) == 1


def test_typing_asks_once_and_drops_what_is_late(visit: Open, stub: Stub) -> None:
    stub.settings["frontendTimeout"] = 500
    it = visit()
    expect(it.page.locator("#source")).to_be_enabled()
    it.page.locator("#text").press_sequentially("The house", delay=10)
    it.translated("THE HOUSE")
    assert len(stub.asked) == 1
    stub.delay = 0.4
    it.write("The late one.")
    it.page.keyboard.press("Control+Enter")
    it.page.wait_for_timeout(50)
    stub.delay = 0
    it.write("The last one.")
    it.page.keyboard.press("Control+Enter")
    it.translated("THE LAST ONE.")
    it.page.wait_for_timeout(500)
    it.translated("THE LAST ONE.")
