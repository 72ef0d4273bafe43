"""Decoding on a CPU: PyTorch, ONNX Runtime and CTranslate2, with weights in 32 and in 8 bits.

    python benchmarks/cpu_decode.py RUN [--sentences 240] [--threads 1 2] [--beam 1 4]
    python benchmarks/cpu_decode.py --random gnmt512 6+3 12+2 [--sentences 64] [--rounds 3]

A RUN is exported in all ways there are for its model and measured as it translates: text to text,
its test sentences in all directions, with BLEU. Random weights (512 units, 32,000 subwords; gnmt512
has input feeding, 6+3 is a Transformer of 6 encoder and 3 decoder layers, 8 heads, feed-forward
2,048) are measured for speed and size only. They hardly ever end a sentence, so there each
translation is made as long as its source, 24 subwords, by never ending earlier and by a limit that
ends it there; 32 sentences are a batch. What a limit cuts off, our
CTranslate2 backend scores once more; this is left out, since a trained model ends by itself.
"Short list" is `--vocabulary target` where the language has 8,000 of the 32,000 subwords; there the
second scoring, which it always brings, is included.

Every round runs every engine in a process of its own, one after the other, and rounds follow each
other: what else the machine does meets all alike. Speeds are the best of all rounds. `MB` is what
one such process needs in all, libraries included, when the model is loaded and at its peak.
Sentences are translated in batches, and one at a time, as a reader waits for them; both without the
time to load the model. With one thread the seconds are those of the processor, which a busy machine
lengthens less; with more they are those on the wall. Columns marked × are relative to PyTorch with
the same model and as many threads.
"""

import argparse
import functools
import itertools
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from accord.data.vocabulary import EOS
from accord.graph import Direction
from accord.inference.backends.manifest import ExportPrecision
from accord.inference.results import SearchSettings
from accord.machine import cores
from accord.metrics.bleu import bleu
from where import where

# By the folder that the model lies in; what comes after a comma are settings.
ENGINES = {
    "torch": "PyTorch",
    "onnx": "ONNX fp32",
    "onnx-int8": "ONNX int8",
    "ctranslate2": "CTranslate2 fp32",
    "ctranslate2-int8": "CTranslate2 int8",
    "ctranslate2-int8,listed": "CTranslate2 int8, short list",
}
PRECISIONS: dict[str, ExportPrecision] = {"": "fp32", "-int8": "int8"}
VOCABULARY, UNITS, TAG, LISTED = 32_000, 512, 2, 8_000
LENGTH, BATCH = 24, 32
Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--random", nargs="+", metavar="MODEL", help="gnmt512, 6+3, 12+2, ...")
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument("--alone", type=int, default=20, help="of them, one at a time")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(**options.measure)))
        return
    if (options.run is None) == (options.random is None):
        parser.error("give a run directory or --random")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.random:
            sizes = {model: prepare_random(model, options, folder) for model in options.random}
        else:
            sizes = {"run": prepare_run(options, folder)}
        found: dict[tuple[str, str, int], list[Result]] = defaultdict(list)
        for _ in range(options.rounds):
            for model, kinds in sizes.items():
                for threads, kind in itertools.product(options.threads, kinds):
                    asked = {"kind": kind, "beams": options.beam, "alone": options.alone}
                    said = in_a_process(folder / model, threads, asked)
                    found[model, kind, threads].append(said)
        rows = [
            best(rounds, beam)
            | {"model": model, "engine": ENGINES[kind], "threads": threads, "beam": beam}
            | {"size": sizes[model][kind]}
            for beam in options.beam
            for (model, kind, threads), rounds in found.items()
        ]
        print(report(rows))


def random_model(name: str) -> Any:
    import torch

    from accord.models.gnmt import GNMT
    from accord.models.transformer import Transformer

    torch.manual_seed(1)
    if name == "gnmt512":
        return GNMT(VOCABULARY, UNITS).eval()
    encoder, decoder = map(int, name.split("+"))
    return Transformer(VOCABULARY, UNITS, encoder, decoder).eval()


