import pytest

from accord.objectives.base import is_due
from accord.training.optim import ScheduleKind, learning_rate


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (1, 0.01),
        (10_000, 0.01),
        (20_000, 0.0070711),
        (40_000, 0.005),
        (100_000, 0.0031623),
        (200_000, 0.0022361),
        (500_000, 0.0014142),
    ],
)
def test_paper_values(step: int, rate: float) -> None:
    assert learning_rate(step) == pytest.approx(rate, abs=5e-8)


def test_inverse_sqrt_rises_to_its_peak_and_falls() -> None:
    def rate(step: int) -> float:
        return learning_rate(step, "inverse-sqrt", peak=0.002, warmup=400)

    assert rate(1) == pytest.approx(0.002 / 400)
    assert rate(200) == pytest.approx(0.001)
    assert rate(400) == pytest.approx(0.002)
    assert rate(1600) == pytest.approx(0.001)
    assert max(range(1, 2000), key=rate) == 400


def test_constant_and_no_warmup() -> None:
    assert learning_rate(77, "constant", peak=0.3) == 0.3
    assert learning_rate(1, "inverse-sqrt", peak=0.3, warmup=0) == 0.3
    assert learning_rate(4, "paper", peak=0.3, warmup=0) == pytest.approx(0.15)


@pytest.mark.parametrize("kind", ["paper", "inverse-sqrt", "constant"])
def test_the_last_steps_take_any_rate_down_to_nothing(kind: ScheduleKind) -> None:
    def share(step: int) -> float:
        plain = learning_rate(step, kind, peak=0.3, warmup=10)
        return (
            learning_rate(step, kind, peak=0.3, warmup=10, steps_left=101 - step, decay=4) / plain
        )

    assert [share(step) for step in (50, 97, 98, 99, 100)] == pytest.approx([1, 1, 0.75, 0.5, 0.25])


@pytest.mark.parametrize(("every", "due"), [(1, [4, 5, 6, 7, 8, 9]), (3, [4, 7]), (9, [4])])
def test_every_nth_update_after_the_start(every: int, due: list[int]) -> None:
    assert [step for step in range(1, 10) if is_due(step, start=3, every=every)] == due
