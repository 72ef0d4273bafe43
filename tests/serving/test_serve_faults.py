"""Clients that are slow, rude, gone or too many, against a real server."""

import asyncio
import contextlib
import errno
import gc
import json
import socket
import time

import pytest
from libretranslatepy import LibreTranslateAPI

from accord.serving import accepting, admission, server
from serving_fakes import FakeTranslator, Running, ask, exchange, request_bytes, response, until

ASKED = {"q": "Ein Haus.", "source": "de", "target": "fr"}


def error(body):
    return json.loads(body)["error"]


@pytest.fixture(scope="module")
def running():
    with Running(read_timeout=0.5, max_body=2000) as server:
        yield server


def test_the_client_of_libretranslate_works_unchanged(running):
    client = LibreTranslateAPI(running.url)
    assert client.translate("Größe & Maß?", source="de", target="fr") == "fr: Größe & Maß?"
    assert client.detect("Das ist ein deutscher Satz.")[0]["language"] == "de"
    assert [language["code"] for language in client.languages()] == ["en", "de", "fr", "es"]


def test_several_requests_on_one_connection(running):
    async def twice():
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(request_bytes(ASKED) + request_bytes({**ASKED, "target": "es"}))
        found = [await response(reader), await response(reader)]
        writer.close()
        return [json.loads(body)["translatedText"] for _, _, body in found]

    assert asyncio.run(twice()) == ["fr: Ein Haus.", "es: Ein Haus."]


def test_answers_are_sent_without_delay(running):
    """Else header and body of an answer would wait for each other, 40 ms every time."""
    with socket.create_connection(("127.0.0.1", running.port)):
        until(lambda: running.server.server_state.connections)
        for connection in list(running.server.server_state.connections):
            accepted = connection.transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_body_that_says_it_is_too_large_is_refused(running):
    status, headers, body = ask(running.port, request_bytes(b"x" * 3000))
    assert status == 413
    assert "2,000 bytes" in error(body)
    assert headers["connection"] == "close"


def test_whoever_asks_before_sending_too_much_is_told_at_once(running):
    sent = request_bytes(b"", length=10**9, Expect="100-continue")
    status, _, _ = ask(running.port, sent)
    assert status == 413


def test_a_body_that_does_not_say_how_large_it_is_is_cut_off(running):
    """Chunks without end: the server reads a little more than it may, and never all of it."""

    async def flood():
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(request_bytes(b"", Transfer_Encoding="chunked"))
        sent, answer = 0, asyncio.ensure_future(response(reader))
        while not answer.done() and sent < 2 * 10**9:
            writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            sent += 4096
            try:
                await writer.drain()
            except ConnectionError:
                break
            await asyncio.sleep(0.001)
        writer.close()
        return await answer

    status, _, body = asyncio.run(asyncio.wait_for(flood(), 60))
    assert status == 413
    assert "larger than" in error(body)


def test_chunks_that_fit_are_read(running):
    body = json.dumps(ASKED).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(x), x) for x in (body[:5], body[5:])) + b"0\r\n\r\n"
    sent = request_bytes(b"", Transfer_Encoding="chunked") + chunks
    assert json.loads(ask(running.port, sent)[2]) == {"translatedText": "fr: Ein Haus."}


def test_a_slow_body_is_cut_off(running):
    async def drip():
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(request_bytes(b'{"q": "', length=100))
        answer = asyncio.ensure_future(response(reader))
        while not answer.done():
            writer.write(b"x")
            await asyncio.sleep(0.1)
        writer.close()
        return await answer

    status, headers, body = asyncio.run(asyncio.wait_for(drip(), 60))
    assert status == 408
    assert "within 0.5 seconds" in error(body)
    assert headers["connection"] == "close"


def test_a_header_that_never_ends_is_cut_off(running):
    with contextlib.ExitStack() as stack:
        socks = [
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=60))
            for _ in range(3)
        ]
        for sock, sent in zip(socks, (b"", b"POST /tr", b"GET / HTTP/1.1\r\nA: "), strict=True):
            sock.sendall(sent)
        for sock in socks:
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1000) == b""


