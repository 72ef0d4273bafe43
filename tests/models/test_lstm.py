import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from accord.models.lstm import LSTM, Rows, drop

CPU = torch.device("cpu")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 2))
def test_rows_are_reversed_and_end_where_they_should(lengths: list[int], extra: int) -> None:
    width = max(lengths) + extra
    rows = Rows.of(torch.tensor(lengths), width, CPU)
    values_SBD = torch.arange(width * len(lengths)).view(width, len(lengths), 1)
    reversed_SBD, last_BD = rows.reverse(values_SBD), rows.last(values_SBD)
    for b, length in enumerate(lengths):
        row = values_SBD[:, b, 0].tolist()
        assert reversed_SBD[:, b, 0].tolist() == row[:length][::-1] + row[length:]
        assert last_BD[b, 0] == row[length - 1]
    assert torch.equal(rows.reverse(reversed_SBD), values_SBD)


def test_the_forget_gate_has_a_constant_that_is_not_trained() -> None:
    lstm = LSTM(3, 2)
    assert lstm.bias_hh_l0.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert not lstm.bias_hh_l0.requires_grad
    assert not lstm.bias_ih_l0.any()
    assert sum(p.numel() for p in lstm.parameters() if p.requires_grad) == (3 + 2) * 8 + 8


def test_padded_rows_and_single_steps_agree_with_the_library() -> None:
    torch.manual_seed(0)
    lstm = LSTM(3, 4).double()
    torch.nn.init.normal_(lstm.bias_ih_l0)
    lengths = [2, 5, 3]
    input_SBD = torch.randn(7, 3, 3, dtype=torch.float64)
    outputs_SBD, (h_BD, c_BD) = lstm.read(input_SBD, Rows.of(torch.tensor(lengths), 7, CPU))
    for row, length in enumerate(lengths):
        one_S1D = input_SBD[:length, row : row + 1]
        expected, (h, c) = nn.LSTM.forward(lstm, one_S1D)
        torch.testing.assert_close(outputs_SBD[:length, row], expected[:, 0])
        torch.testing.assert_close((h_BD[row], c_BD[row]), (h[0, 0], c[0, 0]))
        start = (torch.zeros(1, 4).double(), torch.zeros(1, 4).double())
        torch.testing.assert_close(lstm.run(one_S1D, start), expected)
        for input_BD in one_S1D:
            start = lstm.step(input_BD, start)
        torch.testing.assert_close(start, (h[0], c[0]))


def test_nothing_flows_into_or_out_of_the_padding() -> None:
    torch.manual_seed(0)
    lstm = LSTM(3, 4).double()
    results = []
    for padding in (0.0, 9.0):
        input_SBD = torch.randn(6, 1, 3, generator=torch.Generator().manual_seed(1)).double()
        input_SBD[2:] = padding
        input_SBD.requires_grad_()
        lstm.zero_grad()
        _, (h_BD, c_BD) = lstm.read(input_SBD, Rows.of(torch.tensor([2]), 6, CPU))
        (h_BD.sum() + c_BD.square().sum()).backward()
        assert not input_SBD.grad[2:].any()
        assert input_SBD.grad[:2].all()
        results.append((h_BD, c_BD, lstm.weight_ih_l0.grad, lstm.weight_hh_l0.grad))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_gradients_flow_in_evaluation_mode() -> None:
    lstm = LSTM(3, 4).eval()
    state = (torch.zeros(2, 4), torch.zeros(2, 4))
    lstm.run(torch.randn(5, 2, 3), state).sum().backward()
    assert lstm.weight_hh_l0.grad.any()
    assert lstm.bias_hh_l0.grad is None


def test_no_dropout_is_the_tensor_itself() -> None:
    tensor = torch.ones(1000)
    assert drop(tensor, 0.0) is tensor
    assert set(drop(tensor, 0.2).tolist()) == {0.0, 1.25}
