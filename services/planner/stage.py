"""What an episode plays on: its tools, its window, its ending."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from fathom.rpc.service import Deps
from services.planner.answering.ending import CitedEnding, Ending
from services.planner.budget import Prices
from services.planner.config import Config
from services.planner.metrics import Metrics
from services.planner.model import Step, Task
from services.planner.todo import Todo
from services.planner.tools.data import Data
from services.planner.tools.documents import Fetch, Search, Shown
from services.planner.tools.python import Python
from services.planner.tools.recall import Recall
from services.planner.tools.registry import Bounds, Registry
from services.planner.tools.session import Session
from services.planner.tools.think import Finish, Think
from services.planner.tools.todo import TodoList
from services.planner.tools.tool import Tool
from services.planner.window.stepwise import Windows
from services.planner.window.view import Everything, Window

GRACE_S = 5.0
"""How much longer than a service's deadline a tool may take: its own error is the better one."""


async def nothing_to_close() -> None:
    """For stages that hold nothing."""


@dataclass(frozen=True)
class Stage:
    """Made anew for each episode; ``close`` frees what its tools hold."""

    tools: Registry
    window: Window = field(default_factory=Everything)
    ending: Ending = field(default_factory=CitedEnding)
    close: Callable[[], Awaitable[None]] = nothing_to_close
    todo: Todo = field(default_factory=Todo)
    prices: Prices = field(default_factory=Prices)
    metrics: Metrics = field(default_factory=lambda: Metrics.on(None))


def stage(
    config: Config,
    deps: Deps,
    metrics: Metrics,
    windows: Windows,
    task: Task,
    steps: Sequence[Step],
    cut_short: Step | None = None,
) -> Stage:
    """The tools of one episode; a resumed one gets its sheets, figures, numbers and its todo list back.

    ``steps`` are those of the episode itself, and grow with it. ``cut_short`` has the finished calls of the step
    in which an earlier worker left it.
    """
    known = [*steps, *([cut_short] if cut_short else [])]
    material = [item for step in known for result in step.results for item in result.material]
    session = Session.rebuilt(deps.clients, task.run_id, config.tool_timeout_s, material)
    figures = sum(len(item.item.figures) for item in material if item.kind == "code")
    timeout_s, todo, shown = config.tool_timeout_s, Todo.rebuilt(known), Shown.rebuilt(task.run_id, known)
    tools: list[Tool] = [
        Think(),
        Finish(),
        TodoList(todo),
        Recall(steps),
        Search(deps.clients, config.corpus, task.as_of, timeout_s, shown),
        Fetch(deps.clients, config.corpus, task.as_of, timeout_s, shown),
        Data(deps.clients, session, task.as_of, timeout_s),
        Python(session, deps.store, metrics.styles, task.run_id, figures),
    ]
    log = deps.telemetry.log
    registry = Registry(
        tools,
        len(material),
        # A cell may wait for its session to be rebuilt, sheets and earlier cells included.
        Bounds(timeout_s + GRACE_S, {"python": 3 * timeout_s + GRACE_S, **config.tool_deadlines_s}),
        lambda tool, error: log.error("tool broke", run_id=task.run_id, tool=tool, error=repr(error)),
        cut_short.results if cut_short else (),
    )
    prices = Prices(config.prompt_price, config.completion_price)
    window = windows.of(task)

    async def close() -> None:
        window.close()
        await session.close()

    return Stage(registry, window, close=close, todo=todo, prices=prices, metrics=metrics)
