"""Commands that services and trainers bring by entry points: declared, installed, cheap, and able to say what is wrong."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fathom.cli import plugins
from fathom.cli.doctor.findings import Finding
from fathom.cli.doctor.local import run_checks
from fathom.core.errors import MissingExtra, NotReady

ROOT = Path(__file__).resolve().parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
HERE = "tests.contract.test_commands"


def hello() -> None:
    """Say hello."""
    typer.echo("hello")


def make_point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, plugins.COMMANDS)


def make_app(*points: EntryPoint) -> typer.Typer:
    """Return a command line with one group of its own, ``tools``, and the entry points' commands."""
    app, tools = typer.Typer(), typer.Typer()
    tools.command("own")(hello)
    app.add_typer(tools, name="tools")
    plugins.add_commands(app, points)
    return app


@pytest.mark.parametrize("group", [plugins.COMMANDS, plugins.CHECKS, plugins.MODEL_CHECKS, plugins.STACK])
def test_the_installed_entry_points_are_those_that_pyproject_declares(group: str) -> None:
    installed = {point.name: point.value for point in entry_points(group=group)}
    assert installed == DECLARED[group], "the installation is older than pyproject.toml: run make dev"


def test_every_declared_command_loads_and_has_a_help_text() -> None:
    for point in entry_points(group=plugins.COMMANDS):
        loaded = point.load()
        assert loaded.info.help if isinstance(loaded, typer.Typer) else loaded.__doc__, point.name


def test_commands_are_loaded_without_what_they_need_when_they_run() -> None:
    probe = (
        "import sys\nfrom importlib.metadata import entry_points\n"
        f"[p.load() for g in {list(DECLARED)!r} for p in entry_points(group=g) if g != {plugins.STACK!r}]\n"
        "print([m for m in ('yaml', 'rich.console', 'uvloop', 'structlog', 'numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("place", ["greet", "tools.greet", "new.greet"])
def test_a_command_appears_at_the_place_that_its_entry_point_names(place: str) -> None:
    found = CliRunner().invoke(make_app(make_point(place, f"{HERE}:hello")), place.split("."))
    assert found.output == "hello\n"


def test_a_group_keeps_its_own_commands_beside_those_that_others_bring() -> None:
    app = make_app(make_point("tools.greet", f"{HERE}:hello"))
    assert CliRunner().invoke(app, ["tools", "own"]).output == "hello\n"


@pytest.mark.parametrize(
    ("value", "cause"),
    [("fathom.services.removed.commands:run", "No module named"), (f"{HERE}:missing", "has no attribute 'missing'")],
)
def test_a_command_that_cannot_be_loaded_says_why_and_leaves_the_others_alone(value: str, cause: str) -> None:
    app = make_app(make_point("broken", value), make_point("greet", f"{HERE}:hello"))
    failed = CliRunner().invoke(app, ["broken"])
    assert isinstance(failed.exception, NotReady)
    assert cause in failed.exception.message
    assert value in failed.exception.message
    assert CliRunner().invoke(app, ["greet"]).output == "hello\n"


def test_a_command_whose_extra_is_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(point: EntryPoint) -> object:
        raise ModuleNotFoundError("No module named 'duckdb'", name="duckdb")

    monkeypatch.setattr(EntryPoint, "load", fail)
    failed = CliRunner().invoke(make_app(make_point("query", f"{HERE}:hello")), ["query"])
    assert isinstance(failed.exception, MissingExtra)
    assert failed.exception.metadata["extra"] == "data"


async def test_the_doctor_runs_the_checks_that_services_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> list[Finding]:
        return [Finding("jail", False, "broken", "mend it")]

    monkeypatch.setattr("fathom.cli.doctor.local.load_checks", lambda: [check])
    assert await run_checks() == [Finding("jail", False, "broken", "mend it")]


def test_without_an_installed_stack_the_cause_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda **_: ())
    with pytest.raises(NotReady, match="not installed"):
        plugins.start_stack(tmp_path)
