"""Decoding on a CPU: PyTorch against ONNX Runtime with weights in 32 and in 8 bits.

    python benchmarks/cpu_decode.py RUN [--sentences 240] [--threads 1 2] [--beam 1 4]
    python benchmarks/cpu_decode.py --random gnmt512 [--sentences 64]

A RUN is exported both ways and measured as it translates: text to text, its test sentences in all
directions, with BLEU. Random weights (512 units, 32,000 subwords, input feeding) are measured for
speed and size only. They hardly ever end a sentence, so there each translation is made as long as
its source (8 to 40 subwords), by never ending earlier and by a limit that ends it there.

Every figure comes from a process of its own, so that `peak MB` is what one such process needs in
all, libraries included. Sentences are translated in batches, as many at once as the engine takes,
and one at a time, as a reader waits for them; both without the time to load the model, and the best
of three rounds. With one thread the seconds are those of the processor, which a busy machine hardly
lengthens; with more they are those on the wall. Columns marked × are relative to PyTorch with as
many threads.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from accord.data.vocabulary import EOS
from accord.graph import Direction
from accord.inference.results import SearchSettings
from accord.inference.text import Engine
from accord.machine import cores
from accord.metrics.bleu import bleu
from where import where

ENGINES = {"PyTorch": "torch", "ONNX fp32": "onnx", "ONNX int8": "onnx-int8"}
VOCABULARY, UNITS, TAG = 32_000, 512, 2
_ROUNDS = 3
Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--random", choices=["gnmt512"])
    parser.add_argument("--sentences", type=int, default=120)
    parser.add_argument("--alone", type=int, default=20, help="of them, one at a time")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(**options.measure)))
        return
    if (options.run is None) == (options.random is None):
        parser.error("give a run directory or --random")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare = prepare_random if options.random else prepare_run
        sizes = prepare(options, folder)
        rows = [
            in_a_process(folder, engine, threads, beam, options.alone) | {"size": sizes[engine]}
            for beam in options.beam
            for threads in options.threads
            for engine in ENGINES
        ]
        print(report(rows))


def prepare_random(options: argparse.Namespace, folder: Path) -> dict[str, int]:
    """Random weights and sentences on disk, for all processes alike."""
    import torch
    from safetensors.torch import save_file

    from accord.export.onnx.exporter import graphs
    from accord.models.gnmt import GNMT

    torch.manual_seed(1)
    model = GNMT(VOCABULARY, UNITS).eval()
    with torch.no_grad():
        model.target_embedding.weight[EOS] = 0.0  # never the likeliest, so only limits end
    save_file(model.state_dict(), folder / "torch")
    for engine in ("onnx", "onnx-int8"):
        (folder / engine).mkdir()
        for name, data in graphs(model, "int8" if engine == "onnx-int8" else "fp32").items():
            (folder / engine / name).write_bytes(data)
    generator = np.random.default_rng(1)
    lengths = generator.integers(8, 41, size=options.sentences)
    rows = [[TAG, *generator.integers(300, VOCABULARY, n).tolist(), EOS] for n in lengths]
    (folder / "rows.json").write_text(json.dumps(rows))
    return {engine: size_of(folder / kind) for engine, kind in ENGINES.items()}


def prepare_run(options: argparse.Namespace, folder: Path) -> dict[str, int]:
    """Both exports of a run, and its test sentences."""
    from accord.export.export_run import export_run
    from accord.models.checkpoint import find_checkpoint
    from accord.run_directory import RunDirectory

    run = RunDirectory(options.run)
    export_run(options.run, folder / "onnx", compare=0)
    export_run(options.run, folder / "onnx-int8", precision="int8", compare=0)
    (folder / "torch").symlink_to(options.run.resolve())
    graph = run.experiment().graph
    share = -(-options.sentences // len(graph.directions))
    lines = []
    for direction in graph.directions:
        sources, references = run.held_out.pair("test", *direction)
        for i in range(min(share, len(sources))):
            place = i * len(sources) // share
            lines.append([*direction, sources[place], references[place]])
    (folder / "lines.json").write_text(json.dumps(lines))
    supervised = [list(direction) for direction in graph.supervised_directions]
    (folder / "supervised.json").write_text(json.dumps(supervised))
    model = find_checkpoint(run.path, "best").path / "model.safetensors"
    return {
        engine: size_of(model if kind == "torch" else folder / kind)
        for engine, kind in ENGINES.items()
    }


def size_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def in_a_process(folder: Path, engine: str, threads: int, beam: int, alone: int) -> Result:
    asked = {
        "folder": str(folder),
        "kind": ENGINES[engine],
        "threads": threads,
        "beam": beam,
        "alone": alone,
    }
    done = subprocess.run(
        [sys.executable, __file__, "--measure", json.dumps(asked)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        # PyTorch's waiting threads are to sleep as those of ONNX Runtime do.
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": str(threads)},
    )
    said: Result = json.loads(done.stdout)
    if "said" in said:
        said |= scored(folder, said.pop("said"))
    found = {"engine": engine, "threads": threads, "beam": beam} | said
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def measured(folder: str, kind: str, threads: int, beam: int, alone: int) -> Result:
    """In a process of its own: load, translate, and say how long it took."""
    settings = SearchSettings(beam=beam)
    if (Path(folder) / "rows.json").is_file():
        found = measured_rows(Path(folder), kind, threads, settings, alone)
    else:
        found = measured_lines(Path(folder), kind, threads, settings, alone)
    return found | {"peak": peak_memory()}


def peak_memory() -> int:
    """Of this process alone; what getrusage tells may be a parent's."""
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def measured_rows(
    folder: Path, kind: str, threads: int, settings: SearchSettings, alone: int
) -> Result:
    from accord.inference.text import batches

    rows = json.loads((folder / "rows.json").read_text())
    opened = torch_search if kind == "torch" else onnx_search
    engine, search = opened(folder / kind, threads, settings)

    def all_at_once() -> None:
        lengths = [len(row) for row in rows]
        for batch in batches(lengths, lambda longest: engine.fitting(longest, settings)):
            search([rows[i] for i in batch])

    search(rows[:1])
    return {
        "batched": len(rows) / seconds(threads, all_at_once),
        "alone": alone / seconds(threads, lambda: [search([row]) for row in rows[:alone]]),
    }


