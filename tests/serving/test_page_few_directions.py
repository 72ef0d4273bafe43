"""The page with a model that translates some directions only: it asks for what there is."""

import pytest

from page_browser import PIVOT, Open, expect
from page_stub import ALL, GERMAN, Stub

pytest_plugins = ("page_fixtures",)
TO_AND_FROM_ENGLISH = {name for name in ALL if "en" in name.split("-")}


@pytest.fixture
def few(stub: Stub) -> Stub:
    """As a phrase-based run: models where there is data, and pivots between the others."""
    stub.models = TO_AND_FROM_ENGLISH
    return stub


def ways(stub: Stub) -> list[tuple[object, ...]]:
    return [(asked["source"], asked["target"], asked.get("via")) for asked in stub.asked]


def test_a_direction_without_a_model_goes_through_a_pivot_at_once(visit: Open, few: Stub) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    it.translated(PIVOT)
    assert ways(few) == [("de", "fr", "auto")]
    assert few.asked[0]["alternatives"]
    expect(it.page.locator("#direct-name")).to_have_text("French, through English")
    expect(it.page.locator("#kind")).to_have_text("pivot")
    assert it.page.locator("#path .step").all_text_contents() == ["German", "English", "French"]
    expect(it.page.locator("#direction-text")).to_contain_text("There is no model here")
    for name in ("#pivot", "#agreement", "#alert"):
        expect(it.page.locator(name)).to_be_hidden()


def test_a_direction_with_a_model_is_asked_for_directly(visit: Open, few: Stub) -> None:
    it = visit()
    it.page.select_option("#source", "en")
    it.write("The house.")
    it.translated("THE HOUSE.")
    assert ways(few) == [("en", "fr", None)]
    expect(it.page.locator("#kind")).to_have_text("supervised")
    expect(it.page.locator("#direct-name")).to_have_text("French")


def test_a_language_that_decides_on_the_way_is_detected_first(visit: Open, few: Stub) -> None:
    it = visit()
    it.write(GERMAN)
    it.translated(PIVOT)
    expect(it.page.locator("#detected")).to_have_text("detected: German")
    it.write("The house.")
    it.translated("THE HOUSE.")
    assert ways(few) == [("de", "fr", "auto"), ("en", "fr", None)]
    assert [asked["q"] for asked in few.detected] == [GERMAN, "The house."]
    it.page.select_option("#target", "en")  # there is still one way for all but English
    it.write("Hallo.")
    it.translated("HALLO.")
    assert ways(few)[-1] == ("auto", "en", None)
    assert few.detected[-1]["q"] == "The house."


def test_where_no_chain_leads_nothing_is_asked(visit: Open, stub: Stub) -> None:
    stub.models = {"en-fr", "fr-en"}
    it = visit()
    it.page.select_option("#source", "de")
    it.write("Hallo.")
    alert = it.page.locator("#alert")
    expect(alert).to_contain_text("German is not translated into French here.")
    expect(it.page.locator("#direction-text")).to_contain_text("no chain of models leads there")
    expect(it.page.locator("#kind")).to_be_hidden()
    assert stub.asked == []
    it.page.select_option("#source", "en")
    it.translated("HALLO.")
    expect(alert).to_be_hidden()


def test_the_graph_and_the_summary_are_of_the_models(visit: Open, few: Stub) -> None:
    it = visit()
    expect(it.page.locator("#summary")).to_contain_text(
        "20 directions, 0 of them zero-shot, 12 only through a pivot"
    )
    lines = it.page.locator("#graph .lines path")
    assert {line.get_attribute("class") for line in lines.all()} == {"supervised"}
    for hint in it.page.locator(".of-zero-shot").all():
        expect(hint).to_be_hidden()
    it.page.select_option("#source", "de")
    chosen = it.page.locator("#graph .chosen path")
    assert [line.get_attribute("class") for line in chosen.all()] == ["supervised strong"] * 2


def test_lines_have_arrows_where_a_model_goes_one_way(visit: Open, stub: Stub) -> None:
    stub.models = ALL - {"de-en", "fr-de"}
    it = visit()
    expect(it.page.locator("#summary")).to_contain_text("1 only through a pivot")
    lines = it.page.locator("#graph .lines path")
    expect(lines).to_have_count(10)
    arrows = [line.get_attribute("class") for line in lines.all()]
    assert sorted(name for name in arrows if name and "one-way" in name) == [
        "supervised one-way",
        "zero-shot one-way",
    ]


@pytest.mark.parametrize(
    ("source", "target", "via"),
    [("de", "fr", "auto"), ("auto", "fr", "auto"), ("en", "fr", None), ("auto", "en", None)],
)
def test_files_go_the_same_ways(
    visit: Open, few: Stub, source: str, target: str, via: str | None
) -> None:
    few.settings = few.settings | {"supportedFilesFormat": [".docx"]}
    it = visit()
    it.page.select_option("#target", target)
    it.page.select_option("#source", source)
    it.page.set_input_files("#file", {"name": "a.docx", "mimeType": "", "buffer": b"x"})
    expect(it.page.locator("#file-link")).to_be_visible()
    sent = few.files[0].decode("latin-1")
    assert ('name="via"\r\n\r\nauto' in sent) == (via == "auto")
