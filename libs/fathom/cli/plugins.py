"""Entry points by which services and trainers extend the command line, so that nothing in libs imports them.

pyproject.toml declares them. Each module that an entry point names must be cheap to import: it is loaded whenever
``fathom`` starts, and imports what its commands need when they run.

- ``fathom.commands``: a command (a function) or a group of commands (a ``typer.Typer``), named by its place on the
  command line: ``train``, or ``data.convert`` for ``fathom data convert``.
- ``fathom.checks``: a function without arguments that returns further findings of ``fathom doctor`` (``Check``).
- ``fathom.model_checks``: a function that examines one model behind an endpoint (``ModelCheck``), named ``endpoint``.
- ``fathom.stack``: the function that starts a local stack in a folder (``StartStack``), named ``local``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fathom.core.errors import FathomError, MissingExtra, NotReady
from fathom.core.extras import name_missing_extra

if TYPE_CHECKING:
    from fathom.cli.doctor.findings import Finding
    from fathom.clients.local import LocalEndpoints

COMMANDS, CHECKS, STACK = "fathom.commands", "fathom.checks", "fathom.stack"
MODEL_CHECKS = "fathom.model_checks"

Check = Callable[[], Awaitable[Sequence["Finding"]]]
ModelCheck = Callable[[str, str, str], Awaitable[Sequence["Finding"]]]
"""Takes a model's name, the base URL of its endpoint and the variable of its key, "" for those of the settings."""
StartStack = Callable[[Path], AbstractAsyncContextManager["LocalEndpoints"]]


def add_commands(app: typer.Typer, points: Iterable[EntryPoint] | None = None) -> None:
    """Add the commands and groups of the entry points, by default the installed ones, at their places below ``app``."""
    groups = {"": app}
    groups |= {str(group.name): group.typer_instance for group in app.registered_groups if group.typer_instance}
    # A group comes before what is in it: "data" sorts before "data.convert".
    for point in sorted(entry_points(group=COMMANDS) if points is None else points, key=lambda point: point.name):
        place, _, name = point.name.rpartition(".")
        if place not in groups:
            groups[place] = typer.Typer()
            app.add_typer(groups[place], name=place)
        # Loaded now, since typer reads options and help from the function; hence the rule that such modules are cheap.
        loaded = load_command(point)
        if isinstance(loaded, typer.Typer):
            groups[place].add_typer(loaded, name=name)
            groups[point.name] = loaded
        else:
            groups[place].command(name)(loaded)


def load_command(point: EntryPoint) -> typer.Typer | Callable[..., Any]:
    """Load a command; in place of one that cannot be loaded return a command that says why.

    An image may hold a part of the packages, and a fault in one of them must not take ``fathom doctor`` away.
    """
    try:
        with name_missing_extra():
            loaded: typer.Typer | Callable[..., Any] = point.load()
            return loaded
    except MissingExtra as error:
        failure: FathomError = error
    except (ImportError, AttributeError) as error:
        failure = NotReady(f"this command cannot be loaded from {point.value}: {error}")

    def explain() -> None:
        raise failure

    explain.__doc__ = f"Not available here: {failure.message}."
    return explain


def load_checks() -> Iterator[Check]:
    """Load the installed checks of ``fathom doctor``."""
    for point in sorted(entry_points(group=CHECKS), key=lambda point: point.name):
        yield point.load()


def load_model_check() -> ModelCheck:
    """Load the examination of a model; raise ``NotReady`` where none is installed."""
    found = entry_points(group=MODEL_CHECKS, name="endpoint")
    if not found:
        raise NotReady("the policy service is not installed here: install Fathom anew")
    check: ModelCheck = next(iter(found)).load()
    return check


def start_stack(home: Path) -> AbstractAsyncContextManager[LocalEndpoints]:
    """Start a local stack for as long as the context lasts; raise ``NotReady`` where none is installed."""
    found = entry_points(group=STACK, name="local")
    if not found:
        raise NotReady("the services are not installed here: start a stack elsewhere, or install Fathom anew")
    start: StartStack = next(iter(found)).load()
    return start(home)
