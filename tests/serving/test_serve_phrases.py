"""A phrase-based run behind the server: it must be told the source language, has a system for each
direction with data only, and tells no alignments."""

import pytest
from starlette.testclient import TestClient

from accord.config.load import load
from accord.serving.app import create_app
from accord.serving.opened_model import open_translator
from accord.serving.settings import ServeSettings
from accord.training.phrase_based import train_phrase_based
from toy_phrases import prepared_phrases
from toy_training import number

pytest.importorskip("thot")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    directory = tmp_path_factory.mktemp("served-phrases")
    run = directory / "run"
    train_phrase_based(load(prepared_phrases(directory), [f"run={run}"]))
    with TestClient(create_app(open_translator(run), ServeSettings(batch_delay=0))) as made:
        yield made


def post(client, status=200, **asked):
    answer = client.post("/translate", json=asked)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "fr")])
def test_a_direction_with_data_is_translated(client, source, target):
    texts = [number(value, source) for value in (9402, 38)]
    found = post(client, q=texts, source=source, target=target)
    assert found == {"translatedText": [number(value, target) for value in (9402, 38)]}


def test_a_language_that_is_not_told_is_detected_for_each_text(client):
    texts = [number(9402, "de"), number(9402, "fr"), number(9402, "en")]
    found = post(client, q=texts, target="en")  # auto is the default
    assert found["translatedText"] == [number(9402, "en")] * 3
    assert [item["language"] for item in found["detectedLanguage"]] == ["de", "fr", "en"]


def test_a_direction_without_data_goes_through_the_pivot_if_asked_to(client):
    asked = {"q": number(561, "de"), "source": "de", "target": "fr"}
    assert post(client, 400, **asked) == {
        "error": "there is no direct model for de-fr here: set via to auto"
    }
    found = post(client, **asked, via="auto", details=True)
    assert found["translatedText"] == number(561, "fr")
    [[sentence]] = found["details"]
    assert (sentence["kind"], sentence["pivot"]) == ("pivot", number(561, "en"))
    assert sentence["target_tokens"] == number(561, "fr").split()
    assert sentence["alignment"] == [-1, -1, -1]  # it tells none


def test_an_element_in_html_stays_where_it_was_in_proportion(client):
    text = "<p>drei <b>acht</b></p>"
    found = post(client, q=text, source="de", target="en", format="html")
    assert found["translatedText"] == "<p>three <b>eight</b></p>"


def test_only_directions_that_exist_are_listed(client):
    targets = {one["code"]: one["targets"] for one in client.get("/languages").json()}
    assert targets == {"en": ["de", "fr"], "de": ["en"], "fr": ["en"]}
    found = client.get("/graph").json()["directions"]
    ways = {(x["source"], x["target"]): (x["direct"], x["kind"], x["via"]) for x in found}
    assert ways["de", "fr"] == (False, "zero-shot", ["en"])
    assert ways["de", "en"] == (True, "supervised", [])