def unread(port, sent):
    """A client that never reads what it is sent."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    sock.settimeout(0.2)
    with contextlib.suppress(TimeoutError, ConnectionError):
        sock.sendall(sent)
    return sock


@pytest.mark.parametrize("many", [True, False])
def test_answers_that_nobody_fetches_are_thrown_away(many):
    """Many small ones on one connection, or a large one on a connection that is to be closed."""
    with Running(read_timeout=0.5, max_characters=10**6, max_body=10**6) as running:
        large = request_bytes({**ASKED, "q": "x" * 900_000, "alternatives": 9}, Connection="close")
        sent = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 5000 if many else large
        with unread(running.port, sent):
            until(lambda: running.lines.text)  # the first of them, or the one, is answered
            until(lambda: not running.server.server_state.connections)
        assert running.server.server_state.total_requests < 5000
    until(lambda: running.figure("accord_open_requests") == 0)


def test_nonsense_after_an_answer_only_ends_the_connection(running, caplog):
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as sock:
        sock.sendall(b"POST /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert b" 405 " in sock.recv(4000)
        sock.sendall(b"zz\r\n\r\n")
        while sock.recv(1000):
            pass
    assert [record.message for record in caplog.records] == ["Invalid HTTP request received."]


def test_nonsense_before_an_answer_is_the_answers_end(running, caplog):
    """Whoever works at the request already has no more to say, and nothing to complain of."""
    sent = request_bytes(b"zz\r\n\r\n", Transfer_Encoding="chunked", X_Request_Id="odd")
    assert ask(running.port, sent.replace(b"POST /translate", b"GET /health"))[0] == 400
    until(lambda: "odd" in [facts.get("request") for facts in running.lines.facts()])
    assert [record.message for record in caplog.records] == ["Invalid HTTP request received."]


def everything(port, sent):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(sent)
        return b"".join(iter(lambda: sock.recv(4000), b""))


def test_nonsense_after_head_is_answered_without_a_body(running, caplog):
    sent = request_bytes(b"zz\r\n\r\n", Transfer_Encoding="chunked")
    answer = everything(running.port, sent.replace(b"POST /translate", b"HEAD /health"))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b"\r\n\r\n")
    assert [record.message for record in caplog.records] == ["Invalid HTTP request received."]


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"GET /a b c HTTP/1.1\r\n\r\n", b"\0\n\n"])
def test_what_is_no_http_is_answered_in_json_like_all_else(running, sent):
    head, _, body = everything(running.port, sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n")
    assert error(body) == "this is not a valid HTTP request"


def test_a_body_of_two_lengths_is_refused(running):
    body = json.dumps(ASKED).encode()
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    sent = request_bytes(chunk, Transfer_Encoding="chunked", Content_Length=5)
    status, headers, answer = ask(running.port, sent)
    assert status == 400
    assert "both" in error(answer)
    assert headers["connection"] == "close"


def test_a_key_of_any_letters_may_stand_in_a_header():
    with Running(api_keys=("schlüssel",)) as running:
        for key, status in (("schlüssel", 200), ("schlussel", 403)):
            sent = request_bytes(ASKED, Authorization=f"Bearer {key}")
            assert ask(running.port, sent)[0] == status


def test_head_is_get_without_a_body(running):
    async def both():
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        for method in (b"HEAD", b"GET"):
            writer.write(method + b" /health HTTP/1.1\r\nHost: x\r\n\r\n")
        heads = [await reader.readuntil(b"\r\n\r\n") for _ in range(2)]
        body = await reader.readexactly(15)
        writer.close()
        return heads, body

    heads, body = asyncio.run(asyncio.wait_for(both(), 60))
    assert json.loads(body) == {"status": "ok"}
    for head in heads:
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"content-length: 15\r\n" in head


def test_more_connections_than_may_be_are_sent_away(monkeypatch):
    monkeypatch.setattr(server, "most_connections", lambda: 3)
    with Running() as running, contextlib.ExitStack() as stack:
        inside = [
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=60))
            for _ in range(3)
        ]
        until(lambda: len(running.server.server_state.connections) == 3)
        status, headers, body = ask(running.port, b"")
        assert status == 429
        assert headers["retry-after"] == "1"
        assert "too many connections" in error(body)
        inside[0].close()
        until(lambda: len(running.server.server_state.connections) == 2)
        assert ask(running.port, request_bytes(ASKED))[0] == 200


class Crowded:
    """A server that takes two requests at a time, which are there, as a module's limits say."""

    def __init__(self, monkeypatch):
        for module in (accepting, admission):
            monkeypatch.setattr(module, "MAX_OPEN", 2)

    async def fill(self, running):
        running.translator.go.clear()
        inside = [
            asyncio.ensure_future(exchange(running.port, request_bytes({**ASKED, "beam": beam})))
            for beam in (1, 2)
        ]
        await asyncio.to_thread(until, lambda: running.figure("accord_open_requests") == 2)
        return inside


