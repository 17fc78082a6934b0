"""Persistent connections to external MCP servers, and their tools in the planner's registry."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.core.cache import observe_cache
from fathom.core.errors import DependencyFailed, FathomError, InvalidField, MissingExtra
from fathom.core.retry import RetryPolicy
from fathom.domain.chat.quoting import shorten
from fathom.domain.contact import Contact
from fathom.services.planner.config import McpServer
from fathom.services.planner.mcp.results import ForeignResult, SharedResults
from fathom.services.planner.mcp.schema import AdoptedTool, adopt_tool
from fathom.services.planner.model.episode import MaterialKind, ToolStatus
from fathom.services.planner.recording.tape import current_tape
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, OutcomeUnknown, Reply, SourceFailed
from fathom.transport.store import ObjectStore

# As much as a page of our own tool `fetch`.
BODY_CHARS = 6_000
# Attempts to connect go on for as long as the service runs.
RETRY = RetryPolicy(attempts=None, first_delay_s=0.5, max_delay_s=30.0)
# A server whose list never ends must not keep us listing.
LIST_PAGES = 20
# JSON-RPC error codes.
INVALID_PARAMS, METHOD_NOT_FOUND = -32602, -32601
# Codes by which the SDK says that the connection or its session is gone. Any other is an answer: the connection works,
# and other runs use it.
BROKEN = frozenset({-32000, -32600})
# The connection ended, or nobody answered in time: the server may have acted.
BROKEN_OFF = frozenset({-32000, -32001})


@dataclass(frozen=True)
class ListedTool:
    """A tool as its server describes it."""

    description: str
    schema: Any
    is_read_only: bool = False
    """Declaration of the server (``readOnlyHint``)."""


Listing = dict[str, ListedTool]


def make_listing_key(server: str) -> str:
    return f"mcp/{server}.json"


class Mount:
    """Connection to one server, maintained by its own task and re-established after failures."""

    def __init__(self, server: McpServer, store: ObjectStore, log: Any, results: SharedResults) -> None:
        self.server, self._store, self._log, self._results = server, store, log, results
        self.tools: tuple[ForeignTool, ...] = ()
        """Tools as last listed, by this planner or a previous one."""
        self.listed = asyncio.Event()
        self.contact = Contact()
        self._client: Any = None
        self._stale = asyncio.Event()
        self._broken = False
        self._owner: asyncio.Task[None] | None = None
        self._is_closing = False

    def start(self) -> None:
        """Start the connection task; raise ``MissingExtra`` when the SDK is not installed."""
        try:
            # Imported here only to find out: the SDK is an extra, and planners without external servers do without it.
            from fathom.services.planner.mcp import transport  # noqa: F401
        except ImportError as error:
            raise MissingExtra("mcp", "mcp") from error
        self._owner = asyncio.create_task(self._maintain(), name=f"mcp {self.server.name}")

    @property
    def is_connected(self) -> bool:
        """Return whether calls reach the server now."""
        return self._client is not None and not self._broken

    async def close(self) -> None:
        if self._owner is not None:
            self._is_closing = True
            self._owner.cancel()
            await asyncio.gather(self._owner, return_exceptions=True)

    async def _maintain(self) -> None:
        failures = 0
        await self._restore_listing()
        while True:
            began = asyncio.get_running_loop().time()
            self.contact.note_try()
            try:
                await self._connect()
                reason = "it is to be connected again"
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # the SDK's task groups raise groups of whatever happened inside
                if not isinstance(error, Exception | BaseExceptionGroup):
                    raise
                reason = repr(error)[:300]
                self.contact.note_failure(describe_failure(error))
            self._client = None
            # A task group whose child failed at the same time raises that failure and swallows the cancellation.
            if self._is_closing:
                return
            self._log.warning("tool server is not connected", server=self.server.name, reason=reason)
            lasted = asyncio.get_running_loop().time() - began
            # A connection that held for long ended for a new reason.
            failures = 1 if lasted > RETRY.max_delay_s else failures + 1
            await asyncio.sleep(RETRY.delay_s(failures))

    async def _connect(self) -> None:
        """Connect and list the tools, again whenever the list may be stale; return when the connection is broken."""
        from fathom.services.planner.mcp.transport import create_client

        self._broken = False
        async with create_client(self.server, self._on_message) as connected:
            while not self._broken:
                self._stale.clear()
                async with asyncio.timeout(self.server.timeout_s):
                    listing = await self._list(connected)
                self.tools, self._client = self._adopt(listing), connected
                self.contact.note_answer()
                await self._store_listing(listing)
                self.listed.set()
                await self._stale.wait()

    async def _on_message(self, message: Any) -> None:
        """Handle a server notification: a changed tool list makes ours stale; everything else is ignored."""
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._stale.set()
        await asyncio.sleep(0)

    async def _list(self, connected: Any) -> Listing:
        """Return the allowed tools by name."""
        found: Listing = {}
        cursor: str | None = None
        for _ in range(LIST_PAGES):
            page = await connected.list_tools(cursor=cursor)
            for tool in page.tools:
                # Only tools that the operator has named: a server must not add tools to a running planner.
                if tool.name in self.server.tools:
                    is_read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
                    found.setdefault(tool.name, ListedTool(tool.description or "", tool.input_schema, is_read_only))
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    def _adopt(self, listing: Listing) -> tuple[ForeignTool, ...]:
        """Return the valid tools in the order of the settings."""
        taken = []
        for name in self.server.tools:
            try:
                listed = listing[name]
                adopted = adopt_tool(self.server.name, name, listed.description, listed.schema)
                # The operator, who has named the tool, goes before its server.
                reads = listed.is_read_only if self.server.reads is None else self.server.reads
                taken.append(ForeignTool(self, adopted, reads))
            except KeyError:
                self._log.warning("tool is not offered", server=self.server.name, tool=name)
            except InvalidField as error:
                self._log.warning("tool is refused", server=self.server.name, tool=name, reason=error.message)
        return tuple(taken)

    async def _store_listing(self, listing: Listing) -> None:
        try:
            stored = {name: [tool.description, tool.schema, tool.is_read_only] for name, tool in listing.items()}
            await self._store.put(make_listing_key(self.server.name), json.dumps(stored).encode(), "application/json")
        except (FathomError, ValueError) as error:
            self._log.warning("list of tools is not kept", server=self.server.name, reason=str(error)[:300])

    async def _restore_listing(self) -> None:
        """Restore the tools from the stored listing, if there is one."""
        try:
            kept = json.loads(await self._store.get(make_listing_key(self.server.name)))
            # A run resumed after a restart needs the tools with which it began, because they are part of its prompt. If
            # the server is unreachable by then, its calls fail with an error.
            # Earlier versions stored description and schema alone.
            self.tools = self._adopt({name: ListedTool(str(said), *rest) for name, (said, *rest) in kept.items()})
        except (FathomError, ValueError, TypeError, AttributeError) as error:
            self._log.info("no list of tools is kept", server=self.server.name, reason=str(error)[:300])

    def make_key(self, tool: AdoptedTool, arguments: Mapping[str, Any]) -> str:
        """Return the key that equal calls of a read-only tool have in common."""
        return self._results.make_key(self.server.name, name_version(tool), arguments)

    def find_held(self, tool: AdoptedTool, arguments: Mapping[str, Any]) -> ForeignResult | None:
        """Return the result that is held of an equal call of a read-only tool; None without one."""
        return self._results.find(self.server.name, name_version(tool), arguments)

    async def read(self, tool: AdoptedTool, arguments: Mapping[str, Any]) -> ForeignResult:
        """Return the result of a read-only tool, which an equal call may have had; raises as ``call`` does."""
        return await self._results.get(
            self.server.name, name_version(tool), arguments, lambda: self.call(tool, arguments), self.server.cache_s
        )

    async def call(self, tool: AdoptedTool, arguments: Mapping[str, Any]) -> ForeignResult:
        """Return the server's result.

        Raises ``InvalidField`` when the server rejects the arguments, ``SourceFailed`` when it answers that the call
        failed, ``DependencyFailed`` when it is not connected, and ``OutcomeUnknown`` when the call broke off.
        """
        from mcp import MCPError

        connected = self._client
        if connected is None:
            raise DependencyFailed(self.server.name, "is not connected")
        self.contact.note_try()
        try:
            async with asyncio.timeout(self.server.timeout_s):
                result = await connected.call_tool(tool.remote, tool.to_remote(arguments))
            self.contact.note_answer()
            return ForeignResult(shorten(format_result(result), BODY_CHARS), bool(result.is_error))
        except TimeoutError as error:
            self.contact.note_failure(f"did not answer within {self.server.timeout_s:g} s")
            raise OutcomeUnknown(self.server.name, f"did not answer within {self.server.timeout_s:g} s") from error
        except MCPError as error:
            if error.code in BROKEN | BROKEN_OFF:
                self.contact.note_failure(f"the connection ended (code {error.code})")
            else:
                self.contact.note_answer()
            # The schema that the model followed may be old: the list is read again for the next run.
            if error.code == INVALID_PARAMS:
                self._stale.set()
                raise InvalidField(tool.name, error.message[:300]) from error
            if error.code in BROKEN or error.code == METHOD_NOT_FOUND:
                self._wake(error.code in BROKEN)
            kind = OutcomeUnknown if error.code in BROKEN_OFF else SourceFailed
            raise kind(self.server.name, error.message[:300]) from error
        except FathomError:
            raise
        except Exception as error:  # the SDK raises whatever its transports raise: to us it is one failed dependency
            self._wake(True)
            self.contact.note_failure(describe_failure(error))
            raise OutcomeUnknown(self.server.name, f"{type(error).__name__}: {str(error)[:200]}") from error

    def _wake(self, broken: bool) -> None:
        """Wake the connection task after a failure: to list again, or to reconnect when ``broken``."""
        self._broken = self._broken or broken
        self._stale.set()

    async def describe_drift(self, tool: AdoptedTool) -> str:
        """Return how a tool differs from a fresh listing; "" when it is unchanged."""
        self.listed.clear()
        self._stale.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(5.0, self.server.timeout_s)):
                await self.listed.wait()
        now = next((other.adopted for other in self.tools if other.adopted.remote == tool.remote), None)
        if now is None:
            return f"{self.server.name} no longer offers {tool.name}"
        return "" if now.hash == tool.hash else f"{tool.name} has changed its arguments since this run began"


@dataclass(frozen=True)
class ForeignTool:
    """A tool of an external server, fixed at the start of the episode."""

    mount: Mount
    adopted: AdoptedTool
    reads: bool
    """True for a read-only tool: its calls may run concurrently, and equal ones share a result."""

    @property
    def name(self) -> str:
        return self.adopted.name

    @property
    def description(self) -> str:
        return self.adopted.description

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.adopted.parameters

    def make_key(self, arguments: Mapping[str, Any]) -> str:
        """Return the key that equal calls have in common; "" for a tool that acts."""
        return self.mount.make_key(self.adopted, arguments) if self.reads else ""

    def find_held(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply | None:
        """Return the reply that is held of an equal call; None when the call must go upstream."""
        # A recorded episode's calls are in its recording, whatever is held here.
        if not self.reads or current_tape() is not None:
            return None
        found = self.mount.find_held(self.adopted, arguments)
        return None if found is None else self._reply(call_id, found.text, is_cached=True)

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        with observe_cache() as use:
            result = await self._ask(arguments)
        if result.is_error:
            drift = await self.mount.describe_drift(self.adopted)
            why = drift or result.text[:500] or "the tool failed and did not say why"
            raise SourceFailed(self.mount.server.name, why)
        return self._reply(call_id, result.text, is_cached=use.is_cached)

    def _reply(self, call_id: str, text: str, *, is_cached: bool) -> NumberedReply:
        document = Document(
            id=f"{self.name}/{call_id}", title=self.name, text=text, source=f"mcp:{self.mount.server.name}"
        )
        if not text:
            return lambda first: Reply(ToolStatus.EMPTY, {"note": "the tool gave nothing"}, is_cached=is_cached)
        return lambda first: Reply(
            ToolStatus.OK, {"material": first}, text, (NewMaterial(MaterialKind.PASSAGE, document),), is_cached
        )

    async def _ask(self, arguments: Mapping[str, Any]) -> ForeignResult:
        """Return the result, of a recorded episode by its recording."""
        ask, tape = self.mount.read if self.reads else self.mount.call, current_tape()
        if tape is None:
            return await ask(self.adopted, arguments)

        server = self.mount.server.name

        async def record() -> list[bytes]:
            try:
                return [json.dumps(asdict(await ask(self.adopted, arguments))).encode()]
            # An answer like any other, though a client may try such an error again.
            except SourceFailed as error:
                return [json.dumps({"failed": error.message.removeprefix(f"{server}: ")}).encode()]

        request = json.dumps([self.adopted.hash, arguments], sort_keys=True)
        [stored] = await tape.play(f"mcp/{server}", self.adopted.remote, request, record)
        found = json.loads(stored)
        if "failed" in found:
            raise SourceFailed(server, found["failed"])
        return ForeignResult(**found)


def describe_failure(error: BaseException) -> str:
    """Return why a server was not reached, in words that hold no address and no key."""
    # The SDK's task groups raise groups of whatever happened inside; the first of the innermost says why.
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FathomError):
        return error.message
    # Of errors of libraries the kind, and what the system or the server's status says: their texts may quote the
    # address with what stands in its query.
    status = getattr(getattr(error, "response", None), "status_code", None)
    said = f"HTTP {status}" if isinstance(status, int) else find_system_error(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def find_system_error(error: BaseException) -> str:
    """Return the system's words for the failed call behind an error, such as "Connection refused"; "" without one."""
    cause: BaseException | None = error
    # Far more than libraries nest.
    for _ in range(20):
        if cause is None:
            break
        if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return ""


