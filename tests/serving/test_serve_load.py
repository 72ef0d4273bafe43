"""Many clients, signals and killed processes, against real processes."""

import asyncio
import collections
import json
import os
import signal
import threading
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest

from serving_fakes import (
    FakeTranslator,
    Process,
    Running,
    ask,
    cannot_open,
    exchange,
    never_open,
    request_bytes,
    until,
)

pytestmark = pytest.mark.slow
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


def asked(number):
    return {"q": f"Satz {number}.", "source": "de", "target": "fr"}


def answered(number):
    return {"translatedText": f"fr: Satz {number}."}


async def client(port, number):
    """What becomes of one request: its status, and whether the answer is its own."""
    try:
        status, headers, body = await exchange(port, request_bytes(asked(number)))
    except (ConnectionError, asyncio.IncompleteReadError):
        return "lost"
    if status == 200:
        assert json.loads(body) == answered(number)
    else:
        assert int(headers["retry-after"]) >= 1
    return status


def crowd(port, count):
    async def all_of_them():
        return await asyncio.gather(*(client(port, number) for number in range(count)))

    return collections.Counter(asyncio.run(asyncio.wait_for(all_of_them(), 100)))


def resident(pid):
    """Memory of a process in megabytes."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_300_clients_at_once_are_all_answered_in_batches():
    with Running(FakeTranslator(delay=0.02), timeout=100) as running:
        assert crowd(running.port, 300) == {200: 300}
    sizes = [len(texts) for texts, *_ in running.translator.batches]
    assert sum(sizes) == 300
    assert max(sizes) == 32
    assert running.translator.threads == {"accord-model"}


def test_what_does_not_fit_into_the_queue_is_told_so():
    with Running(FakeTranslator(delay=0.3), timeout=100, queue=64, max_sentences=8) as running:
        found = crowd(running.port, 300)
        assert set(found) == {200, 429}
        assert found[200] >= 64
        assert found.total() == 300
        assert sum(len(texts) for texts, *_ in running.translator.batches) == found[200]
        assert ask(running.port, request_bytes(asked(1)))[0] == 200  # and it goes on


def test_memory_stays_bounded():
    """A hundred large bodies at a time, most of them refused, again and again."""
    large = request_bytes({"q": "x" * 200_000, "source": "de", "target": "fr"})

    async def many(port):
        for _ in range(2):
            found = await asyncio.gather(*(exchange(port, large) for _ in range(100)))
            assert {status for status, _, _ in found} == {413}

    with Process() as process:
        asyncio.run(many(process.port))
        before = resident(process.popen.pid)
        for _ in range(2):
            asyncio.run(many(process.port))
        assert resident(process.popen.pid) < before + 60
        process.signal()
        assert process.wait() == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_that_was_accepted_is_lost_by_sigterm(workers):
    with Process(delay=0.1, workers=workers, batch_size=2, timeout=100) as process:
        until(lambda: len(process.events("serving")) == workers)

        async def load():
            clients = [asyncio.ensure_future(client(process.port, n)) for n in range(24)]
            while not _open_requests(await exchange(process.port, _METRICS)):
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)
            process.signal_all(signal.SIGTERM)
            return await asyncio.gather(*clients)

        found = collections.Counter(asyncio.run(asyncio.wait_for(load(), 100)))
        assert process.wait() == 0
        logged = [facts["status"] for facts in process.logged if facts.get("path") == "/translate"]
    assert found[200] >= 4
    assert found[200] == logged.count(200)
    assert set(found) <= {200, 503}, found
    assert len(process.events("draining")) == workers


_METRICS = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def _open_requests(answer):
    lines = answer[2].decode().splitlines()
    return any(x.startswith("accord_waiting_sentences ") and x.split()[1] != "0" for x in lines)


def test_a_second_signal_ends_at_once():
    with Process(delay=60) as process:

        async def stuck():
            waiting = asyncio.ensure_future(client(process.port, 1))
            await asyncio.sleep(0.5)
            process.signal(signal.SIGTERM)
            await asyncio.to_thread(until, lambda: process.events("draining"))
            begun = time.monotonic()
            process.signal(signal.SIGINT)
            code = await asyncio.to_thread(process.wait)
            return code, time.monotonic() - begun, await waiting

        code, seconds, lost = asyncio.run(asyncio.wait_for(stuck(), 60))
    assert code == 128 + signal.SIGINT
    assert seconds < 20
    assert lost == "lost"


def test_a_killed_worker_does_not_stop_the_service():
    with Process(delay=0.02, workers=2, timeout=100) as process:
        until(lambda: len(process.events("serving")) == 2)
        victim = process.events("serving")[0]["pid"]

        async def load():
            clients = [asyncio.ensure_future(client(process.port, n)) for n in range(60)]
            await asyncio.sleep(0.05)
            os.kill(victim, signal.SIGKILL)
            return await asyncio.gather(*clients)

        found = collections.Counter(asyncio.run(asyncio.wait_for(load(), 100)))
        assert found[200] + found["lost"] == 60  # only what the dead one held
        assert crowd(process.port, 20) == {200: 20}
        until(lambda: len(process.events("serving")) == 3)
        [ended] = process.events("worker ended")
        assert ended["code"] == -signal.SIGKILL
        assert crowd(process.port, 20) == {200: 20}
        metrics = ask(process.port, _METRICS)[2].decode()
        assert "accord_worker_restarts_total 1\n" in metrics
        process.signal_all(signal.SIGINT)
        assert process.wait() == 0
    assert len(process.events("ended")) == 2


def test_workers_are_replaced_also_when_nobody_reads_the_log():
    with Process(workers=2) as process:
        until(lambda: len(process.events("serving")) == 2)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, process.popen.stderr.fileno())
        os.close(nothing)
        assert crowd(process.port, 4) == {200: 4}  # the reader wakes up and finds the end
        os.kill(process.events("serving")[0]["pid"], signal.SIGKILL)
        restarted = b"accord_worker_restarts_total 1\n"
        until(lambda: restarted in ask(process.port, _METRICS)[2])
        assert crowd(process.port, 20) == {200: 20}
        process.signal()
        assert process.wait() == 0


def test_a_server_whose_model_is_killed_says_so_and_ends():
    with Process() as process:
        until(lambda: process.events("serving"))
        [model] = _children(process.popen.pid)
        os.kill(model, signal.SIGKILL)
        assert process.wait() == 1
    [draining] = process.events("draining")
    assert draining["reason"] == "the model is gone"


def test_a_killed_server_does_not_leave_its_model_behind():
    with Process(delay=60) as process:
        until(lambda: process.events("serving"))
        [model] = _children(process.popen.pid)
        sent = threading.Thread(target=lambda: asyncio.run(client(process.port, 1)))
        sent.start()
        until(lambda: b"accord_open_requests 2" in ask(process.port, _METRICS)[2])
        process.popen.kill()
        until(lambda: not _alive(model))
        sent.join(30)


def _children(pid):
    """Processes that hold models: all children but the one that keeps track of resources."""
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {number: Path(f"/proc/{number}/cmdline").read_text() for number in pids}
    return [int(number) for number, line in commands.items() if "resource_tracker" not in line]


def test_workers_end_when_their_supervisor_is_killed():
    with Process(workers=2) as process:
        until(lambda: len(process.events("serving")) == 2)
        pids = [facts["pid"] for facts in process.events("serving")]
        process.popen.kill()
        until(lambda: not any(_alive(pid) for pid in pids))
    assert {facts["reason"] for facts in process.events("draining")} == {"the supervisor is gone"}


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def own_fork_server():
    """Other tests have one, too; the supervisor's blocks signals, which its forks inherit."""
    server = forkserver._forkserver
    modules = server._preload_modules
    server._stop()
    yield
    server._stop()
    server._preload_modules = modules


