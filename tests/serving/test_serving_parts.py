"""The small parts of the server: figures, keys, names, settings, log, detection, alignments."""

import json
import resource
import signal
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from accord.data.language_id import LanguageGuesser
from accord.errors import AccordError
from accord.inference.alignments import Tracer
from accord.inference.results import Hypothesis, SearchSettings, Translation
from accord.serving import server as serving_server
from accord.serving.access_log import Log
from accord.serving.admission import Keys, read_keys
from accord.serving.connection import most_connections
from accord.serving.metrics_text import SIZE, Meter
from accord.serving.server import listening_socket
from accord.serving.settings import ServeSettings
from serving_fakes import FakeTranslator, Lines, Words, until


def samples(meter):
    families = text_string_to_metric_families(meter.exposition())
    return {
        (x.name, *sorted(x.labels.items())): x.value for family in families for x in family.samples
    }


def test_figures_are_what_prometheus_reads():
    meter = Meter()
    meter.request("/translate", 200)
    meter.request("/translate", 200)
    meter.request("/../etc/passwd", 418)
    meter.set("waiting_sentences", 7)
    for value in (1, 2, 3, 1000):
        meter.observe("batch_sentences", value)
    found = samples(meter)
    assert found["accord_requests_total", ("path", "/translate"), ("status", "200")] == 2
    assert found["accord_requests_total", ("path", "other"), ("status", "other")] == 1
    assert found["accord_waiting_sentences",] == 7
    buckets = [found["accord_batch_sentences_bucket", ("le", x)] for x in ("1", "2", "4", "256")]
    assert buckets == [1, 2, 3, 3]
    assert found["accord_batch_sentences_bucket", ("le", "+Inf")] == 4
    assert found["accord_batch_sentences_count",] == 4
    assert found["accord_batch_sentences_sum",] == 1006
    assert found["accord_characters_total",] == 0


def test_figures_of_workers_add_up_and_survive_a_restart():
    shared = [0.0] * (3 * SIZE)
    first, second = Meter(shared, 1), Meter(shared, 2)
    first.add("sentences_total", 3)
    second.add("sentences_total", 4)
    second.set("waiting_sentences", 5)
    reborn = Meter(shared, 2)
    reborn.add("sentences_total")
    assert samples(first)["accord_sentences_total",] == 8
    assert samples(first)["accord_waiting_sentences",] == 0


def test_keys_are_read_one_a_line_and_compared_whole(tmp_path):
    path = tmp_path / "keys"
    path.write_text("first key\n\n  zweiter-schlüssel \nfirst key\n", "utf-8")
    keys = Keys(read_keys(path))
    assert [keys.allow(key) for key in ("first key", "zweiter-schlüssel")] == [True, True]
    for wrong in (None, "", "first", "first key ", "FIRST KEY", "\ud800"):
        assert not keys.allow(wrong)
    assert Keys(()).allow(None)
    path.write_bytes(b"\xef\xbb\xbffirst\r\n")  # as some editors write
    assert Keys(read_keys(path)).allow("first")


def test_origins_are_taken_as_browsers_send_them():
    for origin in ("*", "null", "https://example.org", "http://localhost:8080", "http://[::1]:80"):
        assert ServeSettings(cors=(origin,)).cors == (origin,)


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "most"),
    [(1024, 10**6, 8192, 7936), (256, 1024, 1024, 768), (64, 64, 64, 32), (-1, -1, -1, 7936)],
)
def test_connections_are_as_many_as_files_may_be_open(monkeypatch, soft, hard, raised, most):
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    assert most_connections() == most
    assert limits[-1] == (raised, hard)


def test_a_key_file_that_cannot_be_used_is_an_error(tmp_path):
    empty, latin = tmp_path / "empty", tmp_path / "latin"
    empty.write_text("\n \n")
    latin.write_bytes(b"\xff\n")
    for path, words in ((empty, "no API key"), (latin, "not UTF-8"), (tmp_path / "x", "cannot be")):
        with pytest.raises(AccordError, match=words) as error:
            read_keys(path)
        assert error.value.fix


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workers", 0),
        ("batch_size", 0),
        ("timeout", 0.0),
        ("timeout", float("inf")),
        ("batch_delay", -1.0),
        ("queue", 10),
        ("beam", 11),
        ("port", 70_000),
        ("host", ""),
        ("cors", ("https://example.org", "https://example.org/")),
        ("cors", ("https://Example.org",)),
        ("cors", ("example.org",)),
    ],
)
def test_settings_that_make_no_sense_are_errors(name, value):
    with pytest.raises(AccordError, match=f"--{name.replace('_', '-')} cannot be") as error:
        ServeSettings(**{name: value})
    assert error.value.fix


def test_a_port_in_use_is_an_error_with_a_remedy():
    with listening_socket(ServeSettings(port=0)) as sock:
        sock.listen()
        with pytest.raises(AccordError, match="cannot listen") as error:
            listening_socket(ServeSettings(port=sock.getsockname()[1]))
        assert "--port" in error.value.fix