def prepare_random(name: str, options: argparse.Namespace, folder: Path) -> dict[str, int]:
    """Random weights and sentences on disk, for all processes alike."""
    import torch
    from safetensors.torch import save_file

    from accord.export.ctranslate2.specification import specification
    from accord.export.onnx.exporter import graphs

    folder = folder / name
    folder.mkdir()
    model = random_model(name)
    with torch.no_grad():
        model.target_embedding.weight[EOS] = 0.0  # never the likeliest, so only limits end
    save_file(model.state_dict(), folder / "torch")
    for ending, precision in PRECISIONS.items():
        (folder / f"onnx{ending}").mkdir()
        for file, data in graphs(model, precision).items():
            (folder / f"onnx{ending}" / file).write_bytes(data)
        if name != "gnmt512":
            place = folder / f"ctranslate2{ending}"
            place.mkdir()
            specification(model, PIECES, precision).save(str(place))
            listed = " ".join(PIECES[-LISTED:])
            (place / "vmap.txt").write_text(f"{PIECES[TAG]}\t{listed}\n")
    generator = np.random.default_rng(1)
    words_BS = generator.integers(300, VOCABULARY, (options.sentences, LENGTH))
    rows = [[TAG, *words_S.tolist(), EOS] for words_S in words_BS]
    (folder / "rows.json").write_text(json.dumps(rows))
    kinds = [kind for kind in ENGINES if (folder / kind.partition(",")[0]).exists()]
    return {kind: size_of(folder / kind.partition(",")[0]) for kind in kinds}


PIECES = ["<pad>", "</s>", "<2xx>", "<unk>", *(f"piece{i}" for i in range(4, VOCABULARY))]