@pytest.mark.usefixtures("own_fork_server")
def test_a_model_that_cannot_be_opened_ends_all_workers_with_the_reason(capfd):
    import accord.serving.supervisor as supervisor
    from accord.errors import AccordError
    from accord.serving.server import listening_socket
    from accord.serving.settings import ServeSettings

    settings = ServeSettings(port=0, workers=2)
    with listening_socket(settings) as sock:
        broken = supervisor.Supervisor(settings, cannot_open, sock)
        with pytest.raises(AccordError, match="there is no model"):
            broken.run()


@pytest.mark.usefixtures("own_fork_server")
def test_a_stop_while_workers_start_is_no_failure():
    from accord.serving.server import listening_socket
    from accord.serving.settings import ServeSettings
    from accord.serving.supervisor import Supervisor

    settings = ServeSettings(port=0, workers=2)

    def stop():
        """As a service manager does: all of them at once."""
        until(lambda: all(worker.process for worker in starting._workers))
        time.sleep(0.3)  # by then it waits for them
        os.kill(os.getpid(), signal.SIGTERM)
        for worker in starting._workers:
            os.kill(worker.process.pid, signal.SIGTERM)

    with listening_socket(settings) as sock:
        starting = Supervisor(settings, never_open, sock)
        thread = threading.Thread(target=stop)
        thread.start()
        starting.run()
        thread.join()
