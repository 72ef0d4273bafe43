import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

import accord.objectives.agreement.loss as module
from accord.data.batches import Position
from accord.data.vocabulary import EOS
from accord.graph import Direction, TranslationGraph
from accord.models.base import Memory
from accord.models.gnmt import GNMT
from accord.objectives.agreement.decoding import Translations
from accord.objectives.agreement.dials import dials
from accord.objectives.agreement.inputs import AgreementInputs, AuxiliaryLanguages
from accord.objectives.agreement.loss import agreement, weight_at
from agreement_cases import (
    DE,
    EN,
    ES,
    EXACT,
    FR,
    LANGUAGES,
    PAIRS,
    STAR,
    TAGS,
    D,
    V,
    batch,
    chain,
    gradients,
    half_memory,
    make,
    numbers_of,
    run,
    spoken,
    star,
    sums_of,
)

# --- what must not matter -----------------------------------------------------------------------


def test_what_follows_the_end_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = star()
    terms, found = run(inputs)
    assert 0 < terms.counts["ended"] < 2 * inputs.pairs
    plain = module.generate

    def spoilt(*args: object, **settings: object) -> Translations:
        made = plain(*args, **settings)
        noise = torch.where(made.real_BT.unsqueeze(2), 0.0, 7.0)
        return replace(
            made,
            hidden_BTD=made.hidden_BTD + noise,
            vectors_BTD=made.vectors_BTD - noise,
            tokens_BT=torch.where(made.real_BT, made.tokens_BT, 9),
            entropy_BT=made.entropy_BT + noise[:, :, 0],
        )

    monkeypatch.setattr(module, "generate", spoilt)
    spoilt_terms, spoilt_found = run(inputs)
    torch.testing.assert_close(sums_of(terms), sums_of(spoilt_terms))
    torch.testing.assert_close(found, spoilt_found)


@pytest.mark.parametrize("kind", ["gnmt", "transformer"])
@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("decoding", ["continuous", "hard"])
def test_padding_and_added_rows_change_neither_loss_nor_gradient(
    kind: str, one_sided: bool, decoding: str
) -> None:
    settings = replace(
        EXACT, decoding=decoding, max_length=12, relative_length=True, encodings=True
    )
    plain = replace(star(), one_sided=one_sided)
    wide = replace(star(shape=(6, 11)), one_sided=one_sided)
    (one, one_grads), (other, other_grads) = (run(i, settings, kind=kind) for i in (plain, wide))
    torch.testing.assert_close(sums_of(one), sums_of(other))
    torch.testing.assert_close(one_grads, other_grads)


@pytest.mark.parametrize("normalize", ["sum", "token"])
def test_parts_add_up_to_the_whole_update(normalize: str) -> None:
    """Micro-batches and processes: the same languages are drawn, and sums are sums."""
    settings = replace(
        EXACT, max_length=9, relative_length=True, normalize=normalize, encodings=True
    )
    languages = AuxiliaryLanguages(STAR, TAGS)
    whole_batch = batch(PAIRS + PAIRS[:1])
    draws = languages.draw(whole_batch, seed=5, position=Position(1, 2))
    terms, whole = run(AgreementInputs.of(whole_batch, draws, languages), settings)
    model, total = make(), {}
    for rank in range(2):
        share = whole_batch.part(rank, 2)
        drawn = languages.draw(share, seed=5, position=Position(1, 2), rank=rank, world_size=2)
        for part in range(3):
            inputs = AgreementInputs.of(share.part(part, 3), drawn[part::3], languages)
            found = agreement(model, inputs, settings)
            (found.loss + found.encoder_loss).backward()
            total = {name: total.get(name, 0.0) + value for name, value in sums_of(found).items()}
    torch.testing.assert_close(total, sums_of(terms))
    torch.testing.assert_close(gradients(model), whole)


def test_pairs_with_nothing_to_agree_on_only_count_in_the_mean() -> None:
    triangle = TranslationGraph(
        LANGUAGES, STAR.supervised | {Direction("de", "fr"), Direction("fr", "de")}
    )
    languages = AuxiliaryLanguages(triangle, TAGS, law="all")
    pairs = [PAIRS[0], (DE, FR, [23, 24], [26])]
    mixed = AgreementInputs.of(batch(pairs), np.array([ES, EN], np.int16), languages)
    alone = AgreementInputs.of(batch(pairs[:1]), np.array([ES], np.int16), languages)
    (two, two_grads), (one, one_grads) = run(mixed), run(alone)
    torch.testing.assert_close(two.loss, one.loss)
    torch.testing.assert_close(two_grads, one_grads)
    found = dials(numbers_of(two), sentences=2)
    assert found["agreement_pairs"] == 0.5
    assert found["agreement_loss"] == pytest.approx(one.loss.item())