Search = Callable[[Sequence[Sequence[int]]], object]


def torch_search(path: Path, threads: int, settings: SearchSettings) -> tuple[Engine, Search]:
    import torch
    from safetensors.torch import load_file

    from accord.inference.beam_search import BeamSearch, TorchEngine, padded
    from accord.models.gnmt import GNMT

    torch.set_num_threads(threads)
    model = GNMT(VOCABULARY, UNITS)
    model.load_state_dict(load_file(path))
    search = BeamSearch(model.eval(), settings, torch.tensor([TAG]))
    cpu = torch.device("cpu")

    def run(rows: Sequence[Sequence[int]]) -> object:
        return search(*padded(rows, cpu), torch.tensor([len(row) - 2 for row in rows]))

    return TorchEngine(model, cpu), run


def onnx_search(path: Path, threads: int, settings: SearchSettings) -> tuple[Engine, Search]:
    from accord.inference.backends.onnx_backend import OnnxEngine
    from accord.inference.backends.onnx_beam_search import BeamSearch
    from accord.inference.backends.onnx_sessions import Sessions

    files = (path / name for name in ("encoder.onnx", "decoder.onnx"))
    sessions = Sessions(*files, threads=threads)
    search = BeamSearch(sessions, settings, [TAG])
    return OnnxEngine(sessions), lambda rows: search(rows, [len(row) - 2 for row in rows])


def measured_lines(
    folder: Path, kind: str, threads: int, settings: SearchSettings, alone: int
) -> Result:
    from accord.inference.translator import Translator

    lines = json.loads((folder / "lines.json").read_text())
    translator = Translator(folder / kind, threads=threads, device="cpu")
    said: dict[int, str] = {}

    def translate(places: Iterable[int]) -> None:
        by_target = defaultdict(list)
        for place in places:
            by_target[lines[place][1]].append(place)
        for target, some in by_target.items():
            texts = [lines[place][2] for place in some]
            for place, found in zip(
                some, translator.translate(texts, target, settings=settings), strict=True
            ):
                said[place] = found.text

    translate([0])
    spread = [i * len(lines) // alone for i in range(alone)]

    def one_at_a_time() -> None:
        for place in spread:
            translate([place])

    found: Result = {
        "alone": alone / seconds(threads, one_at_a_time),
        "batched": len(lines) / seconds(threads, lambda: translate(range(len(lines)))),
    }
    return found | {"said": [said[place] for place in range(len(lines))]}


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


def seconds(threads: int, work: Callable[[], object]) -> float:
    """The best of a few rounds: what else the machine does only ever adds to it."""
    clock = time.process_time if threads == 1 else time.perf_counter
    found = []
    for _ in range(_ROUNDS):
        start = clock()
        work()
        found.append(clock() - start)
    return min(found)


def processor() -> str:
    """Its name, its cores for this process, and what makes 8-bit products fast."""
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    names = {line.partition(":")[2].strip() for line in facts if line.startswith("model name")}
    vnni = any("vnni" in line for line in facts if line.startswith("flags"))
    return f"{', '.join(names)} ({cores()} cores, {'with' if vnni else 'without'} VNNI)"


def report(rows: list[Result]) -> str:
    kinds = [kind for kind in ("supervised", "zero-shot") if kind in rows[0]]
    bleus = "".join(f" BLEU {kind} |" for kind in kinds)
    lines = [
        f"`python benchmarks/cpu_decode.py {shlex.join(sys.argv[1:])}`",
        "",
        f"{processor()}, ONNX Runtime {version('onnxruntime')}, {where()}",
        "",
        f"| engine | threads | beam | sentences/s, batches | × | one at a time | × | peak MB | "
        f"disk MB |{bleus}",
        "|--|--:|--:|--:|--:|--:|--:|--:|--:|" + "--:|" * len(kinds),
    ]
    for row in rows:
        [first] = [
            other
            for other in rows
            if other["engine"] == "PyTorch"
            and (other["threads"], other["beam"]) == (row["threads"], row["beam"])
        ]
        scores = "".join(f" {row[kind]:.2f} |" for kind in kinds)
        lines.append(
            f"| {row['engine']} | {row['threads']} | {row['beam']} | {row['batched']:,.1f} "
            f"| {row['batched'] / first['batched']:.1f} | {row['alone']:,.1f} "
            f"| {row['alone'] / first['alone']:.1f} | {row['peak'] / 1e6:,.0f} "
            f"| {row['size'] / 1e6:,.1f} |{scores}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
