"""A small model with self-attention, written against `accord.models.base` and nothing else.

Its caches have a fixed length, are written in place and are never moved: an index says in which of
its sentence's rows each position of a hypothesis lies. Legend, besides that of the base: C keys.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from accord.data.vocabulary import EOS
from accord.models.base import Memory, ScaledEmbedding, Seq2Seq, State


@dataclass(frozen=True)
class SourceMemory(Memory):
    encoded_BSD: Tensor

    @property
    def encoding(self) -> Tensor:
        return self.encoded_BSD


@dataclass(frozen=True)
class CachedState(State):
    """Position t of hypothesis r lies in row `owner_RT[r, t]` of its sentence's `beam` rows."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    owner_RT: Tensor
    beam: int

    def rows_of_positions(self) -> Tensor:
        """The cache rows [R, T] in which the positions of each hypothesis lie."""
        rows_R1 = torch.arange(self.rows, device=self.owner_RT.device).unsqueeze(1)
        return rows_R1 // self.beam * self.beam + self.owner_RT

    def read(self, cache_RTD: Tensor) -> Tensor:
        """A cache as each hypothesis sees it."""
        steps_T = torch.arange(cache_RTD.shape[1], device=cache_RTD.device)
        return cache_RTD[self.rows_of_positions(), steps_T]

    def select(self, rows_N: Tensor) -> "CachedState":
        slots_N1 = (torch.arange(len(rows_N), device=rows_N.device) % self.beam).unsqueeze(1)
        return replace(
            self,
            attention_BS=self.attention_BS[rows_N],
            keys=tuple(self.read(each)[rows_N] for each in self.keys),
            values=tuple(self.read(each)[rows_N] for each in self.values),
            owner_RT=slots_N1.repeat(1, self.owner_RT.shape[1]),
        )

    def reorder(self, rows_R: Tensor) -> "CachedState":
        return replace(self, attention_BS=self.attention_BS[rows_R], owner_RT=self.owner_RT[rows_R])


class CopiedState(CachedState):
    """The same with caches that follow their hypotheses."""

    def reorder(self, rows_R: Tensor) -> "CachedState":
        return self.select(rows_R)


class Layer(nn.Module):
    def __init__(self, units: int) -> None:
        super().__init__()
        self.own = nn.ModuleList(nn.Linear(units, units) for _ in range(3))
        self.source = nn.ModuleList(nn.Linear(units, units) for _ in range(3))
        self.forwards = nn.Sequential(nn.Linear(units, units), nn.Tanh(), nn.Linear(units, units))


