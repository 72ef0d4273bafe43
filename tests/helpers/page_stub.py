"""A server that answers as `accord serve` does, with translations from a short list."""

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import accord

PAGE = Path(accord.__file__).parent / "serving" / "page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:"
)
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
NAMES = {"en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian"}

GERMAN = "Die Kommission hat heute einen neuen Vorschlag vorgelegt. Wir werden ihn im Juli prüfen."
# Sentence by sentence: tokens as a model has them, and where each of the target's comes from.
DIRECT = [
    (
        "▁Die ▁Kommission ▁hat ▁heute ▁einen ▁neuen ▁Vor schlag ▁vorgelegt .",
        "▁La ▁Commission ▁a ▁présent é ▁aujourd ’ hui ▁une ▁nouvelle ▁proposition .",
        [0, 1, 2, 8, 8, 3, 3, 3, 4, 5, 7, 9],
    ),
    (
        "▁Wir ▁werden ▁ihn ▁im ▁Juli ▁prüfen .",
        "▁Nous ▁l ’ examiner ons ▁en ▁juillet .",
        [0, 2, 2, 5, 5, 3, 4, 6],
    ),
]
PIVOT = [
    (
        DIRECT[0][0],
        "▁La ▁Commission ▁a ▁déposé ▁une ▁nouvelle ▁proposition ▁aujourd ’ hui .",
        [0, 1, 2, 8, 4, 5, 7, 3, 3, 3, 9],
    ),
    (
        DIRECT[1][0],
        "▁Nous ▁l ’ examiner ons ▁en ▁juillet .",
        [0, 2, 2, 5, 1, 3, 4, 6],
    ),
]
ENGLISH = [
    "The Commission has tabled a new proposal today.",
    "We will examine it in July.",
]
OTHERS = [
    "La Commission a soumis aujourd’hui une nouvelle proposition. Nous l’examinerons en juillet.",
    "La Commission a présenté ce jour une nouvelle proposition. Nous allons l’examiner en juillet.",
]


ALL = {f"{one}-{other}" for one in NAMES for other in NAMES if one != other}


def graph(models: set[str]) -> dict[str, object]:
    """A star of data around English, and models for these directions."""
    directions = [
        {
            "source": one,
            "target": other,
            "kind": "supervised" if "en" in (one, other) else "zero-shot",
            "via": ["en"] if {f"{one}-en", f"en-{other}"} <= models else [],
            "direct": f"{one}-{other}" in models,
        }
        for one in NAMES
        for other in NAMES
        if one != other
    ]
    languages = [{"code": code, "name": name} for code, name in NAMES.items()]
    model = {"name": "europarl-5", "steps": 120000, "units": 1024}
    return {"languages": languages, "directions": directions, "model": model}


def spelled(tokens: list[str]) -> str:
    """The text of a list of tokens."""
    text = b"".join(
        bytes([int(token[3:5], 16)]) if token.startswith("<0x") else token.encode()
        for token in tokens
    ).decode()
    return text.replace("▁", " ").strip()


@dataclass
class Stub:
    """What the server is to do next, and what it was asked."""

    url: str = ""
    fail: tuple[int, dict[str, str], object] | None = None
    fail_pivot: tuple[int, dict[str, str], object] | None = None
    times: int = 10**6
    """How often to fail."""
    key: str = ""
    settings: dict[str, object] = field(
        default_factory=lambda: {
            "apiKeys": False,
            "charLimit": 5000,
            "filesTranslation": False,
            "frontendTimeout": 60,
            "keyRequired": False,
            "language": {
                "source": {"code": "auto", "name": "Auto Detect"},
                "target": {"code": "fr", "name": "French"},
            },
            "suggestions": False,
            "supportedFilesFormat": [],
        }
    )
    card: dict[str, object] = field(default_factory=dict)
    """What /graph tells beside: corpora, examples."""
    familiarity: dict[str, dict[str, object]] = field(default_factory=dict)
    """Of sentences, by their words."""
    files: list[bytes] = field(default_factory=list)
    """Bodies that were sent to be translated as files."""
    file_url: str = "/download_file/done.docx"
    answer: str | None = None
    """Said instead of any translation."""
    delay: float = 0.0
    models: set[str] = field(default_factory=lambda: ALL)
    """The directions that are translated without `via`."""
    missing: set[str] = field(default_factory=set)
    """Addresses that are not served."""
    asked: list[dict[str, object]] = field(default_factory=list)
    detected: list[dict[str, object]] = field(default_factory=list)
    """What it was asked the language of."""
    aborted: int = 0

    def translate(self, body: dict[str, object]) -> dict[str, object]:
        """A canned translation, or the text in capitals (through a pivot, with a word more)."""
        text, via = str(body["q"]), body.get("via")
        sentences = _canned(text, via) if self.answer is None else []
        for sentence in sentences:
            if seen := self.familiarity.get(str(sentence["source"])):
                sentence["familiarity"] = seen
        translated = " ".join(str(sentence["target"]) for sentence in sentences)
        answer: dict[str, object] = {"translatedText": self.answer or translated}
        answer["details"] = [sentences]
        if body.get("alternatives"):
            answer["alternatives"] = OTHERS if text == GERMAN else [f"{translated} …"]
        if body["source"] == "auto":
            answer["detectedLanguage"] = detected(text)
        return answer


