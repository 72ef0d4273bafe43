from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import accord.objectives.agreement.loss as module
from accord.data.vocabulary import EOS
from accord.models.base import Memory, Seq2Seq, State
from accord.models.gnmt import GNMT, RecurrentMemory, RecurrentState
from accord.objectives.agreement.decoding import Decoding, Translations
from accord.objectives.agreement.inputs import AgreementInputs, AuxiliaryLanguages
from accord.objectives.agreement.loss import agreement
from agreement_cases import (
    CHAIN,
    CHAIN_DRAWS,
    CHAIN_PAIRS,
    EXACT,
    PAIRS,
    STEPS,
    TAGS,
    D,
    V,
    batch,
    chain,
    gradients,
    half_memory,
    heard,
    judged,
    make,
    outline,
    run,
    spoken,
    star,
    taught,
)


@pytest.mark.parametrize("feeding", [True, False])
def test_one_live_side_equals_two_models_of_which_one_is_fixed(feeding: bool) -> None:
    inputs = star()
    terms, found = run(inputs, input_feeding=feeding)
    teacher, pupil = make(input_feeding=feeding), make(input_feeding=feeding)
    loss = taught(teacher, pupil, inputs) + judged(teacher, pupil, inputs)
    loss.backward()
    torch.testing.assert_close(terms.loss, loss)
    torch.testing.assert_close(found, gradients(pupil))
    assert not gradients(teacher)


@pytest.mark.parametrize("kind", ["gnmt", "transformer"])
@pytest.mark.parametrize("inputs", [star(), star(protect="none"), chain()])
def test_any_mixture_of_pairs_equals_the_outline(inputs: AgreementInputs, kind: str) -> None:
    model = make(kind=kind)
    loss = outline(model, inputs)
    loss.backward()
    terms, found = run(inputs, kind=kind)
    torch.testing.assert_close(terms.loss, loss)
    torch.testing.assert_close(found, gradients(model))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("graph", [star, chain])
def test_every_reading_of_the_paper_equals_the_outline(
    graph: Callable[..., AgreementInputs], fixed: bool
) -> None:
    """Both pairs of one live side and pairs of two, the strict reading and ours, either length."""
    settings = replace(EXACT, fixed_length=fixed)
    for inputs, strict in ((graph(), False), (graph(protect="supervised-scores"), True)):
        model = make()
        loss = outline(model, inputs, fixed=fixed, strict=strict)
        loss.backward()
        terms, found = run(inputs, settings)
        torch.testing.assert_close(terms.loss, loss, rtol=1e-12, atol=0)
        torch.testing.assert_close(found, gradients(model), rtol=1e-9, atol=1e-13)


def test_read_strictly_only_the_reader_without_data_learns() -> None:
    """Term A is left; the value is that of both terms."""
    ours, _ = run(star())
    terms, found = run(star(protect="supervised-scores"))
    teacher, pupil = make(), make()
    taught(teacher, pupil, star()).backward()
    torch.testing.assert_close(terms.loss, ours.loss)
    torch.testing.assert_close(dict(terms.counts), dict(ours.counts))
    torch.testing.assert_close(found, gradients(pupil))


@pytest.mark.parametrize("decoding", ["hard", "straight-through"])
def test_a_pair_without_protected_side_has_nothing_to_read_strictly(decoding: str) -> None:
    settings = replace(EXACT, decoding=decoding)
    both_live = AuxiliaryLanguages(CHAIN, TAGS, protect="supervised-scores")
    plain = AuxiliaryLanguages(CHAIN, TAGS)
    some = batch(CHAIN_PAIRS[:1]), np.array(CHAIN_DRAWS[:1], np.int16)
    strict, strict_grads = run(AgreementInputs.of(*some, both_live), settings)
    ours, grads = run(AgreementInputs.of(*some, plain), settings)
    assert torch.equal(strict.loss, ours.loss)
    assert all(torch.equal(strict_grads[name], grad) for name, grad in grads.items())


