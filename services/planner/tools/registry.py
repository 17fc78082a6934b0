"""Tool registry: the single call path for all tools; adds ``intent``, validates arguments, limits time and size."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from fathom.core.errors import DeadlineExceeded, FathomError, Internal, InvalidField, NotFound, is_retryable
from fathom.core.retry import RetryPolicy
from fathom.domain.chat.messages import ToolCall, ToolSpec
from fathom.domain.chat.quoting import shorten
from fathom.services.planner.model.episode import Material, MaterialKind, ToolResult, ToolStatus
from fathom.services.planner.model.waits import Waits
from fathom.services.planner.tools.arguments import make_validator, read_arguments
from fathom.services.planner.tools.gates import Gates
from fathom.services.planner.tools.intents import describe_intent
from fathom.services.planner.tools.tool import (
    NewMaterial,
    NumberedReply,
    OutcomeUnknown,
    Reply,
    SharingTool,
    SourceFailed,
    Tool,
)

INTENT = {"type": "string", "description": "What you want with this call, in one short sentence for the reader."}
# Last line of defence behind the tools' own limits: no result may fill the window or the record.
MAX_BODY_CHARS, MAX_HEAD_CHARS, MAX_FINDINGS = 24_000, 40_000, 64
Report = Callable[[str, BaseException], None]
# A client has made its own attempts, in seconds, before a call fails here: these pauses outlast a restart.
PAUSES = RetryPolicy(attempts=None, first_delay_s=0.5, max_delay_s=5.0)
# Codes of a service's own defects: a repetition meets them again, and no model caused them either.
DEFECTS = frozenset({"INTERNAL", "DATA_LOSS"})


@dataclass(frozen=True)
class CallLimits:
    """Deadlines in seconds, the default and by tool, concurrency limits, and patience with the services behind.

    ``patience_s`` is the time that an episode may wait in all for services that are away or full. After it a call fails
    as a result that the model reads, or, for ``is_strict``, with ``PlaneFailure``: trainers must not learn from a
    failure that no model caused. ``run`` names the episode in the queues of the gates.
    """

    deadline_s: float = 60.0
    deadlines_s: Mapping[str, float] = field(default_factory=dict)
    gates: Gates | None = None
    patience_s: float = 0.0
    is_strict: bool = False
    run: str = ""

    def of(self, tool: str) -> float:
        return self.deadlines_s.get(tool, self.deadline_s)


@dataclass(frozen=True)
class ExecutedCall:
    """An executed call whose material is not numbered yet."""

    call: ToolCall
    found: Reply | NumberedReply | ToolResult
    """A ``ToolResult`` is one recorded by a previous worker, already numbered."""
    seconds: float


def ignore(tool: str, error: BaseException) -> None:
    """Do nothing, for registries without a log."""


class Registry:
    """Executor of tool calls of one episode, which numbers the material that they find.

    Every failure of a call is returned as a result. ``call`` raises nothing except cancellation and, with strict
    limits, ``PlaneFailure``.
    """

    def __init__(
        self,
        tools: Sequence[Tool] | Callable[[], Sequence[Tool]],
        material: int = 0,
        bounds: CallLimits | None = None,
        report: Report = ignore,
        known: Sequence[ToolResult] = (),
        off: Set[str] = frozenset(),
    ) -> None:
        """Create the registry; a function that makes ``tools`` is called when they are first asked for.

        ``material`` is the number of existing materials, ``report`` receives unexpected exceptions. ``known`` are
        results of an unfinished round of a previous worker, whose calls are not repeated. ``off`` names tools that are
        not offered, and are refused by name where they are called all the same.
        """
        self._known = {result.call.id: result for result in known}
        self._given, self._off = tools, off
        self._material = material
        self._bounds, self._report = bounds or CallLimits(), report
        self.waits = Waits()
        """Time that the calls have waited for services that were away or full."""

    # An episode of tags that answers at once, as a model does that has learnt nothing yet, has no use for them.
    @cached_property
    def _tools(self) -> Mapping[str, Tool]:
        given = self._given() if callable(self._given) else self._given
        return {tool.name: tool for tool in given if tool.name not in self._off}

    # Asked once, by the first call: to look at a protocol's methods takes longer than to pass the gates.
    @cached_property
    def _sharing(self) -> Mapping[str, SharingTool]:
        return {name: tool for name, tool in self._tools.items() if isinstance(tool, SharingTool)}

    # Only when they are asked for, which a protocol of tags never does.
    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the specifications sorted by name, so that the prompt's prefix is always identical.

        Raises ``jsonschema.SchemaError`` for a tool with an invalid schema.
        """
        return tuple(specify(self._tools[name]) for name in sorted(self._tools))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._tools)

    def reads(self, name: str) -> bool:
        """Return whether the tool is read-only, so that its calls may run concurrently."""
        return name in self._tools and self._tools[name].reads

    def intent(self, call: ToolCall) -> str:
        """Return the call's intent; a missing one is derived from the arguments."""
        return describe_intent(call)

    async def call(self, call_id: str, call: ToolCall) -> ToolResult:
        """Run a single call."""
        return self.settle(await self.run(call_id, call))

    async def run(self, call_id: str, call: ToolCall) -> ExecutedCall:
        """Run a call; ``settle`` must follow, in the order of the calls."""
        started = time.perf_counter()
        known = self._known.pop(call.id, None)  # once: a later round may use the id again
        if known is not None:
            return ExecutedCall(call, known, known.duration_ms / 1000)
        try:
            found = await self._run_patiently(call_id, *self._validate(call))
        except PlaneFailure:
            raise
        # The model's own mistake, which it can correct; other errors become a missing item that the answer must name.
        except (InvalidField, NotFound) as error:
            found = Reply(ToolStatus.INVALID, {"error": error.message})
        except FathomError as error:
            found = make_failure(call, error.message)
        except Exception as error:  # a bug of one tool must not end the episode; the result names the tool
            self._report(call.name, error)
            if self._bounds.is_strict:
                raise PlaneFailure(call.name, Internal(f"{call.name} broke: {type(error).__name__}")) from error
            found = make_failure(call, f"{call.name} broke: {type(error).__name__}: {str(error)[:200]}")
        return ExecutedCall(call, found, time.perf_counter() - started)

    def settle(self, ran: ExecutedCall) -> ToolResult:
        """Return the result with its material numbered after all previously settled material."""
        call = ran.call
        if isinstance(ran.found, ToolResult):
            return ran.found
        try:
            reply = limit_size(call, ran.found if isinstance(ran.found, Reply) else ran.found(self._material + 1))
            content = reply.content(call.name)
        except Exception as error:  # a reply that cannot be numbered or serialised is the tool's failure, not the run's
            self._report(call.name, error)
            reply = make_failure(call, f"{call.name} gave what cannot be shown: {type(error).__name__}")
            content = reply.content(call.name)
        material = self._number(reply.material)
        took_ms = int(ran.seconds * 1000)
        return ToolResult(call, self.intent(call), content, reply.status, took_ms, material, reply.is_cached)

    def _validate(self, call: ToolCall) -> tuple[Tool, Mapping[str, object]]:
        tool = self._tools.get(call.name)
        if call.name in self._off:
            raise InvalidField(call.name, "is switched off for this question; use other tools, or say what is missing")
        if tool is None:
            raise NotFound("tool", call.name[:80], sorted(self._tools))
        return tool, make_validator(tool.name, tool.parameters).validate(read_arguments(call))

    async def _run_patiently(self, call_id: str, tool: Tool, arguments: Mapping[str, object]) -> Reply | NumberedReply:
        """Return the tool's reply; repeat the call while its service is away or full and patience is left.

        Raises the last error, for strict limits as ``PlaneFailure``.
        """
        loop, attempt = asyncio.get_running_loop(), 0
        while True:
            started, attempt = loop.time(), attempt + 1
            try:
                return await self._run_gated(call_id, tool, arguments)
            except FathomError as error:
                if self._bounds.is_strict and error.code in DEFECTS:
                    raise PlaneFailure(tool.name, error) from error
                if not is_house_failure(error):
                    raise
                # The attempt took the episode's time for a failure that is not its own.
                self.waits.cover(started)
                delay, failed = PAUSES.delay_s(attempt, error), error
            # A call that may have acted is not made twice.
            is_repeatable = tool.reads or not isinstance(failed, DeadlineExceeded | OutcomeUnknown)
            if not is_repeatable or self.waits.seconds + delay > self._bounds.patience_s:
                if self._bounds.is_strict:
                    raise PlaneFailure(tool.name, failed) from failed
                raise failed
            with self.waits.waiting():
                await asyncio.sleep(delay)

    async def _run_gated(self, call_id: str, tool: Tool, arguments: Mapping[str, object]) -> Reply | NumberedReply:
        if self._bounds.gates is None:
            return await self._run_within_deadline(call_id, tool, arguments)
        sharing, key = self._sharing.get(tool.name), ""
        if sharing is not None:
            held = sharing.find_held(call_id, arguments)
            if held is not None:
                return held
            key = sharing.make_key(arguments)
        async with self._bounds.gates.hold(tool.name, self._bounds.run, self.waits, key):
            return await self._run_within_deadline(call_id, tool, arguments)

    async def _run_within_deadline(
        self, call_id: str, tool: Tool, arguments: Mapping[str, object]
    ) -> Reply | NumberedReply:
        """Return the tool's reply within its deadline, even if the tool ignores cancellation."""
        limit = self._bounds.of(tool.name)
        running = asyncio.ensure_future(tool(call_id, arguments))
        try:
            # Not asyncio.timeout: a tool that swallows its cancellation would keep the round waiting.
            done, _ = await asyncio.wait({running}, timeout=limit)
        finally:
            if not running.done():
                running.cancel()
                running.add_done_callback(retrieve_exception)
        if not done:
            raise ToolTimeout(f"{tool.name} did not answer within {limit:g} s")
        return running.result()

    def _number(self, findings: Sequence[NewMaterial]) -> tuple[Material, ...]:
        material = tuple(
            Material(
                self._material + offset,
                finding.kind,
                finding.item,
                finding.variable,
                finding.computed_by,
                finding.computed_from,
            )
            for offset, finding in enumerate(findings, start=1)
        )
        # Numbers are given when a result is settled, in the order of the calls, whichever call ended first.
        self._material += len(material)
        return material


