"""What a server tells of the training text: corpora, sentences to try, text unlike it."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from accord.inference.model_card import Background, ModelCard, TrainingCorpus
from accord.inference.results import Hypothesis, Translation
from accord.inference.training_text import TrainingText, Usual
from accord.serving.app import create_app
from accord.serving.opened_model import Opened
from accord.serving.settings import ServeSettings
from serving_fakes import star

PIECES = ["▁three", "▁weeks", "▁trois", "▁semaines", "▁drei", "▁Wochen", "▁mois", "▁<?>"]
COUNTS = {
    "en": np.array([500, 500, 0, 0, 0, 0, 0, 0]),
    "fr": np.array([0, 0, 400, 400, 0, 0, 200, 0]),
    "de": np.array([0, 0, 0, 0, 500, 500, 0, 0]),
}
CARD = ModelCard(
    corpora=(TrainingCorpus("en-de", 4040, ("europarl",)), TrainingCorpus("en-fr", 17)),
    examples={"en": ("three weeks",), "de": ("drei Wochen", "Wochen")},
    usual={"de": Usual(0.3, 1.0, 2.0)},
)
FOUND = ("▁trois ▁semaines", "▁three ▁semaines", "▁trois ▁mois", "▁trois ▁Wochen")


class Words:
    """A vocabulary of a few words; all others are one."""

    def encode(self, texts):
        known = [[f"▁{word}" for word in text.split()] for text in texts]
        return [[PIECES.index(w) if w in PIECES else 7 for w in row] for row in known]

    def pieces(self):
        return PIECES


class Weeks:
    """Says the same whatever it is asked, in four ways."""

    graph = star("en", "de", "fr")
    vocabulary = Words()
    needs_source = False
    directions = None

    def translate(self, texts, to, *, source=None, via=None, settings=None):
        return [Translation(text, tuple(map(hypothesis, FOUND))) for text in texts]


def hypothesis(tokens):
    words = tuple(tokens.split())
    ids = tuple(PIECES.index(word) for word in words)
    return Hypothesis(tokens.replace("▁", ""), words, ids, -1.0, -2.0, (1,) * len(ids))


@pytest.fixture
def asked():
    """Opens a server with a background, and gives a client of it."""
    clients = []

    def ask(background, **settings):
        served = Opened(Weeks(), {"name": "weeks"}, background=background)
        client = TestClient(create_app(served, ServeSettings(batch_delay=0, **settings)))
        client.__enter__()
        clients.append(client)
        return client

    yield ask
    for client in clients:
        client.__exit__(None, None, None)


def with_text(card=CARD):
    return Background(card, TrainingText(COUNTS, PIECES, card.usual))


def translated(client, **body):
    answer = client.post("/translate", json={"target": "fr", "source": "de", **body})
    assert answer.status_code == 200
    return answer.json()


def test_the_graph_tells_of_corpora_and_examples(asked):
    found = asked(with_text()).get("/graph").json()
    assert found["corpora"] == [
        {"pair": "en-de", "sentences": 4040, "names": ["europarl"]},
        {"pair": "en-fr", "sentences": 17, "names": []},
    ]
    assert found["examples"] == {"en": ["three weeks"], "de": ["drei Wochen", "Wochen"]}


def test_examples_can_be_withheld(asked):
    found = asked(with_text(), hide_examples=True).get("/graph").json()
    assert found["examples"] == {}
    assert len(found["corpora"]) == 2


def test_an_export_of_a_former_version_tells_nothing(asked):
    client = asked(Background())
    found = client.get("/graph").json()
    assert (found["corpora"], found["examples"]) == ([], {})
    answer = translated(client, q="drei Wochen", alternatives=3, details=True)
    assert len(answer["alternatives"]) == 3
    assert "familiarity" not in answer["details"][0][0]


def test_alternatives_stay_in_the_language(asked):
    answer = translated(asked(with_text()), q="drei Wochen", alternatives=3)
    assert answer == {"translatedText": "trois semaines", "alternatives": ["trois mois"]}


def test_details_tell_text_unlike_the_training_text(asked):
    client = asked(with_text())

    def seen(q, source="de"):
        [[sentence]] = translated(client, q=q, source=source, details=True)["details"]
        return sentence["familiarity"]

    usual, unusual, unknown = seen("drei Wochen"), seen("ganz anders"), seen("weeks", "en")
    assert (usual["unlike"], unusual["unlike"], unknown["unlike"]) == (False, True, None)
    assert usual["surprise"] < usual["limit"] == 2.0 < unusual["surprise"]
    assert usual["bits_per_character"] == pytest.approx(2 * np.log2(1004 / 500.5) / 11)
    assert (usual["byte_share"], unknown["surprise"], unknown["limit"]) == (0, None, None)
