"""Speed of a Transformer (6+3 layers, 512 units) on a GPU: training, decoding, and what is exact.

    python benchmarks/transformer_speed.py [--only PART ...] [--variants NAME ...] [--write DIR]

Made-up batches with lengths like Europarl's (27 subwords in the mean, 32,000 in the vocabulary),
padded to shapes like real ones: no store is needed. Kernels are compared with the plain way. A
table is printed at the end; results are written as they come to transformer_speed.json. --tiny runs
all of it on a CPU in a minute, to see that it works.

The floor. Parameters that every token is multiplied with: 6 x 3.15 M in the encoder, 3 x 4.20 M in
the decoder, 16.4 M in the softmax: 47.9 M. Forward and backward 6 FLOP each: 0.287 GFLOP for each
target token (with as many source tokens), 6.9 TFLOP for 24,000, and 0.1 for attention. Products of
these shapes (512 wide) reach 500 to 650 TFLOP/s: 11 to 14 ms. Memory: the softmax moves about 11 GB
(2.5 ms), what stands between products in encoder and decoder at least 0.5 GB per layer (1.2 ms),
Adam, clipping and gradients of 64 M parameters 3 GB (0.7 ms). Expected: 17 to 20 ms for an update.
Decoding a token: 12.6 M + 16.4 M parameters, 58 MFLOP, and 38 for its source token: 2,048 rows are
0.2 ms for each step, their fp32 logits, written and read once, 0.13 ms, caches 0.1 ms.
"""

import argparse
import functools
import gc
import json
import statistics
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from accord.data.batches import Batch
from accord.data.vocabulary import EOS, PAD
from accord.inference import beam_step
from accord.inference.beam_search import BeamSearch
from accord.inference.results import SearchSettings
from accord.models.tensor_batch import TensorBatch
from accord.models.transformer import Transformer
from accord.objectives.base import Work
from accord.objectives.likelihood import LikelihoodObjective, PairInputs, composite_likelihood
from accord.training.optim import build_optimizer
from accord.training.update import Updater
from where import where

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = DEVICE.type == "cuda"
FILL = 0.86  # target tokens over padded places, on Europarl
START = time.perf_counter()
PARTS = ("exact", "train", "decode")


@dataclass(frozen=True)
class Sizes:
    vocabulary: int = 32_000
    units: int = 512
    heads: int = 8
    feed_forward: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 3
    tokens: int = 24_000
    shapes: int = 4
    sentences: int = 8192
    batch: int = 2048
    measured: float = 1.2  # seconds of training for each variant


TINY = Sizes(60, 32, 2, 48, 2, 1, 300, 2, 24, 12, 0.2)


@dataclass(frozen=True)
class Training:
    """A way to train; `full` has no padding."""

    name: str
    fused: bool = True
    tables: str = "separate"
    full: bool = False
    decoder_layers: int | None = None


TRAINING = [
    Training("kernels"),
    Training("plain", fused=False),
    Training("kernels, shared tables", tables="shared"),
    Training("kernels, all rows full", full=True),
    Training("kernels, 6+6 layers", decoder_layers=6),
]


@dataclass(frozen=True)
class Decoding:
    """A way to translate; `ranking` finds the best tokens in one read of the logits."""

    name: str
    fused: bool = True
    ranking: bool = True
    low_weights: bool = False


DECODING = [
    Decoding("kernels, ranking, bf16 weights", low_weights=True),
    Decoding("kernels, ranking"),
    Decoding("kernels", ranking=False),
    Decoding("plain, ranking", fused=False),
    Decoding("plain", fused=False, ranking=False),
]


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--variants", nargs="+", default=[], help="parts of names to keep")
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--write", type=Path, default=Path())
    options = parser.parse_args()
    sizes = TINY if options.tiny else Sizes()
    if options.tokens:
        sizes = replace(sizes, tokens=options.tokens)
    results = Results(options.write / "transformer_speed.json", options.seconds, options.variants)
    parts = {"exact": exactness, "train": training, "decode": decoding}
    for part in options.only:
        parts[part](sizes, results)
    print(results.report())


