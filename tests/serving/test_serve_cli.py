"""`accord serve` as a user starts it: a trained run, an exported one, mistakes, Ctrl-C."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request

import httpx
import pytest

from accord.cli.publish import serve
from accord.cli.translate import translate
from accord.errors import AccordError
from accord.inference.translator import Translator
from accord.serving.opened_model import open_translator
from exportable import made_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("served"), units=8)


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "accord", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def post(url, **body):
    sent = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(sent, timeout=60) as answer:
        return json.load(answer)


DOCUMENT = "<h1>the big <i>house</i></h1><p>A <b>small</b> cat! <code>x=1</code> green dog.</p>"


def test_a_run_is_served_until_ctrl_c(run, tmp_path):
    process = start(run, "--port", 0, "--beam", 2)
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), process.stderr.read()
        url = line.split()[-1]
        texts = ["the big house. A small cat!", "green dog"]
        answer = post(f"{url}/translate", q=texts, source="en", target="fr", details=True, beam=4)
        sentences = ["the big house.", "A small cat!", "green dog"]
        expected = [item.text for item in Translator(run).translate(sentences, "fr")]
        found = [sentence["target"] for rows in answer["details"] for sentence in rows]
        assert found == expected
        assert answer["translatedText"] == [f"{expected[0]} {expected[1]}", expected[2]]
        # A document is the same by the command and by the server.
        (tmp_path / "a.html").write_text(DOCUMENT)
        named = {"input_file": tmp_path / "a.html", "output_file": tmp_path / "b.html"}
        translate(run, "fr", **named, beam=2)
        upload = {"file": ("a.html", DOCUMENT.encode())}
        fields = {"source": "en", "target": "fr"}
        made = httpx.post(f"{url}/translate_file", data=fields, files=upload, timeout=60).json()
        assert httpx.get(made["translatedFileUrl"]).text == (tmp_path / "b.html").read_text()
        with urllib.request.urlopen(f"{url}/graph", timeout=60) as graph:
            assert json.load(graph)["model"] == {"name": "toy", "steps": 7, "units": 8}
        process.send_signal(signal.SIGINT)
        _, logged = process.communicate(timeout=60)
        assert process.returncode == 0
        events = [json.loads(line).get("event") for line in logged.splitlines()]
        assert [event for event in events if event] == ["serving", "draining", "ended"]
    finally:
        process.kill()
        process.communicate()


def test_an_exported_model_is_served_without_pytorch(run, tmp_path):
    pytest.importorskip("onnxruntime")
    from accord.export.export_run import export_run

    export_run(run, tmp_path / "export", compare=0)
    opened = open_translator(tmp_path / "export")
    facts = {"name": "toy", "steps": 7, "units": 8, "precision": "fp32"}
    assert opened.about == facts
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from accord.serving.opened_model import open_translator\n"
        "from accord.serving.app import create_app\n"
        "from accord.serving.settings import ServeSettings\n"
        "create_app(open_translator(Path(sys.argv[1])), ServeSettings())\n"
        "assert 'torch' not in sys.modules"
    )
    run_code = [sys.executable, "-c", code, str(tmp_path / "export")]
    done = subprocess.run(run_code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_mistakes_are_told_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # the command sets it for good
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        mistakes = [
            ({"port": 0}, "this is no run directory"),
            ({"port": taken.getsockname()[1]}, "cannot listen on 127.0.0.1"),
            ({"queue": 1}, "--queue cannot be 1"),
            ({"api_key_file": tmp_path / "none"}, "the API keys cannot be read"),
        ]
        for options, words in mistakes:
            with pytest.raises(AccordError, match=words) as error:
                serve(tmp_path, **options)
            assert error.value.fix