def test_a_reader_who_does_not_read_the_log_holds_up_nobody():
    stuck, meter = threading.Event(), Meter()

    class Stalled(Lines):
        def write(self, text):
            stuck.wait(30)
            super().write(text)

    out = Stalled()
    log = Log(meter, out)
    for number in range(11_000):
        log.write({"number": number})
    assert 900 <= samples(meter)["accord_lost_log_lines_total",] <= 1000
    stuck.set()
    log.close(30)
    until(lambda: len(out.facts()) >= 10_000)
    assert out.facts()[0]["number"] == 0


def test_the_log_outlives_its_file():
    meter = Meter()

    class Broken(Lines):
        def write(self, text):
            raise BrokenPipeError

    log = Log(meter, Broken())
    log.write({"a": 1})
    log.write({"b": "line\nbreak\ud800"})
    log.close(30)
    assert samples(meter)["accord_lost_log_lines_total",] == 2


def test_log_lines_are_one_line_each():
    out = Lines()
    log = Log(Meter(), out)
    log.write({"path": "/a\nb\u2028", "half": "\ud800"})
    log.close(30)
    [line] = out.text.splitlines()
    assert json.loads(line)["path"] == "/a\nb\u2028"


def test_detection_knows_the_models_languages_only():
    options = {"known_only": True, "percentages": True}
    detector = LanguageGuesser(["de", "en", "zh_Hant", "qqq"], **options)
    assert detector.languages == ("de", "en", "zh_Hant")
    ranked = detector.rank("Das ist ein ganz gewöhnlicher deutscher Satz.")
    assert ranked[0][0] == "de"
    assert ranked[0][1] > 90
    assert {language for language, _ in ranked} == {"de", "en", "zh_Hant"}
    assert detector.rank("1234 … 🎉")[0][1] == 0.0
    assert LanguageGuesser(["qqq"], **options).languages == ()


def test_alignments_skip_the_tag_and_the_end():
    hypothesis = Hypothesis("x", ("▁a", "▁b", "▁c"), (), 0.0, 0.0, (0, 2, 3))
    tokens, alignment = Tracer(Words()).trace(Translation("one two", (hypothesis,)))
    assert tokens == ["▁one", "▁two"]
    assert alignment == [-1, 1, -1]


def test_alignments_lead_through_pivots_to_the_source():
    [found] = FakeTranslator().translate(
        ["one two"], "fr", via=("en", "de"), settings=SearchSettings(nbest=1)
    )
    tokens, alignment = Tracer(Words()).trace(found)
    assert tokens == ["▁one", "▁two"]
    # fr: de: en: one two; the names of languages come from nowhere.
    assert found.text == "fr: de: en: one two"
    assert alignment == [-1, -1, -1, 0, 1]


def test_a_pivot_read_in_other_subwords_than_it_was_written_in():
    # Written as five subwords and bytes, read as the words "été" and "now".
    pivot = Hypothesis(
        "été now", ("▁", "<0xC3>", "<0xA9>", "té", "▁n", "ow"), (), 0.0, 0.0, (1, 1, 1, 1, 2, 2)
    )
    first = Translation("alpha beta", (pivot,))
    last = Hypothesis("x y", ("▁x", "▁y"), (), 0.0, 0.0, (1, 2))
    _, alignment = Tracer(Words()).trace(Translation("alpha beta", (last,), ("en",), first))
    assert alignment == [0, 1]


@pytest.mark.parametrize("silent", ["first leg", "last leg"])
def test_a_leg_that_tells_no_alignment_leads_nowhere(silent):
    pivot = Hypothesis("the dog", ("the", "dog"), (), 0.0, None, ())
    last = Hypothesis("le chien", ("▁le", "▁chien"), (), 0.0, 0.0, (1, 2))
    if silent == "last leg":
        pivot, last = replace(pivot, alignment=(1, 2)), replace(last, alignment=())
    first = Translation("der Hund", (pivot,))
    tokens, alignment = Tracer(Words()).trace(Translation("der Hund", (last,), ("en",), first))
    assert tokens == ["▁der", "▁Hund"]
    assert alignment == [-1, -1]


def test_a_signal_that_comes_while_one_is_handled_does_not_count_twice(monkeypatch):
    """A worker hears of one SIGTERM from the service manager and from its supervisor."""
    written = []

    class Interrupted:
        """A gate that the second signal finds before the first has closed it."""

        open, closed, interrupted = 0, False, False

        @property
        def draining(self):
            before = self.closed
            if not self.interrupted:
                self.interrupted = True
                server.handle_exit(signal.SIGTERM, None)
            return before

        @draining.setter
        def draining(self, value):
            self.closed = value

    monkeypatch.setattr(serving_server, "_alone", lambda: False)
    log = SimpleNamespace(write=written.append)
    config = uvicorn.Config(lambda: None)
    server = serving_server.Server(config, Interrupted(), log, ServeSettings())
    server.handle_exit(signal.SIGTERM, None)
    assert [facts["event"] for facts in written] == ["draining"]