def test_an_empty_share_adds_nothing() -> None:
    terms, grads = run(star([]))
    assert terms.loss.item() == 0.0
    assert not any(numbers_of(terms).values())
    assert not grads


# --- options and dials ----------------------------------------------------------------------------


def test_translations_and_encodings_can_each_be_on_alone() -> None:
    both, both_grads = run(star(), replace(EXACT, encodings=True))
    decoder, decoder_grads = run(star(), EXACT)
    encoder, encoder_grads = run(star(), replace(EXACT, translations=False, encodings=True))
    assert decoder.encoder_loss.item() == 0.0
    assert encoder.loss.item() == 0.0
    torch.testing.assert_close(both.loss, decoder.loss)
    torch.testing.assert_close(both.encoder_loss, encoder.encoder_loss)
    for name, grad in both_grads.items():
        parts = [grads[name] for grads in (decoder_grads, encoder_grads) if name in grads]
        torch.testing.assert_close(grad, sum(parts))


def test_equal_sides_agree_in_their_encodings() -> None:
    model = make()
    inputs = star()
    same = replace(
        inputs,
        sentences_RS=inputs.sentences_RS[: inputs.pairs].repeat(2, 1),
        lengths_R=inputs.lengths_R[: inputs.pairs].repeat(2),
    )
    settings = replace(EXACT, translations=False, encodings=True)
    assert agreement(model, same, settings).encoder_loss.item() == pytest.approx(0, abs=1e-12)
    assert agreement(model, inputs, settings).encoder_loss.item() > 0.01


def test_equal_sides_disagree_by_their_entropy_only() -> None:
    model = make()
    inputs = star(protect="none")
    same = replace(
        inputs,
        sentences_RS=inputs.sentences_RS[: inputs.pairs].repeat(2, 1),
        lengths_R=inputs.lengths_R[: inputs.pairs].repeat(2),
    )
    terms = agreement(model, same, EXACT)
    of = numbers_of(terms)
    assert of["cross_entropy"] == pytest.approx(of["entropy"])
    assert of["loss"] == pytest.approx(of["entropy"])
    divergence = agreement(model, same, replace(EXACT, measure="kl"))
    assert divergence.loss.item() == pytest.approx(0, abs=1e-10)


def test_the_mean_over_tokens_is_taken_within_each_translation() -> None:
    for pair in PAIRS:
        total, _ = run(star([pair]), replace(EXACT, decoding="hard"))
        mean, _ = run(star([pair]), replace(EXACT, decoding="hard", normalize="token"))
        tokens = total.counts["tokens"]
        torch.testing.assert_close(mean.loss, total.loss / tokens)
    whole, _ = run(star(), replace(EXACT, decoding="hard", normalize="token"))
    alone = [run(star([p]), replace(EXACT, decoding="hard", normalize="token"))[0] for p in PAIRS]
    torch.testing.assert_close(whole.loss, sum(terms.loss for terms in alone))


def test_dials_say_what_the_translations_were_like() -> None:
    inputs = star()
    terms, _ = run(inputs)
    model = make()
    values = []
    for second in (False, True):
        p, _, real = spoken(model, half_memory(model, inputs, second))
        entropy = torch.distributions.Categorical(p).entropy()
        ended = ((p.argmax(dim=2) == EOS) & real).any(dim=1)
        values.append([(entropy * real).sum(), real.sum(), ended.sum()])
    entropy, tokens, ended = (sum(v.item() for v in column) for column in zip(*values, strict=True))
    sentences = sum(len(s) + 1 + len(t) + 1 for _, _, s, t in PAIRS)
    found = dials(numbers_of(terms), sentences=len(PAIRS))
    assert not any(value.requires_grad for value in terms.counts.values())
    assert found == {
        "agreement_loss": pytest.approx(terms.loss.item() / 4),
        "agreement_encoder_loss": 0.0,
        "agreement_per_token": pytest.approx(terms.loss.item() / tokens),
        "agreement_entropy": pytest.approx(entropy / tokens),
        "agreement_length_ratio": pytest.approx(tokens / sentences),
        "agreement_ended": pytest.approx(ended / 8),
        "agreement_right_language": 0.0,
        "agreement_degenerate": 0.0,
        "agreement_gradient_ratio": 0.0,
        "agreement_pairs": 1.0,
    }