class Results:
    """What was measured, on disk after every line; a line that fails does not stop the others."""

    def __init__(self, path: Path, seconds: float, wanted: Sequence[str]) -> None:
        self.path = path
        self.seconds = seconds
        self.wanted = wanted
        self.rows: list[dict[str, Any]] = []
        self.where = where()

    def add(self, part: str, name: str, measure: Callable[[], dict[str, Any]]) -> None:
        if self.wanted and not any(each in name for each in self.wanted):
            return
        row: dict[str, Any] = {"part": part, "name": name}
        spent = time.perf_counter() - START
        if spent > self.seconds:
            row["skipped"] = f"no time left after {spent:.0f} s"
        else:
            try:
                row |= measure()
            except Exception as error:  # noqa: BLE001 (it is told in the table)
                row["error"] = f"{type(error).__name__}: {error}"[:600]
                row["traceback"] = traceback.format_exc()[-1500:]
            row["took_s"] = round(time.perf_counter() - START - spent, 1)
        clean()
        self.rows.append(row)
        print(f"{spent:.0f} s  {part}  {name}  {row.get('error', '')}", flush=True)
        self.path.write_text(json.dumps({"where": self.where, "rows": self.rows}, indent=1))

    def report(self) -> str:
        lines = [f"\n{self.where}, {time.perf_counter() - START:.0f} s"]
        for row in self.rows:
            facts = [
                f"{key} {_short(value)}"
                for key, value in row.items()
                if key not in ("part", "name", "traceback", "kernels", "groups", "shapes")
            ]
            lines.append(f"{row['part']:8} {row['name']:36} " + "  ".join(facts)[:200])
            lines += [f"{'':10}{each}" for each in row.get("groups", [])]
        return "\n".join(lines)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)[:110]


def clean() -> None:
    gc.collect()
    if ON_GPU:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def synchronise() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def possible(fused: bool) -> bool:
    """Whether a way can be measured here at all."""
    return ON_GPU or not fused


# ----- what is translated


