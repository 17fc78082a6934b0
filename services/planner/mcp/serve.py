"""MCP server that exposes the planner's tools; calls go through the registry. Needs the extra ``mcp``.

Calls share state (the Python session, sheets, material numbers) in a workspace. On standard streams there is one
workspace; over HTTP one per MCP session, or per ``fathom/session`` that a stateless client sends in ``_meta``; without
either, each call gets its own.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections import OrderedDict
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp import MCPError
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent
from mcp_types import Tool as Described
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fathom import __version__
from fathom.core.call import Call, Lane, calling
from fathom.core.errors import InvalidField
from fathom.core.ids import content_hash, new_id
from fathom.domain.chat.messages import Sampling, ToolCall
from fathom.hosting.host import wait_for_signal
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.mcp.ask import ASK, Ask, describe_ask
from fathom.services.planner.mcp.sessions import SessionLimits
from fathom.services.planner.model.episode import Limits, Task, ToolStatus
from fathom.services.planner.tools.registry import PlaneFailure
from fathom.transport.sockets import listen

# The other tools make no sense without an episode.
OFFERED = frozenset({"catalogue", "data", "fetch", "python", "search", "sql", "think", "todo"})
# Each workspace may hold a Python session of the sandbox. A trainer asks for as many as trajectories play at once.
MAX_WORKSPACES, SESSION = 32, "fathom/session"
# Seconds without a request after which a session over HTTP ends: a person reads the last answer for less.
IDLE_S = 900.0
# Bytes of arguments and results after which a workspace takes no more calls. It holds its code, the tables it names and
# the ids of documents found, all of which came in as arguments or went out in results: thousands of calls.
MAX_WORKSPACE_BYTES = 16 * 1024 * 1024
# Code of a failure that is the services' own, of those that the protocol leaves to servers.
PLANE_FAILURE = -32050
# Seconds for open requests when the server stops.
GRACE_S = 5
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
OpenResources = Callable[[Task], EpisodeResources]


@dataclass
class Workspace:
    """Tool state of one session; its calls run sequentially, so that numbers and names are deterministic."""

    resources: EpisodeResources
    run_id: str
    lane: Lane = Lane.INTERACTIVE
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    calls: int = 0
    size_bytes: int = 0

    async def call(self, name: str, arguments: dict[str, Any], timeout_s: float) -> CallToolResult:
        """Return a tool's result; raise ``MCPError`` for a failure of our own in the lane of trainings."""
        async with self.turn:
            if self.size_bytes >= MAX_WORKSPACE_BYTES:
                said = f"this session has exchanged {self.size_bytes:,} bytes and takes no more calls: start a new one"
                return CallToolResult(content=[TextContent(type="text", text=said)], is_error=True)
            self.calls += 1
            call = ToolCall(f"call_{self.calls}", name, json.dumps(arguments, ensure_ascii=False))
            try:
                with calling(Call.new(lane=self.lane, timeout_s=timeout_s)):
                    result = await self.resources.tools.call(f"{self.run_id}-{self.calls}", call)
            except PlaneFailure as error:
                data = {"reason": error.reason, **error.metadata, "retry_after_s": error.retry_after_s}
                raise MCPError(PLANE_FAILURE, error.message, data) from error
        self.size_bytes += len(call.arguments_json.encode()) + len(result.content.encode())
        wrong = result.status in (ToolStatus.FAILED, ToolStatus.INVALID)
        return CallToolResult(content=[TextContent(type="text", text=result.content)], is_error=wrong)


class Workspaces:
    """LRU collection of at most ``most`` workspaces, whose calls are made in one lane.

    In the lane of trainings a call that fails for our own reasons is an error of the protocol and no result, from which
    a model would learn.
    """

    def __init__(
        self, open_resources: OpenResources, lane: Lane = Lane.INTERACTIVE, most: int = MAX_WORKSPACES
    ) -> None:
        self._open_resources, self._lane, self.most = open_resources, lane, most
        # No cache: a workspace that makes room has its session in the sandbox closed, which is awaited.
        self._open: OrderedDict[str, Workspace] = OrderedDict()

    @asynccontextmanager
    async def at(self, session: str) -> Any:
        """Yield the workspace of a session; one without a session id is closed after the call."""
        if not session:
            alone = self._new()
            try:
                yield alone
            finally:
                await alone.resources.close()
            return
        if session not in self._open:
            self._open[session] = self._new()
            # The least recently used one; its client gets a new, empty workspace if it comes back.
            if len(self._open) > self.most:
                _, oldest = self._open.popitem(last=False)
                await oldest.resources.close()
        self._open.move_to_end(session)
        yield self._open[session]

    async def end(self, session: str) -> None:
        """Close the workspace of a session that has ended, once its last call has."""
        workspace = self._open.pop(session, None)
        if workspace is not None:
            async with workspace.turn:
                await workspace.resources.close()

    def _new(self) -> Workspace:
        run_id = new_id("mcp")
        is_rollout = self._lane is Lane.TRAINING
        task = Task(run_id, "", "", Sampling(), Limits(0, 0, 0.0), is_rollout=is_rollout)
        return Workspace(self._open_resources(task), run_id, self._lane)

    async def close(self) -> None:
        while self._open:
            await self._open.popitem()[1].resources.close()


