"""More of the page in a browser: examples, training text, doubts, links, files, fingers."""

import re

import pytest

from page_browser import Open, expect
from page_stub import GERMAN, Stub

pytest_plugins = ("page_fixtures",)
EXAMPLES = {"de": ["Guten Tag.", "Das Haus ist alt."], "en": ["The house."]}
CORPORA = [
    {"pair": "en-de", "sentences": 4040, "names": ["europarl-v7", "<b>news</b>"]},
    {"pair": "en-fr", "sentences": 1, "names": []},
]
UNLIKE = {"unlike": True, "byte_share": 0.0, "bits_per_character": 9.0, "surprise": 9, "limit": 2}
STRANGE = UNLIKE | {"byte_share": 0.6}
USUAL = UNLIKE | {"unlike": False, "surprise": 0.1}


def test_an_example_is_translated_from_its_language(visit: Open, stub: Stub) -> None:
    stub.card = {"examples": EXAMPLES}
    it = visit()
    chips = it.page.locator("#examples-list button")
    expect(chips).to_have_text([*EXAMPLES["de"], *EXAMPLES["en"]])
    chips.nth(1).click()
    it.translated("DAS HAUS IST ALT.")
    assert it.page.input_value("#source") == "de"
    assert stub.asked[0]["source"] == "de"
    expect(chips).to_have_text(EXAMPLES["de"])
    it.page.select_option("#source", "it")
    expect(it.page.locator("#examples")).to_be_hidden()


def test_what_the_model_was_trained_on(visit: Open, stub: Stub) -> None:
    stub.card = {"corpora": CORPORA}
    it = visit()
    rows = it.page.locator("#corpora tr")
    expect(rows).to_have_count(2)
    assert rows.nth(0).locator("th, td").all_text_contents() == [
        *("English – German", "4,040", "europarl-v7, <b>news</b>"),
    ]
    expect(it.page.locator("#summary")).to_contain_text("trained on 4,041 sentence pairs")


def test_an_old_server_tells_nothing_of_its_training(visit: Open) -> None:
    it = visit()
    expect(it.page.locator("#source")).to_be_enabled()
    for name in ("training-card", "examples", "caution"):
        expect(it.page.locator(f"#{name}")).to_be_hidden()


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ([UNLIKE], r"^This text is unlike anything .* probably wrong\.$"),
        ([STRANGE], r"characters that the model has never seen\.$"),
        ([UNLIKE, USUAL, USUAL, USUAL], "^1 of these 4 sentences are unlike"),
        ([UNLIKE, USUAL, USUAL, USUAL, USUAL], None),  # one of many is a false alarm
        ([USUAL], None),
        ([UNLIKE | {"unlike": None, "surprise": None, "limit": None}], None),
    ],
)
def test_text_unlike_the_training_text(visit: Open, stub: Stub, seen: list, words: str) -> None:
    sentences = [f"The house {i}." for i in range(len(seen))]
    stub.familiarity = dict(zip(sentences, seen, strict=True))
    it = visit()
    it.page.select_option("#source", "en")
    it.write(" ".join(sentences))
    it.translated(" ".join(sentences).upper())
    caution = it.page.locator("#caution")
    if not words:
        expect(caution).to_be_hidden()
        return
    expect(caution).to_have_text(re.compile(words))
    expect(it.page.locator("#status")).to_contain_text("unlike anything")
    it.page.click("#clear")
    expect(caution).to_be_hidden()


def test_ways_that_differ_are_doubted(visit: Open, stub: Stub) -> None:
    it = visit()
    it.page.select_option("#source", "de")
    it.write("Ja")  # JA, and through the pivot JA INDEED
    caution = it.page.locator("#caution")
    expect(caution).to_contain_text("at least one of them is wrong")
    it.write(GERMAN)  # 82 of 100 in common
    expect(it.page.locator("#agreement-number")).to_have_text("82")
    expect(caution).to_be_hidden()
    it.write("Ja")
    expect(caution).to_be_visible()
    it.page.select_option("#target", "en")
    expect(caution).to_be_hidden()


def test_a_long_text_scrolls_in_its_box_and_too_long_is_said_in_sight(
    visit: Open, stub: Stub
) -> None:
    stub.settings["charLimit"] = 800
    it = visit(viewport={"width": 390, "height": 844})
    it.write("The house.\n" * 60)
    it.translated(" ".join(["THE HOUSE."] * 60))
    for name in (".field", "#direct .output"):
        tall, box = it.page.evaluate(
            f"(e => [e.scrollHeight, e.clientHeight])(document.querySelector('{name}'))"
        )
        assert tall > 1.5 * box
        assert box < 844 / 2
    expect(it.page.locator("#translate")).to_be_in_viewport()
    it.write("The house.\n" * 100)
    alert = it.page.locator("#alert")
    expect(alert).to_be_in_viewport()
    expect(alert).to_contain_text("It has 1,100 characters, and 800 are translated at once")
    expect(it.page.locator("#again")).to_be_hidden()
    expect(it.page.locator("#link")).to_be_disabled()
    it.write("The house.")
    it.translated("THE HOUSE.")
    expect(alert).to_be_hidden()


