"""Resources of an episode: tools, window, ending."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from fathom.errors import InvalidField
from fathom.rpc.service import Deps
from services.planner.answering.coder import PolicyCoder, PolicyJudge
from services.planner.answering.ending import CheckedEnding, CitedEnding, Ending
from services.planner.answering.evidence import Evidence
from services.planner.answering.figures import Figures
from services.planner.backends.policy import PolicyService, PolicyTokens, PolicyWriter
from services.planner.budget import Prices
from services.planner.config import Config
from services.planner.delegation import Allowance, Delegation
from services.planner.mcp.mount import Mounts
from services.planner.metrics import Metrics
from services.planner.model import Step, Task
from services.planner.prompts.catalogue import Catalogue
from services.planner.record import Record
from services.planner.todo import Todo
from services.planner.tools.data import Data
from services.planner.tools.delegate import Delegate
from services.planner.tools.documents import Fetch, Search, Shown
from services.planner.tools.gates import Gates
from services.planner.tools.python import Python
from services.planner.tools.recall import Recall
from services.planner.tools.registry import Bounds, Registry
from services.planner.tools.session import Session
from services.planner.tools.think import Finish, Think
from services.planner.tools.todo import TodoList
from services.planner.tools.tool import Tool
from services.planner.window.metrics import WindowMetrics
from services.planner.window.stepwise import Windows
from services.planner.window.summariser import Summariser
from services.planner.window.view import Everything, Window

GRACE_S = 5.0
"""Seconds that a tool's deadline exceeds its service's, whose own timeout error is more precise."""


async def nothing_to_close() -> None:
    """Do nothing, for stages without resources."""


@dataclass(frozen=True)
class Stage:
    """Resources of one episode; ``close`` releases what its tools hold."""

    tools: Registry
    window: Window = field(default_factory=Everything)
    ending: Ending = field(default_factory=CitedEnding)
    close: Callable[[], Awaitable[None]] = nothing_to_close
    todo: Todo = field(default_factory=Todo)
    prices: Prices = field(default_factory=Prices)
    metrics: Metrics = field(default_factory=lambda: Metrics.on(None))


@dataclass(frozen=True)
class Stages:
    """Factory of stages from the shared resources of a planner."""

    config: Config
    deps: Deps
    metrics: Metrics
    windows: Windows
    mounts: Mounts
    gates: Gates
    catalogue: Catalogue

    @classmethod
    def of(cls, config: Config, deps: Deps, catalogue: Catalogue) -> Stages:
        """Create the factory; ``catalogue`` provides the prompts for summaries, figure repair and event judging."""
        registry = deps.telemetry.registry
        metrics = Metrics.on(registry)
        writer = PolicyWriter(deps.clients, config.summary_tokens)
        windows = Windows(
            config.window,
            PolicyTokens(deps.clients),
            Summariser(writer, catalogue.find("notes", "en").render()),
            WindowMetrics.register(registry),
        )
        mounts = Mounts(config.mcp_servers, deps.store, deps.telemetry.log)
        calls, by_tool = config.concurrent_tool_calls, config.concurrent_calls_by_tool
        gates = Gates(calls, by_tool, metrics.waiting, metrics.wait_seconds)
        return cls(config, deps, metrics, windows, mounts, gates, catalogue)

    def __call__(self, task: Task, steps: Sequence[Step], cut_short: Step | None = None) -> Stage:
        """Create the stage of one episode; a resumed one gets back its sheets, figures, numbers and todo list.

        ``steps`` are those of the episode itself, and grow with it. ``cut_short`` holds the finished calls of a step
        that a previous worker did not finish.
        """
        config, deps = self.config, self.deps
        known = [*steps, *([cut_short] if cut_short else [])]
        material = [item for step in known for result in step.results for item in result.material]
        carrying = None if config.frames_by_reference else deps.store
        session = Session.rebuilt(deps.clients, task.run_id, config.tool_timeout_s, material, task.sheets, carrying)
        figures = sum(len(item.item.figures) for item in material if item.kind == "code")
        python = Python(session, deps.store, self.metrics.styles, task.run_id, figures)
        todo, window = Todo.rebuilt(known), self.windows.of(task)
        tools = self._tools(task, steps, Shown.rebuilt(task.run_id, known), todo, session, python)

        async def close() -> None:
            window.close()
            await session.close()

        return Stage(
            self._registry(task, offered(task, tools), len(material), cut_short),
            window,
            self._ending(python),
            close,
            todo,
            Prices(config.prompt_price, config.completion_price),
            self.metrics,
        )

    def _tools(
        self, task: Task, steps: Sequence[Step], shown: Shown, todo: Todo, session: Session, python: Python
    ) -> list[Tool]:
        """Return the built-in tools and those of external servers."""
        config, deps, timeout_s = self.config, self.deps, self.config.tool_timeout_s
        tools: list[Tool] = [
            Think(config.think_chars),
            Finish(),
            TodoList(todo),
            Recall(steps),
            Search(deps.clients, config.corpus, task.as_of, timeout_s, shown),
            Fetch(deps.clients, config.corpus, task.as_of, timeout_s, shown),
            Data(deps.clients, session, task.as_of, timeout_s, self.windows.metrics.digest),
            python,
            *self.mounts.tools(),
        ]
        allowance = Allowance(config.max_delegations, config.delegated_rounds, config.delegated_tokens)
        delegation = Delegation(deps.bus, Record(deps.store), task, allowance)
        return [*tools, Delegate(delegation, session)] if delegation.allowed else tools

    def _registry(self, task: Task, tools: Sequence[Tool], material: int, cut_short: Step | None) -> Registry:
        log = self.deps.telemetry.log
        return Registry(
            tools,
            material,
            bounds(self.config, self.gates),
            lambda tool, error: log.error("tool broke", run_id=task.run_id, tool=tool, error=repr(error)),
            cut_short.results if cut_short else (),
        )

    def _ending(self, python: Python) -> Ending:
        """Return the verification of answers; figures run in the same session as the tool ``python``."""
        config, policy = self.config, PolicyService(self.deps.clients, tags=False)
        return CheckedEnding(
            Evidence(self.deps.store),
            Figures(python, PolicyCoder(policy, self.catalogue.find("mend", "en").render())),
            PolicyJudge(policy, self.catalogue.find("judge", "en").render()) if config.judge_events else None,
            config.correct_answers,
            config.answer_material_tokens,
        )


def offered(task: Task, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools that the task allows, plus ``finish``; raise ``InvalidField`` for an unknown one."""
    names = sorted(tool.name for tool in tools)
    for place, name in enumerate(task.tools):
        if name not in names:
            raise InvalidField(f"tools[{place}]", f"{name!r} is not one of {', '.join(names)}")
    return [tool for tool in tools if not task.tools or tool.name in (*task.tools, Finish.name)]


def bounds(config: Config, gates: Gates) -> Bounds:
    """Return the deadlines and concurrency limits of the tools."""
    usual = config.tool_timeout_s
    deadlines = {
        # A cell may wait for its session to be rebuilt, sheets and earlier cells included.
        "python": 3 * usual + GRACE_S,
        "delegate": config.max_run_ms / 1000,
        **{f"{one.name}_{tool}": one.timeout_s + GRACE_S for one in config.mcp_servers for tool in one.tools},
    }
    return Bounds(usual + GRACE_S, {**deadlines, **config.tool_deadlines_s}, gates)