def test_in_a_crowd_requests_are_refused_before_anything_is_made_of_them(monkeypatch):
    crowded = Crowded(monkeypatch)
    with Running() as running:

        async def refused():
            inside = await crowded.fill(running)
            _, silent = await asyncio.open_connection("127.0.0.1", running.port)
            answers = [await exchange(running.port, request_bytes(ASKED)) for _ in range(3)]
            health = await exchange(running.port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            made = running.server.server_state.total_requests
            running.translator.go.set()
            silent.close()
            return answers, health[0], made, [(await one)[0] for one in inside]

        answers, health, made, inside = asyncio.run(asyncio.wait_for(refused(), 60))
        for status, headers, body in answers:
            assert status == 429
            assert headers["retry-after"] == "1"
            assert "too many connections" in error(body)
        assert (health, inside) == (200, [200, 200])
        assert made <= 1  # of the three none, and perhaps the question after its health
        assert running.figure("accord_refused_connections_total") == 3


def test_whoever_was_silent_in_a_crowd_is_answered_when_it_is_over(monkeypatch):
    crowded = Crowded(monkeypatch)
    with Running() as running:

        async def late():
            inside = await crowded.fill(running)
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            running.translator.go.set()
            for one in inside:
                await one
            writer.write(request_bytes(ASKED))
            answer = await response(reader)
            writer.close()
            return answer[0]

        assert asyncio.run(asyncio.wait_for(late(), 60)) == 200


def test_silence_in_a_crowd_is_cut_off(monkeypatch):
    crowded = Crowded(monkeypatch)
    with Running(read_timeout=0.3) as running:

        async def silent():
            inside = await crowded.fill(running)
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            end = await reader.read()
            writer.close()
            running.translator.go.set()
            return end, [(await one)[0] for one in inside]

        assert asyncio.run(asyncio.wait_for(silent(), 60)) == (b"", [200, 200])


def test_a_crowd_before_a_full_queue_is_refused_as_well(monkeypatch):
    monkeypatch.setattr(accepting, "MAX_OPEN", 2)
    with Running(queue=1, max_sentences=1, batch_size=1) as running:

        async def full():
            running.translator.go.clear()
            inside = [asyncio.ensure_future(exchange(running.port, request_bytes(ASKED)))]
            await asyncio.to_thread(until, lambda: running.translator.threads)
            inside.append(asyncio.ensure_future(exchange(running.port, request_bytes(ASKED))))
            await asyncio.to_thread(until, lambda: running.figure("accord_waiting_sentences") == 1)
            refused = await exchange(running.port, request_bytes(ASKED))
            running.translator.go.set()
            return error(refused[2]), [(await one)[0] for one in inside]

        words, inside = asyncio.run(asyncio.wait_for(full(), 60))
        assert "too many connections" in words
        assert inside == [200, 200]


def test_without_files_connections_wait_until_there_are_some(monkeypatch):
    monkeypatch.setattr(accepting, "ACCEPT_AGAIN", 0.05)
    with Running() as running:
        accept = socket.socket.accept
        failures = iter([OSError(errno.EMFILE, "Too many open files")] * 2)

        def fails(sock):
            if (failure := next(failures, None)) is not None:
                raise failure
            return accept(sock)

        monkeypatch.setattr(socket.socket, "accept", fails)
        assert ask(running.port, request_bytes(ASKED))[0] == 200
        assert next(failures, None) is None


def test_what_is_no_http_is_refused(running):
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as sock:
        sock.sendall(b"\x16\x03\x01\x02\x00hello\r\n\r\n")
        assert b" 400 " in sock.recv(1000)


def test_the_event_loop_answers_while_the_model_computes():
    with Running(FakeTranslator()) as running:
        running.translator.go.clear()

        async def both():
            waiting = asyncio.ensure_future(exchange(running.port, request_bytes(ASKED)))
            await asyncio.to_thread(until, lambda: running.translator.threads)
            health = await exchange(running.port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert not waiting.done()
            running.translator.go.set()
            return health[0], (await waiting)[0]

        assert asyncio.run(both()) == (200, 200)


def test_work_is_dropped_when_its_client_has_gone():
    with Running() as running:
        running.translator.go.clear()

        async def leave():
            busy = asyncio.ensure_future(exchange(running.port, request_bytes(ASKED)))
            await asyncio.to_thread(until, lambda: running.translator.threads)
            _, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(request_bytes({**ASKED, "q": "Nie. Nimmer."}))
            await asyncio.to_thread(until, lambda: running.figure("accord_waiting_sentences") == 2)
            writer.close()
            await asyncio.to_thread(until, lambda: running.figure("accord_waiting_sentences") == 0)
            running.translator.go.set()
            return (await busy)[0]

        assert asyncio.run(leave()) == 200
        until(lambda: running.figure("accord_open_requests") == 0)
    assert [texts for texts, *_ in running.translator.batches] == [["Ein Haus."]]
    assert 499 in [facts.get("status") for facts in running.lines.facts()]


def test_work_is_dropped_when_it_takes_too_long(caplog):
    with Running(timeout=0.3) as running:
        running.translator.go.clear()

        async def late():
            return await asyncio.gather(
                *(exchange(running.port, request_bytes({**ASKED, "beam": n})) for n in (1, 2, 3))
            )

        answers = asyncio.run(late())
        assert [status for status, _, _ in answers] == [504, 504, 504]
        assert "more than 0.3 seconds" in error(answers[0][2])
        running.translator.go.set()
        until(lambda: len(running.translator.batches) == 1)
        assert ask(running.port, request_bytes(ASKED))[0] == 200
    assert len(running.translator.batches) == 2
    gc.collect()
    assert not caplog.records  # asyncio has nothing to complain of


def test_a_full_queue_answers_at_once():
    with Running(queue=4, max_sentences=4, batch_size=1) as running:
        running.translator.go.clear()

        async def fill():
            first = asyncio.ensure_future(exchange(running.port, request_bytes(ASKED)))
            await asyncio.to_thread(until, lambda: running.translator.threads)
            four = request_bytes({**ASKED, "q": "Aa. Bb. Cc. Dd."})
            second = asyncio.ensure_future(exchange(running.port, four))
            await asyncio.to_thread(until, lambda: running.figure("accord_waiting_sentences") == 4)
            begun = time.monotonic()
            # Not even its body is waited for.
            refused = await exchange(running.port, request_bytes(b"{", length=1000))
            seconds = time.monotonic() - begun
            running.translator.go.set()
            return refused, seconds, (await first)[0], (await second)[0]

        (status, headers, body), seconds, *others = asyncio.run(fill())
        assert status == 429
        assert int(headers["retry-after"]) >= 1
        assert "try again" in error(body)
        assert seconds < 5
        assert others == [200, 200]


def test_draining_answers_what_came_in_and_sends_the_rest_away():
    with Running(cors=("https://example.org",)) as running:
        running.translator.go.clear()

        async def drain():
            inside = asyncio.ensure_future(exchange(running.port, request_bytes(ASKED)))
            await asyncio.to_thread(until, lambda: running.translator.threads)
            running.server.drain("a test")
            origin = {"Origin": "https://example.org"}
            late = await exchange(running.port, request_bytes(ASKED, **origin))
            ready = await exchange(running.port, b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
            alive = await exchange(running.port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            running.translator.go.set()
            return late, ready[0], alive[0], await inside

        (status, headers, body), ready, alive, inside = asyncio.run(drain())
        assert (status, ready, alive) == (503, 503, 200)
        assert headers["retry-after"]
        assert headers["access-control-allow-origin"] == "https://example.org"
        assert "shutting down" in error(body)
        assert json.loads(inside[2]) == {"translatedText": "fr: Ein Haus."}
        running.thread.join(30)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", running.port))
