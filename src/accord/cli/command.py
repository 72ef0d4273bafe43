"""How every command of the command line behaves: its usage line, and names that it had before."""

import re
from typing import Any

import typer
from typer.core import TyperCommand

# --from and --to mean languages everywhere. Where they once meant places and formats, the old name
# goes on working, with a note that says the new one.
OLD_NAMES = {
    "export": {"--to": "--format"},
    "fetch": {"--to": "--data", "--from": "--files"},
    "reproduce": {"--to": "--out", "--from": "--files"},
}
_REQUIRED = re.compile(r"\{(.+)\}(\.\.\.)?")


class Command(TyperCommand):
    """A command whose usage line has EXPERIMENT, not {EXPERIMENT}, and that knows its old names."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line: braces mean a choice to most people."""
        pieces = super().collect_usage_pieces(ctx)
        return [_REQUIRED.sub(r"\1\2", piece) for piece in pieces]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As ever, but old names of options are understood."""
        old = OLD_NAMES.get(self.name or "", {})
        # What follows `--` is no option, whatever it looks like.
        end = args.index("--") if "--" in args else len(args)
        for place, arg in enumerate(args[:end]):
            name, equals, value = arg.partition("=")
            if name in old:
                if not ctx.resilient_parsing:  # a shell that completes wants no notes
                    typer.echo(f"accord: note: {name} is now called {old[name]}", err=True)
                args[place] = old[name] + equals + value
        return super().parse_args(ctx, args)