@pytest.mark.parametrize("count", [0.0, 1.0, 2.0])
def test_dials_divide_by_what_there_was(count: float) -> None:
    """Down to a single translation; where there was none, nothing is divided by nothing."""
    terms, _ = run(star())
    found = dials(dict.fromkeys(numbers_of(terms), count), sentences=1.0)
    assert found == dict.fromkeys(found, min(count, 1.0)) | {"agreement_pairs": count}


def test_the_bounds_of_a_pair_follow_from_its_sentences() -> None:
    """Subwords without tag and end of sentence; the mean of both sides with the end."""
    inputs = star()
    settings = replace(EXACT, relative_length=True, max_length=40)
    pairs = module._Pairs(make(), inputs, settings, times=2)
    longer = torch.tensor([max(len(s), len(t)) for _, _, s, t in PAIRS])
    mean = torch.tensor([(len(s) + len(t)) / 2 + 1 for _, _, s, t in PAIRS])
    assert pairs.limits_B.tolist() == settings.limits(longer).tolist() * 2
    assert pairs.reference_B.tolist() == mean.tolist() * 2
    assert pairs.steps == settings.steps(int(longer.max()))


def test_the_language_of_translations_is_told_from_their_tokens() -> None:
    inputs = star()
    always = torch.zeros(len(LANGUAGES), V)
    for language, share in ((int(inputs.auxiliary_B[0]), 1.0), (EN, 0.0)):
        likely = always.clone()
        likely[language] = 1.0
        only = replace(
            inputs, auxiliary_B=torch.full_like(inputs.auxiliary_B, int(inputs.auxiliary_B[0]))
        )
        terms, _ = run(only, replace(EXACT, unigrams_LV=likely))
        found = dials(numbers_of(terms), sentences=len(PAIRS))
        assert found["agreement_right_language"] == share


@pytest.mark.parametrize("decoding", ["continuous", "hard"])
def test_dials_and_filters_know_translations_up_to_their_end(decoding: str) -> None:
    """Whatever follows in a fixed length: repeated ends would look like a loop."""
    settings = replace(EXACT, decoding=decoding, distinct_bigrams=0.3, least_length=0.1)
    (plain, _), (fixed, _) = (
        run(star(), settings),
        run(star(), replace(settings, fixed_length=True)),
    )
    assert fixed.counts["ended"] > 0
    assert fixed.loss > plain.loss
    torch.testing.assert_close(dict(fixed.counts), dict(plain.counts))


def test_a_fixed_length_may_follow_the_pair() -> None:
    settings = replace(EXACT, relative_length=True, fixed_length=True, max_length=40)
    limits = settings.limits(torch.tensor([max(len(s), len(t)) for *_, s, t in PAIRS]))
    assert len(set(limits.tolist())) > 1
    total, _ = run(star(), settings)
    alone = [
        run(star([pair]), replace(settings, relative_length=False, max_length=int(limit)))
        for pair, limit in zip(PAIRS, limits, strict=True)
    ]
    torch.testing.assert_close(total.loss, sum(terms.loss for terms, _ in alone))


def test_limits_follow_the_longer_side_of_a_pair() -> None:
    settings = replace(EXACT, relative_length=True, max_length=40)
    assert settings.limits(torch.tensor([0, 3, 10, 23, 24, 100])).tolist() == [
        5,
        10,
        20,
        40,
        40,
        40,
    ]
    assert settings.steps(3) == 10
    fixed = replace(EXACT, max_length=17)
    assert fixed.limits(torch.tensor([1, 50])).tolist() == [17, 17]
    terms, _ = run(star([PAIRS[1]]), replace(settings, decoding="hard"))
    assert terms.counts["tokens"] <= 7


