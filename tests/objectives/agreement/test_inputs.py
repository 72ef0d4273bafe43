import numpy as np
import torch

from accord.data.batches import Batch
from accord.graph import Direction, TranslationGraph
from accord.models.tensor_batch import TensorBatch
from accord.objectives.agreement.inputs import NONE, AgreementInputs, AuxiliaryLanguages
from agreement_cases import DE, EN, ES, FR, LANGUAGES, STAR, TAGS, Pair
from agreement_cases import batch as batch_of

PAIRS = [  # source and target language, subwords of both
    (EN, DE, [10, 11], [20, 21, 22]),
    (DE, EN, [23], [12]),
    (FR, EN, [24, 25], [13, 14, 15, 16]),
]


def batch(pairs: list[Pair] = PAIRS) -> Batch:
    return batch_of(pairs)


def drawn(*languages: int) -> np.ndarray:
    return np.array(languages, dtype=np.int16)


def rows_of(inputs: AgreementInputs) -> list[list[int]]:
    lengths = inputs.lengths_R.tolist()
    return [row[:n] for row, n in zip(inputs.sentences_RS.tolist(), lengths, strict=True)]


def test_the_protected_side_stands_first_whether_source_or_target() -> None:
    inputs = AgreementInputs.of(batch(), drawn(FR, ES, DE), AuxiliaryLanguages(STAR, TAGS))
    assert rows_of(inputs) == [
        [4, 10, 11, 1],
        [5, 12, 1],
        [3, 13, 14, 15, 16, 1],
        [4, 20, 21, 22, 1],
        [5, 23, 1],
        [3, 24, 25, 1],
    ]
    assert inputs.live_R.tolist() == [False] * 3 + [True] * 3
    assert inputs.weight_B.tolist() == [1.0] * 3
    assert inputs.one_sided


def test_without_protection_all_rows_are_live_and_stay_in_place() -> None:
    languages = AuxiliaryLanguages(STAR, TAGS, protect="none")
    inputs = AgreementInputs.of(batch(), drawn(FR, ES, DE), languages)
    assert rows_of(inputs)[1] == [5, 23, 1]
    assert inputs.live_R.all()
    assert not inputs.one_sided


def test_pairs_without_purpose_weigh_nothing() -> None:
    # German and English both have data into English; the second pair got no language at all.
    languages = AuxiliaryLanguages(
        TranslationGraph(LANGUAGES, STAR.supervised | {Direction("de", "fr")}), TAGS, law="all"
    )
    pairs = [(DE, FR, [10, 11], [20]), (EN, DE, [12], [21]), (EN, DE, [13], [22])]
    inputs = AgreementInputs.of(batch(pairs), drawn(EN, NONE, ES), languages)
    assert inputs.weight_B.tolist() == [0.0, 0.0, 1.0]
    assert rows_of(inputs) == [[1], [1], [5, 13, 1], [1], [1], [5, 22, 1]]
    assert inputs.live_R.tolist() == [False] * 5 + [True]


def test_a_fixed_shape_is_filled_with_rows_that_weigh_nothing() -> None:
    languages = AuxiliaryLanguages(STAR, TAGS)
    plain = AgreementInputs.of(batch(), drawn(FR, ES, DE), languages)
    filled = AgreementInputs.of(batch(), drawn(FR, ES, DE), languages, shape=(5, 7))
    assert filled.sentences_RS.shape == (10, 8)
    assert filled.pairs == 5
    rows = rows_of(filled)
    assert [rows[i] for i in (0, 1, 2, 5, 6, 7)] == rows_of(plain)
    assert [rows[i] for i in (3, 4, 8, 9)] == [[1]] * 4
    assert filled.weight_B.tolist() == [1, 1, 1, 0, 0]


def test_a_target_that_fills_its_shape_has_room_for_the_tag() -> None:
    pairs = [(EN, DE, [10], [20, 21, 22])]
    inputs = AgreementInputs.of(
        batch(pairs), drawn(FR), AuxiliaryLanguages(STAR, TAGS), shape=(1, 4)
    )
    assert rows_of(inputs)[1] == [4, 20, 21, 22, 1]


def test_an_empty_share_is_valid() -> None:
    inputs = AgreementInputs.of(batch([]), drawn(), AuxiliaryLanguages(STAR, TAGS))
    assert inputs.pairs == 0


def test_contents_can_be_taken_over_by_inputs_of_the_same_shape() -> None:
    languages = AuxiliaryLanguages(STAR, TAGS)
    one = AgreementInputs.of(batch(), drawn(FR, ES, DE), languages).to(torch.device("cpu"))
    other = AgreementInputs.of(batch(), drawn(ES, FR, ES), languages)
    one.copy_from(other)
    assert rows_of(one) == rows_of(other)


def test_both_sides_are_encoded_like_sources() -> None:
    """A target with a tag must be the row that a batch of the other direction would have."""
    back = [(target, source, t, s) for source, target, s, t in PAIRS]
    inputs = AgreementInputs.of(batch(), drawn(FR, ES, DE), AuxiliaryLanguages(STAR, TAGS))
    same = AgreementInputs.of(batch(back), drawn(FR, ES, DE), AuxiliaryLanguages(STAR, TAGS))
    assert rows_of(inputs) == rows_of(same)
    sources = TensorBatch.from_numpy(batch(back)).source_BS.tolist()
    assert [row[1:] for row in rows_of(inputs)][3] == sources[0][1:5]


def test_making_inputs_uses_no_shared_random_numbers() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    AgreementInputs.of(batch(), drawn(FR, ES, DE), AuxiliaryLanguages(STAR, TAGS))
    assert before.equal(torch.get_rng_state())
