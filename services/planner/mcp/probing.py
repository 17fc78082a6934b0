"""A try of one server of others' tools, for whoever wants to know whether it answers now."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.errors import DependencyFailed, NotFound
from fathom.services.planner.config import McpServer
from fathom.services.planner.mcp.mount import Mount, describe_failure

# A person waits for it, and the gateway somewhat longer; a server's own limit may be minutes, for tools that compute.
PROBE_S = 15.0


async def probe_server(mounts: Iterable[Mount], name: str) -> pb.ProbeToolServerResponse:
    """Return how a server answers now over a connection of its own; raise ``NotFound`` for an unknown name."""
    known = {mount.server.name: mount for mount in mounts}
    if name not in known:
        raise NotFound("tool server", name[:80], sorted(known))
    mount, began = known[name], time.monotonic()
    limit_s = min(mount.server.timeout_s, PROBE_S)
    mount.contact.note_try()
    failure = ""
    try:
        async with asyncio.timeout(limit_s):
            await list_first_tools(mount.server)
        mount.contact.note_answer()
    except TimeoutError:
        failure = f"did not answer within {limit_s:g} s"
    # The SDK raises whatever its transports raise: to whoever asked it is one server that does not answer.
    except Exception as error:
        failure = describe_failure(error)
    if failure:
        mount.contact.note_failure(failure)
    took = round((time.monotonic() - began) * 1_000)
    return pb.ProbeToolServerResponse(is_answering=not failure, failure=failure, duration_ms=took)


async def list_first_tools(server: McpServer) -> None:
    """Connect to a server and ask for the first page of its tools; raise what the SDK raises."""
    # The SDK would say only that the connection has ended.
    if server.command and shutil.which(server.command[0]) is None:
        raise DependencyFailed(server.name, f"there is no program {Path(server.command[0]).name} here")
    # Imported when used: the SDK is an extra, and planners without such servers do without it.
    from fathom.services.planner.mcp.transport import create_client

    async with create_client(server, ignore_message) as connected:
        await connected.list_tools(cursor=None)


async def ignore_message(message: Any) -> None:
    """Leave a notification of a server unread: the connection ends with the answer."""
    await asyncio.sleep(0)
