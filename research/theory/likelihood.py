"""The objectives of the paper, with every sum over sentences carried out.

Log-likelihoods of single pairs are matrices [N, N]; `expected` turns them into a number. What is
called a loss is the negative of an expected log-likelihood.
"""

from collections.abc import Collection, Iterable

import torch
from torch import Tensor

from theory.tables import Edge, Tables
from theory.world import World


def expected(world: World, values_NN: Tensor, one: int, other: int) -> Tensor:
    """The mean of a quantity over true pairs of sentences; pairs that never occur do not count."""
    weights_NN = world.marginal(one, other)
    return torch.where(weights_NN > 0, weights_NN * values_NN, 0.0).sum()


def cross_entropy(world: World, tables: Tables, source: int, target: int) -> Tensor:
    """E[-log P(x_target | x_source)]: how badly a direction is translated."""
    return -expected(world, tables.log_p(source, target), source, target)


def composite(world: World, tables: Tables, supervised: Iterable[Edge]) -> Tensor:
    """The loss of composite likelihood: each direction with data on its own."""
    return sum((cross_entropy(world, tables, *edge) for edge in supervised), start=torch.zeros(()))


def agreement(tables: Tables, one: int, other: int, auxiliary: int) -> Tensor:
    """[N, N]: log sum_z P(z | x) P(z | y), the chance that both sides translate alike."""
    log_x, log_y = tables.log_p(one, auxiliary), tables.log_p(other, auxiliary)
    return torch.logsumexp(log_x.unsqueeze(1) + log_y.unsqueeze(0), dim=2)


def agreement_bound(
    tables: Tables, one: int, other: int, auxiliary: int, protected: Collection[Edge] = ()
) -> Tensor:
    """[N, N]: E_{z | x}[log P(z | y)], which is never above `agreement`.

    Gradients do not flow into protected directions.
    """
    p_NN, log_q_NN = tables.p(one, auxiliary), tables.log_p(other, auxiliary)
    if (one, auxiliary) in protected:
        p_NN = p_NN.detach()
    if (other, auxiliary) in protected:
        log_q_NN = log_q_NN.detach()
    return p_NN @ log_q_NN.T


def bound_by_prefix(tables: Tables, one: int, other: int, auxiliary: int) -> Tensor:
    """The same as `agreement_bound`, position by position, which is how a decoder computes it.

    At each prefix stands a cross-entropy between two distributions of the next token; prefixes
    count as often as they come up. Training replaces all prefixes by a single soft one.
    """
    token_p, token_log_q = (
        tables.token_log_p(one, auxiliary).exp(),
        tables.token_log_p(other, auxiliary),
    )
    passes_NP = tables.sentences.paths.amax(dim=2)
    reached_SP = tables.p(one, auxiliary) @ passes_NP
    return torch.einsum("sp,spa,tpa->st", reached_SP, token_p, token_log_q)


def agreement_loss(
    world: World, tables: Tables, supervised: Collection[Edge], *, protect: bool = False
) -> Tensor:
    """The loss of agreement-based likelihood: composite, and agreement in all other languages.

    The agreement terms are their lower bounds, in both mirror forms. With `protect`, they do not
    change directions that have data.
    """
    protected = supervised if protect else ()
    loss = composite(world, tables, supervised)
    for one, other in sorted({(min(edge), max(edge)) for edge in supervised}):
        for auxiliary in (x for x in range(world.languages) if x not in (one, other)):
            for x, y in ((one, other), (other, one)):
                bound_NN = agreement_bound(tables, x, y, auxiliary, protected)
                loss = loss - expected(world, bound_NN, x, y)
    return loss


def complete_log_scores(tables: Tables) -> Tensor:
    """[N, ..., N]: log of the product of all directions' probabilities, not normalised."""
    count = len(tables.sentences.all)
    total = torch.zeros([count] * tables.languages, dtype=torch.float64)
    for source, target in tables.edges:
        shape = [count if x in (source, target) else 1 for x in range(tables.languages)]
        log_p = tables.log_p(source, target)
        total = total + (log_p if source < target else log_p.T).reshape(shape)
    return total


def complete(tables: Tables, one: int, other: int) -> tuple[Tensor, Tensor]:
    """[N, N] log P(x, y) under the complete likelihood, all other languages summed out; and log Z.

    `one` must be the smaller number.
    """
    scores = complete_log_scores(tables)
    others = [x for x in range(tables.languages) if x not in (one, other)]
    log_z = torch.logsumexp(scores.flatten(), dim=0)
    return torch.logsumexp(scores, dim=others) - log_z, log_z
