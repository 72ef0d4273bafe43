"""Options of commands are made of settings classes: names, defaults, limits and help stand once."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal

import pytest
import typer
from typer.testing import CliRunner

from accord.cli import app as accord
from accord.cli.options import grouped
from accord.errors import AccordError
from accord.inference.results import SearchSettings
from accord.serving.settings import ServeSettings
from accord.settings_fields import check_settings, flag, setting


@dataclass(frozen=True)
class Oven:
    heat: int = setting(180, "Degrees, neither cold nor on fire.", least=50, most=250)
    hours: float = setting(0.5, "How long.", above=0)
    fan: bool = setting(False, "Moving air.")
    shelf: Literal["upper", "lower"] = setting("lower", "Where.")
    brand: str = "unknown"

    def __post_init__(self) -> None:
        check_settings(self, flag)


@pytest.fixture
def bake():
    called = []

    @grouped
    def bake(
        what: str, *, oven: Oven, often: Annotated[int, typer.Option(help="Times.")] = 1
    ) -> None:
        """Bake."""
        called.append((what, oven, often))

    return bake, called


def test_a_group_is_an_option_for_each_field(bake):
    command, called = bake
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(command)
    run = CliRunner().invoke(app, ["bread", "--heat", "200", "--fan", "--often", "2"])
    assert run.exit_code == 0, run.output
    assert called == [("bread", Oven(heat=200, fan=True), 2)]
    text = CliRunner().invoke(app, ["--help"]).output
    for part in ("--heat", "neither cold nor", "180", "50<=x<=250", "--shelf", "Bake."):
        assert part in text
    assert "--brand" not in text
    assert "--no-fan" not in text
    assert CliRunner().invoke(app, ["bread", "--heat", "20"]).exit_code == 2


def test_a_grouped_command_can_be_called_from_python(bake):
    command, called = bake
    command("cake", hours=1.0)
    assert called == [("cake", Oven(hours=1.0), 1)]
    with pytest.raises(AccordError, match="--hours cannot be 0") as error:
        command("cake", hours=0.0)
    assert "more than 0" in error.value.fix
    with pytest.raises(AccordError, match="--heat cannot be 251") as error:
        replace(Oven(), heat=251)
    assert "50 to 250" in error.value.fix


@pytest.mark.parametrize(
    ("command", "settings", "hidden"),
    [
        ("serve", ServeSettings, {"api_keys", "cors", "file_folder"}),
        ("translate", SearchSettings, {"nbest", "window"}),
        ("evaluate", SearchSettings, {"nbest", "window"}),
    ],
)
def test_commands_offer_what_the_settings_describe(command, settings, hidden):
    run = CliRunner(env={"COLUMNS": "200"}).invoke(accord, [command, "--help"])
    words = " ".join(run.output.split())
    described = {item.name for item in fields(settings)} - hidden
    for item in fields(settings):
        if item.name in described:
            assert flag(item.name) in words
            assert item.metadata["text"][:20] in words
            if not isinstance(item.default, bool):
                assert f"[default: {item.default}" in words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "x", "--html", "a", "--markdown", "./a"), "--html has the same file"),
        (("report", "x", "--latex", "x/report.md"), "--markdown has the same file"),
        (("compare", "x", "--json", "a", "--markdown", "a"), "--json has the same file"),
        (("compare", "x", "--selection", "validations", "--json", "a"), "only prints"),
    ],
)
def test_two_files_do_not_have_one_name_and_none_is_left_out(
    arguments, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(accord, list(arguments))
    assert found.exit_code == 2, found.output
    assert said in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_machine_without_a_gpu_is_not_told_to_take_one(monkeypatch):
    from accord.inference.backends.torch_backend import pick_device, torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(AccordError, match="cannot compute on 'tpu'") as error:
        pick_device("tpu")
    assert error.value.fix == "take cpu: no GPU was found"