@pytest.mark.parametrize("decoding", ["hard", "sampled"])
def test_tokens_know_no_stricter_reading(decoding: str) -> None:
    """They have no term B."""
    settings = replace(EXACT, decoding=decoding)
    results = []
    for protect in ("supervised", "supervised-scores"):
        model = make()  # it also sets the seed of what is drawn
        terms = agreement(model, star(protect=protect), settings)
        terms.loss.backward()
        results.append((terms.loss, gradients(model)))
    assert torch.equal(results[0][0], results[1][0])
    assert all(torch.equal(results[1][1][name], grad) for name, grad in results[0][1].items())


@pytest.mark.parametrize("protect", ["supervised", "supervised-scores"])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("decoding", ["continuous", "straight-through", "hard"])
@pytest.mark.parametrize("normalize", ["sum", "token"])
def test_the_half_without_gradients_equals_stopping_row_by_row(
    decoding: str, normalize: str, fixed: bool, protect: str
) -> None:
    settings = replace(EXACT, decoding=decoding, normalize=normalize, fixed_length=fixed)
    fast, fast_grads = run(star(protect=protect), settings)
    slow, slow_grads = run(replace(star(protect=protect), one_sided=False), settings)
    torch.testing.assert_close(fast.loss, slow.loss)
    torch.testing.assert_close(dict(fast.counts), dict(slow.counts))
    torch.testing.assert_close(fast_grads, slow_grads)


@pytest.mark.parametrize("measure", ["cross-entropy", "kl"])
@pytest.mark.parametrize("normalize", ["sum", "token"])
@pytest.mark.parametrize(("temperature", "fixed"), [(1.0, False), (0.7, False), (1.0, True)])
def test_the_gradient_is_that_of_finite_differences(
    measure: str, normalize: str, temperature: float, fixed: bool
) -> None:
    """Without protection nothing is stopped, and the gradient is the true one."""
    inputs = star(protect="none")
    settings = replace(
        EXACT,
        measure=measure,
        normalize=normalize,
        temperature=temperature,
        fixed_length=fixed,
        encodings=True,
    )
    model = make()

    def loss() -> Tensor:
        terms = agreement(model, inputs, settings)
        return terms.loss + terms.encoder_loss

    loss().backward()
    parameters = [p for p in model.parameters() if p.requires_grad]
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        ways = [torch.randn(p.shape, generator=generator).double() for p in parameters]
        slope = sum((p.grad * way).sum() for p, way in zip(parameters, ways, strict=True))
        values = []
        for sign in (1, -2, 1):  # forward, back across, and home
            with torch.no_grad():
                for p, way in zip(parameters, ways, strict=True):
                    p += sign * 1e-6 * way
                values.append(loss())
        measured = (values[0] - values[1]) / 2e-6
        assert measured.item() == pytest.approx(slope.item(), rel=1e-4)


