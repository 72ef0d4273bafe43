"""What is logged about agreement, and what a look at it says about the translations."""

import math
from collections.abc import Mapping
from typing import Any

# Healthy auxiliary translations nearly all end, are in the language asked for, do not repeat
# themselves, and are about as long as the sentences they are of; what they teach weighs no more
# than what gold sentences do.
_LEAST_ENDED = 0.5
_MOST_RATIO = 1.6
_LEAST_RIGHT = 0.5
_MOST_DEGENERATE = 0.2
_MOST_GRADIENT = 10.0


def dials(of: Mapping[str, float], sentences: float) -> dict[str, float | None]:
    """Readable numbers from sums over some updates and processes, and over their sentences."""
    pairs = max(of["pairs"], 1.0)
    return {
        **_of_translations(of, pairs),
        "agreement_encoder_loss": of["encoder_loss"] / pairs,
        "agreement_gradient_ratio": math.sqrt(
            of["gradient_square"] / (of["rest_gradient_square"] or 1.0)
        ),
        "agreement_pairs": of["pairs"] / sentences,
    }


def _of_translations(of: Mapping[str, float], pairs: float) -> dict[str, float | None]:
    """Nothing where nothing was translated, as with encodings alone: a 0 would look like ruin."""
    translations = of["translations"]
    if not translations:
        return {}
    tokens = max(of["tokens"], 1.0)  # none where no translation was fit to learn from
    return {
        "agreement_loss": of["loss"] / pairs,
        "agreement_per_token": of["cross_entropy"] / tokens,
        "agreement_entropy": of["entropy"] / tokens,
        "agreement_length_ratio": of["tokens"] / max(of["reference_tokens"], 1.0),
        "agreement_ended": of["ended"] / translations,
        "agreement_right_language": of["right_language"] / translations,
        "agreement_degenerate": of["degenerate"] / translations,
    }


def degenerate(values: Mapping[str, Any]) -> str | None:
    """What is wrong with the translations that these dials describe, if anything is."""
    if "agreement_ended" not in values:
        return None
    ended, ratio = values["agreement_ended"], values.get("agreement_length_ratio", 1.0)
    right = values.get("agreement_right_language", 1.0)
    odd = values.get("agreement_degenerate", 0.0)
    gradient = values.get("agreement_gradient_ratio", 0.0)
    if ended < _LEAST_ENDED:
        return f"only {ended:.0%} of the auxiliary translations come to an end"
    if not 1 / _MOST_RATIO < ratio < _MOST_RATIO:
        return f"auxiliary translations have {ratio:.2f} times the length of the sentences"
    if right < _LEAST_RIGHT:
        return f"only {right:.0%} of the auxiliary translations are in the right language"
    if odd > _MOST_DEGENERATE:
        return f"{odd:.0%} of the auxiliary translations repeat themselves, are short or endless"
    if gradient > _MOST_GRADIENT:
        return f"agreement's gradient is {gradient:.0f} times as long as the likelihood's"
    return None