def name_version(tool: AdoptedTool) -> str:
    """Return the name of a tool with the version of its description."""
    return f"{tool.remote}@{tool.hash}"


def format_result(result: Any) -> str:
    """Return the text contents of a result, its structured content as JSON if there is no text.

    Other contents are only named.
    """
    parts = []
    # A server may send blocks without end; the text is cut anyway.
    for block in result.content[:100]:
        text = getattr(block, "text", None)
        parts.append(text if isinstance(text, str) else f"[{getattr(block, 'type', 'content')} is not shown]")
    if not any(parts) and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False, default=str)
    return "\n\n".join(part for part in parts if part)


class Mounts:
    """All external servers of a planner."""

    def __init__(
        self, servers: Sequence[McpServer], store: ObjectStore, log: Any, results: SharedResults | None = None
    ) -> None:
        """Create the mounts; without ``results`` they share results with each other alone."""
        shared = results or SharedResults()
        self._mounts = [Mount(server, store, log, shared) for server in servers]

    def start(self) -> None:
        for mount in self._mounts:
            mount.start()

    async def wait_until_listed(self, timeout_s: float) -> None:
        """Wait until all servers have been listed, at most ``timeout_s`` seconds."""
        waits = [asyncio.ensure_future(mount.listed.wait()) for mount in self._mounts]
        if waits:
            _, late = await asyncio.wait(waits, timeout=timeout_s)
            for wait in late:
                wait.cancel()

    async def close(self) -> None:
        await asyncio.gather(*(mount.close() for mount in self._mounts))

    def __iter__(self) -> Iterator[Mount]:
        return iter(self._mounts)

    def tools(self) -> list[ForeignTool]:
        """Return the current tools; an episode keeps those with which it began."""
        return [tool for mount in self._mounts for tool in mount.tools]
