"""The HTTP interface, one rule at a time, in-process and with a model that only pretends."""

import json

import pytest
from starlette.testclient import TestClient

from accord.graph import Direction, TranslationGraph
from accord.serving.access_log import Log
from accord.serving.app import create_app
from accord.serving.metrics_text import Meter
from accord.serving.settings import ServeSettings
from serving_fakes import FakeTranslator, Lines, opened, star

GERMAN = "Das ist ein ganz gewöhnlicher deutscher Satz."


class Site:
    """An application and what it logs."""

    def __init__(self, translator=None, **settings):
        self.translator = translator or FakeTranslator()
        self.lines, self.meter = Lines(), Meter()
        self.log = Log(self.meter, self.lines)
        settings = ServeSettings(**{"batch_delay": 0, **settings})
        app = create_app(opened(self.translator), settings, meter=self.meter, log=self.log)
        self.client = TestClient(app, raise_server_exceptions=False)

    def __enter__(self):
        self.client.__enter__()
        return self

    def __exit__(self, *_):
        self.client.__exit__(None, None, None)
        self.log.close(30)

    def post(self, path="/translate", status=200, **body):
        answer = self.client.post(path, json=body)
        assert answer.status_code == status, answer.text
        if status != 200:
            assert set(answer.json()) == {"error"}
            return answer.json()["error"]
        return answer.json()

    def logged(self):
        self.log.close(30)
        return self.lines.facts()


@pytest.fixture(scope="module")
def site():
    with Site() as made:
        yield made


def test_one_text_gives_one_text_and_nothing_else(site):
    assert site.post(q="Ein Haus.", source="de", target="fr") == {"translatedText": "fr: Ein Haus."}


def test_a_list_gives_a_list(site):
    answer = site.post(q=["Eins.", "", "Zwei. Drei."], source="de", target="en")
    assert answer == {"translatedText": ["en: Eins.", "", "en: Zwei. en: Drei."]}
    assert site.post(q=[], source="de", target="en", details=True) == {
        "translatedText": [],
        "details": [],
    }


@pytest.mark.parametrize("text", ["", "   \n", "---\n…", "🎉"])
def test_nothing_to_translate_comes_back_as_it_is(site, text):
    assert site.post(q=text, source="de", target="fr") == {"translatedText": text}


def test_spaces_and_line_breaks_between_sentences_stay(site):
    text = "  Eins.  Zwei!\r\n\r\n\t- Drei\u2028Vier. \n"
    assert site.post(q=text, source="de", target="es")["translatedText"] == (
        "  es: Eins.  es: Zwei!\r\n\r\n\tes: - Drei\u2028es: Vier. \n"
    )


def test_auto_detects_each_text_on_its_own(site):
    texts = [GERMAN, "This is a perfectly ordinary English sentence."]
    answer = site.post(q=texts, target="fr", source="auto")
    assert [x["language"] for x in answer["detectedLanguage"]] == ["de", "en"]
    assert all(50 < x["confidence"] <= 100 for x in answer["detectedLanguage"])
    one = site.post(q=GERMAN, target="fr", source="auto")
    assert one["detectedLanguage"]["language"] == "de"
    assert "detectedLanguage" not in site.post(q=GERMAN, target="fr", source="de")


def test_text_in_the_target_language_is_given_back(site):
    assert site.post(q=GERMAN, source="auto", target="de")["translatedText"] == GERMAN
    answer = site.post(q=GERMAN, source="de", target="de", details=True)
    assert answer == {"translatedText": GERMAN, "details": [[]]}


def test_alternatives_are_others_the_best_first(site):
    answer = site.post(q="Eins. Zwei.", source="de", target="fr", alternatives=2)
    assert answer["translatedText"] == "fr: Eins. fr: Zwei."
    assert answer["alternatives"] == ["fr: Eins. ! fr: Zwei. !", "fr: Eins. ! ! fr: Zwei. ! !"]
    answer = site.post(q=["Eins."], source="de", target="fr", alternatives=9)
    assert [len(others) for others in answer["alternatives"]] == [9]
    assert site.post(q="", source="de", target="fr", alternatives=2)["alternatives"] == []