def create_server(
    workspaces: Workspaces, resources: EpisodeResources, timeout_s: float, ask: Ask | None = None, *, alone: bool
) -> Server[Any]:
    """Create the server.

    ``resources`` provides the tools' specifications; with ``ask`` the agent is one of them; ``alone`` says that all
    calls come from one client.
    """
    tools = [
        Described(name=spec.name, description=spec.description, input_schema=json.loads(spec.parameters_json))
        for spec in resources.tools.specs
        if spec.name in OFFERED
    ]
    tools += [describe_ask()] if ask else []
    shown = {tool.name for tool in tools}

    async def list_tools(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in shown:
            said = f"no tool {params.name[:80]!r}; there are: {', '.join(sorted(shown))}"
            return CallToolResult(content=[TextContent(type="text", text=said)], is_error=True)
        if ask is not None and params.name == ASK:
            return await ask(params.arguments or {})
        async with workspaces.at("one" if alone else hash_session(context)) as workspace:
            result: CallToolResult = await workspace.call(params.name, params.arguments or {}, timeout_s)
            return result

    return Server("fathom", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


def hash_session(context: Any) -> str:
    """Return a hash of the session id of an HTTP request; "" for none."""
    headers = getattr(context.request, "headers", {})
    named = headers.get("mcp-session-id") or (context.meta or {}).get(SESSION)
    return hash_id(str(named)) if named else ""


def hash_id(ident: str) -> str:
    """Return the name of a session here."""
    # The id is a secret of its client, so only its hash is kept.
    return content_hash([ident])


async def serve_stdio(
    workspaces: Workspaces, resources: EpisodeResources, timeout_s: float, ask: Ask | None = None
) -> None:
    """Serve one client on standard input and output until it disconnects."""
    app = create_server(workspaces, resources, timeout_s, ask, alone=True)
    async with stdio_server() as (reading, writing):
        await app.run(reading, writing, app.create_initialization_options())


def require_token(app: ASGIApp, token: str) -> ASGIApp:
    """Wrap the app with bearer token authentication."""

    async def check_token(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "")
            # In constant time: a comparison that stops at the first difference tells how much of a guess is right.
            if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                await Response("a bearer token is needed", 401, {"www-authenticate": "Bearer"})(scope, receive, send)
                return
        await app(scope, receive, send)

    return check_token


def limit_sessions(app: ASGIApp, workspaces: Workspaces) -> ASGIApp:
    """Wrap the app with limits of its sessions, whose workspaces end with them."""

    async def end(ident: str) -> None:
        await workspaces.end(hash_id(ident))

    return SessionLimits(app, workspaces.most, IDLE_S, end)


async def serve_http(
    workspaces: Workspaces,
    resources: EpisodeResources,
    timeout_s: float,
    host: str,
    port: int,
    token: str = "",
    ask: Ask | None = None,
) -> None:
    """Serve streamable HTTP at ``/mcp`` until SIGINT or SIGTERM; for local addresses the SDK checks Host and Origin.

    Raises ``PortInUse``, and ``InvalidField("host")`` for a non-local address without a token.
    """
    if host not in LOCAL and not token:
        raise InvalidField("host", f"{host} is reached by others: set FATHOM_MCP_TOKEN, or listen on 127.0.0.1")
    app = create_server(workspaces, resources, timeout_s, ask, alone=False)
    http = limit_sessions(app.streamable_http_app(host=host, max_sessions=workspaces.most), workspaces)
    http = require_token(http, token) if token else http
    listener = listen("mcp", host, port)
    settings = uvicorn.Config(http, log_config=None, access_log=False, timeout_graceful_shutdown=GRACE_S)
    program = uvicorn.Server(settings)
    # serve() would install its own signal handlers, which end the process before its sessions are closed.
    serving = asyncio.create_task(program._serve([listener]), name="http mcp")
    try:
        await wait_for_signal(serving)
    finally:
        program.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        listener.close()
