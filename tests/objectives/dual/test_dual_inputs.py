"""What dual learning reads of a batch: which sentences are sent, and where to."""

import numpy as np
import pytest
import torch

from accord.config.third_languages import round_trips
from accord.data.batches import Position
from accord.graph import Direction, TranslationGraph
from accord.objectives.agreement.inputs import NONE
from accord.objectives.dual.inputs import DualInputs, RoundTrips
from agreement_cases import CHAIN, DE, EN, ES, FR, LANGUAGES, PAIRS, STAR, TAGS, batch

SIZE = len(LANGUAGES)
HERE = Position(2, 7)


def sent(drawn_B, batch):
    """Languages of the sentences, and of their translations."""
    side_B, other_B = np.divmod(drawn_B, SIZE)
    languages = np.where(side_B, batch.target_language_B, batch.source_language_B)
    return list(zip(languages.tolist(), other_B.tolist(), strict=True))


@pytest.mark.parametrize("graph", [STAR, CHAIN])
def test_round_trips_have_no_data_either_way(graph):
    for language in LANGUAGES:
        for other in round_trips(graph, language):
            assert {
                graph.kind(Direction(language, other)),
                graph.kind(Direction(other, language)),
            } == {"zero-shot"}
    assert round_trips(STAR, "de") == ("fr", "es")
    assert round_trips(STAR, "en") == ()
    assert round_trips(CHAIN, "en") == ("fr",)


def test_languages_must_be_known_from_data_into_them():
    directions = [("en", "de"), ("en", "fr"), ("fr", "en"), ("es", "en")]
    graph = TranslationGraph(LANGUAGES, frozenset(Direction(*d) for d in directions))
    assert round_trips(graph, "de") == ("fr",)
    assert round_trips(graph, "es") == ()


def test_every_language_that_a_sentence_can_go_to_is_drawn():
    pairs = batch(PAIRS * 30)
    found = sent(RoundTrips(STAR, TAGS).draw(pairs, seed=1, position=HERE), pairs)
    assert set(found) == {(a, b) for a in (DE, FR, ES) for b in (DE, FR, ES) if a != b}


def test_both_sides_are_drawn_where_both_can_go():
    pairs = batch([(DE, FR, [20], [21])] * 40)
    found = sent(RoundTrips(CHAIN, TAGS).draw(pairs, seed=1, position=HERE), pairs)
    assert set(found) == {(DE, ES), (FR, EN), (FR, ES)}


def test_neither_processes_nor_runs_change_a_draw():
    trips, whole = RoundTrips(STAR, TAGS), batch(PAIRS * 5)
    all_B = trips.draw(whole, seed=1, position=HERE)
    for rank in range(3):
        mine = trips.draw(whole.part(rank, 3), seed=1, position=HERE, rank=rank, world_size=3)
        assert mine.tolist() == all_B[rank::3].tolist()
    assert trips.draw(whole, seed=2, position=HERE).tolist() != all_B.tolist()
    assert trips.draw(whole, seed=1, position=Position(2, 8)).tolist() != all_B.tolist()


DRAWN = np.array([SIZE + FR, ES, DE, NONE], dtype=np.int16)  # a target, two sources, none


def test_sentences_have_the_tag_of_where_they_go():
    inputs = DualInputs.of(batch(PAIRS), DRAWN, RoundTrips(STAR, TAGS), 50)
    lengths = inputs.lengths_B.tolist()
    found = [row[:n] for row, n in zip(inputs.sentences_BS.tolist(), lengths, strict=True)]
    assert found == [[4, 20, 21, 22, 1], [5, 23, 1], [3, 24, 25, 26, 1], [1]]
    assert inputs.tag_B.tolist()[:3] == [TAGS["de"], TAGS["de"], TAGS["fr"]]
    assert inputs.language_B.tolist()[:3] == [DE, DE, FR]
    assert inputs.other_B.tolist()[:3] == [FR, ES, DE]
    assert inputs.weight_B.tolist() == [1, 1, 1, 0]


def test_long_sentences_stay_at_home():
    inputs = DualInputs.of(batch(PAIRS), DRAWN, RoundTrips(STAR, TAGS), 2)
    assert inputs.weight_B.tolist() == [0, 1, 0, 0]
    assert inputs.sentences_BS.tolist() == [[1, 0, 0, 0], [5, 23, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert inputs.lengths_B.tolist() == [1, 3, 1, 1]


def test_a_shape_is_filled_up_and_follows_from_nothing_else():
    trips, none = RoundTrips(STAR, TAGS), np.full(4, NONE, dtype=np.int16)
    one, other = (DualInputs.of(batch(PAIRS), drawn, trips, 50, (6, 9)) for drawn in (DRAWN, none))
    assert one.shape == other.shape == (6, 10)
    assert DualInputs.of(batch(PAIRS), DRAWN, trips, 5, (6, 9)).shape == (6, 7)
    assert one.weight_B.tolist() == [1, 1, 1, 0, 0, 0]
    assert one.sentences_BS[4:, 0].tolist() == [1, 1]
    other.copy_from(one)
    for name, value in vars(one.to(torch.device("cpu"))).items():
        assert torch.equal(value, getattr(other, name))


def test_english_is_never_sent_where_all_data_is_with_english():
    pairs = batch(PAIRS * 10)
    drawn_B = RoundTrips(STAR, TAGS).draw(pairs, seed=3, position=HERE)
    assert EN not in DualInputs.of(pairs, drawn_B, RoundTrips(STAR, TAGS), 50).language_B.tolist()