def test_details_say_where_everything_comes_from(site):
    answer = site.post(q="Eins zwei.  Drei.", source="de", target="fr", details=True)
    [[first, second]] = answer["details"]
    assert first == {
        "source": "Eins zwei.",
        "target": "fr: Eins zwei.",
        "kind": "zero-shot",
        "via": [],
        "score": -0.5,
        "source_tokens": ["▁Eins", "▁zwei."],
        "target_tokens": ["▁fr:", "▁Eins", "▁zwei."],
        "alignment": [-1, 0, 1],
        "pivot": None,
        "start": 0,
        "end": 10,
    }
    assert (second["source"], second["start"], second["end"]) == ("Drei.", 12, 17)


def test_kinds(site):
    def kind(**asked):
        [[sentence]] = site.post(q="Eins", details=True, **asked)["details"]
        return sentence["kind"], sentence["via"], sentence["pivot"], sentence["target"]

    assert kind(source="de", target="en") == ("supervised", [], None, "en: Eins")
    assert kind(source="de", target="en", via="auto") == ("supervised", [], None, "en: Eins")
    through = ("pivot", ["en"], "en: Eins", "fr: en: Eins")
    assert kind(source="de", target="fr", via="auto") == through
    assert kind(source="de", target="fr", via="en") == through
    assert kind(source="de", target="fr", via="es")[1] == ["es"]


def test_via_is_dropped_where_detection_says_the_text_is_already_there(site):
    assert site.post(q=GERMAN, target="fr", via="de")["translatedText"] == f"fr: {GERMAN}"


