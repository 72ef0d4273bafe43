"""A model that translates at once or slowly, servers around it, and clients without manners."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

from accord.graph import Direction, TranslationGraph
from accord.inference.results import Hypothesis, Translation
from accord.serving.access_log import Log
from accord.serving.metrics_text import Meter
from accord.serving.opened_model import Opened
from accord.serving.server import address, listening_socket, make_server
from accord.serving.settings import ServeSettings

LANGUAGES = ("en", "de", "fr", "es")


def star(*languages):
    first, *others = languages
    both = {Direction(first, x) for x in others} | {Direction(x, first) for x in others}
    return TranslationGraph(tuple(languages), frozenset(both))


class Words:
    """A vocabulary whose subwords are words."""

    def __init__(self):
        self._pieces = []

    def encode(self, texts):
        rows = []
        for text in texts:
            words = [f"▁{word}" for word in text.split()]
            self._pieces += [word for word in words if word not in self._pieces]
            rows.append([self._pieces.index(word) for word in words])
        return rows

    def pieces(self):
        return self._pieces


class FakeTranslator:
    """Puts the target's name before a text. `delay` is what a batch takes, `poison` what breaks."""

    needs_source = False
    directions = None

    def __init__(self, graph=None, delay=0.0):
        self.graph = graph or star(*LANGUAGES)
        self.vocabulary = Words()
        self.delay = delay
        self.batches = []
        self.threads = set()
        self.go = threading.Event()
        self.go.set()

    def translate(self, texts, to, *, source=None, via=None, settings=None):
        self.threads.add(threading.current_thread().name)
        self.go.wait(60)
        time.sleep(self.delay)
        self.batches.append((list(texts), to, tuple(via or ()), settings.beam, settings.nbest))
        if any("poison" in text for text in texts):
            raise RuntimeError("a secret of the model")
        return [_translation(text, (*(via or ()), to), settings.nbest) for text in texts]


def _translation(text, path, nbest):
    pivot = None if len(path) == 1 else _translation(text, path[:-1], 1)
    read = text if pivot is None else pivot.text
    hypotheses = []
    for rank in range(nbest):
        tokens = (f"▁{path[-1]}:", *(f"▁{word}" for word in read.split()), *["▁!"] * rank)
        made = "".join(tokens).replace("▁", " ").strip()
        places = tuple(min(i, len(read.split()) + 1) for i in range(len(tokens)))
        hypotheses.append(Hypothesis(made, tokens, (), -0.5 - rank, -1.0, places))
    return Translation(text, tuple(hypotheses), path[:-1], pivot)


def opened(translator=None):
    return Opened(translator or FakeTranslator(), {"name": "fake", "steps": 3, "units": 8})


def open_slowly(delay):
    """For processes of their own."""
    return opened(FakeTranslator(delay=delay))


class Running:
    """A real server in a thread."""

    def __init__(self, translator=None, **settings):
        self.translator = translator or FakeTranslator()
        self.settings = ServeSettings(port=0, **settings)
        self.meter = Meter()
        self.lines = Lines()
        self.log = Log(self.meter, self.lines)
        self.sock = listening_socket(self.settings)
        self.sock.listen(2048)
        self.url = address(self.sock)
        self.port = self.sock.getsockname()[1]
        self.server = make_server(opened(self.translator), self.settings, self.meter, self.log)
        self.thread = threading.Thread(target=self.server.run, args=([self.sock],), daemon=True)

    def __enter__(self):
        self.thread.start()
        until(lambda: self.server.started)
        return self

    def __exit__(self, *_):
        self.translator.go.set()
        self.server.drain("the test is over")
        self.thread.join(30)
        assert not self.thread.is_alive()
        self.log.close()

    def figure(self, name):
        """The value of one line of the metrics."""
        [line] = [x for x in self.meter.exposition().splitlines() if x.startswith(name + " ")]
        return float(line.split()[-1])


class Lines:
    """A file to log into."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def facts(self):
        return [json.loads(line) for line in self.text.splitlines()]


def until(true, seconds=30):
    """Wait until something is so; the machine may be slow."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


def request_bytes(body, path="/translate", kind="application/json", length=None, **headers):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if "Transfer_Encoding" not in headers:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def exchange(port, sent):
    """Send bytes on a connection of its own; returns status, headers and body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        await writer.drain()
        return await response(reader)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def response(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return int(head[0].split()[1]), headers, body


def ask(port, sent):
    return asyncio.run(asyncio.wait_for(exchange(port, sent), 60))


class Process:
    """A server in a process of its own, or several under a supervisor."""

    def __init__(self, delay=0.0, workers=1, **settings):
        choices = json.dumps({"port": 0, "workers": workers, **settings})
        self.popen = subprocess.Popen(
            [sys.executable, __file__, str(delay), choices],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"},
        )
        self.logged = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        line = self.popen.stdout.readline()
        assert line.startswith("http://"), self.logged
        self.port = int(line.rsplit(":", 1)[1])

    def _read(self):
        for line in self.popen.stderr:
            with contextlib.suppress(ValueError):
                self.logged.append(json.loads(line))

    def events(self, name):
        return [facts for facts in self.logged if facts.get("event") == name]

    def signal(self, number=signal.SIGTERM):
        self.popen.send_signal(number)

    def signal_all(self, number):
        """As a terminal does, or a service manager: the workers get it as well."""
        os.killpg(self.popen.pid, number)

    def wait(self, seconds=60):
        code = self.popen.wait(seconds)
        self._reader.join(seconds)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(30)
        self._reader.join(30)
        self.popen.stdout.close()
        self.popen.stderr.close()


def main():
    from accord.serving.server import serve
    from accord.serving.supervisor import Supervisor

    settings = ServeSettings(**json.loads(sys.argv[2]))
    with listening_socket(settings) as sock:
        ready = partial(print, address(sock), flush=True)
        open_model = partial(_importable().open_apart, float(sys.argv[1]))
        if settings.workers > 1:
            Supervisor(settings, open_model, sock).run(ready)
        else:
            serve(settings, open_model, sock, ready=ready)


def _importable():
    import serving_fakes  # under its own name, so that workers find it as well

    return serving_fakes


def cannot_open():
    from accord.errors import AccordError

    raise AccordError("there is no model")


def never_open():
    time.sleep(60)


def open_apart(delay):
    """A model in a process of its own, as `accord serve` has it."""
    from accord.serving.model_process import open_in_process

    return open_in_process(partial(_importable().open_slowly, delay))


if __name__ == "__main__":
    main()
