"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ExperimentFile = Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="Experiment file.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key, e.g. vocabulary.size=8000."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")]
ModelPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run directory, or what `accord export` wrote.")
]
CheckpointName = Annotated[
    str, typer.Option("--checkpoint", help="best, last, average or step-00001000.")
]
Beam = Annotated[int, typer.Option("--beam", min=1, help="Beam size; 1 is greedy search.")]
LengthPenalty = Annotated[
    float, typer.Option("--length-penalty", min=0, help="alpha in ((5 + length) / 6) ^ alpha.")
]
VocabularyChoice = Annotated[
    str, typer.Option("--vocabulary", help="all, or target: only subwords of the target language.")
]
NoRepeat = Annotated[
    int,
    typer.Option("--no-repeat-ngram", min=0, help="No n-gram of so many subwords twice; 0: off."),
]
PivotNbest = Annotated[
    int, typer.Option("--pivot-nbest", min=1, help="Translations into a pivot that are carried on.")
]
EnsembleMembers = Annotated[
    str | None,
    typer.Option(
        "--ensemble",
        metavar="MEMBERS",
        help="Search with the text and its pivots at once: direct,via:en (direct:0.5,via:en:0.5).",
    ),
]
BatchTokens = Annotated[
    int, typer.Option("--batch-tokens", min=1, help="Source subwords translated at once.")
]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1; else the best.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads.")]
PrecisionName = Annotated[
    str, typer.Option("--precision", help="auto (bf16 on a GPU, fp32 on a CPU), fp32 or bf16.")
]