def test_the_beam_is_the_servers_unless_asked_for():
    with Site(beam=3) as site:
        site.post(q="Eins", source="de", target="fr")
        site.post(q="Eins", source="de", target="fr", beam=1)
        site.post(q="Eins", source="de", target="fr", alternatives=6)
        assert [(x[3], x[4]) for x in site.translator.batches] == [(3, 1), (1, 1), (7, 7)]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"target": "fr"}, "'q' is missing"),
        ({"q": "a"}, "'target' is missing"),
        ({"q": 1, "target": "fr"}, "'q' must be a text"),
        ({"q": None, "target": "fr"}, "'q' must be a text"),
        ({"q": [["a"]], "target": "fr"}, "'q' must be a text"),
        ({"q": ["a", None], "target": "fr"}, "'q' must be a text"),
        ({"q": {"a": 1}, "target": "fr"}, "'q' must be a text"),
        ({"q": "a", "target": "xx"}, "target 'xx' is not known here: use one of en, de, fr, es"),
        ({"q": "a", "target": "auto"}, "target 'auto' is not known"),
        ({"q": "a", "target": "fr", "source": "xx"}, "source 'xx' is not known"),
        ({"q": "a", "target": "fr", "source": ""}, "source '' is not known"),
        ({"q": "a", "target": "fr", "via": "xx"}, "via 'xx' is not known"),
        ({"q": "a", "source": "de", "target": "fr", "via": ""}, "via '' is not known"),
        ({"q": "a", "target": "fr", "via": "fr"}, "name a third language"),
        ({"q": "a", "source": "de", "target": "fr", "via": "de"}, "name a third language"),
        ({"q": "a", "target": "f" * 1000}, "'target' is wrong"),
        ({"q": "a", "target": "fr", "beam": 0}, "'beam' is wrong"),
        ({"q": "a", "target": "fr", "beam": 11}, "'beam' is wrong"),
        ({"q": "a", "target": "fr", "beam": 2.5}, "'beam' is wrong"),
        ({"q": "a", "target": "fr", "beam": "x"}, "'beam' is wrong"),
        ({"q": "a", "target": "fr", "alternatives": -1}, "'alternatives' is wrong"),
        ({"q": "a", "target": "fr", "alternatives": 4, "beam": 4}, "set beam to 5"),
        ({"q": "a", "target": "fr", "details": "perhaps"}, "'details' is wrong"),
        (
            {"q": "a", "target": "fr", "format": "xml"},
            "'format' is wrong: input should be 'text' or",
        ),
        ({"q": "a", "target": "fr", "format": "html", "details": True}, "details are for text"),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(site, asked, words):
    assert words in site.post(status=400, **asked)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"q"',
        b"[" * 100_000,
        b'{"q": "a", "target": "fr", "beam": NaN}',
        b'{"q": "a", "target": "fr", "beam": 1e999}',
        b'{"q": "a", "target": "fr", "beam": ' + b"9" * 10_000 + b"}",
        b'{"q": "\xff", "target": "fr"}',
        b'{"q": "\xed\xa0\x80", "target": "fr"}',
        b'{"q": "\\ud800", "target": "fr"}',
        b'{"q": "\\ud800 \\ud800", "target": "fr"}',
        b"\xef\xbb\xbf\x00",
    ],
)
def test_bodies_that_are_no_requests(site, body):
    answer = site.client.post("/translate", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(("the body ", "the field 'beam' is wrong"))


def test_characters_outside_the_basic_plane_and_controls_are_text_like_any_other(site):
    for text in ("🎉 Eins", "A\x00B", "\u202eEins", "e\u0301"):
        answer = site.post(q=text, source="de", target="fr", details=True)
        assert answer["translatedText"].startswith("fr: ")
        [[sentence]] = answer["details"]
        assert text[sentence["start"] : sentence["end"]] == sentence["source"]


def test_forms_work_as_well(site):
    def form(**fields):
        return site.client.post("/translate", data=fields)

    answer = form(q="Größe & so", source="de", target="fr", beam="2", details="true", via="")
    assert answer.json()["translatedText"] == "fr: Größe & so"
    assert answer.json()["details"][0][0]["via"] == []
    assert form(q=["Eins", "Zwei"], source="de", target="fr").json() == {
        "translatedText": ["fr: Eins", "fr: Zwei"]
    }
    assert form(q="", source="de", target="fr").json() == {"translatedText": ""}
    assert form(q="a").status_code == 400
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    for broken in (b"q=%ff&target=fr", b"q=\xff&target=fr", b"q=%ed%a0%80&target=fr", b"a&" * 2000):
        answer = site.client.post("/translate", content=broken, headers=headers)
        assert answer.status_code == 400, broken
        assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", None])
def test_json_is_read_whatever_it_is_called(site, kind):
    """As curl -d sends it without a header, and as fetch does."""
    body = json.dumps({"q": "Eins", "source": "de", "target": "fr"})
    headers = {"Content-Type": kind} if kind else {}
    answer = site.client.post("/translate", content=body, headers=headers)
    assert answer.json() == {"translatedText": "fr: Eins"}


def test_other_types_are_refused(site):
    answer = site.client.post("/translate", content=b"<q/>", headers={"Content-Type": "text/xml"})
    assert answer.status_code == 400
    assert "text/xml" in answer.json()["error"]
    assert "multipart/form-data" in answer.json()["error"]


def test_limits_of_a_request():
    with Site(max_characters=20, max_sentences=3, max_body=400) as site:
        assert site.post(q="x" * 20, source="de", target="fr")["translatedText"]
        message = site.post(status=413, q=["x" * 20, "y"], source="de", target="fr")
        assert "21 characters, and no more than 20" in message
        message = site.post(status=413, q="Ab. Cd. Ef. Gh.", source="de", target="fr")
        assert "sentences, and no more than 3" in message
        message = site.post(status=413, q="x" * 400, source="de", target="fr")
        assert "larger than 400 bytes" in message
        assert "21 characters" in site.post("/detect", status=413, q="x" * 21)
        assert "21 characters" in site.post(status=413, q=[""] * 21, source="de", target="fr")
        assert site.translator.batches == [(["x" * 20], "fr", (), 4, 1)]


def test_keys_are_asked_for_where_there_are_any():
    with Site(api_keys=("secret", "geheim")) as site:
        asked = {"q": "Eins", "source": "de", "target": "fr"}
        assert "missing" in site.post(status=403, **asked)
        assert "wrong" in site.post(status=403, api_key="secre", **asked)
        assert site.post(api_key="geheim", **asked) == {"translatedText": "fr: Eins"}
        headers = {"Bearer secret": 200, "bearer geheim": 200, "Basic secret": 403, "Bearer": 403}
        for value, status in headers.items():
            answer = site.client.post("/translate", json=asked, headers={"Authorization": value})
            assert answer.status_code == status
        assert "missing" in site.post("/detect", status=403, q="Eins")
        assert site.client.get("/languages").status_code == 200
        assert site.client.get("/frontend/settings").json()["keyRequired"] is True
        assert "secret" not in site.lines.text


def test_detect(site):
    found = site.post("/detect", q=GERMAN)
    assert found[0]["language"] == "de"
    assert {x["language"] for x in found} == {"en", "de", "fr", "es"}
    assert site.post("/detect", q="")[0]["confidence"] == 0.0
    assert "'q' is missing" in site.post("/detect", status=400)
    assert site.post("/detect", status=400, q=["a", "b"]) == "the field 'q' must be a text"


def test_a_model_whose_languages_cannot_be_detected():
    with Site(FakeTranslator(star("qqa", "qqb"))) as site:
        assert site.post(q="x", source="qqa", target="qqb")["translatedText"] == "qqb: x"
        assert "name the source language" in site.post(status=400, q="x", target="qqb")
        assert "name the source language" in site.post("/detect", status=400, q="x")


def test_no_chain_of_data():
    with Site(FakeTranslator(TranslationGraph(("en", "de"), frozenset()))) as site:
        message = site.post(status=400, q="x", source="de", target="en", via="auto")
        assert "no chain of training data leads from de to en" in message


def test_languages_and_graph(site):
    languages = site.client.get("/languages").json()
    assert languages[1] == {"code": "de", "name": "German", "targets": ["en", "fr", "es"]}
    graph = site.client.get("/graph").json()
    assert graph["languages"][0] == {"code": "en", "name": "English"}
    assert graph["model"] == {"name": "fake", "steps": 3, "units": 8}
    found = graph["directions"]
    ways = {(x["source"], x["target"]): (x["kind"], x["direct"], x["via"]) for x in found}
    assert len(ways) == 12
    assert ways["en", "de"] == ("supervised", True, [])
    assert ways["de", "fr"] == ("zero-shot", True, ["en"])


def test_the_graph_tells_what_the_model_translates():
    """Data for all of a star, models for three of its directions and one without data."""
    translator = FakeTranslator()
    some = [("de", "en"), ("en", "fr"), ("en", "es"), ("fr", "es")]
    translator.directions = frozenset(Direction(*one) for one in some)
    with Site(translator) as site:
        found = site.client.get("/graph").json()["directions"]
    ways = {(x["source"], x["target"]): (x["kind"], x["direct"], x["via"]) for x in found}
    assert ways["de", "fr"] == ("zero-shot", False, ["en"])
    assert ways["en", "de"] == ("supervised", False, [])  # there is data, but no model
    assert ways["fr", "de"] == ("zero-shot", False, [])
    assert ways["fr", "es"] == ("zero-shot", True, [])  # no chain of models to compare it with


def test_state(site):
    assert site.client.get("/health").json() == {"status": "ok"}
    assert site.client.get("/health/ready").json() == {"status": "ok"}
    metrics = site.client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'accord_requests_total{path="/health",status="200"} ' in metrics.text


def test_not_ready_before_the_start_and_after_the_end():
    site = Site()
    assert site.client.get("/health/ready").status_code == 503
    with site:
        assert site.client.get("/health/ready").status_code == 200
    answer = site.client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.headers["retry-after"]


def test_the_page_and_its_files(site):
    page = site.client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    for rule in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
    ):
        assert rule in policy
    assert "unsafe" not in policy
    script = site.client.get("/page.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    again = {"If-None-Match": script.headers["etag"]}
    assert site.client.get("/page.js", headers=again).status_code == 304
    for other in (
        "/page/page.js",
        "/../settings.py",
        "/%2e%2e/settings.py",
        "/settings.py",
        "/graph/",
    ):
        answer = site.client.get(other)
        assert answer.status_code == 404
        assert set(answer.json()) == {"error"}


def test_every_answer_is_safe_and_has_an_id(site):
    for answer in (site.client.get("/health"), site.client.get("/none"), site.client.put("/graph")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert len(answer.headers["x-request-id"]) == 16
    assert answer.status_code == 405
    for given, kept in (("abc-1", True), ("a b", False), ("x" * 65, False)):
        answer = site.client.get("/health", headers={"X-Request-Id": given})
        assert (answer.headers["x-request-id"] == given) is kept


def test_other_origins_only_where_allowed(site):
    origin = {"Origin": "https://example.org"}
    assert "access-control-allow-origin" not in site.client.get("/health", headers=origin).headers
    with Site(cors=("https://example.org",)) as open_site:
        answer = open_site.client.get("/health", headers=origin)
        assert answer.headers["access-control-allow-origin"] == "https://example.org"
        other = open_site.client.get("/health", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
        asking = {**origin, "Access-Control-Request-Method": "POST"}
        assert open_site.client.options("/translate", headers=asking).status_code == 200
        # A page can only tell its reader what is wrong if it may read that.
        for q, target, status in (("Eins", "xx", 400), ("poison", "fr", 500)):
            body = {"q": q, "source": "de", "target": target}
            answer = open_site.client.post("/translate", json=body, headers=origin)
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == "https://example.org"
            assert len(answer.headers["x-request-id"]) == 16


def test_failures_tell_clients_nothing_and_the_log_everything():
    with Site() as site:
        answer = site.client.post(
            "/translate", json={"q": "poison", "source": "de", "target": "fr"}
        )
        assert answer.status_code == 500
        identity = answer.headers["x-request-id"]
        assert answer.json() == {"error": f"internal error (request {identity})"}
        assert site.post(q="Eins", source="de", target="fr")["translatedText"] == "fr: Eins"


def test_the_log_has_lengths_and_languages_but_no_texts():
    with Site() as site:
        site.post(q="Ein Geheimnis. Zwei.", source="de", target="fr", via="en", api_key="hush")
        site.post(q=GERMAN, target="fr")
        site.client.get("/nothing")
    facts = site.logged()
    assert "Geheimnis" not in site.lines.text
    assert "hush" not in site.lines.text
    first = facts[0]
    assert first.pop("time").endswith("+00:00")
    assert first.pop("ms") > 0
    assert len(first.pop("request")) == 16
    assert first == {
        "method": "POST",
        "path": "/translate",
        "status": 200,
        "source": "de",
        "target": "fr",
        "via": "en",
        "characters": 20,
        "sentences": 2,
    }
    assert facts[1]["source"] == "de"
    assert (facts[2]["path"], facts[2]["status"]) == ("/nothing", 404)


def test_texts_are_logged_on_demand_only():
    with Site(log_texts=True) as site:
        site.post(q="Ein Haus.", source="de", target="fr")
    assert site.logged()[0]["q"] == "Ein Haus."
    assert site.logged()[0]["translated"] == "fr: Ein Haus."
