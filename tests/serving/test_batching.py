"""The thread that translates: batches, refusals, failures, an orderly end."""

import threading

import pytest

from accord.inference.results import SearchSettings
from accord.serving.batching import Batcher, Job, Route
from accord.serving.messages import Refusal
from accord.serving.metrics_text import Meter
from accord.serving.settings import ServeSettings
from serving_fakes import FakeTranslator, until

FR = Route("fr", (), 4)


class Bench:
    """A batcher around a translator that waits until it is told to go on."""

    def __init__(self, **settings):
        self.translator = FakeTranslator()
        self.meter = Meter()
        settings = ServeSettings(**{"batch_delay": 0, **settings})
        self.batcher = Batcher(self._translate, settings, self.meter)

    def _translate(self, texts, route, nbest):
        settings = SearchSettings(beam=route.beam, nbest=nbest)
        return self.translator.translate(texts, route.target, via=route.via, settings=settings)

    def __enter__(self):
        self.translator.go.clear()
        self.batcher.start()
        return self

    def __exit__(self, *_):
        self.translator.go.set()
        self.batcher.close()

    def submit(self, *texts, route=FR, nbest=1):
        job = Job(texts, route, nbest)
        self.batcher.submit([job])
        return job

    def busy(self):
        """Have the thread begin with something; all that follows waits."""
        self.submit("first", route=Route("de", (), 4))
        until(lambda: self.translator.threads)

    def sizes(self):
        return [len(texts) for texts, *_ in self.translator.batches]


def test_requests_that_wait_are_translated_together_each_gets_its_own():
    with Bench() as bench:
        bench.busy()
        one, two = bench.submit("a", "b"), bench.submit("c")
        bench.translator.go.set()
        assert [x.text for x in one.future.result(30)] == ["fr: a", "fr: b"]
        assert [x.text for x in two.future.result(30)] == ["fr: c"]
    assert bench.sizes() == [1, 3]
    assert bench.translator.threads == {"accord-model"}


def test_with_a_batch_size_of_one_nothing_goes_together():
    with Bench(batch_size=1) as bench:
        bench.busy()
        job = bench.submit("a", "b")
        bench.translator.go.set()
        assert [x.text for x in job.future.result(30)] == ["fr: a", "fr: b"]
    assert bench.sizes() == [1, 1, 1]


def test_the_delay_waits_for_company_but_not_for_ever():
    with Bench(batch_delay=60_000, batch_size=2) as bench:
        bench.translator.go.set()
        one, two = bench.submit("a"), bench.submit("b")
        one.future.result(30)
        two.future.result(30)
    assert bench.sizes() == [2]
    with Bench(batch_delay=50, batch_size=2) as bench:
        bench.translator.go.set()
        bench.submit("a").future.result(30)
    assert bench.sizes() == [1]


def test_many_translations_are_asked_for_only_where_somebody_wants_them():
    with Bench() as bench:
        bench.busy()
        bench.submit("a", nbest=2)
        bench.submit("b")
        bench.translator.go.set()
        bench.submit("c", route=Route("es", ("en",), 2)).future.result(30)
    assert [(to, via, beam, nbest) for _, to, via, beam, nbest in bench.translator.batches] == [
        ("de", (), 4, 1),
        ("fr", (), 4, 4),
        ("es", ("en",), 2, 1),
    ]


def test_a_full_queue_refuses_at_once_all_or_nothing():
    with Bench(queue=4, max_sentences=4) as bench:
        bench.busy()
        taken = bench.submit("a", "b", "c")
        with pytest.raises(Refusal) as refusal:
            bench.submit("d", "e")
        assert refusal.value.status == 429
        assert 1 <= refusal.value.retry_after <= 60
        bench.batcher.check_room()
        bench.submit("f")
        with pytest.raises(Refusal):
            bench.batcher.check_room()
        bench.translator.go.set()
        assert len(taken.future.result(30)) == 3


def test_what_was_dropped_is_never_computed():
    with Bench() as bench:
        bench.busy()
        dropped, kept = bench.submit("a", "b"), bench.submit("c")
        bench.batcher.drop([dropped])
        bench.translator.go.set()
        kept.future.result(30)
    assert [texts for texts, *_ in bench.translator.batches] == [["first"], ["c"]]
    assert "accord_dropped_sentences_total 2" in bench.meter.exposition()
    assert "accord_waiting_sentences 0" in bench.meter.exposition()


def test_one_request_does_not_fail_because_of_another(caplog):
    with Bench() as bench:
        bench.busy()
        good, bad, fine = bench.submit("a"), bench.submit("poison", "b"), bench.submit("c")
        bench.translator.go.set()
        assert [x.text for x in good.future.result(30)] == ["fr: a"]
        assert [x.text for x in fine.future.result(30)] == ["fr: c"]
        with pytest.raises(RuntimeError):
            bad.future.result(30)
        assert [x.text for x in bench.submit("d").future.result(30)] == ["fr: d"]
    assert "a translation failed" in caplog.text


def test_a_failed_request_leaves_the_queue_with_all_its_sentences():
    with Bench(batch_size=2) as bench:
        bench.busy()
        bad = bench.submit("poison", *"abcdef")
        bench.translator.go.set()
        with pytest.raises(RuntimeError):
            bad.future.result(30)
        bench.submit("x").future.result(30)
    assert bench.sizes() == [1, 2, 1]


def test_a_translator_that_gives_too_little_fails_the_request_not_the_thread():
    with Bench() as bench:
        bench.translator.go.set()
        proper, bench.translator.translate = bench.translator.translate, lambda *_, **__: []
        with pytest.raises(ValueError, match="zip"):
            bench.submit("a").future.result(30)
        bench.translator.translate = proper
        bench.submit("b").future.result(30)


def test_closing_finishes_what_was_taken_and_takes_no_more():
    with Bench(batch_delay=60_000) as bench:  # what waits for company is not kept waiting
        bench.translator.go.set()
        jobs = [bench.submit(str(number), route=Route("fr", (), number)) for number in (1, 2, 3)]
        closing = threading.Thread(target=bench.batcher.close)
        closing.start()
        assert [job.future.result(30)[0].text for job in jobs] == ["fr: 1", "fr: 2", "fr: 3"]
        closing.join(30)
        assert not bench.batcher.alive
        with pytest.raises(Refusal) as refusal:
            bench.submit("late")
        assert refusal.value.status == 503