def pairs(count: int, sizes: Sizes, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of sources (tag and end included) and targets (end included)."""
    random = np.random.default_rng(seed)
    spread, mean = (0.55, 25.0) if sizes.vocabulary > 1000 else (0.3, 5.0)
    subwords = random.lognormal(np.log(mean) - spread**2 / 2, spread, count)
    ratio = random.normal(1.0, 0.14, count).clip(0.5, 1.8)
    source = subwords.round().clip(1, 118).astype(np.int64) + 2
    target = (subwords * ratio).round().clip(1, 118).astype(np.int64) + 1
    return source, target


def tokens(lengths: np.ndarray, width: int, sizes: Sizes, seed: int) -> np.ndarray:
    """Rows of ids, few of them frequent; each ends with its end."""
    random = np.random.default_rng(seed)
    rank = np.arange(sizes.vocabulary - 4)
    cumulated = np.cumsum(1 / (rank + 5.0))
    drawn = random.random((len(lengths), width)) * cumulated[-1]
    ids = (4 + np.searchsorted(cumulated, drawn)).clip(max=sizes.vocabulary - 1)
    steps = np.arange(width)
    ids[steps == lengths[:, None] - 1] = EOS
    ids[steps >= lengths[:, None]] = PAD
    found: np.ndarray = ids.astype(np.int32)
    return found


def made_up(sizes: Sizes, full: bool = False, each: int = 2) -> list[tuple[Batch, int, int]]:
    """Batches with the rows and width that they are padded to: of several widths, in turn."""
    step, budget = (8, sizes.tokens / FILL) if sizes.vocabulary > 1000 else (4, sizes.tokens / FILL)
    source, target = pairs(200_000, sizes)
    widths = -(-np.maximum(source, target) // step) * step
    order = np.argsort(widths, kind="stable")
    mass = np.cumsum(target[order]) / target.sum()
    found = []
    for number in range(sizes.shapes):
        width = int(widths[order[np.searchsorted(mass, (number + 0.5) / sizes.shapes)]])
        rows = int(budget // width)
        inside = np.flatnonzero(widths == width)
        for part in range(each):
            taken = inside[(part * rows + np.arange(rows)) % len(inside)]
            s, t = source[taken], target[taken]
            if full:
                s, t = np.full(rows, width), np.full(rows, width)
            found.append((batch_of(s, t, sizes, 10 * number + part), rows, width))
    return found


def batch_of(source: np.ndarray, target: np.ndarray, sizes: Sizes, seed: int) -> Batch:
    nothing = np.zeros(len(source), dtype=np.int16)
    return Batch(
        tokens(source, int(source.max()), sizes, 2 * seed),
        source.astype(np.int64),
        tokens(target, int(target.max()), sizes, 2 * seed + 1),
        target.astype(np.int64),
        nothing,
        nothing,
        nothing,
        nothing.astype(np.int64),
        len(source),
        int(target.sum()),
    )


def build(sizes: Sizes, fused: bool, dropout: float = 0.1, **settings: Any) -> Transformer:
    torch.manual_seed(1)
    settings = {"decoder_layers": sizes.decoder_layers, "tables": "separate", **settings}
    model = Transformer(
        sizes.vocabulary,
        sizes.units,
        encoder_layers=sizes.encoder_layers,
        heads=sizes.heads,
        feed_forward=sizes.feed_forward,
        dropout=dropout,
        **settings,
    ).to(DEVICE)
    model.fused = fused
    return model


def tensors_of(batch: Batch, rows: int, width: int) -> TensorBatch:
    return TensorBatch.of_shape(batch, rows, width) if ON_GPU else TensorBatch.from_numpy(batch)


# ----- training


def training(sizes: Sizes, results: Results) -> None:
    for kind in TRAINING:
        if possible(kind.fused):
            results.add("train", kind.name, functools.partial(train, sizes, kind))


def train(sizes: Sizes, kind: Training) -> dict[str, Any]:
    batches = [
        (batch, Work([PairInputs(tensors_of(batch, rows, width))], (1.0,), batch.target_tokens))
        for batch, rows, width in made_up(sizes, kind.full)
    ]
    layers = kind.decoder_layers or sizes.decoder_layers
    model = build(sizes, kind.fused, tables=kind.tables, decoder_layers=layers).train()
    optimizer = build_optimizer("adam", model, learning_rate=1e-4)
    objectives = [LikelihoodObjective(0.1)]
    updater = Updater(model, optimizer, objectives, clip=2.0, bf16=ON_GPU, graphs=ON_GPU)

    def update(batch: Batch, work: Work[PairInputs]) -> float:
        return updater.update([work], batch.update_target_tokens).gradient_norm

    start = time.perf_counter()
    for batch, work in batches:
        update(batch, work)
    synchronise()
    recorded = time.perf_counter() - start
    norms, count, start = list[float](), 0, time.perf_counter()
    while time.perf_counter() - start < sizes.measured or not norms:
        for batch, work in batches:
            norms.append(update(batch, work))
            count += batch.target_tokens
    synchronise()
    seconds = time.perf_counter() - start
    places = sum(work.parts[0].pairs.target_BT.numel() for _, work in batches)
    return {
        "target_tokens_per_s": count / seconds,
        "ms": 1000 * seconds / len(norms),
        "tokens": count / len(norms),
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if ON_GPU else 0.0,
        "padding": 1 - sum(batch.target_tokens for batch, _ in batches) / places,
        "norm": statistics.median(norms),
        "record_s": recorded,
    }


# ----- what is exact


def exactness(sizes: Sizes, results: Results) -> None:
    """Errors of loss and gradients, without dropout, against the plain way in fp32."""
    small = replace(sizes, tokens=min(sizes.tokens, 4000), shapes=1)
    batch, rows, width = made_up(small, each=1)[0]
    pairs = tensors_of(batch, rows, width).to(DEVICE)
    wanted = gradients(small, False, pairs, low=False)
    kinds = [
        ("fp32, kernels", True, False),
        ("bf16, plain (autocast)", False, True),
        ("bf16, kernels", True, True),
    ]
    for name, fused, low in kinds:
        if possible(fused):
            results.add("exact", name, functools.partial(errors, small, fused, pairs, low, wanted))


def gradients(sizes: Sizes, fused: bool, pairs: TensorBatch, low: bool) -> dict[str, Tensor]:
    model = build(sizes, fused, dropout=0.0).train()
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=low, cache_enabled=False):
        loss = composite_likelihood(model, pairs).loss
    loss.backward()  # type: ignore[no-untyped-call]
    found = {name: cast(Tensor, p.grad).double() for name, p in model.named_parameters()}
    return {"loss": loss.detach().double(), **found}


def errors(
    sizes: Sizes, fused: bool, pairs: TensorBatch, low: bool, wanted: dict[str, Tensor]
) -> dict[str, Any]:
    found = gradients(sizes, fused, pairs, low)
    each = {
        name: float((found[name] - gradient).norm() / gradient.norm().clamp(min=1e-12))
        for name, gradient in wanted.items()
    }
    loss = each.pop("loss")
    differences = torch.stack([(found[name] - wanted[name]).norm() for name in each]).norm()
    whole = torch.stack([wanted[name].norm() for name in each]).norm()
    worst = max(each, key=lambda name: each[name])
    return {"loss": loss, "gradient": float(differences / whole), "worst": each[worst], "at": worst}


# ----- decoding


def decoding(sizes: Sizes, results: Results) -> None:
    wanted: dict[int, list[list[int]]] = {}
    for beam in (1, 4):
        for kind in DECODING:
            if not possible(kind.fused) or (kind.ranking and not ON_GPU):
                continue
            measure = functools.partial(decoded, sizes, kind, beam, wanted)
            kernel = vars(beam_step)["top_k_triton"] if kind.ranking else None
            with patch.object(beam_step, "top_k_triton", kernel):
                results.add("decode", f"beam {beam}, {kind.name}", measure)


@torch.no_grad()
def decoded(
    sizes: Sizes, kind: Decoding, beam: int, wanted: dict[int, list[list[int]]]
) -> dict[str, Any]:
    model = build(sizes, kind.fused).eval()
    model.target_embedding.weight[EOS] = 0.0  # never the likeliest, so only limits end
    if kind.low_weights:
        model = model.bfloat16()
    search = BeamSearch(model, SearchSettings(beam=beam), torch.tensor([2, 3], device=DEVICE))
    batches = sentences(sizes)
    seconds, texts = list[float](), list[list[int]]()
    low = ON_GPU and not kind.low_weights
    for _ in range(3):
        synchronise()
        begun = time.perf_counter()
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=low):
            found = [search(*inputs) for inputs in batches]
        seconds.append(time.perf_counter() - begun)
        texts = [list(rows[0].ids) for part in found for rows in part]
    count = sum(len(text) + 1 for text in texts)
    first = wanted.setdefault(beam, texts)
    return {
        "target_tokens_per_s": count / min(seconds[1:]),
        "seconds": min(seconds[1:]),
        "tokens": count,
        "record_s": seconds[0] - min(seconds[1:]),
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if ON_GPU else 0.0,
        "same_as_first": sum(map(list.__eq__, texts, first)) / len(texts),
    }


def sentences(sizes: Sizes) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Batches of sources, their lengths, and the lengths that translations are to have."""
    source, target = pairs(sizes.sentences, sizes, seed=5)
    order = np.argsort(-source, kind="stable")
    found = []
    for start in range(0, len(order), sizes.batch):
        rows = order[start : start + sizes.batch]
        ids = tokens(source[rows], int(source[rows].max()), sizes, start)
        lengths, limits = (torch.from_numpy(each[rows]) for each in (source, target - 1))
        found.append((torch.from_numpy(ids).long(), lengths, limits))
    return found


if __name__ == "__main__":
    main()
