"""Teacher forcing through the one loop that cannot be avoided: attention fed back to the LSTM.

The backward pass is written by hand: autograd would add up every weight's gradient step by step,
whereas here the loops only hold what depends on the step before, and each weight gets its gradient
from one product over all steps. `GNMT.step` is the same computation, one step at a time.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor


@dataclass(frozen=True)
class Feeding:
    """What the loop needs: T steps, B rows, S source positions, D units, G = 4 D gates.

    `gates_TBG` is the tokens' part of the gates with both biases. `dropout_TBD` multiplies the
    attention fed back (None: no dropout). `weight_GX` takes [fed attention ; h] to the gates and
    `query_DD` is the query's half of the attention's output matrix. `bias_BS` is -inf at padding.
    """

    gates_TBG: Tensor
    dropout_TBD: Tensor | None
    weight_GX: Tensor
    query_DD: Tensor
    keys_BSD: Tensor
    values_BSD: Tensor
    bias_BS: Tensor
    h_BD: Tensor
    c_BD: Tensor

    def run(self) -> tuple[Tensor, Tensor]:
        """Bottom-layer outputs and attention outputs, both [T, B, D]."""
        outputs = _Loop.apply(  # type: ignore[no-untyped-call]
            self.gates_TBG,
            self.dropout_TBD,
            self.weight_GX,
            self.query_DD,
            self.keys_BSD,
            self.values_BSD,
            self.bias_BS,
            self.h_BD,
            self.c_BD,
        )
        return cast(tuple[Tensor, Tensor], outputs)


class _Loop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        gates_TBG, dropout_TBD, weight_GX, query_DD, keys_BSD, values_BSD, bias_BS, h_BD, c_BD = (
            inputs
        )
        steps, rows, units = gates_TBG.shape[0], h_BD.shape[0], h_BD.shape[1]
        # seen[t] is [attention of step t - 1, dropped out ; h of step t - 1].
        seen_TBX = gates_TBG.new_zeros(steps + 1, rows, 2 * units)
        seen_TBX[0, :, units:] = h_BD
        feed_TBD = gates_TBG.new_empty(steps, rows, units)
        active, cells, weights = [], [c_BD], []
        bias_BS1, query_T = bias_BS.unsqueeze(2), query_DD.t()
        with torch.autocast(gates_TBG.device.type, enabled=False):
            for t in range(steps):
                hidden_gates_BG = seen_TBX[t] @ weight_GX.t()
                h_BD, c_BD, active_BG = _cell(gates_TBG[t], hidden_gates_BG, c_BD)
                scores_BS1 = torch.baddbmm(bias_BS1, keys_BSD, h_BD.unsqueeze(2))
                weights_BS1 = torch.softmax(scores_BS1, dim=1)
                blend_B1D = torch.mm(h_BD, query_T).unsqueeze(1)
                torch.baddbmm(
                    blend_B1D, weights_BS1.transpose(1, 2), values_BSD, out=feed_TBD[t].unsqueeze(1)
                )
                _feed(seen_TBX[t + 1], feed_TBD[t], dropout_TBD, t + 1)
                seen_TBX[t + 1, :, units:] = h_BD
                active.append(active_BG)
                cells.append(c_BD)
                weights.append(weights_BS1)
        ctx.save_for_backward(
            dropout_TBD,
            weight_GX,
            query_DD,
            keys_BSD,
            values_BSD,
            seen_TBX,
            *cells,
            *active,
            *weights,
        )
        return seen_TBX[1:, :, units:].contiguous(), feed_TBD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_h_TBD, grad_feed_TBD = (grad.contiguous() for grad in grads)
        dropout_TBD, weight_GX, query_DD, keys_BSD, values_BSD, seen_TBX, *by_step = (
            ctx.saved_tensors
        )
        steps, rows, units = grad_h_TBD.shape
        cells, active = by_step[: steps + 1], by_step[steps + 1 : 2 * steps + 1]
        weights = by_step[2 * steps + 1 :]
        total_TBD = grad_feed_TBD.clone()  # gradient of each attention output, all uses together
        gates_TBG = total_TBD.new_empty(steps, rows, 4 * units)
        scores_TBS = total_TBD.new_empty(steps, rows, keys_BSD.shape[1])
        grad_c_BD = torch.zeros_like(cells[0])
        back_BX = total_TBD.new_zeros(rows, 2 * units)
        with torch.autocast(total_TBD.device.type, enabled=False):
            for t in reversed(range(steps)):
                if t + 1 < steps:
                    _add_fed(total_TBD[t], back_BX[:, :units], dropout_TBD, t + 1)
                total_BD = total_TBD[t]
                grad_weights_BS1 = torch.bmm(values_BSD, total_BD.unsqueeze(2))
                grad_scores_BS1 = torch._softmax_backward_data(
                    grad_weights_BS1, weights[t], 1, grad_weights_BS1.dtype
                )
                scores_TBS[t] = grad_scores_BS1.squeeze(2)
                grad_h_BD = torch.addmm(grad_h_TBD[t] + back_BX[:, units:], total_BD, query_DD)
                grad_h_BD = torch.baddbmm(
                    grad_h_BD.unsqueeze(1), grad_scores_BS1.transpose(1, 2), keys_BSD
                ).squeeze(1)
                gates_BG, grad_c_BD = _cell_backward(
                    grad_h_BD, grad_c_BD, cells[t], cells[t + 1], active[t]
                )
                gates_TBG[t] = gates_BG
                back_BX = gates_BG @ weight_GX
            h_TBD = seen_TBX[1:, :, units:]
            weights_BST = torch.cat(weights, dim=2)
            return (
                gates_TBG,
                None,
                gates_TBG.flatten(0, 1).t() @ seen_TBX[:-1].flatten(0, 1),
                total_TBD.flatten(0, 1).t() @ h_TBD.flatten(0, 1),
                torch.bmm(scores_TBS.permute(1, 2, 0), h_TBD.transpose(0, 1)),
                torch.bmm(weights_BST, total_TBD.transpose(0, 1)),
                None,
                back_BX[:, units:],
                grad_c_BD,
            )


def _feed(next_BX: Tensor, feed_BD: Tensor, dropout_TBD: Tensor | None, t: int) -> None:
    """Write the attention output that step `t` reads into its place; after the end is no step."""
    place_BD = next_BX[:, : feed_BD.shape[1]]
    if dropout_TBD is None:
        place_BD.copy_(feed_BD)
    elif t < dropout_TBD.shape[0]:
        torch.mul(feed_BD, dropout_TBD[t], out=place_BD)


def _add_fed(total_BD: Tensor, grad_BD: Tensor, dropout_TBD: Tensor | None, t: int) -> None:
    """Add what step `t` sends back through the attention output that it was fed."""
    if dropout_TBD is None:
        total_BD.add_(grad_BD)
    else:
        total_BD.addcmul_(grad_BD, dropout_TBD[t])


def _cell(input_BG: Tensor, hidden_BG: Tensor, c_BD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """New h, new c and the activated gates (input, forget, candidate, output)."""
    if input_BG.is_cuda:
        fused = torch.ops.aten._thnn_fused_lstm_cell(input_BG, hidden_BG, c_BD)
        return cast(tuple[Tensor, Tensor, Tensor], fused)
    active_BG = hidden_BG.add_(input_BG)
    i_BD, f_BD, g_BD, o_BD = active_BG.chunk(4, dim=1)
    for gate_BD in (i_BD, f_BD, o_BD):
        gate_BD.sigmoid_()
    g_BD.tanh_()
    new_c_BD = torch.addcmul(f_BD * c_BD, i_BD, g_BD)
    return o_BD * new_c_BD.tanh(), new_c_BD, active_BG


def _cell_backward(
    grad_h_BD: Tensor, grad_c_BD: Tensor, c_BD: Tensor, new_c_BD: Tensor, active_BG: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the gates before activation and of the old c."""
    if grad_h_BD.is_cuda:
        gates_BG, old_c_BD, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
            grad_h_BD, grad_c_BD, c_BD, new_c_BD, active_BG, False
        )
        return gates_BG, old_c_BD
    i_BD, f_BD, g_BD, o_BD = active_BG.chunk(4, dim=1)
    tanh_c_BD = new_c_BD.tanh()
    grad_c_BD = grad_c_BD + grad_h_BD * o_BD * (1 - tanh_c_BD * tanh_c_BD)
    gates = [
        grad_c_BD * g_BD * i_BD * (1 - i_BD),
        grad_c_BD * c_BD * f_BD * (1 - f_BD),
        grad_c_BD * i_BD * (1 - g_BD * g_BD),
        grad_h_BD * tanh_c_BD * o_BD * (1 - o_BD),
    ]
    return torch.cat(gates, dim=1), grad_c_BD * f_BD
