"""Decoding speed of GNMT-512 on a GPU: target tokens a second, greedy and with a beam of 4.

    python benchmarks/decode_speed.py STORE_OR_RUN [--batch 128 512 2048] [--beam 1 4] [--write DIR]

A RUN is measured as it translates: its own model, its test sentences, translations of any length.
With a STORE (32,000 subwords for comparable figures) the weights are random, and random weights
hardly ever end a sentence: there each translation is made exactly as long as its reference, by
never ending earlier and by a limit that ends it there. Training sentences of the store are read.

Tokens are those of the best translations, ends of sentence included, padding not. Time includes
encoding, search and tracing back, not subword segmentation. Graphs are recorded in a first pass
over the same batches that is not timed; `record_s` says how much longer that pass took. For a run,
the text-to-text time of up to 2,000 sentences with each beam is measured as well.
"""

import argparse
import itertools
import json
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from accord.data.store import Store
from accord.data.vocabulary import EOS
from accord.inference.backends.base import LoadSettings
from accord.inference.backends.torch_backend import TorchBackend
from accord.inference.beam_search import BeamSearch, padded
from accord.inference.results import SearchSettings
from accord.inference.text import source_rows
from accord.inference.translator import Translator
from accord.models.base import Seq2Seq
from accord.models.gnmt import GNMT
from accord.run_directory import RunDirectory
from where import where

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Work:
    """Sentences to translate, with tag and end; `limits` are lengths to be kept to exactly."""

    model: Seq2Seq
    forbidden: list[int]
    sources: list[list[int]]
    limits: list[int] | None
    translator: Translator | None
    texts: list[tuple[str, list[str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, metavar="STORE_OR_RUN")
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 512, 2048])
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--sentences", type=int, default=8192)
    parser.add_argument("--units", type=int, default=512, help="of random weights")
    parser.add_argument("--no-feeding", action="store_true", help="random weights, no feeding")
    parser.add_argument("--eager", action="store_true", help="measure without CUDA graphs as well")
    parser.add_argument("--fp32", action="store_true", help="fp32 instead of bf16 on a GPU")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    bf16 = DEVICE.type == "cuda" and not options.fp32
    is_run = (options.data / "experiment.yaml").is_file()
    work = of_run(options, bf16) if is_run else of_store(options)
    rows: list[dict[str, Any]] = []
    for beam, batch in itertools.product(options.beam, options.batch):
        for graphs in (True, False) if options.eager else (True,):
            with autocast(bf16):
                rows.append(measure(work, beam, batch, graphs and DEVICE.type == "cuda", bf16))
            print(json.dumps(rows[-1]), flush=True)
    texts = [text_to_text(work, beam) for beam in options.beam] if is_run else []
    print(report(rows, texts))
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        found = {"data": options.data.name, "search": rows, "text_to_text": texts}
        (options.write / "decode_speed.json").write_text(json.dumps(found, indent=1))
        (options.write / "decode_speed.md").write_text(report(rows, texts))


def autocast(bf16: bool) -> AbstractContextManager[object]:
    return torch.autocast(DEVICE.type, torch.bfloat16, enabled=bf16)


def of_store(options: argparse.Namespace) -> Work:
    store = Store(options.data)
    torch.manual_seed(1)
    model = GNMT(len(store.vocabulary), options.units, input_feeding=not options.no_feeding)
    with torch.no_grad():
        model.target_embedding.weight[EOS] = 0.0  # never the likeliest, so only limits end
    sources, limits = [], []
    share = -(-options.sentences // sum(len(corpus.directions) for corpus in store.corpora))
    for corpus in store.corpora:
        for source, target in corpus.directions:
            tag = store.vocabulary.tags[target]
            for i in range(min(share, len(corpus))):
                sources.append([tag, *corpus.side(source)[i].tolist(), EOS])
                limits.append(len(corpus.side(target)[i]))
    tags = list(store.vocabulary.tags.values())
    return Work(model.eval().to(DEVICE), tags, sources, limits, None, [])


def of_run(options: argparse.Namespace, bf16: bool) -> Work:
    run = RunDirectory(options.data)
    model = TorchBackend.load(options.data, LoadSettings(precision="bf16" if bf16 else "fp32"))
    translator = Translator.of(model)
    texts = [
        (target, run.held_out.pair("test", source, target)[0])
        for source, target in translator.graph.supervised_directions
    ]
    rows = [
        row for target, lines in texts for row in source_rows(translator.vocabulary, lines, target)
    ]
    tags = list(translator.vocabulary.tags.values())
    return Work(model.model, tags, rows[: options.sentences], None, translator, texts)


def measure(work: Work, beam: int, batch: int, graphs: bool, bf16: bool) -> dict[str, Any]:
    search = BeamSearch(
        work.model,
        SearchSettings(beam=beam),
        torch.tensor(work.forbidden, device=DEVICE),
        graphs=graphs,
    )
    order = sorted(range(len(work.sources)), key=lambda i: -len(work.sources[i]))
    batches: list[tuple[Tensor, Tensor, Tensor | None]] = []
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        limits_B = None if work.limits is None else torch.tensor([work.limits[i] for i in rows])
        batches.append((*padded([work.sources[i] for i in rows], CPU), limits_B))
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds, tokens = [], 0
    for _ in range(2):
        start_s = time.perf_counter()
        found = [search(*inputs) for inputs in batches]  # ends with a look at the device
        seconds.append(time.perf_counter() - start_s)
        tokens = sum(len(rows[0].ids) + 1 for part in found for rows in part)
    return {
        "beam": beam,
        "batch": batch,
        "graphs": graphs,
        "precision": "bf16" if bf16 else "fp32",
        "weights": "random" if work.limits is not None else "trained",
        "sentences": len(order),
        "target_tokens": tokens,
        "seconds": seconds[1],
        "target_tokens_per_s": tokens / seconds[1],
        "sentences_per_s": len(order) / seconds[1],
        "record_s": seconds[0] - seconds[1],
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if DEVICE.type == "cuda" else 0.0,
    }


def text_to_text(work: Work, beam: int) -> dict[str, Any]:
    """Seconds from lines of text to lines of text, the recording of graphs included."""
    if work.translator is None:
        raise ValueError("text to text needs a trained run")
    target, lines = work.texts[0]
    settings = SearchSettings(beam=beam)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        work.translator.translate(lines[:2000], target, settings=settings)
        seconds.append(time.perf_counter() - start)
    count = len(lines[:2000])
    return {"beam": beam, "sentences": count, "first_s": seconds[0], "again_s": seconds[1]}


def report(rows: list[dict[str, Any]], texts: list[dict[str, Any]]) -> str:
    lines = [
        where(),
        "",
        "| beam | batch | graphs | precision | weights | target tok/s | sentences/s | recording s "
        "| peak GB |",
        "|--:|--:|--|--|--|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row['beam']} | {row['batch']} | {row['graphs']} | {row['precision']} "
        f"| {row['weights']} | {row['target_tokens_per_s']:,.0f} | {row['sentences_per_s']:,.0f} "
        f"| {row['record_s']:.1f} | {row['peak_gb']:.1f} |"
        for row in rows
    ]
    lines += [
        f"\nText to text, beam {row['beam']}: {row['sentences']:,} sentences in "
        f"{row['again_s']:.2f} s, {row['first_s']:.2f} s the first time."
        for row in texts
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
