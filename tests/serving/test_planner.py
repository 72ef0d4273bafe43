"""Routes of models that are told the source language, or have a model for some directions only."""

from types import SimpleNamespace

import pytest

from accord.graph import Direction
from accord.serving.messages import Refusal, TranslateRequest
from accord.serving.model_process import ModelProcess
from accord.serving.planner import Planner
from accord.serving.settings import ServeSettings
from serving_fakes import FakeTranslator, Running, ask, request_bytes, star


class Guesser:
    languages = ("en", "de", "fr")

    def rank(self, text):
        return [(text[:2], 90.0)]


def planner(**known):
    return Planner(star("en", "de", "fr"), ServeSettings(), Guesser(), **known)


def routes(made, q, target="fr", **asked):
    plan = made.plan(made.checked(TranslateRequest(q=q, target=target, **asked)))
    return {(route.source, route.via): job.texts for route, job in plan.jobs.items()}


def test_texts_of_all_languages_go_together():
    found = routes(planner(), ["de one.", "en two."], source="auto")
    assert found == {(None, ()): ["de one.", "en two."]}


def test_languages_go_apart_where_the_model_is_told():
    found = routes(planner(needs_source=True), ["de one.", "en two.", "de three."], source="auto")
    assert found == {("de", ()): ["de one.", "de three."], ("en", ()): ["en two."]}
    found = routes(planner(needs_source=True), "en two.", source="de", via="en")
    assert found == {("de", ("en",)): ["en two."]}


def test_a_direction_without_a_model_is_refused_and_goes_by_a_pivot():
    some = frozenset(Direction(*d) for d in [("de", "en"), ("en", "fr")])
    made = planner(needs_source=True, directions=some)
    with pytest.raises(Refusal, match="no direct model for de-fr here: set via to auto"):
        routes(made, "eins", source="de")
    assert routes(made, "eins", source="de", via="auto") == {("de", ("en",)): ["eins"]}
    assert routes(made, "one", source="en") == {("en", ()): ["one"]}
    with pytest.raises(Refusal, match="no direct model for fr-en here: translate into another"):
        routes(made, "un", "de", source="fr", via="en")
    with pytest.raises(Refusal, match="no chain"):
        routes(made, "un", "de", source="fr", via="auto")


class Told(FakeTranslator):
    """Says what language it was told."""

    needs_source = True

    def translate(self, texts, to, *, source=None, via=None, settings=None):
        found = super().translate(texts, to, via=via, settings=settings)
        self.batches[-1] = (source, *self.batches[-1][:2])
        return found


def test_the_server_tells_the_model_and_mixes_no_languages():
    translator = Told()
    with Running(translator) as server:
        for body in (
            {"q": ["Guten Tag.", "Hallo."], "source": "de", "target": "fr"},
            {"q": "<b>Hello.</b>", "source": "en", "target": "fr", "format": "html"},
        ):
            status, _, _ = ask(server.port, request_bytes(body))
            assert status == 200
    assert [(source, to) for source, _, to in translator.batches] == [("de", "fr"), ("en", "fr")]


class Pipe:
    """One end of a pipe whose other end answers at once."""

    def __init__(self):
        self.sent = []

    def send(self, item):
        self.sent.append(item)

    def recv(self):
        return []


def test_the_model_process_passes_the_language_on():
    ready = SimpleNamespace(
        graph=star("en", "de"), vocabulary=None, needs_source=True, directions=None
    )
    pipe = Pipe()
    process = ModelProcess(None, pipe, ready)
    assert process.needs_source
    process.translate(["x"], "en", source="de")
    assert pipe.sent[0][:3] == (["x"], "en", "de")
