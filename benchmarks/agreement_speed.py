"""What agreement costs: the time of an update with and without it, at the same batches.

    python benchmarks/agreement_speed.py STORE [--tokens 24000] [--steps 20] [--write DIR]

STORE is a store of real text made by `accord prepare`. Times are means over updates (losses,
gradients, clipping, Adam) of the same batches, the device synchronised around each; CUDA graphs are
recorded before. Tokens are target tokens without padding.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from accord.config.objectives import AgreementConfig
from accord.data.batches import BatchStream
from accord.data.store import Store
from accord.graph import Direction, TranslationGraph
from accord.models.gnmt import GNMT
from accord.models.tensor_batch import TensorBatch, fitting_shape
from accord.objectives.agreement.objective import AgreementObjective
from accord.objectives.base import Objective, Work
from accord.objectives.likelihood import LikelihoodObjective, PairInputs
from accord.ops.distributed import World
from accord.training.optim import build_optimizer
from accord.training.update import Updater
from where import where

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
FILL = 0.86  # target tokens over budget, on Europarl; only chooses the budget


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--tokens", type=int, default=24_000)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--units", type=int, default=512)
    parser.add_argument("--feeding", action="store_true")
    parser.add_argument(
        "--decodings",
        nargs="+",
        default=["hard", "hard:2", "hard:3", "continuous", "continuous:4"],
        help="kinds of decoding, with :n computed in every n-th update only",
    )
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    store = Store(options.store)
    rows = [measure(store, kind, options) for kind in (None, *options.decodings)]
    for row in rows:
        row["ratio"] = row["ms"] / rows[0]["ms"]
    print(where())
    for row in rows:
        print(json.dumps(row))
    if options.write:
        (options.write / "agreement_speed.json").write_text(json.dumps(rows, indent=1))


def measure(store: Store, kind: str | None, options: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(1)
    decoding: Any = (kind or "").partition(":")[0]
    every = int((kind or "").partition(":")[2] or 1)
    model = GNMT(len(store.vocabulary), options.units, input_feeding=options.feeding).to(DEVICE)
    directions = frozenset(Direction(*d) for c in store.corpora for d in c.directions)
    objectives: list[Objective[Any]] = [LikelihoodObjective(0.1)]
    agreeing = None
    if decoding:
        agreeing = AgreementObjective(
            AgreementConfig(decoding=decoding, start=0),
            TranslationGraph(store.languages, directions),
            store,
            seed=1,
            world=World(0, 1, DEVICE),
        )
        objectives.append(agreeing)
    on_gpu = DEVICE.type == "cuda"
    updater = Updater(
        model,
        build_optimizer("adam", model, learning_rate=1e-4),
        objectives,
        clip=2.0,
        bf16=on_gpu,
        graphs=on_gpu,
    )
    stream = BatchStream(
        store.corpora,
        store.languages,
        store.vocabulary.tags,
        batch_tokens=int(options.tokens / FILL),
        seed=1,
    )
    shapes = stream.largest_shapes()
    ready = []
    for (position, batch), number in zip(stream, range(options.steps), strict=False):
        shape = fitting_shape(batch, shapes) if on_gpu else None
        pairs = TensorBatch.of_shape(batch, *shape) if shape else TensorBatch.from_numpy(batch)
        work: list[Work[Any]] = [Work([PairInputs(pairs)], (1.0,), batch.target_tokens)]
        if agreeing is not None:
            work.append(Work())
            if number % every == 0:
                inputs = agreeing.tagged(batch, agreeing.draw(batch, position), shape)
                scale = 0.01 * every * batch.update_target_tokens / batch.update_rows
                work[-1] = Work([inputs], (scale, 0.0), batch.target_tokens)
        ready.append((work, batch))
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    times = []
    for timed in (False, True):
        for work, batch in ready:
            start = now()
            updater.update(work, batch.update_target_tokens)
            if timed:
                times.append(1000 * (now() - start))
    return {
        "decoding": decoding or "none (Basic)",
        "every": every,
        "input_feeding": options.feeding,
        "ms": statistics.mean(times),
        "target_tokens": statistics.mean(batch.target_tokens for _, batch in ready),
        "target_tokens_per_s": 1000 * sum(b.target_tokens for _, b in ready) / sum(times),
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if on_gpu else 0.0,
    }


def now() -> float:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()
