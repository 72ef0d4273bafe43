import numpy as np
import pytest
import torch

from accord.data.vocabulary import EOS, PAD
from accord.errors import AccordError
from accord.inference.backends.base import LoadSettings
from accord.inference.beam_search import TorchEngine
from accord.inference.results import SearchSettings, length_penalty
from accord.inference.text import Decoder, windows
from search_models import LINES, Chain, decoder, vocabulary

CPU = torch.device("cpu")
DECODER = decoder()


def test_every_line_keeps_its_place_whatever_the_batches():
    lines = ["", *LINES, "   ", LINES[0], "\u200b\x07"]
    whole = DECODER.translate(lines, "de", SearchSettings(beam=2))
    assert [item.source for item in whole] == lines
    for tokens in (1, 40):
        again = DECODER.translate(lines, "de", SearchSettings(beam=2, batch_tokens=tokens))
        assert [item.text for item in again] == [item.text for item in whole]
    for blank in (whole[0], whole[-3], whole[-1]):
        assert blank.text == ""
        assert len(blank.hypotheses) == 1
    assert len({item.text for item in whole}) > 5


def test_pieces_and_text_belong_to_the_ids():
    for item in DECODER.translate(LINES, "de", SearchSettings(beam=4, nbest=3)):
        texts = [hypothesis.text for hypothesis in item.hypotheses]
        assert len(set(texts)) == len(texts) <= 3
        for hypothesis in item.hypotheses:
            assert hypothesis.tokens == tuple(DECODER.pieces[i] for i in hypothesis.ids)
            assert len(hypothesis.alignment) == len(hypothesis.ids)


def test_control_characters_are_read_as_spaces():
    plain, odd = "the old cat", "the\u00a0old\x01\ufeffcat\r\n"
    found = DECODER.translate([plain, odd], "de", SearchSettings())
    assert found[0].hypotheses == found[1].hypotheses
    assert found[1].source == odd


def test_a_translation_is_one_line_even_if_the_model_spells_a_line_break():
    pieces = vocabulary().pieces()
    cat, newline, the = (pieces.index(piece) for piece in ("▁cat", "<0x0A>", "▁the"))
    table = torch.eye(len(pieces))[torch.full((len(pieces),), EOS)]
    for before, after in ((PAD, cat), (cat, newline), (newline, the)):
        table[before, EOS], table[before, after] = 0.0, 1.0
    spelling = Decoder(TorchEngine(Chain(table), CPU), vocabulary())
    [found] = spelling.translate(["x"], "de", SearchSettings())
    assert found.hypotheses[0].tokens == ("▁cat", "<0x0A>", "▁the")
    assert found.text == "cat the"


def test_long_lines_are_cut_and_joined():
    settings = SearchSettings(beam=2, window=12)
    line = " ".join(LINES)
    [ids] = DECODER.vocabulary.encode([line])
    cuts = windows(ids, DECODER.pieces, 12)
    parts = [DECODER.vocabulary.decode([ids[start:stop]])[0] for start, stop in cuts]
    [found] = DECODER.translate([line], "de", settings)
    alone = [item.text for item in DECODER.translate(parts, "de", settings)]
    assert found.text == " ".join(text for text in alone if text)
    assert found.warnings == (f"cut into {len(cuts)} parts of at most 12 subwords",)
    assert max(found.hypotheses[0].alignment) > 12
    assert all(0 <= place <= len(ids) + 1 for place in found.hypotheses[0].alignment)
    best = [item.hypotheses[0] for item in DECODER.translate(parts, "de", settings)]
    whole = found.hypotheses[0]
    assert whole.tokens == tuple(token for item in best for token in item.tokens)
    assert whole.log_probability == pytest.approx(sum(item.log_probability for item in best))
    length = sum(len(item.ids) + 1 for item in best)
    assert whole.score == pytest.approx(whole.log_probability / length_penalty(length, 0.6))


def test_a_line_of_ten_thousand_tokens():
    line = "cat " * 10_000
    [found] = decoder(ends=4.0).translate([line], "de", SearchSettings(beam=1))
    assert "cut into" in found.warnings[0]
    assert len(found.hypotheses[0].tokens) == len(found.hypotheses[0].alignment) > 0


def test_only_the_target_language_s_subwords():
    counts = np.zeros(len(vocabulary()), dtype=np.int64)
    counts[60:140] = 1
    counts[vocabulary().tags["en"]] = 5  # even then a tag stays out
    by_language = {"de": counts, "en": counts + 1}
    made = Decoder(decoder(ends=1.0).engine, vocabulary(), by_language.__getitem__)
    free = made.translate(LINES[:8], "de", SearchSettings(beam=2))
    bound = made.translate(LINES[:8], "de", SearchSettings(beam=2, vocabulary="target"))
    other = made.translate(LINES[:8], "en", SearchSettings(beam=2, vocabulary="target"))

    def used(found):
        return {i for item in found for i in item.hypotheses[0].ids}

    assert used(bound)
    assert used(bound) <= set(range(60, 140))
    assert not used(free) <= set(range(60, 140))
    assert not used(other) <= set(range(60, 140))
    never = {PAD, EOS, *vocabulary().tags.values(), vocabulary().pieces().index("<unk>")}
    assert not never & (used(free) | used(other))


def test_weights_that_are_not_finite_are_told():
    broken = decoder()
    with torch.no_grad():
        broken.engine.model.target_embedding.weight.fill_(float("nan"))
    [found] = broken.translate(["cat"], "de", SearchSettings())
    assert found.text == ""
    assert "not finite" in found.warnings[0]


def test_translate_is_a_beam_of_one():
    expected = [item.text for item in DECODER.translate(LINES, "de", SearchSettings(beam=1))]
    assert DECODER.greedy(LINES, "de") == expected


def test_settings_are_checked():
    for wrong in (
        {"beam": 0},
        {"beam": 2, "nbest": 3},
        {"beam": 2, "pivot_nbest": 3},
        {"length_penalty": -1.0},
        {"vocabulary": "none"},
        {"window": 0},
    ):
        with pytest.raises(AccordError, match="cannot be"):
            SearchSettings(**wrong)


def test_a_beam_that_the_machine_has_no_room_for_is_refused(monkeypatch):
    """It would swap for minutes without a word."""
    fresh = decoder()
    monkeypatch.setattr("accord.inference.text.free_memory", lambda: 2_000_000)
    with pytest.raises(AccordError, match=r"takes about .* GB for a single sentence") as error:
        fresh.translate(["ab cd"], "de", SearchSettings(beam=900))
    most = int(error.value.fix.split()[4])
    assert 1 <= most < 900
    with pytest.raises(AccordError, match="beam cannot be 5000") as error:
        SearchSettings(beam=5000)
    assert error.value.fix == "give 1 to 1000"


@pytest.mark.parametrize("threads", [0, 100_000])
def test_threads_that_would_kill_the_process_are_refused(threads):
    with pytest.raises(AccordError, match="threads cannot be"):
        LoadSettings(threads=threads)
