"""A Transformer's decoder step by step: key-value caches, and how a step reads them.

Keys and values of all steps lie in caches of a fixed length, written in place at the position. A
beam changes which hypothesis continues which, but no cache is moved for that: an index says, for
every hypothesis and position, in which of its sentence's cache rows the position lies. Hypotheses
that share a beginning share its rows, too.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from accord.models.base import State
from accord.ops.attention import split_heads
from accord.ops.transformer_layers import LayerOps

try:
    from accord.ops import step_attention_triton as kernels
except ImportError:  # a build of torch for CPUs comes without Triton
    kernels = None  # type: ignore[assignment]


@dataclass(frozen=True)
class CachedState(State):
    """Caches of every layer, for `beam` hypotheses of each sentence.

    Position t of hypothesis r lies in row `ancestors_RT[r, t]` of the sentence's `beam` rows. Where
    gradients are wanted, caches are as long as there are tokens, and are made anew by every step.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    ancestors_RT: Tensor
    beam: int
    growing: bool

    @staticmethod
    def empty(
        pairs_BSLE: Tensor, mask_BS: Tensor, layers: int, units: int, beam: int, steps: int
    ) -> "CachedState":
        """The state before the first step."""
        rows, device = len(mask_BS) * beam, mask_BS.device
        growing = torch.is_grad_enabled()
        shape = (rows, 0 if growing else steps, units)
        slots_R = torch.arange(rows, dtype=torch.int32, device=device) % beam
        return CachedState(
            torch.zeros((), dtype=torch.int64, device=device),
            pairs_BSLE.new_zeros(rows, mask_BS.shape[1], dtype=torch.float32),
            tuple(pairs_BSLE.new_zeros(shape) for _ in range(layers)),
            tuple(pairs_BSLE.new_zeros(shape) for _ in range(layers)),
            slots_R.unsqueeze(1).repeat(1, shape[1]),
            beam,
            growing,
        )

    def select(self, rows_N: Tensor) -> "CachedState":
        """The given rows, in that order, with caches of their own; a multiple of the beam."""
        if self.growing or self.beam == 1:
            return super().select(rows_N)
        length = self.ancestors_RT.shape[1]
        first_N1 = (rows_N // self.beam * self.beam).unsqueeze(1)
        row_NT = first_N1 + self.ancestors_RT[rows_N]
        step_T = torch.arange(length, device=rows_N.device)
        slot_N = torch.arange(len(rows_N), dtype=torch.int32, device=rows_N.device) % self.beam
        return replace(
            self,
            attention_BS=self.attention_BS[rows_N],
            keys=tuple(each[row_NT, step_T] for each in self.keys),
            values=tuple(each[row_NT, step_T] for each in self.values),
            ancestors_RT=slot_N.unsqueeze(1).repeat(1, length),
        )

    def reorder(self, rows_R: Tensor) -> "CachedState":
        """Other hypotheses go on, each within its own sentence: only the index changes."""
        if self.growing:
            return self.select(rows_R)
        return replace(
            self,
            attention_BS=self.attention_BS.index_select(0, rows_R),
            ancestors_RT=self.ancestors_RT.index_select(0, rows_R),
        )


class DecoderStep:
    """One step through all layers: reads the caches, and notes what the next state will hold."""

    def __init__(
        self,
        work: LayerOps,
        pairs_BSLE: Tensor,
        mask_BS: Tensor,
        lengths_B: Tensor,
        state: CachedState,
    ) -> None:
        self._work = work
        self._pairs_BSLE = pairs_BSLE
        self._mask_BS = mask_BS
        self._lengths_B = lengths_B
        self._state = state
        self._beam = state.rows // len(mask_BS)
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._ancestors_RT = state.ancestors_RT
        self._attention_RS = state.attention_BS
        self._aligning = aligning_layer(pairs_BSLE.shape[2])
        self._fused = work.fused and not torch.is_grad_enabled()
        # A CPU may be asked for the position at no cost; a GPU looks at all there is room for.
        position, room = state.position, state.ancestors_RT.shape[1]
        self._seen = int(position) + 1 if position.device.type == "cpu" else room

    def attend(self, layer: int, qkv_RE: Tensor) -> Tensor:
        """Attention of the new tokens to themselves and all before them; their keys are kept."""
        keys_RTD, values_RTD = self._state.keys[layer], self._state.values[layer]
        if self._state.growing:
            return self._attend_growing(qkv_RE, keys_RTD, values_RTD)
        if self._fused:
            return kernels.step_attention(
                qkv_RE, keys_RTD, values_RTD, self._ancestors_RT, self._state.position,
                self._work.heads, self._beam,
            )  # fmt: skip
        query_RD, key_RD, value_RD = qkv_RE.chunk(3, dim=-1)
        here_1 = self._state.position.view(1)
        keys_RTD.index_copy_(1, here_1, key_RD.unsqueeze(1).to(keys_RTD.dtype))
        values_RTD.index_copy_(1, here_1, value_RD.unsqueeze(1).to(values_RTD.dtype))
        if layer == 0:
            self._own_rows(here_1)
        # All rows of a sentence are looked at; a mask leaves each hypothesis its own.
        beam, seen = self._beam, self._seen
        keys, values = (
            split_heads(each[:, :seen].reshape(-1, beam * seen, each.shape[2]), self._work.heads)
            for each in (keys_RTD, values_RTD)
        )
        query_BKD = query_RD.to(keys_RTD.dtype).view(-1, beam, query_RD.shape[1])
        found_BHKC = functional.scaled_dot_product_attention(
            split_heads(query_BKD, self._work.heads), keys, values, attn_mask=self._visible()
        )
        return found_BHKC.transpose(1, 2).reshape(query_RD.shape)

    def read(self, layer: int, query_RD: Tensor) -> Tensor:
        """Attention to the source: the hypotheses of a sentence share its keys and values."""
        pairs_BSE = self._pairs_BSLE.select(2, layer)
        wanted = layer == self._aligning
        if self._fused and kernels.fits_step(pairs_BSE.shape[1]):
            found_RD, weights_RS = kernels.step_cross_attention(
                query_RD, pairs_BSE, self._lengths_B, self._work.heads, self._beam, wanted
            )
        else:
            found_RD, weights_RS = self._read(query_RD, pairs_BSE, wanted)
        if weights_RS is not None:
            self._attention_RS = weights_RS
        return found_RD

    def next_state(self) -> CachedState:
        """The state after the step."""
        state = self._state
        return replace(
            state,
            position=state.position + 1,
            attention_BS=self._attention_RS,
            keys=tuple(self._keys) or state.keys,
            values=tuple(self._values) or state.values,
        )

    def _attend_growing(self, qkv_RE: Tensor, keys_RTD: Tensor, values_RTD: Tensor) -> Tensor:
        query_RD, key_RD, value_RD = qkv_RE.chunk(3, dim=-1)
        self._keys.append(torch.cat([keys_RTD.to(key_RD.dtype), key_RD.unsqueeze(1)], dim=1))
        self._values.append(torch.cat([values_RTD.to(key_RD.dtype), value_RD.unsqueeze(1)], dim=1))
        queries, keys, values = (
            split_heads(each, self._work.heads)
            for each in (query_RD.unsqueeze(1), self._keys[-1], self._values[-1])
        )
        found_RH1C = functional.scaled_dot_product_attention(queries, keys, values)
        return found_RH1C.flatten(1)

    def _own_rows(self, here_1: Tensor) -> None:
        """From here on, a hypothesis's newest token lies in its own row."""
        rows, device = self._state.rows, here_1.device
        slots_R1 = torch.arange(rows, dtype=torch.int32, device=device).unsqueeze(1) % self._beam
        self._ancestors_RT.index_copy_(1, here_1, slots_R1)

    def _visible(self) -> Tensor:
        """Which keys [K T] of a sentence each of its hypotheses [B, 1, K] may see."""
        ancestors_RT = self._ancestors_RT[:, : self._seen]
        device = ancestors_RT.device
        read_T = torch.arange(self._seen, device=device) <= self._state.position
        if self._beam == 1:
            return read_T.unsqueeze(0)
        slots_K1 = torch.arange(self._beam, dtype=torch.int32, device=device).unsqueeze(1)
        ancestors_BK1T = ancestors_RT.reshape(-1, self._beam, 1, self._seen)
        own_BKKT = (ancestors_BK1T == slots_K1) & read_T
        return own_BKKT.flatten(2).unsqueeze(1)

    def _read(
        self, query_RD: Tensor, pairs_BSE: Tensor, wanted: bool
    ) -> tuple[Tensor, Tensor | None]:
        heads = self._work.heads
        keys, values = (split_heads(each, heads) for each in pairs_BSE.chunk(2, dim=-1))
        queries = split_heads(query_RD.view(-1, self._beam, query_RD.shape[1]), heads)
        mask = self._mask_BS[:, None, None, :]
        weights_RS = None
        if wanted:
            scores_BHKS = queries.detach().float() @ keys.detach().float().transpose(2, 3)
            scores_BHKS = scores_BHKS * keys.shape[-1] ** -0.5
            weights_BHKS = scores_BHKS.masked_fill(~mask, float("-inf")).softmax(dim=-1)
            weights_RS = weights_BHKS.mean(dim=1).flatten(0, 1)
        found_BHKC = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        return found_BHKC.transpose(1, 2).reshape(query_RD.shape), weights_RS


def aligning_layer(layers: int) -> int:
    """The decoder layer whose attention tells alignments: the one below the highest is best (Garg
    et al. 2019)."""
    return max(0, layers - 2)
