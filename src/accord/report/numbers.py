"""How numbers are written in a report: the same in HTML, Markdown and LaTeX."""

NONE = "–"
_NBSP = "\u00a0"


def score(value: float | None) -> str:
    """BLEU, chrF and the like: one digit, as sacreBLEU prints them."""
    return NONE if value is None else f"{value:.1f}"


def signed(value: float, digits: int = 2) -> str:
    """A difference of scores, with its sign; what rounds to zero is `+0.00`."""
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")


def percent(share: float | None, digits: int = 1) -> str:
    """A share as `1.2 %`."""
    return NONE if share is None else f"{100 * share:.{digits}f}{_NBSP}%"


def count(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,.0f}"


def nats(value: float | None) -> str:
    """A loss in nats, or a ratio of losses."""
    return NONE if value is None else f"{value:.3f}"


def p_value(p: float) -> str:
    """`p = 0.03`; the smallest that 1,000 samples can show is one in 1,001."""
    said = "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.01 else f"p = {p:.2f}"
    return said.replace(" ", _NBSP)


def span(values: list[int]) -> str:
    """`300`, or `1,567 to 1,779`."""
    low, high = min(values), max(values)
    return count(low) if low == high else f"{count(low)} to {count(high)}"