def prepare_run(options: argparse.Namespace, folder: Path) -> dict[str, int]:
    """All exports of a run, and its test sentences."""
    from accord.export.export_run import export_run
    from accord.export.exporters import EXPORTERS
    from accord.models.checkpoint import find_checkpoint
    from accord.run_directory import RunDirectory

    run, folder = RunDirectory(options.run), folder / "run"
    folder.mkdir()
    sizes = {"torch": size_of(find_checkpoint(run.path, "best").path / "model.safetensors")}
    for name, exporter in EXPORTERS.items():
        if run.experiment().model.kind in exporter.model_kinds:
            for ending, precision in PRECISIONS.items():
                place = folder / f"{name}{ending}"
                export_run(options.run, place, to=name, precision=precision, compare=0)
                sizes[f"{name}{ending}"] = size_of(place)
    (folder / "torch").symlink_to(options.run.resolve())
    graph = run.experiment().graph
    share = -(-options.sentences // len(graph.directions))
    lines = []
    for direction in graph.directions:
        sources, references = run.held_out.pair("test", *direction)
        for i in range(min(share, len(sources))):
            place_of = i * len(sources) // share
            lines.append([*direction, sources[place_of], references[place_of]])
    (folder / "lines.json").write_text(json.dumps(lines))
    supervised = [list(direction) for direction in graph.supervised_directions]
    (folder / "supervised.json").write_text(json.dumps(supervised))
    return sizes


def size_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def in_a_process(folder: Path, threads: int, asked: Result) -> Result:
    asked = {"folder": str(folder), "threads": threads, **asked}
    done = subprocess.run(
        [sys.executable, __file__, "--measure", json.dumps(asked)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        # PyTorch's waiting threads are to sleep as those of ONNX Runtime do.
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": str(threads)},
    )
    found: Result = json.loads(done.stdout)
    for of_beam in found["beams"].values():
        if "said" in of_beam:
            of_beam |= scored(folder, of_beam.pop("said"))
    print(json.dumps(asked | found), file=sys.stderr, flush=True)
    return found


def best(rounds: Sequence[Result], beam: int) -> Result:
    """The greatest speeds of all rounds; memory as in the greediest."""
    found = [said["beams"][str(beam)] for said in rounds]
    chosen: Result = dict(found[0])  # BLEU is the same in all
    for speed in ("batched", "alone"):
        chosen[speed] = max(each[speed] for each in found)
    return chosen | {name: max(said[name] for said in rounds) for name in ("loaded", "peak")}


def measured(folder: str, kind: str, threads: int, beams: Sequence[int], alone: int) -> Result:
    """In a process of its own: load, translate, and say how long it took."""
    place, _, listed = kind.partition(",")
    measure = measured_rows if (Path(folder) / "rows.json").is_file() else measured_lines
    settings = [SearchSettings(beam=beam) for beam in beams]
    if listed:
        settings = [replace(each, vocabulary="target") for each in settings]
    loaded, found = measure(Path(folder), place, threads, settings, alone)
    by_beam = dict(zip(map(str, beams), found, strict=True))
    return {"beams": by_beam, "loaded": loaded, "peak": memory("VmHWM")}


def memory(name: str) -> int:
    """Of this process alone; what getrusage tells may be a parent's."""
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def measured_rows(
    folder: Path, kind: str, threads: int, settings: Sequence[SearchSettings], alone: int
) -> tuple[int, list[Result]]:
    rows = json.loads((folder / "rows.json").read_text())
    opened = {"torch": torch_searches, "onnx": onnx_searches, "ctranslate2": ctranslate2_searches}
    searches = list(opened[kind.partition("-")[0]](folder / kind, threads, settings))
    loaded, found = memory("VmRSS"), []
    for search in searches:
        run = functools.partial(_bounded, search)
        run(rows[:1])
        batches = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
        some = rows[:: max(1, len(rows) // alone)][:alone]
        found.append(
            {
                "batched": len(rows) / seconds(threads, run, batches),
                "alone": len(some) / seconds(threads, run, [[row] for row in some]),
            }
        )
    return loaded, found


Rows = Sequence[Sequence[int]]
Search = Callable[[Rows, list[int]], object]


def _bounded(search: Search, rows: Rows) -> object:
    return search(rows, [len(row) - 2 for row in rows])


def torch_searches(
    path: Path, threads: int, settings: Sequence[SearchSettings]
) -> Iterator[Search]:
    import torch
    from safetensors.torch import load_file

    from accord.inference.beam_search import BeamSearch, padded

    torch.set_num_threads(threads)
    model = random_model(path.parent.name)
    model.load_state_dict(load_file(path))
    for each in settings:
        search = BeamSearch(model, each, torch.tensor([TAG]))

        def run(rows: Rows, limits: list[int], search: BeamSearch = search) -> object:
            return search(*padded(rows, torch.device("cpu")), torch.tensor(limits))

        yield run


def onnx_searches(path: Path, threads: int, settings: Sequence[SearchSettings]) -> Iterator[Search]:
    from accord.inference.backends.onnx_beam_search import BeamSearch
    from accord.inference.backends.onnx_sessions import Sessions

    files = (path / name for name in ("encoder.onnx", "decoder.onnx"))
    sessions = Sessions(*files, threads=threads)
    return (BeamSearch(sessions, each, [TAG]) for each in settings)


def ctranslate2_searches(
    path: Path, threads: int, settings: Sequence[SearchSettings]
) -> Iterator[Search]:
    from accord.inference.backends.ctranslate2_backend import CTranslate2Engine, CTranslate2Search

    class AsIfEnded(CTranslate2Search):
        def _scored(self, rows: Any, drafts: Any) -> Any:
            exact = [[replace(each, exact=self._exact) for each in of_row] for of_row in drafts]
            return super()._scored(rows, exact)

    engine = CTranslate2Engine(path, PIECES, threads)
    return (AsIfEnded(engine, each, [TAG]) for each in settings)


def measured_lines(
    folder: Path, kind: str, threads: int, settings: Sequence[SearchSettings], alone: int
) -> tuple[int, list[Result]]:
    from accord.inference.translator import Translator

    lines = json.loads((folder / "lines.json").read_text())
    translator = Translator(folder / kind, threads=threads, device="cpu")
    loaded, found = memory("VmRSS"), []
    for each in settings:
        said: dict[int, str] = {}

        def translate(
            places: Iterable[int],
            said: dict[int, str] = said,
            each: SearchSettings = each,
        ) -> None:
            by_target = defaultdict(list)
            for place in places:
                by_target[lines[place][1]].append(place)
            for target, some in by_target.items():
                texts = [lines[place][2] for place in some]
                answers = translator.translate(texts, target, settings=each)
                said |= {place: one.text for place, one in zip(some, answers, strict=True)}

        translate([0])
        spread = [i * len(lines) // alone for i in range(alone)]
        speeds: Result = {
            "alone": alone / seconds(threads, translate, [[place] for place in spread]),
            "batched": len(lines) / seconds(threads, translate, [range(len(lines))]),
        }
        found.append(speeds | {"said": [said[place] for place in range(len(lines))]})
    return loaded, found


def scored(folder: Path, said: Sequence[str]) -> Result:
    """Mean BLEU over the directions of each kind; in no process whose memory is measured."""
    lines = json.loads((folder / "lines.json").read_text())
    supervised = {Direction(*pair) for pair in json.loads((folder / "supervised.json").read_text())}
    scores = defaultdict(list)
    for direction in sorted({Direction(*line[:2]) for line in lines}):
        places = [i for i, line in enumerate(lines) if Direction(*line[:2]) == direction]
        score = bleu([said[i] for i in places], [lines[i][3] for i in places], direction.target)
        scores["supervised" if direction in supervised else "zero-shot"].append(score)
    return {kind: fmean(values) for kind, values in scores.items()}


def seconds(threads: int, work: Callable[[Any], object], items: Iterable[Any]) -> float:
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    for item in items:
        work(item)
    return clock() - start


def processor() -> str:
    """Its name, its cores for this process, and what makes 8-bit products fast."""
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    names = {line.partition(":")[2].strip() for line in facts if line.startswith("model name")}
    vnni = any("vnni" in line for line in facts if line.startswith("flags"))
    return f"{', '.join(names)} ({cores()} cores, {'with' if vnni else 'without'} VNNI)"


def report(rows: list[Result]) -> str:
    kinds = [kind for kind in ("supervised", "zero-shot") if kind in rows[0]]
    bleus = "".join(f" BLEU {kind} |" for kind in kinds)
    runtimes = f"ONNX Runtime {version('onnxruntime')}, CTranslate2 {version('ctranslate2')}"
    lines = [
        f"`python benchmarks/cpu_decode.py {shlex.join(sys.argv[1:])}`",
        "",
        f"{processor()}, {runtimes}, {where()}",
        "",
        "| model | engine | threads | beam | sentences/s, batches | × | one at a time | × "
        f"| MB loaded | MB peak | MB on disk |{bleus}",
        "|--|--|--:|--:|--:|--:|--:|--:|--:|--:|--:|" + "--:|" * len(kinds),
    ]
    for row in rows:
        same = ("model", "threads", "beam")
        [first] = [
            other
            for other in rows
            if other["engine"] == "PyTorch" and all(other[name] == row[name] for name in same)
        ]
        scores = "".join(f" {row[kind]:.2f} |" for kind in kinds)
        lines.append(
            f"| {row['model']} | {row['engine']} | {row['threads']} | {row['beam']} "
            f"| {row['batched']:,.1f} | {row['batched'] / first['batched']:.1f} "
            f"| {row['alone']:,.1f} | {row['alone'] / first['alone']:.1f} "
            f"| {row['loaded'] / 1e6:,.0f} | {row['peak'] / 1e6:,.0f} "
            f"| {row['size'] / 1e6:,.1f} |{scores}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
