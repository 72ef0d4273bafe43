"""How long a round of synthetic pairs takes by itself, and of what its time consists.

    python benchmarks/round_speed.py RUN STORE [--pairs 100000] [--tokens 1 8] [--write DIR]

RUN is a trained one, whose newest checkpoint is the teacher; STORE is what it was trained on. The
rest is as `objective.complete` has it by default. Each kind of round is made twice, since the first
one also records CUDA graphs. Seconds are those of the wall clock, from the drawn pairs to the round
in memory.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from accord.config.objectives import CompleteConfig
from accord.config.third_languages import Triads
from accord.data.store import Store
from accord.inference.backends.base import LoadSettings
from accord.inference.backends.torch_backend import TorchBackend
from accord.objectives.distillation.filters import Filters, usual_lengths
from accord.objectives.distillation.rounds import RoundMaker
from accord.objectives.distillation.sampling import Picker
from accord.objectives.distillation.teacher import Teacher
from where import where

ON_GPU = torch.cuda.is_available()
LONGEST = 512  # more than any sentence of the store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    store, config = Store(options.store), CompleteConfig()
    backend = TorchBackend.load(options.run, LoadSettings(precision="bf16" if ON_GPU else "fp32"))
    triads = Triads(backend.graph, config.parts)
    picker = Picker(store.corpora, triads, pairs=options.pairs, seed=1)
    teacher = Teacher(
        backend.model, store.vocabulary, backend.device, config.search, bf16=backend.bf16
    )
    usual = usual_lengths(store.corpora)
    filters = Filters(config.filters, store.vocabulary, store.languages, usual, LONGEST)
    seconds: dict[str, float] = {}
    for name in ("translate", "likely"):
        setattr(teacher, name, timed(seconds, name, getattr(teacher, name)))
    rows = []
    for tokens in options.tokens:
        maker = RoundMaker(store.corpora, store.languages, teacher, filters, config.select, tokens)
        for number in range(2):
            seconds.clear()
            if ON_GPU:
                torch.cuda.reset_peak_memory_stats()
            facts = maker.make(picker.picks(number), {}).facts
            row: dict[str, Any] = {"tokens": tokens, "recorded": number > 0, **facts}
            row |= {f"{name}_seconds": value for name, value in seconds.items()}
            row["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9 if ON_GPU else 0.0
            print(json.dumps(row), flush=True)
            rows.append(row)
    if options.write:
        found = {"where": where(), "rows": rows}
        (options.write / "round_speed.json").write_text(json.dumps(found, indent=1))


def timed(seconds: dict[str, float], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, noting how long it took."""

    def run(*arguments: Any) -> Any:
        began = time.perf_counter()
        found = function(*arguments)
        seconds[name] = time.perf_counter() - began
        return found

    return run


if __name__ == "__main__":
    main()