class ToolTimeout(DeadlineExceeded):
    """A tool did not respond in time."""


class PlaneFailure(FathomError):
    """A tool's service was away, full or too late for longer than an episode waits: no model caused it."""

    code, reason, transient = "UNAVAILABLE", "DEPENDENCY_FAILED", True

    def __init__(self, tool: str, error: FathomError) -> None:
        culprit = error.metadata.get("culprit", tool)
        super().__init__(error.message, metadata={"culprit": culprit}, retry_after_s=error.retry_after_s)


def is_house_failure(error: FathomError) -> bool:
    """Return whether a call failed for the services' own reasons: away, full or too late."""
    return is_retryable(error) and not isinstance(error, SourceFailed)


def retrieve_exception(task: asyncio.Future[Reply | NumberedReply]) -> None:
    """Retrieve the exception of an abandoned call, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()


def make_failure(call: ToolCall, message: str) -> Reply:
    """Return a failed reply with a missing item, so that the answer must mention it."""
    item = {"subject": call.name, "reason": "SOURCE_FAILED", "detail": message}
    return Reply(ToolStatus.FAILED, {"error": message}, material=(NewMaterial(MaterialKind.MISSING, item),))


def limit_size(call: ToolCall, reply: Reply) -> Reply:
    """Return the reply within its limits: a long body is cut in the middle, an oversized head counts as failed."""
    head = len(json.dumps(dict(reply.head), ensure_ascii=False))
    if head > MAX_HEAD_CHARS or len(reply.material) > MAX_FINDINGS:
        return make_failure(call, f"{call.name} gave more than a result may hold: ask for less")
    if len(reply.body) > MAX_BODY_CHARS:
        return replace(reply, body=shorten(reply.body, MAX_BODY_CHARS))
    return reply


def specify(tool: Tool) -> ToolSpec:
    """Return the tool's specification with the required argument ``intent`` in front."""
    parameters = dict(tool.parameters)
    # A tool is offered only when its calls can be checked.
    make_validator(tool.name, parameters)
    # In front, since models write arguments in the order of the schema: the intent then steers the others.
    parameters["properties"] = {"intent": INTENT, **parameters.get("properties", {})}
    parameters["required"] = ["intent", *parameters.get("required", [])]
    return ToolSpec(tool.name, tool.description, json.dumps(parameters, ensure_ascii=False))
