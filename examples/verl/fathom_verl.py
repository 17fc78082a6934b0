"""Fathom's tools for verl, from 0.8 on: each trajectory has a session of its own, as a run in production has.

verl makes and releases a tool around every call, and tells the model whatever a tool raises. Hence a tool alone has
neither state between calls nor a way to say that a failure is no observation; the agent loop ``fathom_agent`` has both.
Put this folder on PYTHONPATH, and set FATHOM_MCP_URL and FATHOM_MCP_TOKEN; README.md has the rest.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, register
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import (
    OpenAIFunctionParametersSchema,
    OpenAIFunctionPropertySchema,
    OpenAIFunctionSchema,
    OpenAIFunctionToolSchema,
    ToolResponse,
)

from fathom.clients.environment import call_tool, describe_tools, open_session
from fathom.core.errors import InvalidField, NotReady
from fathom.core.retry import Retries, RetryPolicy

if TYPE_CHECKING:
    from mcp import Client

# Between attempts of a trajectory while Fathom is away or full.
PAUSES = RetryPolicy(attempts=None, first_delay_s=1.0, max_delay_s=30.0)


@dataclass
class Trajectory:
    """Session of the trajectory that the current task plays; ``failure`` is what ended it."""

    session: Client
    failure: NotReady | None = None


CURRENT: ContextVar[Trajectory | None] = ContextVar("fathom_trajectory", default=None)


# verl's own classes drop what they do not know, such as the fields of a nested object.
class WholeProperty(OpenAIFunctionPropertySchema, extra="allow"):
    """Parameter with all of its JSON schema."""

    type: str | list[str] = "object"


class WholeParameters(OpenAIFunctionParametersSchema, extra="allow"):
    """Parameters with all of their JSON schema."""

    properties: dict[str, WholeProperty]


class WholeFunction(OpenAIFunctionSchema):
    """Function whose parameters keep all of their JSON schema."""

    parameters: WholeParameters


class WholeSchema(OpenAIFunctionToolSchema):
    """Tool whose parameters keep all of their JSON schema."""

    function: WholeFunction


@dataclass(frozen=True)
class ToolServer:
    """Address of the tools: ``fathom mcp serve --transport http --lane training``."""

    url: str
    token: str = ""
    timeout_s: float = 120.0
    patience_s: float = 600.0
    """Seconds after the first failure of the services in which a trajectory is begun anew."""


class FathomTool(BaseTool):
    """One tool of Fathom, described as the server describes it."""

    def __init__(self, config: dict[str, Any], tool_schema: OpenAIFunctionToolSchema | None = None) -> None:
        """Read ``tool``, its name, and the fields of ``ToolServer`` from ``config``.

        Raises ``InvalidField`` for a setting, and ``NotReady`` without a server.
        """
        for name in ("tool", "url"):
            if not config.get(name):
                raise InvalidField(f"config.{name}", "is missing")
        known = {name: config[name] for name in ToolServer.__dataclass_fields__ if name in config}
        self.server, self.tool = ToolServer(**known), str(config["tool"])
        super().__init__(config, tool_schema or fetch_schema(self.server, self.tool))

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        """Call the tool in the session of the trajectory, or in one for this call alone under another agent loop."""
        trajectory = CURRENT.get()
        if trajectory is None:
            async with open_session(self.server.url, self.server.token, self.server.timeout_s) as session:
                text, is_error = await call_tool(session, self.tool, parameters)
        else:
            try:
                text, is_error = await call_tool(trajectory.session, self.tool, parameters)
            except NotReady as error:
                trajectory.failure = error
                raise
        return ToolResponse(text=text), 0.0, {"is_error": is_error}


def fetch_schema(server: ToolServer, name: str) -> WholeSchema:
    """Return a tool's schema from its server; raise ``NotReady``, and ``InvalidField("config.tool")`` for no tool."""

    async def fetch() -> list[dict[str, Any]]:
        async with open_session(server.url, server.token, server.timeout_s) as session:
            return await describe_tools(session)

    # verl makes its tools within a running event loop.
    with ThreadPoolExecutor(1) as pool:
        try:
            tools = pool.submit(asyncio.run, fetch()).result()
        except Exception as error:  # the SDK raises groups of whatever its transport does
            raise NotReady(f"no tools at {server.url} ({type(error).__name__})") from error
    found = {tool["function"]["name"]: tool for tool in tools}
    if name not in found:
        raise InvalidField("config.tool", f"{name!r} is unknown; there are: {', '.join(sorted(found))}")
    return WholeSchema.model_validate(found[name])


@register("fathom_agent")
class FathomAgentLoop(ToolAgentLoop):
    """verl's agent loop with one session per trajectory.

    A trajectory that Fathom's services failed is begun anew. It is never told to the model, and never trained on: when
    the patience is over ``NotReady`` ends the step, because verl has no way to leave one sample out of its group.
    """

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Play one trajectory in a session of its own."""
        servers = {tool.server for tool in self.tools.values() if isinstance(tool, FathomTool)}
        if len(servers) != 1:
            raise InvalidField("tools", f"fathom_agent needs tools at one server, and not at {len(servers)}")
        (server,) = servers
        retries: Retries | None = None
        while True:
            try:
                return await self._play(server, sampling_params, kwargs)
            except NotReady as error:
                # From here, since a trajectory alone may last longer than the patience.
                retries = retries or Retries(PAUSES, time.monotonic() + server.patience_s)
                await asyncio.sleep(retries.next_delay_s(error))

    async def _play(
        self, server: ToolServer, sampling_params: dict[str, Any], kwargs: dict[str, Any]
    ) -> AgentLoopOutput:
        """Return what verl's own loop makes of a trajectory, or raise what ended it."""
        output: AgentLoopOutput | None = None
        failure: Exception | None = None
        try:
            async with open_session(server.url, server.token, server.timeout_s) as session:
                earlier = CURRENT.set(Trajectory(session))
                try:
                    output = await super().run(sampling_params, **kwargs)
                except Exception as error:  # raised below, where no group of the SDK's is put around it
                    failure = error
                finally:
                    CURRENT.reset(earlier)
        except Exception as error:  # the SDK raises groups of whatever its transport does, at both ends of a session
            failure = failure or NotReady(f"no tools at {server.url} ({type(error).__name__})")
        # A trajectory that has been played is whole, even where its session could not be closed.
        if output is not None:
            return output
        assert failure is not None
        raise failure

    async def _call_tool(self, tool_call: Any, tools_kwargs: dict[str, Any], agent_data: Any) -> Any:
        answer = await super()._call_tool(tool_call, tools_kwargs, agent_data)
        trajectory = CURRENT.get()
        # verl has made a text for the model of it.
        if trajectory is not None and trajectory.failure is not None:
            raise trajectory.failure
        return answer
