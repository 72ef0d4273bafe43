"""Training speed of GNMT-512 on a GPU: target tokens a second, and where the time goes.

    python benchmarks/train_speed.py STORE [--tokens 6000 24000 48000] [--seconds 8] [--write DIR]

STORE is a store of real text made by `accord prepare` (32,000 subwords). Tokens are target tokens
without padding, end of sentence included; a batch budget is chosen so that a batch holds about as
many as named. Times are medians over steps, with the device synchronised around them.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from accord.data.batches import BatchStream
from accord.data.prefetch import Prefetcher
from accord.data.store import Store
from accord.models.gnmt import GNMT
from accord.models.tensor_batch import TensorBatch, fitting_shape
from accord.objectives.base import Work
from accord.objectives.likelihood import LikelihoodObjective, PairInputs
from accord.ops.linear_cross_entropy import linear_cross_entropy
from accord.training.optim import OptimizerKind, build_optimizer
from accord.training.update import Updater
from where import where

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
FILL = 0.86  # target tokens over budget, on Europarl; only chooses the budget


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--tokens", type=int, nargs="+", default=[6_000, 24_000, 48_000])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--units", type=int, default=512)
    parser.add_argument("--optimizer", choices=["adam", "adafactor"], default="adam")
    parser.add_argument("--eager", action="store_true", help="measure without CUDA graphs as well")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    store = Store(options.store)
    rows = []
    for feeding in (False, True):
        for tokens in options.tokens:
            for graphs in (True, False) if options.eager else (DEVICE.type == "cuda",):
                row = measure(store, tokens, feeding, graphs, options)
                print(json.dumps(row), flush=True)
                rows.append(row)
                if options.write:
                    (options.write / "train_speed.json").write_text(json.dumps(rows, indent=1))
    print(report(rows))
    if options.write:
        (options.write / "train_speed.md").write_text(report(rows))


def synchronise() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def timed(function: Callable[[], object], times: int = 5) -> float:
    """Median milliseconds."""
    found = []
    for _ in range(times):
        synchronise()
        start = time.perf_counter()
        function()
        synchronise()
        found.append(1000 * (time.perf_counter() - start))
    return statistics.median(found)


def measure(
    store: Store, tokens: int, feeding: bool, graphs: bool, options: argparse.Namespace
) -> dict[str, Any]:
    torch.manual_seed(1)
    kind: OptimizerKind = options.optimizer
    model = GNMT(len(store.vocabulary), options.units, input_feeding=feeding).to(DEVICE)
    optimizer = build_optimizer(kind, model, learning_rate=1e-3)
    updater = Updater(
        model,
        optimizer,
        [LikelihoodObjective(0.1)],
        clip=2.0,
        bf16=DEVICE.type == "cuda",
        graphs=graphs,
    )
    stream = BatchStream(
        store.corpora,
        store.languages,
        store.vocabulary.tags,
        batch_tokens=int(tokens / FILL),
        seed=1,
    )
    shapes = stream.largest_shapes()

    def prepare(item: Any) -> tuple[Any, TensorBatch]:
        _, batch = item
        if graphs:
            return batch, TensorBatch.of_shape(batch, *fitting_shape(batch, shapes))
        return batch, TensorBatch.from_numpy(batch)

    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with Prefetcher(iter(stream), transform=prepare) as batches:
        seen: set[tuple[int, ...]] = set()
        warm = time.perf_counter()
        for count, (batch, tensors) in enumerate(batches):
            updater.update([work(tensors)], batch.update_target_tokens)
            seen.add(tuple(tensors.source_BS.shape))
            if count > 3 and (not graphs or count > 150 or time.perf_counter() - warm > 20):
                break
        synchronise()
        wait_before, start = batches.wait_seconds, time.perf_counter()
        steps = target = source = padded = 0
        for batch, tensors in batches:
            new = tuple(tensors.source_BS.shape) not in seen
            if graphs and new:
                continue  # recording a graph is paid once, not per step
            updater.update([work(tensors)], batch.update_target_tokens)
            steps += 1
            target += batch.target_tokens
            source += batch.source_tokens
            padded += tensors.target_BT.numel()
            if time.perf_counter() - start > options.seconds:
                break
        synchronise()
        seconds = time.perf_counter() - start
        waited = batches.wait_seconds - wait_before
    parts = split(updater, stream, shapes, graphs)
    return {
        "input_feeding": feeding,
        "graphs": graphs,
        "optimizer": kind,
        "tokens": tokens,
        "steps": steps,
        "target_tokens_per_step": target / steps,
        "target_tokens_per_s": target / seconds,
        "source_tokens_per_s": source / seconds,
        "ms": 1000 * seconds / steps,
        "wait_share": waited / seconds,
        "padding": 1 - target / padded,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if DEVICE.type == "cuda" else 0.0,
        "reserved_gb": torch.cuda.max_memory_reserved() / 1e9 if DEVICE.type == "cuda" else 0.0,
        "shapes": len(seen),
        "parts": parts,
    }


def work(pairs: TensorBatch) -> Work[PairInputs]:
    return Work([PairInputs(pairs)], (1.0,), pairs.target_tokens)


def split(
    updater: Updater, stream: BatchStream, shapes: list[tuple[int, int]], graphs: bool
) -> dict[str, float]:
    """Milliseconds of the parts of a step, at the batch whose length is nearest to 40."""
    shape = min(shapes, key=lambda s: abs(s[1] - 40))
    batch = next(b for _, b in stream if fitting_shape(b, shapes) == shape and b.rows == shape[0])
    host = TensorBatch.of_shape(batch, *shape) if graphs else TensorBatch.from_numpy(batch)
    tensors = host.to(DEVICE)
    model = updater.model
    autocast = torch.autocast(DEVICE.type, torch.bfloat16, enabled=updater.bf16)
    whole = timed(lambda: updater.accumulate([work(host)]))
    with autocast:
        hidden = torch.randn(tensors.target_BT.numel(), model.output_weight.shape[1], device=DEVICE)

    def softmax() -> None:
        with autocast:
            leaf = hidden.detach().requires_grad_()
            loss, _ = linear_cross_entropy(
                leaf,
                model.output_weight,
                tensors.target_BT.flatten(),
                label_smoothing=0.1,
                chunk=8192,
            )
            loss.backward()  # type: ignore[no-untyped-call]

    def encoder() -> None:
        with autocast:
            memory = model.encode(tensors.source_BS, tensors.source_lengths_B)
            memory.values_BSD.float().sum().backward()

    parts = {
        "rows": float(shape[0]),
        "length": float(shape[1]),
        "forward_backward": whole,
        "softmax": graphed(softmax) if graphs else timed(softmax),
        "encoder": graphed(encoder) if graphs else timed(encoder),
        "clip": timed(lambda: updater.gradients.scale_and_clip(1.0, 2.0)),
        "optimizer": timed(updater._step),
    }
    parts["decoder_and_rest"] = whole - parts["softmax"] - parts["encoder"]
    return parts


def graphed(function: Callable[[], None]) -> float:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
        function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return timed(graph.replay)


def report(rows: list[dict[str, Any]]) -> str:
    lines = [
        where(),
        "",
        "| feeding | graphs | batch | target tok/s | source tok/s | ms/step | wait | padding "
        "| peak GB | encoder | decoder… | softmax | clip | optimiser |",
        "|--|--|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        parts = row["parts"]
        lines.append(
            f"| {row['input_feeding']} | {row['graphs']} | {row['target_tokens_per_step']:,.0f} "
            f"| {row['target_tokens_per_s']:,.0f} | {row['source_tokens_per_s']:,.0f} "
            f"| {row['ms']:.1f} | {row['wait_share']:.1%} | {row['padding']:.1%} "
            f"| {row['reserved_gb']:.1f} | {parts['encoder']:.1f} "
            f"| {parts['decoder_and_rest']:.1f} | {parts['softmax']:.1f} | {parts['clip']:.2f} "
            f"| {parts['optimizer']:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
