"""When a small loss on directions with data forces a small loss on those without.

Throughout, i -> k has no data, and j is the language between them. The paper proves
CE(i -> k) <= kappa(eps), where eps bounds the cross-entropy of j -> k and the disagreement of i and
j about k. Its chain of inequalities is right up to a constant r > 0 with CE(i -> k) <= eps / r.
The constant it then prints, log(1/xi) - delta eps, drops a logarithm: for one-to-one translation it
is not positive, and a perfect model of a language with many synonyms breaks it. What the same steps
do give is r >= exp(-eps / p) / xi, where p is the probability of the rarest true pair (i, k), so

    CE(i -> k) <= kappa(eps) = xi eps exp(eps / p),

which goes to 0 with eps and needs no other assumption than finitely many sentences. At xi = 1 it is
sharp, so p cannot be left out: no bound in eps, xi and delta alone exists.
"""

import math

import torch
from torch import Tensor

from theory.likelihood import expected
from theory.tables import Tables
from theory.world import World


def xi(world: World, i: int, j: int, k: int) -> float:
    """The largest E_{j | i, k}[P(k | i, j)] over true pairs: 1 if translations are unique."""
    return float(_certainty(world, i, j, k).max())


def delta(world: World, i: int, j: int, k: int) -> float:
    """The smallest such expectation: how little is certain."""
    found = _certainty(world, i, j, k)
    return float(found[found > 0].min())


def rarest(world: World, one: int, other: int) -> float:
    """The probability of the rarest pair of sentences that are translations of each other."""
    pair = world.marginal(one, other)
    return float(pair[pair > 0].min())


def disagreement(world: World, tables: Tables, i: int, j: int, k: int) -> Tensor:
    """E_{i, j}[-sum_z P(z | j) log P(z | i)], with z in language k: j teaches i."""
    values_NN = tables.log_p(i, k) @ tables.p(j, k).T
    return -expected(world, values_NN, i, j)


def divergence(world: World, tables: Tables, i: int, j: int, k: int) -> Tensor:
    """E_{i, j}[KL(P(z | j), P(z | i))]: the loss of distillation from j -> k into i -> k."""
    return disagreement(world, tables, i, j, k) - teacher_entropy(world, tables, i, j, k)


def teacher_entropy(world: World, tables: Tables, i: int, j: int, k: int) -> Tensor:
    """E_j of the entropy of P(z | j)."""
    entropy_N = -(tables.p(j, k) * tables.log_p(j, k)).sum(dim=1)
    return (world.marginal(i, j).sum(dim=0) * entropy_N).sum()


def ratio(world: World, tables: Tables, i: int, j: int, k: int) -> float:
    """The r of the proof: the smallest E_{j | i, k}[P_model(k | j) / P(k | i, j)] over true pairs.

    CE(i -> k) <= disagreement / r holds for any model.
    """
    joint = world.marginal(i, j, k)
    pair_ij, pair_ik = world.marginal(i, j), world.marginal(i, k)
    terms = torch.where(joint > 0, pair_ij.unsqueeze(2) * tables.p(j, k).unsqueeze(0), 0.0)
    found = terms.sum(dim=1) / pair_ik
    return float(found[pair_ik > 0].min().detach())


def kappa(eps: float, xi: float, rarest: float) -> float:
    """The bound on the zero-shot cross-entropy that the proof's steps give."""
    return xi * eps * math.exp(eps / rarest) if eps < 700 * rarest else math.inf


def printed_kappa(eps: float, xi: float, delta: float) -> float:
    """The constant as the paper prints it, for comparison."""
    return eps / (math.log(1 / xi) - delta * eps)


def kappa_of_distillation(
    eps_divergence: float, eps: float, xi: float, rarest_ik: float, rarest_jk: float, count: int
) -> float:
    """The like for distillation, whose loss lacks the teacher's entropy.

    A teacher with a small loss is sure of itself: its entropy is bounded by Fano's inequality.
    """
    doubt = min(1 - math.exp(-eps / rarest_jk), 1 - 1 / count)
    entropy = doubt * math.log(max(count - 1, 1))
    if doubt > 0:
        entropy -= doubt * math.log(doubt) + (1 - doubt) * math.log1p(-doubt)
    return xi * math.exp(eps / rarest_ik) * (eps_divergence + entropy)


def pivot_cross_entropy(world: World, tables: Tables, i: int, j: int, k: int) -> Tensor:
    """E[-log sum_j P(j | i) P(k | j)]: translating by way of j, all ways considered.

    It is never above CE(i -> j) + CE(j -> k) - H(j | i, k), so pivoting is consistent as it is.
    """
    return -expected(world, (tables.p(i, j) @ tables.p(j, k)).log(), i, k)


def middle_entropy(world: World, i: int, j: int, k: int) -> float:
    """H(j | i, k): how open it is what the language between would have said."""
    joint, pair = world.marginal(i, j, k), world.marginal(i, k)
    log_p = torch.where(joint > 0, joint, 1.0).log() - _log(pair).unsqueeze(1)
    return -float((joint * log_p).sum())


def pivot_constant(world: World, tables: Tables, i: int, j: int, k: int) -> float:
    """The paper's C: the largest E_{i | j, k}[P_model(j | i) / P(j | i, k)] over true pairs.

    If the model never goes astray on the way to j, pivoting loses at most C CE(j -> k).
    """
    joint = world.marginal(i, j, k)
    pair_ik, pair_jk = world.marginal(i, k), world.marginal(j, k)
    terms = torch.where(joint > 0, pair_ik.unsqueeze(1) * tables.p(i, j).unsqueeze(2), 0.0)
    found = terms.sum(dim=0) / pair_jk
    return float(found[pair_jk > 0].max().detach())


def _certainty(world: World, i: int, j: int, k: int) -> Tensor:
    """[N, N]: E_{j | i, k}[P(k | i, j)] for every true pair (i, k), 0 elsewhere."""
    joint = world.marginal(i, j, k)
    given_ij = torch.nan_to_num(joint / joint.sum(dim=2, keepdim=True))
    given_ik = torch.nan_to_num(joint / joint.sum(dim=1, keepdim=True))
    return (given_ij * given_ik).sum(dim=1)


def _log(p: Tensor) -> Tensor:
    return torch.where(p > 0, p, 1.0).log()