class Twin(Seq2Seq):
    """Rows of the first half through one copy of the cells, rows of the second through another.

    Sharing would hide a leak. A flag travels with every row in an additional layer. With `halves`
    the two halves are encoded one after the other.
    """

    def __init__(self, first: GNMT, second: GNMT, halves: bool = False) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.halves, self.flags = halves, iter([1.0, 0.0])
        self.target_embedding = second.target_embedding

    def encode(self, source_BS: Tensor, lengths_B: Tensor, language_B=None) -> Memory:
        rows = len(lengths_B)
        flag = (torch.arange(rows) < rows // 2).double().unsqueeze(1)
        if self.halves:
            flag.fill_(next(self.flags))
        one, other = (copy.encode(source_BS, lengths_B) for copy in (self.first, self.second))
        return self._memory(flag, one, other)

    def initial_state(self, memory: Memory, *, beam: int = 1, steps: int = 0) -> State:
        state = self.second.initial_state(self._plain(memory))
        return replace(state, layers=(*state.layers, memory.layers[-1]))

    def decode(self, memory: Memory, inputs_BTD: Tensor, *, dropout: bool = True) -> Tensor:
        plain = self._plain(memory)
        one, other = (copy.decode(plain, inputs_BTD) for copy in (self.first, self.second))
        return torch.where(memory.layers[-1][0].bool().unsqueeze(2), one, other)

    def step(
        self, memory: Memory, state: State, input_BD: Tensor, *, dropout: bool = True
    ) -> tuple[Tensor, State]:
        flag = memory.layers[-1]
        plain = replace(state, layers=state.layers[:-1])
        (h1, s1), (h2, s2) = (
            copy.step(self._plain(memory), plain, input_BD) for copy in (self.first, self.second)
        )

        def choose(one: Tensor, other: Tensor) -> Tensor:
            return torch.where(flag[0].bool(), one, other)

        layers = tuple(
            (choose(a[0], b[0]), choose(a[1], b[1]))
            for a, b in zip(s1.layers, s2.layers, strict=True)
        )
        feed, attention = choose(s1.feed_BD, s2.feed_BD), choose(s1.attention_BS, s2.attention_BS)
        return choose(h1, h2), RecurrentState(s1.position, attention, (*layers, flag), feed)

    @staticmethod
    def _plain(memory: Memory) -> Memory:
        return replace(memory, layers=memory.layers[:-1])

    @staticmethod
    def _memory(flag: Tensor, one: Memory, other: Memory) -> Memory:
        def choose(a: Tensor, b: Tensor) -> Tensor:
            return torch.where(flag.bool().view(-1, *[1] * (a.dim() - 1)), a, b)

        layers = tuple(
            (choose(a[0], b[0]), choose(a[1], b[1]))
            for a, b in zip(one.layers, other.layers, strict=True)
        )
        return RecurrentMemory(
            one.mask_BS,
            choose(one.keys_BSD, other.keys_BSD),
            choose(one.values_BSD, other.values_BSD),
            (*layers, (flag, flag)),
        )


@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("decoding", ["continuous", "straight-through", "hard", "sampled"])
def test_no_gradient_reaches_the_supervised_branch(one_sided: bool, decoding: str) -> None:
    twin = Twin(make(), make(), halves=one_sided)
    inputs = replace(star(), one_sided=one_sided)
    terms = agreement(twin, inputs, replace(EXACT, decoding=decoding, encodings=True))
    (terms.loss + terms.encoder_loss).backward()
    leaks = {name: grad for name, grad in gradients(twin.first).items() if grad.any()}
    assert not leaks
    reached = {name for name, grad in gradients(twin.second).items() if grad.any()}
    wanted = {name for name, p in twin.second.named_parameters() if p.requires_grad}
    assert reached == wanted


def test_without_protection_the_supervised_branch_learns_too() -> None:
    twin = Twin(make(), make())
    agreement(twin, star(protect="none"), EXACT).loss.backward()
    cells = [name for name in gradients(twin.second) if name != "target_embedding.weight"]
    assert all(gradients(twin.first)[name].any() for name in cells)


@pytest.mark.parametrize("protect", ["supervised", "none"])
def test_english_is_protected_as_source_and_as_target(protect: str) -> None:
    _, grads = run(star(protect=protect), replace(EXACT, encodings=True))
    rows = grads["source_embedding.weight"].abs().sum(dim=1)
    english, others = list(range(10, 19)), list(range(20, 29))
    assert rows[others].all(), "both sides must be read through the source table"
    assert bool(rows[english].any()) == (protect == "none")


def test_the_judged_translation_learns_through_its_distributions_and_its_feedback() -> None:
    inputs = star()
    _, found = run(inputs)
    parts = []
    for term in (taught, judged, lambda *args: judged(*args, cut=True)):
        teacher, pupil = make(), make()
        term(teacher, pupil, inputs).backward()
        parts.append(gradients(pupil))
    name = "decoder.bottom.weight_hh_l0"
    judged_part = found[name] - parts[0][name]
    torch.testing.assert_close(judged_part, parts[1][name])
    assert judged_part.norm() > 1e-3
    assert (parts[1][name] - parts[2][name]).norm() > 1e-4
    _, without = run(inputs, replace(EXACT, feedback_gradient=False))
    torch.testing.assert_close(without[name] - parts[0][name], parts[2][name])


@pytest.mark.parametrize("fixed", [False, True])
def test_hard_translations_train_the_other_side_only(fixed: bool) -> None:
    """Nothing but ordinary training of the zero-shot side on the teacher's greedy tokens."""
    inputs = star()
    terms, found = run(inputs, replace(EXACT, decoding="hard", fixed_length=fixed))
    teacher, pupil = make(), make()
    with torch.no_grad():
        memory = half_memory(teacher, inputs, second=False)
        tokens = torch.empty(inputs.pairs, 0, dtype=torch.int64)
        for _ in range(STEPS):
            padded = torch.nn.functional.pad(tokens, (0, 1))
            hidden = teacher.decode(memory, teacher.shifted_embeddings(padded))
            tokens = torch.cat([tokens, teacher.logits(hidden[:, -1:]).argmax(dim=2)], dim=1)
    log_q = heard_tokens(pupil, half_memory(pupil, inputs, second=True), tokens)
    ends = (tokens == EOS).long()
    real = ends.cumsum(dim=1) - ends == 0
    assert real.sum() < real.numel()
    loss = -(log_q * (real | fixed)).sum()
    loss.backward()
    torch.testing.assert_close(terms.loss, loss)
    torch.testing.assert_close(found, gradients(pupil))


SOUND = [10, 11, 12, 13, 14, EOS]
FAULTS = {  # a translation that has it, and what tells it from a sound one
    "repeats itself": ([10, 10, 10, 10, 10, EOS], {"distinct_bigrams": 0.8}),
    "is too short": ([EOS] * STEPS, {"least_length": 0.6}),
    "has no end": ([10, 11, 12, 13, 14, 15], {"relative_length": True}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("decoding", ["hard", "continuous"])
def test_plain_translations_with_a_fault_teach_nothing(
    monkeypatch: pytest.MonkeyPatch, fault: str, one_sided: bool, decoding: Decoding
) -> None:
    faulty_one, asked = FAULTS[fault]
    inputs = star() if one_sided else replace(star(), one_sided=False)
    loose = replace(EXACT, decoding=decoding, normalize="token", max_length=40)
    strict = replace(loose, **asked)
    plain = module.generate

    def faulty(*args: object, **settings: object) -> Translations:
        """The first pair has the fault."""
        made = plain(*args, **{**settings, "decoding": "hard"})
        tokens_BT = torch.tensor([faulty_one, *[SOUND] * (inputs.pairs - 1)]).repeat(
            len(made.tokens_BT) // inputs.pairs, 1
        )
        ends_BT = (tokens_BT == EOS).long()
        return replace(
            made,
            hidden_BTD=made.hidden_BTD[:, :STEPS],
            vectors_BTD=made.vectors_BTD[:, :STEPS],
            tokens_BT=tokens_BT,
            entropy_BT=made.entropy_BT[:, :STEPS],
            real_BT=ends_BT.cumsum(dim=1) - ends_BT == 0,
        )

    monkeypatch.setattr(module, "generate", faulty)
    terms, found = run(inputs, strict)
    weight_B = inputs.weight_B.clone()
    weight_B[0] = 0
    others, without = run(replace(inputs, weight_B=weight_B), loose)
    everyone, with_all = run(inputs, loose)
    dropped = decoding == "hard"  # mixtures are only counted
    torch.testing.assert_close(terms.loss, (others if dropped else everyone).loss)
    torch.testing.assert_close(found, without if dropped else with_all)
    assert everyone.loss > others.loss
    sums = {name: count.item() for name, count in terms.counts.items()}
    assert sums["degenerate"] / sums["translations"] == 1 / inputs.pairs
    assert sums["pairs"] == inputs.pairs


def heard_tokens(model: GNMT, memory: Memory, tokens: Tensor) -> Tensor:
    hidden = model.decode(memory, model.shifted_embeddings(tokens))
    log_q = torch.log_softmax(model.logits(hidden), dim=2)
    return log_q.gather(2, tokens.unsqueeze(2)).squeeze(2)


def test_samples_estimate_the_bound_of_the_paper() -> None:
    """The mean over samples is the sequence cross-entropy, here of single tokens: exact."""
    torch.manual_seed(0)
    model = make()
    inputs = star([PAIRS[0]] * 3000)
    one = replace(EXACT, max_length=1)
    with torch.no_grad():
        sampled = agreement(model, inputs, replace(one, decoding="sampled")).loss / inputs.pairs
        p, _, _ = spoken(model, half_memory(model, star([PAIRS[0]]), second=False))
        log_q = heard(
            model, half_memory(model, star([PAIRS[0]]), second=True), p[:, :1] @ p.new_zeros(V, D)
        )
    exact = -(p[0, 0] * log_q[0, 0]).sum()
    assert sampled.item() == pytest.approx(exact.item(), rel=0.1)
