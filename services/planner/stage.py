"""What an episode plays on: its tools, its window, its ending."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from prometheus_client import Counter

from fathom.protocol.messages import ToolCall, ToolSpec
from fathom.rpc.service import Deps
from services.planner.answering.ending import CitedEnding, Ending
from services.planner.config import Config
from services.planner.model import Step, Task, ToolResult
from services.planner.tools.data import Data
from services.planner.tools.documents import Fetch, Search
from services.planner.tools.python import Python
from services.planner.tools.registry import Registry
from services.planner.tools.session import Session
from services.planner.tools.think import Finish, Think
from services.planner.tools.tool import Tool
from services.planner.window.view import Everything, Window


class Tools(Protocol):
    """The tools of an episode, as its loop sees them; ``Registry`` runs them."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    def intent(self, call: ToolCall) -> str: ...

    async def call(self, call_id: str, call: ToolCall) -> ToolResult:
        """Runs one call; ``call_id`` is its idempotency key. Whatever goes wrong comes back as a result."""
        ...


async def nothing_to_close() -> None:
    """For stages that hold nothing."""


@dataclass(frozen=True)
class Stage:
    """Made anew for each episode; ``close`` frees what its tools hold."""

    tools: Tools
    window: Window = field(default_factory=Everything)
    ending: Ending = field(default_factory=CitedEnding)
    close: Callable[[], Awaitable[None]] = nothing_to_close


def stage(
    config: Config, deps: Deps, styles: Counter, task: Task, steps: Sequence[Step], cut_short: Step | None = None
) -> Stage:
    """The tools of one episode; a resumed one gets its sheets, figures and numbers back.

    ``cut_short`` has the finished calls of the step in which an earlier worker left it.
    """
    material = [
        item
        for step in [*steps, *([cut_short] if cut_short else [])]
        for result in step.results
        for item in result.material
    ]
    session = Session.rebuilt(deps.clients, task.run_id, config.tool_timeout_s, material)
    figures = sum(len(item.item.figures) for item in material if item.kind == "code")
    timeout_s = config.tool_timeout_s
    tools: list[Tool] = [
        Think(),
        Finish(),
        Search(deps.clients, config.corpus, task.as_of, timeout_s),
        Fetch(deps.clients, config.corpus, task.as_of, timeout_s),
        Data(deps.clients, session, task.as_of, timeout_s),
        Python(session, deps.store, styles, task.run_id, figures),
    ]
    return Stage(Registry(tools, len(material)), close=session.close)