class CachedModel(Seq2Seq[SourceMemory, CachedState]):
    """Reads its source word by word and attends to itself; `copying` moves caches with a beam."""

    def __init__(
        self,
        vocabulary_size: int,
        units: int,
        layers: int = 2,
        dropout: float = 0.1,
        copying: bool = False,
    ) -> None:
        super().__init__()
        self.units, self.dropout, self.copying = units, dropout, copying
        self.source_embedding = ScaledEmbedding(vocabulary_size, units)
        self.target_embedding = ScaledEmbedding(vocabulary_size, units)
        self.encoder = nn.Linear(units, units)
        self.layers = nn.ModuleList(Layer(units) for _ in range(layers))

    def encode(self, source_BS: Tensor, lengths_B: Tensor, language_B=None) -> SourceMemory:
        steps_S = torch.arange(source_BS.shape[1], device=source_BS.device)
        mask_BS = steps_S < lengths_B.to(source_BS.device).unsqueeze(1)
        inputs_BSD = self.source_embedding(source_BS) + self.places(steps_S)
        return SourceMemory(mask_BS, torch.tanh(self.encoder(self.drop(inputs_BSD, True))))

    def decode(self, memory: SourceMemory, inputs_BTD: Tensor, *, dropout: bool = True) -> Tensor:
        steps_T = torch.arange(inputs_BTD.shape[1], device=inputs_BTD.device)
        before_TT = steps_T <= steps_T.unsqueeze(1)
        x_BTD = self.drop(inputs_BTD + self.places(steps_T), dropout)
        for layer in self.layers:
            query, key, value = (each(x_BTD) for each in layer.own)
            x_BTD = x_BTD + attend(query, key, value, before_TT)[0]
            x_BTD = x_BTD + self.attend_to_source(layer, memory, x_BTD)[0]
            x_BTD = x_BTD + self.drop(layer.forwards(x_BTD), dropout)
        return x_BTD

    def initial_state(self, memory: SourceMemory, *, beam: int = 1, steps: int) -> CachedState:
        rows, device = memory.rows * beam, memory.mask_BS.device
        kind = CopiedState if self.copying else CachedState

        def caches() -> tuple[Tensor, ...]:
            shape = (rows, steps, self.units)
            return tuple(memory.encoded_BSD.new_zeros(shape) for _ in self.layers)

        return kind(
            position=torch.zeros((), dtype=torch.int64, device=device),
            attention_BS=memory.encoded_BSD.new_zeros(rows, memory.mask_BS.shape[1]),
            keys=caches(),
            values=caches(),
            owner_RT=(torch.arange(rows, device=device) % beam).unsqueeze(1).repeat(1, steps),
            beam=beam,
        )

    def step(
        self,
        memory: SourceMemory,
        state: CachedState,
        input_RD: Tensor,
        *,
        dropout: bool = True,
    ) -> tuple[Tensor, CachedState]:
        # Where gradients are wanted, nothing that they need may be overwritten.
        write = Tensor.index_copy if torch.is_grad_enabled() else Tensor.index_copy_
        here_1 = state.position.view(1)
        slots_R1 = (torch.arange(state.rows, device=here_1.device) % state.beam).unsqueeze(1)
        state = replace(state, owner_RT=write(state.owner_RT, 1, here_1, slots_R1))
        read_T = torch.arange(state.owner_RT.shape[1], device=here_1.device) <= state.position
        x_RD = self.drop(input_RD + self.places(here_1), dropout)
        keys, values = [], []
        for layer, keys_RTD, values_RTD in zip(self.layers, state.keys, state.values, strict=True):
            query_RD, key_RD, value_RD = (each(x_RD) for each in layer.own)
            keys.append(write(keys_RTD, 1, here_1, key_RD.unsqueeze(1).to(keys_RTD.dtype)))
            values.append(write(values_RTD, 1, here_1, value_RD.unsqueeze(1).to(keys_RTD.dtype)))
            seen = (state.read(keys[-1]), state.read(values[-1]))
            x_RD = x_RD + attend(query_RD.unsqueeze(1), *seen, read_T)[0].squeeze(1)
            x_BKD = x_RD.view(memory.rows, -1, self.units)
            found_BKD, weights_BKS = self.attend_to_source(layer, memory, x_BKD)
            x_RD = x_RD + found_BKD.flatten(0, 1)
            x_RD = x_RD + self.drop(layer.forwards(x_RD), dropout)
        return x_RD, replace(
            state,
            position=state.position + 1,
            attention_BS=weights_BKS.flatten(0, 1),
            keys=tuple(keys),
            values=tuple(values),
        )

    def attend_to_source(
        self, layer: Layer, memory: SourceMemory, x_BKD: Tensor
    ) -> tuple[Tensor, Tensor]:
        to_query, to_key, to_value = layer.source
        keys_BSD, values_BSD = to_key(memory.encoded_BSD), to_value(memory.encoded_BSD)
        return attend(to_query(x_BKD), keys_BSD, values_BSD, memory.mask_BS.unsqueeze(1))

    def places(self, position_N: Tensor) -> Tensor:
        """Sines [N, D], each unit with a frequency of its own."""
        frequency_D = 1.5 ** -torch.arange(self.units, device=position_N.device)
        angle_ND = position_N.unsqueeze(1) * frequency_D
        return torch.sin(angle_ND).to(self.target_embedding.weight.dtype)

    def drop(self, tensor: Tensor, wanted: bool) -> Tensor:
        return functional.dropout(tensor, self.dropout, self.training and wanted)


def attend(
    query_BKD: Tensor, keys_BCD: Tensor, values_BCD: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """What is found [B, K, D] and the weights [B, K, C]; the mask is true where one may look."""
    query_BKD = query_BKD.to(keys_BCD.dtype) / math.sqrt(query_BKD.shape[-1])
    scores_BKC = (query_BKD @ keys_BCD.transpose(1, 2)).masked_fill(~mask, -math.inf)
    weights_BKC = scores_BKC.softmax(dim=-1)
    return weights_BKC.to(values_BCD.dtype) @ values_BCD, weights_BKC


def cached(
    seed: int, size: int, units: int, *, ends: float = 1.0, copying: bool = False
) -> CachedModel:
    """Random weights, large enough for translations that differ; `ends` makes ends likelier."""
    torch.manual_seed(seed)
    model = CachedModel(size, units, dropout=0.2, copying=copying).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
        model.target_embedding.weight[EOS] *= ends
    return model
