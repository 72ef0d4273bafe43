"""Learning a teacher's whole softmax: the exact divergence, whatever way it is found."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from accord.data.batches import Batch, BatchStream
from accord.data.store import ParallelCorpus, Sentences
from accord.data.vocabulary import EOS, PAD
from accord.inference.beam_search import BeamSearch, padded
from accord.inference.results import SearchSettings
from accord.models.gnmt import GNMT
from accord.models.tensor_batch import TensorBatch
from accord.objectives.distillation.rounds import Origins, Round
from accord.objectives.distillation.soft_targets import MadePairs
from accord.objectives.distillation.whole_softmax import TaughtInputs, TaughtSentences, divergence
from accord.objectives.likelihood import LikelihoodObjective, PairInputs
from accord.ops.linear_cross_entropy import Likely

CPU = torch.device("cpu")
V, TAG = 12, 3
READ, TAUGHT = [TAG, 6, 7, EOS], [TAG, 8, EOS]  # what the student reads, and the teacher


def model(seed, units=6):
    torch.manual_seed(seed)
    made = GNMT(V, units, encoder_layers=1, decoder_layers=2, dropout=0.0).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3.0)
    return made


def pairs(source, targets):
    """Every target beside the same source."""
    rows = [[*target, EOS] for target in targets]
    target_BT = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int32)
    for row, ids in enumerate(rows):
        target_BT[row, : len(ids)] = ids
    lengths_B = np.array([len(row) for row in rows])
    source_BS = np.array([source] * len(rows), dtype=np.int32)
    none = np.zeros(len(rows), dtype=np.int16)
    tokens = int(lengths_B.sum())
    return TensorBatch.from_numpy(
        Batch(
            source_BS, np.full(len(rows), len(source)), target_BT, lengths_B, none, none, none,
            lengths_B, len(rows), tokens,
        )
    )  # fmt: skip


TARGETS = [(4, 5, 6), (7,), (), (5, 5)]


def log_p(network, batch):
    memory = network.encode(batch.source_BS, batch.source_lengths_B)
    hidden = network.decode(memory, network.shifted_embeddings(batch.target_BT))
    return batch.scored(network.logits(hidden).log_softmax(dim=-1))


def gradients(network, loss):
    learnt = [parameter for parameter in network.parameters() if parameter.requires_grad]
    return torch.autograd.grad(loss, learnt, allow_unused=True)


@pytest.mark.parametrize("chunk", [3, 100])
def test_it_is_the_divergence_by_definition(chunk):
    student, teacher = model(1), model(2, units=8)
    inputs = TaughtInputs(pairs(READ, TARGETS), taught=pairs(TAUGHT, TARGETS))
    loss, entropy = divergence(student, teacher, inputs, chunk)
    wanted, said = log_p(teacher, inputs.taught).detach(), log_p(student, inputs.pairs)
    expected = (wanted.exp() * (wanted - said)).sum()
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(entropy, -(wanted.exp() * said).sum(), rtol=1e-6, atol=0)
    torch.testing.assert_close(
        gradients(student, 2 * loss), gradients(student, 2 * expected), rtol=1e-6, atol=1e-12
    )
    assert all(grad is None for grad in gradients(teacher, divergence(student, teacher, inputs)[0]))


def test_as_many_likely_tokens_as_there_are_give_the_same():
    student, teacher = model(1), model(2)
    batch, taught = pairs(READ, TARGETS), pairs(TAUGHT, TARGETS)
    shares_NV = torch.zeros(batch.target_BT.numel(), V, dtype=torch.float64)
    shares_NV[batch.places_N] = log_p(teacher, taught).detach().exp()
    every = Likely(torch.arange(V).expand(len(shares_NV), V).contiguous(), shares_NV)
    found = LikelihoodObjective(0.0).loss(student, PairInputs(batch, every)).losses["loss"]
    loss, _ = divergence(student, teacher, TaughtInputs(batch, taught=taught))
    torch.testing.assert_close(found, loss)


def test_one_likely_token_is_the_plain_loss():
    student, batch = model(1), pairs(READ, TARGETS)
    target_N1 = batch.target_BT.reshape(-1, 1)
    alone = Likely(target_N1, torch.ones(target_N1.shape, dtype=torch.float64))
    found, plain = (
        LikelihoodObjective(0.0).loss(student, PairInputs(batch, *likely)).losses["loss"]
        for likely in ([alone], [])
    )
    torch.testing.assert_close(found, plain)


def test_the_expected_gradient_is_that_of_the_divergence_of_whole_translations():
    """By enumeration of all translations, cut after two tokens."""
    student, teacher = model(1), model(2, units=8)
    last, inner = [EOS, PAD], [token for token in range(V) if token not in (EOS, PAD)]
    drawn = [((), last), *(((token,), [token]) for token in inner)]

    def log_p_of_all(network, source):
        first_V, *second = (log_p(network, pairs(source, [z]))[len(z)] for z, _ in drawn)
        longer = first_V[inner].unsqueeze(1) + torch.stack(second)
        return first_V, torch.cat([first_V[last], longer.flatten()])

    first_V, wanted = (x.detach() for x in log_p_of_all(teacher, TAUGHT))
    assert wanted.exp().sum().item() == pytest.approx(1.0)
    _, said = log_p_of_all(student, READ)
    expected = gradients(student, (wanted.exp() * (wanted - said)).sum())
    found = [torch.zeros_like(grad) for grad in expected]
    for z, tokens in drawn:
        inputs = TaughtInputs(pairs(READ, [z]), taught=pairs(TAUGHT, [z]))
        loss, _ = divergence(student, teacher, inputs)
        share = first_V[tokens].exp().sum()
        found = [a + share * b for a, b in zip(found, gradients(student, loss), strict=True)]
    torch.testing.assert_close(found, list(expected), rtol=1e-6, atol=1e-10)


def test_a_student_that_is_its_teacher_has_nothing_to_learn_from_words_but_from_sentences():
    student, batch = model(1), pairs(READ, TARGETS)
    teacher = model(1)
    loss, _ = divergence(student, teacher, TaughtInputs(batch, taught=batch))
    assert float(loss.detach().abs()) < 1e-9
    assert max(float(g.abs().max()) for g in gradients(student, loss) if g is not None) < 1e-9
    search = BeamSearch(teacher, SearchSettings(beam=1), torch.tensor([2, TAG]))
    greedy = search(*padded([READ], CPU))[0][0].ids
    sentence = LikelihoodObjective(0.0).loss(student, PairInputs(pairs(READ, [greedy])))
    found = gradients(student, sentence.losses["loss"])
    assert max(float(g.abs().max()) for g in found if g is not None) > 1e-3


def test_the_mean_over_drawn_translations_is_the_expectation():
    """All translations of at most three tokens, of three that are allowed: 40 in all."""
    student, teacher = model(1), model(2)
    allowed, limit, count = (4, 5, 6), 3, 3000
    banned = torch.tensor([i for i in range(V) if i not in (*allowed, PAD, EOS)])
    every = [z for length in range(limit + 1) for z in itertools.product(allowed, repeat=length)]
    cost, likelihood = {}, {}
    for z in every:
        one = TaughtInputs(pairs(READ, [z]), taught=pairs(TAUGHT, [z]))
        cost[z] = float(divergence(student, teacher, one)[0].detach())
        places = log_p(teacher, one.taught)[:, [*allowed, EOS]].log_softmax(dim=1)
        chosen = [[*allowed, EOS].index(token) for token in (*z, EOS)]
        likelihood[z] = places.gather(1, torch.tensor(chosen).unsqueeze(1)).sum().exp().item()
    total = sum(likelihood.values())
    expected = sum(likelihood[z] * cost[z] for z in every) / total
    search = BeamSearch(teacher, SearchSettings(beam=1), banned, sample=1.0)
    draws = torch.from_numpy(np.random.default_rng(2).random((count, limit + 1)))
    limits = torch.tensor([limit] * count)
    found = search(*padded([TAUGHT] * count, CPU), limits, draws_BT=draws)
    costs = np.array([cost[tuple(row[0].ids)] for row in found if row])
    error = costs.std() / np.sqrt(len(costs))
    assert abs(costs.mean() - expected) < 3 * error < 0.1 * expected
    assert len(costs) / count == pytest.approx(total, abs=3 * np.sqrt(0.25 / count))


LANGUAGES = ("en", "de", "fr")
TAGS = {"en": 2, "de": 3, "fr": 4}
EN_DE = (Sentences.of([[10], [11, 11], [12, 12, 12]]), Sentences.of([[20], [21], [22]]))
GOLD = [ParallelCorpus(("en", "de"), EN_DE, (("en", "de"), ("de", "en")))]


def test_the_teacher_reads_the_sentence_that_it_translated():
    """Two translations into French, of English lines 2 and 0, beside their German lines."""
    column = np.zeros(2, dtype=np.int64)
    origins = Origins(np.arange(2), column, np.array([2, 0]), column, np.full(2, 2))
    made = Round(origins, Sentences.of([[30, 31], [32]]), {})
    rows = np.array([1, 0])
    german = Sentences.of([[20], [22]])
    corpus = ParallelCorpus(("de", "fr"), (german, made._taken(rows)), (("de", "fr"),))
    stream = BatchStream([corpus], LANGUAGES, TAGS, batch_tokens=60, seed=1)
    batch = stream.batch_at(stream.position)
    taught = TaughtSentences([MadePairs(corpus, (None, rows))], LANGUAGES, origins, GOLD)
    beside = taught.beside(batch)
    read = {
        tuple(target[:length].tolist()): source[:width].tolist()
        for target, length, source, width in zip(
            beside.target_BT,
            beside.target_lengths_B,
            beside.source_BS,
            beside.source_lengths_B,
            strict=True,
        )
    }
    assert read == {(30, 31, EOS): [4, 12, 12, 12, EOS], (32, EOS): [4, 10, EOS]}
    assert beside.source_language_B.tolist() == [0, 0]
    assert batch.source_language_B.tolist() == [1, 1]
    nothing = taught.beside(batch.first(0))
    assert nothing.rows == 0
    empty = TaughtInputs(TensorBatch.from_numpy(nothing), taught=TensorBatch.from_numpy(nothing))
    assert [value.item() for value in divergence(model(1), model(2), empty)] == [0.0, 0.0]


def test_inputs_are_copied_whole():
    one = TaughtInputs(pairs(READ, TARGETS), taught=pairs(TAUGHT, TARGETS))
    other = TaughtInputs(
        replace(one.pairs, target_BT=one.pairs.target_BT + 1),
        taught=replace(one.taught, source_BS=functional.pad(one.taught.source_BS[:, 1:], (0, 1))),
    )
    assert one.shape == other.shape
    assert one.shape != PairInputs(one.pairs).shape
    copy = TaughtInputs(pairs(READ, TARGETS), taught=pairs(TAUGHT, TARGETS)).to(CPU)
    copy.copy_from(other)
    assert torch.equal(copy.pairs.target_BT, other.pairs.target_BT)
    assert torch.equal(copy.taught.source_BS, other.taught.source_BS)