def test_faults_begin_beyond_their_bounds() -> None:
    """At the bound a translation is sound: in length, in pairs that differ, where it is cut off."""
    settings = replace(
        EXACT, relative_length=True, max_length=6, least_length=0.5, distinct_bigrams=0.5
    )
    rows = {  # tokens, length of the reference, most tokens: whether there is a fault
        (10, 11, EOS, 0, 0, 0): (8, 6, False),  # 3 = 0.5 * 8 - 1
        (10, EOS, 0, 0, 0, 0): (8, 6, True),
        (10, 11, 12, 13, 14, 15): (4, 6, False),  # no end, at the most tokens of all
        (10, 11, 12, 13, 14, 16): (4, 5, True),
        (10, 10, 10, EOS, 0, 0): (4, 6, False),  # 2 of 3 pairs differ
        (10, 10, 10, 10, EOS, 0): (4, 6, False),  # 2 of 4
        (10, 10, 10, 10, 10, EOS): (4, 6, True),  # 2 of 5
    }
    tokens_BT = torch.tensor(list(rows))
    ends_BT = (tokens_BT == EOS).long()
    limits_B = torch.tensor([limit for _, limit, _ in rows.values()])
    real_BT = (ends_BT.cumsum(dim=1) - ends_BT == 0) & (torch.arange(6) < limits_B.unsqueeze(1))
    nothing = torch.zeros(len(rows), 6, 1)
    said = Translations(nothing, nothing, tokens_BT, nothing[..., 0], real_BT)
    reference_B = torch.tensor([float(length) for length, _, _ in rows.values()])
    pairs = SimpleNamespace(settings=settings, reference_B=reference_B, limits_B=limits_B)
    found = module._Pairs._degenerate(pairs, said)  # type: ignore[arg-type]
    assert found.tolist() == [fault for _, _, fault in rows.values()]


def test_dropout_is_off_where_translations_are_scored() -> None:
    calls = []
    model = make(dropout=0.3)
    decode = model.decode

    def spy(memory: Memory, inputs_BTD: Tensor, *, dropout: bool = True) -> Tensor:
        calls.append(dropout)
        return decode(memory, inputs_BTD, dropout=dropout)

    model.decode = spy
    terms = agreement(model, star(), replace(EXACT, dropout=True))
    assert terms.loss.isfinite()
    assert calls == [False, False]


@pytest.mark.parametrize(
    ("step", "ramp", "weight"),
    [(99, 0, 0.0), (100, 0, 0.0), (101, 0, 0.5), (105, 10, 0.25), (110, 10, 0.5), (200, 10, 0.5)],
)
def test_the_weight_begins_after_the_start(step: int, ramp: int, weight: float) -> None:
    assert weight_at(step, weight=0.5, start=100, ramp=ramp) == weight


def test_no_weight_no_agreement() -> None:
    assert weight_at(10**6, weight=0.0, start=0, ramp=5) == 0.0


def test_agreement_rises_when_it_is_trained() -> None:
    torch.manual_seed(0)
    model = GNMT(V, 16, dropout=0.1)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    inputs = star()
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        terms = agreement(model, inputs, replace(EXACT, relative_length=True, dropout=True))
        terms.loss.backward()
        optimizer.step()
        losses.append(terms.loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_it_runs_in_mixed_precision() -> None:
    torch.manual_seed(0)
    model = GNMT(V, D, dropout=0.0)
    results = []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            terms = agreement(model, chain(), replace(EXACT, encodings=True))
        (terms.loss + terms.encoder_loss).backward()
        assert {value.dtype for value in sums_of(terms).values()} == {torch.float32}
        results.append((terms.loss.item(), copy.deepcopy(gradients(model))))
    assert results[1][0] == pytest.approx(results[0][0], rel=0.02)
    for name, grad in results[0][1].items():
        assert (results[1][1][name] - grad).norm() < 0.15 * grad.norm() + 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("protect", ["supervised", "supervised-scores", "none"])
@pytest.mark.parametrize("decoding", ["continuous", "straight-through", "hard", "sampled"])
def test_it_can_be_captured_as_a_cuda_graph(protect: str, decoding: str, fixed: bool) -> None:
    model = make().float().cuda()
    inputs = star(protect=protect).to(torch.device("cuda"))
    settings = replace(EXACT, decoding=decoding, fixed_length=fixed, encodings=True)

    def step() -> Tensor:
        model.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            terms = agreement(model, inputs, settings)
        (terms.loss + terms.encoder_loss).backward()
        return torch.stack(list(sums_of(terms).values()))

    expected = [step() for _ in range(3)][-1].clone()
    wanted = {name: grad.clone() for name, grad in gradients(model).items()}
    model.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sums = step()
    graph.replay()
    assert sums.isfinite().all()
    if decoding != "sampled":
        torch.testing.assert_close(sums, expected, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(gradients(model), wanted, rtol=1e-2, atol=1e-3)
