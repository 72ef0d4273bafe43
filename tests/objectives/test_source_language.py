"""Every objective tells the model in which language each row is, fillers aside."""

import numpy as np
import pytest
import torch

import agreement_cases as cases
from accord.config.objectives import CompleteSearch
from accord.data.vocabulary import Vocabulary, train
from accord.graph import Direction
from accord.models.tensor_batch import TensorBatch
from accord.objectives.agreement.inputs import AgreementInputs, AuxiliaryLanguages
from accord.objectives.agreement.loss import agreement
from accord.objectives.consistency import consistent_likelihood
from accord.objectives.distillation.teacher import Teacher, Wanted
from accord.objectives.likelihood import composite_likelihood
from language_reader import LanguageReader, reader, seen_directions, word

EN, DE, FR, ES = range(4)
GOLD = {(2 + pair[1], pair[0]) for pair in cases.PAIRS}


@pytest.fixture
def model():
    return LanguageReader(cases.V, [25, 26, 27, 28])


@pytest.fixture(params=[None, (6, 9)], ids=["as it is", "filled up"])
def batch(request, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    made = cases.batch(cases.PAIRS)
    if request.param is None:
        return TensorBatch.from_numpy(made)
    return TensorBatch.of_shape(made, *request.param)


def test_rows_that_fill_up_a_shape_have_the_first_language(batch):
    more = [EN] * (batch.source_BS.shape[0] - 4)
    assert batch.source_language_B.tolist() == [EN, DE, FR, EN, *more]
    assert batch.target_language_B.tolist() == [DE, EN, EN, ES, *more]


def test_inputs_of_another_batch_bring_its_languages(batch):
    there = batch.map_tensors(torch.zeros_like)
    there.copy_from(batch)
    assert torch.equal(there.source_language_B, batch.source_language_B)


def test_likelihood(model, batch):
    composite_likelihood(model, batch).loss.backward()
    assert model.seen == GOLD
    used = model.logits_LV.grad.abs().sum(dim=1) > 0
    assert used.tolist() == [True, True, True, False]  # no source is Spanish


def test_consistency_reads_the_target_in_its_own_language(model, batch):
    consistent_likelihood(model, batch)
    assert model.seen == GOLD | {(2 + pair[1], pair[1]) for pair in cases.PAIRS}


@pytest.mark.parametrize("shape", [None, (6, 9)])
@pytest.mark.parametrize("graph", [cases.STAR, cases.CHAIN])
def test_agreement(model, graph, shape):
    languages = AuxiliaryLanguages(graph, cases.TAGS, protect="supervised")
    pairs = cases.CHAIN_PAIRS if graph is cases.CHAIN else cases.PAIRS
    draws = cases.CHAIN_DRAWS if graph is cases.CHAIN else [FR, ES, DE, FR]
    inputs = AgreementInputs.of(
        cases.batch(pairs), np.array(draws, dtype=np.int16), languages, shape
    )
    agreement(model, inputs, cases.EXACT)
    assert model.seen == {
        (2 + drawn, side) for pair, drawn in zip(pairs, draws, strict=True) for side in pair[:2]
    }
    # English subwords are 10 to 19: rows change places, and their languages with them.
    words = inputs.sentences_RS[:, 1]
    real = words > 1
    english = (words >= 10) & (words < 20)
    assert torch.equal((inputs.language_R == EN)[real], english[real])
    there = inputs.map_tensors(torch.zeros_like)
    there.copy_from(inputs)
    assert torch.equal(there.language_R, inputs.language_R)


LANGUAGES = ("en", "de", "fr")


@pytest.fixture(scope="module")
def vocabulary():
    words = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
    return Vocabulary(train(words * 3, LANGUAGES, 320), LANGUAGES)


@pytest.mark.parametrize("vote", [0.0, 0.4, 0.6])
def test_the_teacher_knows_what_both_sides_are(vocabulary, vote):
    asked = [
        Wanted([300], [301], ("en", "de"), "fr", 5),
        Wanted([300], [301], ("de", "en"), "fr", 5),
    ]
    one = Teacher(
        reader(vocabulary), vocabulary, torch.device("cpu"), CompleteSearch(beam=2), vote=vote
    )
    said = [vocabulary.decode([found[0].ids])[0] for found in one.translate(asked)]
    assert said == [word(vocabulary, item.read[vote > 0.5]) for item in asked]
    both = {Direction("en", "fr"), Direction("de", "fr")}
    assert seen_directions(one.model, vocabulary) == both
    likely, _ = one.likely(asked, [(), ()], 1)
    assert likely.token_MK[:, 0].tolist() == [
        one.model.words[LANGUAGES.index(item.read[vote > 0.5])] for item in asked
    ]


def test_the_teacher_scores_a_direction(vocabulary):
    one = Teacher(reader(vocabulary), vocabulary, torch.device("cpu"), CompleteSearch())
    target = [one.model.words[0]]
    own, other = one.log_probabilities(
        [[300], [300]], [Direction("en", "fr"), Direction("de", "fr")], [target, target]
    )
    assert own == pytest.approx(other + 6.0, rel=1e-5)