def test_a_link_says_what_to_translate(visit: Open, stub: Stub) -> None:
    it = visit(
        f"{stub.url}?source=es&target=it&q=La%20casa%20%26%20co.",
        permissions=["clipboard-read", "clipboard-write"],
    )
    it.translated("LA CASA & CO.")
    assert (stub.asked[0]["source"], stub.asked[0]["target"]) == ("es", "it")
    it.page.select_option("#target", "en")
    it.page.click("#link")
    expect(it.page.locator("#link")).to_have_text("Copied")
    copied = it.page.evaluate("navigator.clipboard.readText()")
    assert copied == f"{stub.url}?source=es&target=en&q=La+casa+%26+co."


def test_a_link_to_a_language_that_is_not_here(visit: Open, stub: Stub) -> None:
    it = visit(f"{stub.url}?source=xx&target=fr&q=The+house.")
    it.translated("THE HOUSE.")
    expect(it.page.locator("#alert")).to_contain_text(
        "a language that this model does not have: xx"
    )
    assert it.page.input_value("#source") == "auto"


DROP = """([name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name));
  const event = new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
  document.body.dispatchEvent(event);
  return event.defaultPrevented;
}"""


def test_a_text_file_goes_into_the_box(visit: Open, stub: Stub) -> None:
    it = visit()
    expect(it.page.locator("#open-file")).to_be_enabled()
    assert it.page.evaluate(DROP, ["note.txt", list("The façade.".encode())])
    it.translated("THE FAÇADE.")
    with it.page.expect_file_chooser() as chooser:
        it.page.click("#open-file")
    chooser.value.set_files({"name": "b.txt", "mimeType": "text/plain", "buffer": b"The end."})
    it.translated("THE END.")
    assert stub.files == []


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.docx", b"x", "does not translate .docx files. It takes .txt."),
        ("a", b"x", "does not translate this file."),
        ("latin.txt", b"fa\xe7ade", "cannot be read as text. It must be in UTF-8"),
        ("long.txt", b"The house. " * 20, "“long.txt” is too long for this server."),
        ("longer.txt", b"The house. " * 50, "“longer.txt” is too long for this server."),
    ],
)
def test_files_that_cannot_be_translated(
    visit: Open, stub: Stub, name: str, content: bytes, words: str
) -> None:
    stub.settings["charLimit"] = 100
    it = visit()
    expect(it.page.locator("#open-file")).to_be_enabled()
    it.page.evaluate(DROP, [name, list(content)])
    expect(it.page.locator("#alert")).to_contain_text(words)
    assert stub.asked == []
    assert stub.files == []


def test_other_files_go_through_the_server(visit: Open, stub: Stub) -> None:
    stub.settings |= {"supportedFilesFormat": [".txt", ".docx"], "charLimit": 100}
    it = visit()
    it.page.select_option("#source", "de")
    for name, content in (("Brief.DOCX", b"PK\x03\x04"), ("long.txt", b"The house. " * 20)):
        it.page.evaluate(DROP, [name, list(content)])
        expect(it.page.locator("#file-state")).to_contain_text(f"“{name}” is translated.")
        expect(it.page.locator("#file-link")).to_have_attribute(
            "href", f"{stub.url}download_file/done.docx"
        )
        sent = stub.files[-1]
        assert f'name="file"; filename="{name}"'.encode() in sent
        assert content in sent
        for field, value in ((b"source", b"de"), (b"target", b"fr")):
            assert b'name="' + field + b'"\r\n\r\n' + value + b"\r\n" in sent
    it.write("The house.")
    expect(it.page.locator("#file-state")).to_be_hidden()


def test_an_address_that_is_none_is_not_offered(visit: Open, stub: Stub) -> None:
    stub.settings["supportedFilesFormat"] = [".docx"]
    stub.file_url = "javascript:alert(1)"
    it = visit()
    expect(it.page.locator("#open-file")).to_be_enabled()
    it.page.evaluate(DROP, ["a.docx", [1]])
    expect(it.page.locator("#alert")).to_contain_text("answer has no file")
    expect(it.page.locator("#file-link")).to_be_hidden()


def test_a_finger_marks_a_word_until_it_taps_elsewhere(visit: Open) -> None:
    it = visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    it.page.select_option("#source", "de")
    it.write(GERMAN)
    expect(it.page.locator("#agreement-number")).to_have_text("82")
    expect(it.page.locator("#direct-readout")).to_have_text("Tap a word to see its origin.")
    it.page.locator("#direct .word", has_text="proposition").tap()
    expect(it.page.locator("#direct-readout")).to_have_text("proposition ← Vorschlag")
    assert it.marked("#mirror") == ["Vorschlag"]
    it.page.locator("#direct-name").tap()
    assert it.marked("main") == []
    for name in ("#translate", "#open-file", "#direct .copy", "#swap", "#clear"):
        box = it.page.locator(name).bounding_box()
        assert box
        assert min(box["width"], box["height"]) >= 43, name
