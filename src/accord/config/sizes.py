"""Sizes of a first model: vocabulary, layers, batches and time for so much text on this machine.

The smallest row for a CPU was chosen by trying (docs/own-data.md); the others follow recipes of
comparable data and were not tried.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Sizes:
    """What a new experiment file says about vocabulary, model and training."""

    vocabulary: int
    units: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    feed_forward: int
    dropout: float
    batch_tokens: int
    learning_rate: float
    warmup: int
    steps: int
    minutes: float | None
    validate_every: int


_SMALL = (3, 2, 4, 1024)
_LARGE = (6, 3, 8, 2048)

# Most lines of all corpora together, and the sizes up to there.
_CPU = (
    (20_000, Sizes(2000, 128, 2, 2, 4, 512, 0.2, 1024, 0.003, 300, 2400, 3, 800)),
    (100_000, Sizes(4000, 192, 3, 2, 4, 768, 0.2, 2048, 0.0015, 400, 8000, 30, 1000)),
    (1_000_000, Sizes(8000, 256, *_SMALL, 0.1, 4096, 0.001, 1000, 20_000, 240, 2000)),
    (None, Sizes(16_000, 256, *_SMALL, 0.1, 4096, 0.001, 4000, 100_000, 1440, 5000)),
)
_GPU = (
    (20_000, Sizes(2000, 256, *_SMALL, 0.3, 4096, 0.001, 500, 3000, None, 500)),
    (200_000, Sizes(8000, 256, *_SMALL, 0.3, 8192, 0.001, 500, 10_000, None, 500)),
    (2_000_000, Sizes(16_000, 512, *_LARGE, 0.1, 16_384, 0.0007, 4000, 50_000, None, 2000)),
    (None, Sizes(32_000, 512, *_LARGE, 0.1, 32_768, 0.0007, 4000, 200_000, None, 5000)),
)


def sizes_for(lines: int, *, gpu: bool) -> Sizes:
    """The sizes for so many training lines in all corpora together."""
    rows = _GPU if gpu else _CPU
    sizes = next(sizes for most, sizes in rows if most is None or lines <= most)
    # An entry that stands in no two lines can be learnt from neither.
    return replace(sizes, vocabulary=min(sizes.vocabulary, max(500, lines // 2)))


def held_out_lines(smallest: int) -> int:
    """How many lines of each corpus to split off for a set: a twentieth, at most 1,000."""
    return max(1, min(1000, smallest // 20))
