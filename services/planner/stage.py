"""What an episode plays on: its tools, its window, its ending."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from prometheus_client import Counter

from fathom.rpc.service import Deps
from services.planner.answering.ending import CitedEnding, Ending
from services.planner.config import Config
from services.planner.model import Step, Task
from services.planner.tools.data import Data
from services.planner.tools.documents import Fetch, Search
from services.planner.tools.python import Python
from services.planner.tools.registry import Registry
from services.planner.tools.session import Session
from services.planner.tools.think import Finish, Think
from services.planner.tools.tool import Tool
from services.planner.window.stepwise import Windows
from services.planner.window.view import Everything, Window


async def nothing_to_close() -> None:
    """For stages that hold nothing."""


@dataclass(frozen=True)
class Stage:
    """Made anew for each episode; ``close`` frees what its tools hold."""

    tools: Registry
    window: Window = field(default_factory=Everything)
    ending: Ending = field(default_factory=CitedEnding)
    close: Callable[[], Awaitable[None]] = nothing_to_close


def stage(config: Config, deps: Deps, styles: Counter, windows: Windows, task: Task, steps: Sequence[Step]) -> Stage:
    """The tools of one episode; a resumed one gets its sheets, figures and numbers back."""
    material = [item for step in steps for result in step.results for item in result.material]
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
    shown = windows.of(task)

    async def close() -> None:
        shown.close()
        await session.close()

    return Stage(Registry(tools, len(material)), window=shown, close=close)
