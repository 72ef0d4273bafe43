"""An ensemble of models is a model whose logits are the mean of theirs."""

import torch

from accord.inference.beam_search import BeamSearch
from accord.inference.results import SearchSettings
from accord.models.ensemble import EnsembleModel
from accord.models.gnmt import GNMT
from accord.models.transformer import Transformer

V = 14
SOURCE = torch.tensor([[2, 7, 9, 5, 1], [3, 6, 1, 0, 0]])
LENGTHS = torch.tensor([5, 3])
TARGET = torch.tensor([[7, 8, 9, 5, 1], [6, 4, 1, 0, 0]])
LIMITS = torch.tensor([6, 6])
NOTHING = torch.tensor([], dtype=torch.int64)


def members():
    torch.manual_seed(1)
    gnmt = GNMT(V, 8)
    return [gnmt.double().eval(), Transformer(V, 12, 1, 1, heads=2).double().eval()]


def logits(model):
    memory = model.encode(SOURCE, LENGTHS)
    return model.logits(model.decode(memory, model.shifted_embeddings(TARGET)))


@torch.no_grad()
def test_logits_are_the_mean_of_the_members():
    some = members()
    wanted = torch.stack([logits(model) for model in some]).mean(dim=0)
    torch.testing.assert_close(logits(EnsembleModel(some)), wanted)


@torch.no_grad()
def test_equal_members_find_what_one_of_them_does():
    one, _ = members()
    settings = SearchSettings(beam=3, nbest=2)
    alone, several = (
        BeamSearch(model, settings, NOTHING)(SOURCE, LENGTHS, LIMITS)
        for model in (one, EnsembleModel([one, one]))
    )
    assert [[found.ids for found in best] for best in several] == [
        [found.ids for found in best] for best in alone
    ]
    different = BeamSearch(EnsembleModel(members()), settings, NOTHING)(SOURCE, LENGTHS, LIMITS)
    assert different != alone
