"""``fathom mcp serve``: serves the planner's tools to any client of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from fathom.core.errors import MissingExtra

app = typer.Typer(help="Serve the planner's tools over the Model Context Protocol.", no_args_is_help=True)


@app.callback()
def mcp() -> None:
    """Serve the tools over the Model Context Protocol."""


@app.command()
def serve(
    transport: Annotated[
        Literal["stdio", "http"], typer.Option(help="Standard streams, or streamable HTTP.")
    ] = "stdio",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.")] = 8090,
    home: Annotated[Path, typer.Option(help="Folder of the local stack.", envvar="FATHOM_LOCAL_HOME")] = Path(
        ".fathom"
    ),
    lane: Annotated[
        Literal["interactive", "evaluation", "training"],
        typer.Option(help="Lane of the calls; in training, failures of the services are errors and no results."),
    ] = "interactive",
    sessions: Annotated[
        int, typer.Option(min=1, max=4096, help="Sessions over HTTP at once; above it the longest idle one ends.")
    ] = 32,
) -> None:
    """Serve the agent (ask) and its tools of the local stack; log to standard error.

    With FATHOM_MCP_TOKEN in the environment, clients over HTTP must send it as a bearer token.
    """
    try:
        # Tried before the stack is asked for: the extra is what is most often missing.
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingExtra("mcp", "mcp") from error
    asyncio.run(work(transport, host, port, home, lane, sessions))


async def work(transport: str, host: str, port: int, home: Path, lane: str, sessions: int) -> None:
    """Serve the tools until stopped; raise ``NotReady`` when no stack is running."""
    from fathom.clients.local import read_endpoints
    from fathom.core.call import Lane
    from fathom.core.config import load
    from fathom.hosting.host import Runtime, dependencies
    from fathom.services.planner.assembly import ResourcesFactory
    from fathom.services.planner.config import Config
    from fathom.services.planner.mcp.ask import Ask
    from fathom.services.planner.mcp.serve import Workspaces, serve_http, serve_stdio
    from fathom.services.planner.prompts.catalogue import load_catalogue

    endpoints = read_endpoints(home)
    where = {"endpoints": dict(endpoints.services), "store_url": endpoints.store}
    token = os.environ.get("FATHOM_MCP_TOKEN", "")
    runtime, config = load(Runtime, "runtime", overrides=where), load(Config, "planner")
    # Standard output belongs to the protocol; a line of the log in it would end the session.
    async with dependencies("mcp", runtime, sys.stderr) as deps:
        make_resources = ResourcesFactory.of(config, deps, load_catalogue())
        workspaces = Workspaces(lambda task: make_resources(task, ()), Lane(lane), sessions)
        ask = Ask(deps.clients, config.default_model)
        try:
            # A workspace only to describe the tools; it is closed with the server.
            async with workspaces.at("") as shown:
                if transport == "stdio":
                    await serve_stdio(workspaces, shown.resources, 2 * config.tool_timeout_s, ask)
                else:
                    await serve_http(workspaces, shown.resources, 2 * config.tool_timeout_s, host, port, token, ask)
        finally:
            await workspaces.close()