def detected(text: str) -> dict[str, object]:
    """English begins with an article here."""
    return {"language": "en" if text.startswith("The ") else "de", "confidence": 98.0}


def _canned(text: str, via: object) -> list[dict[str, object]]:
    if text == GERMAN:
        cuts = [(0, text.index(" Wir")), (text.index("Wir"), len(text))]
        pivots = ENGLISH
        rows = [
            (source.split(" "), target.split(" "), alignment)
            for source, target, alignment in (PIVOT if via else DIRECT)
        ]
    else:
        cuts = [(m.start(), m.end()) for m in re.finditer(r"[^\s.!?][^.!?]*[.!?]*", text)]
        pivots = [text[start:end] for start, end in cuts]
        rows = []
        for start, end in cuts:
            tokens = [f"▁{word}" for word in text[start:end].split()]
            more = ["▁INDEED"] if via else []
            target = [token.upper() for token in tokens] + more
            rows.append((tokens, target, [*range(len(tokens)), *(-1 for _ in more)]))
    return [
        {
            "source": text[start:end],
            "target": spelled(target),
            "kind": "pivot" if via else "zero-shot",
            "via": ["en"] if via else [],
            "score": -0.4,
            "source_tokens": source,
            "target_tokens": target,
            "alignment": alignment,
            "pivot": between if via else None,
            "start": start,
            "end": end,
        }
        for (start, end), (source, target, alignment), between in zip(
            cuts, rows, pivots, strict=True
        )
    ]


class _Handler(BaseHTTPRequestHandler):
    stub: Stub

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path in self.stub.missing:
            return self._json(503, {"error": "the server is starting"})
        if path == "/languages":
            codes = list(NAMES)
            rows = [
                {"code": code, "name": name, "targets": [c for c in codes if c != code]}
                for code, name in NAMES.items()
            ]
            return self._json(200, rows)
        if path == "/graph":
            return self._json(200, graph(self.stub.models) | self.stub.card)
        if path == "/frontend/settings":
            return self._json(200, self.stub.settings)
        file = PAGE / (path.strip("/") or "index.html")
        if file.parent != PAGE or not file.is_file():
            return self._json(404, {"error": "there is no such page"})
        return self._send(200, {"Content-Type": KINDS[file.suffix]}, file.read_bytes())

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/translate_file":
            self.stub.files.append(sent)
            return self._json(200, {"translatedFileUrl": self.stub.file_url})
        body = json.loads(sent)
        if self.path == "/detect":
            self.stub.detected.append(body)
            return self._json(200, [detected(body["q"])])
        self.stub.asked.append(body)
        time.sleep(self.stub.delay)
        failure = self.stub.fail_pivot if body.get("via") else self.stub.fail
        if failure and self.stub.times > 0:
            self.stub.times -= 1
            status, headers, answer = failure
            return self._json(status, answer, headers)
        if self.stub.key and body.get("api_key") != self.stub.key:
            return self._json(403, {"error": "the API key is missing or wrong"})
        source = detected(body["q"])["language"] if body["source"] == "auto" else body["source"]
        if not body.get("via") and f"{source}-{body['target']}" not in self.stub.models:
            return self._json(400, {"error": "there is no direct model"})
        return self._json(200, self.stub.translate(body))

    def _json(self, status: int, answer: object, headers: dict[str, str] | None = None) -> None:
        sent = {"Content-Type": "application/json", **(headers or {})}
        self._send(status, sent, json.dumps(answer).encode())

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        try:
            self.send_response(status)
            for name, value in {**headers, "Content-Security-Policy": POLICY}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.stub.aborted += 1

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


class Server:
    """The stub on a free port, in a thread."""

    def __init__(self) -> None:
        self.handler = type("Handler", (_Handler,), {})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def fresh(self) -> Stub:
        """Forget all that was set and asked."""
        stub = Stub(url=f"http://127.0.0.1:{self.server.server_address[1]}/")
        self.handler.stub = stub
        return stub

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
