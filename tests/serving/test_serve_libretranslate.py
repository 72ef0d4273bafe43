"""LibreTranslate's clients against a live server: its Python package, and its examples by curl."""

import json
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from serving_fakes import FakeTranslator, Running, star

GERMAN = "Das ist ein ganz gewöhnlicher deutscher Satz."


@pytest.fixture(scope="module")
def server():
    with Running(batch_delay=0) as made:
        yield made


def test_the_python_client(server):
    client = LibreTranslateAPI(server.url)
    assert client.translate("Ein Haus.", "de", "fr") == "fr: Ein Haus."
    assert client.translate("Größe & so", "DE", "fr-FR") == "fr: Größe & so"
    assert client.detect(GERMAN)[0]["language"] == "de"
    assert [language["code"] for language in client.languages()] == ["en", "de", "fr", "es"]
    with_key = LibreTranslateAPI(server.url, api_key="xxxxxx")  # ignored where there are none
    assert with_key.translate("Haus", "auto", "en") == "en: Haus"
    assert with_key.languages()[0]["name"] == "English"


def test_the_python_client_with_a_key():
    with Running(batch_delay=0, api_keys=("geheim",)) as server:
        assert LibreTranslateAPI(server.url, "geheim").translate("Haus", "de", "fr") == "fr: Haus"
        with pytest.raises(OSError, match="403"):
            LibreTranslateAPI(server.url, "falsch").translate("Haus", "de", "fr")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_examples_of_the_documentation(server, tmp_path):
    script = Path(__file__).with_name("libretranslate_examples.sh")
    done = subprocess.run(
        ["bash", script, server.url, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    download = said.pop("download")
    found = {name: json.loads(answer) for name, answer in said.items()}
    assert found["simple"] == {"translatedText": "es: Hello!"}
    assert found["auto"]["translatedText"] == "en: Bonjour tout le monde!"
    assert found["auto"]["detectedLanguage"]["language"] == "fr"
    assert found["html"] == {"translatedText": '<p class="green">es: Hello!</p>'}
    assert found["alternatives"] == {
        "translatedText": "fr: Hello",
        "alternatives": ["fr: Hello !", "fr: Hello ! !", "fr: Hello ! ! !"],
    }
    assert found["batch"] == {"translatedText": ["de: Hello", "de: world"]}
    assert found["detect"] == found["detect-form"]
    assert found["detect"][0]["language"] == "fr"
    assert set(found["languages"][0]) == {"code", "name", "targets"}
    assert found["settings"]["filesTranslation"] is True
    assert {".docx", ".html", ".odt", ".pptx", ".srt", ".txt"} <= set(
        found["settings"]["supportedFilesFormat"]
    )
    for name in ("form", "multipart", "query", "code"):
        assert found[name] == {"translatedText": "es: Hello"}, name
    assert found["file"]["translatedFileUrl"].startswith(f"{server.url}/download_file/")
    assert download == "es: Hello. es: How are you?"
    assert set(found["unknown"]) == set(found["suggest"]) == {"error"}


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        *(("DE", "de"), ("de-DE", "de"), ("de_AT", "de"), ("pt-BR", "pt_BR"), ("pb", "pt_BR")),
        *(("PT-br", "pt_BR"), ("pt", "pt_BR"), ("zh-Hant", "zh_Hant"), ("zt", "zh_Hant")),
        *(
            ("zh-Hans", None),
            ("pt-PT", None),
            ("d", None),
            ("", None),
            ("auto", None),
            ("zh", None),
        ),
    ],
)
def test_codes_of_languages(two_scripts, code, meant):
    asked = {"q": "x", "source": "en", "target": code}
    answer = httpx.post(f"{two_scripts.url}/translate", json=asked)
    if meant is None:
        assert answer.status_code == 400
        assert "is not known here: use one of en, de, pt_BR, zh_Hant" in answer.json()["error"]
    else:
        assert answer.json() == {"translatedText": f"{meant}: x"}


@pytest.fixture(scope="module")
def two_scripts():
    languages = star("en", "de", "pt_BR", "zh_Hant", "zh_Latn")
    with Running(FakeTranslator(languages), batch_delay=0) as made:
        yield made


def ask(server, **asked):
    return httpx.post(f"{server.url}/translate", json={"format": "html", **asked})


def test_html(server):
    source = '<p title="Ein Haus">Das <b>Haus</b> &amp; <code>x()</code>.</p>'
    answer = ask(server, q=source, source="de", target="fr", alternatives=2)
    assert answer.json() == {
        "translatedText": (
            '<p title="fr: Ein Haus">fr: Das <b>Haus</b> &amp; <code>x()</code>.</p>'
        ),
        "alternatives": [],
    }
    answer = ask(server, q=[f"<p>{GERMAN}</p>", "", "<br>"], source="auto", target="fr").json()
    assert answer["translatedText"] == [f"<p>fr: {GERMAN}</p>", "", "<br>"]
    assert answer["detectedLanguage"][0]["language"] == "de"
    same = ask(server, q=f"<p>{GERMAN}</p>", source="auto", target="de").json()
    assert same["translatedText"] == f"<p>{GERMAN}</p>"
    through = ask(server, q="<i>Eins</i>", source="de", target="fr", via="auto").json()
    assert through == {"translatedText": "<i>fr: en: Eins</i>"}
    for empty in ("", None):
        answer = ask(server, q="a < b", source="de", target="fr", format=empty)
        assert answer.json() == {"translatedText": "fr: a < b"}


def test_html_has_the_limits_of_text():
    with Running(batch_delay=0, max_characters=60, max_sentences=3) as server:
        answer = ask(server, q="<p>" * 21, source="de", target="fr")
        assert (answer.status_code, "63 characters" in answer.text) == (413, True)
        answer = ask(server, q="<p>a<p>b<p>c<p>d", source="de", target="fr")
        assert (answer.status_code, "4 sentences" in answer.text) == (413, True)
        assert ask(server, q="<p>a<p>poison", source="de", target="fr").status_code == 500


def test_fields_in_the_address_come_first_but_json_is_as_it_is(server):
    def post(query, **body):
        return httpx.post(f"{server.url}/translate?{query}", **body).json()

    assert post("target=es", data={"q": "a", "source": "de", "target": "fr"}) == {
        "translatedText": "es: a"
    }
    assert post("target=es", json={"q": "a", "source": "de", "target": "fr"}) == {
        "translatedText": "fr: a"
    }
    assert "error" in post("target=es&q=%ff")
    head = {"Content-Type": "multipart/form-data; boundary=x"}
    for broken in (b"", b"--x\r\n", b"--x\r\n\r\nq", b"--y--", b"\0"):
        answer = httpx.post(f"{server.url}/translate", content=broken, headers=head)
        assert (answer.status_code, set(answer.json())) == (400, {"error"})


def test_pages_elsewhere_may_ask_where_all_are_allowed():
    with Running(batch_delay=0, cors=("*",)) as server:
        headers = {
            "Origin": "https://example.org",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type,authorization",
        }
        for path in ("/translate", "/translate_file", "/detect"):
            answer = httpx.options(f"{server.url}{path}", headers=headers)
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == "*"
