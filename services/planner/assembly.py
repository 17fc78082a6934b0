"""Assembly of an episode's resources from everything that a planner shares between episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from fathom.core.errors import InvalidField
from fathom.domain.chat.guidance import question_of
from fathom.domain.chat.messages import Role
from fathom.hosting.deps import Deps
from fathom.services.planner.answering.rendering.coder import PolicyCoder, PolicyJudge
from fathom.services.planner.answering.rendering.figures import Figures
from fathom.services.planner.answering.rendering.finish import CheckedEnding, Ending, LengthBand
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.config import Config
from fathom.services.planner.coverage.ending import CoverageEnding
from fathom.services.planner.coverage.reading import QuestionReader
from fathom.services.planner.episode.llm import PolicyService, PolicyTokens, PolicyWriter
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.mcp.mount import Mounts
from fathom.services.planner.mcp.results import SharedResults
from fathom.services.planner.metrics import Metrics
from fathom.services.planner.model.episode import Step, Task
from fathom.services.planner.model.todo import Todo
from fathom.services.planner.prompts.catalogue import Catalogue
from fathom.services.planner.questions.measures import read_measures
from fathom.services.planner.questions.parts import list_parts
from fathom.services.planner.questions.routing import needs_evidence
from fathom.services.planner.runs.earlier.findings import RecordedTurns
from fathom.services.planner.runs.repository import RunRepository
from fathom.services.planner.runs.subruns import Allowance, SubRunClient
from fathom.services.planner.sources import list_vendors_off
from fathom.services.planner.tools.data import Data
from fathom.services.planner.tools.data.catalogue import DataCatalogue
from fathom.services.planner.tools.data.sql import Sql
from fathom.services.planner.tools.delegate import Delegate
from fathom.services.planner.tools.documents import Fetch, Search, ShownDocuments
from fathom.services.planner.tools.figures import FigureStore
from fathom.services.planner.tools.gates import Gates
from fathom.services.planner.tools.python import Python
from fathom.services.planner.tools.recall import Recall
from fathom.services.planner.tools.registry import CallLimits, Registry
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tables.results import ResultTables
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.planner.tools.todo import TodoList
from fathom.services.planner.tools.tool import Tool
from fathom.services.planner.tools.turns import Reuse, SearchTurns
from fathom.services.planner.window.metrics import WindowMetrics
from fathom.services.planner.window.stepwise import WindowFactory
from fathom.services.planner.window.summariser import Summariser
from fathom.transport.bus.quotas import Quotas

GRACE_S = 5.0
"""Seconds that a tool's deadline exceeds its service's, whose own timeout error is more precise."""


@dataclass(frozen=True)
class ResourcesFactory:
    """Factory of episode resources from the shared resources of a planner."""

    config: Config
    deps: Deps
    metrics: Metrics
    windows: WindowFactory
    mounts: Mounts
    gates: Gates
    catalogue: Catalogue
    classifier: Classifier | None = None
    """None refuses no answer for want of a source, where no policy answers."""
    measures: Classifier | None = None
    """Classifier of what clauses ask to be computed; None leaves that out."""

    @classmethod
    def of(
        cls,
        config: Config,
        deps: Deps,
        catalogue: Catalogue,
        classifier: Classifier | None = None,
        measures: Classifier | None = None,
        quotas: Quotas | None = None,
    ) -> ResourcesFactory:
        """Create the factory; ``catalogue`` provides the prompts for summaries, figure repair and event judging."""
        quotas = quotas or Quotas(deps.bus, deps.telemetry.log, deps.quotas)
        registry = deps.telemetry.registry
        metrics = Metrics.register(registry)
        # One writer, cache of token counts and set of gates for all episodes: prompts have the same beginning, and the
        # limits are those of the process.
        writer = PolicyWriter(deps.clients, config.summary_tokens)
        windows = WindowFactory(
            config.window,
            PolicyTokens(deps.clients),
            Summariser(writer, catalogue.find("notes", "en").render()),
            WindowMetrics.register(registry),
        )
        mounts = Mounts(config.mcp_servers, deps.store, deps.telemetry.log, SharedResults(registry))
        calls, by_tool = config.concurrent_tool_calls, config.concurrent_calls_by_tool
        gates = Gates(
            calls,
            by_tool,
            metrics.waiting,
            metrics.wait_seconds,
            config.calls_per_second_by_tool,
            config.rollout_patience_s,
            # Others' servers: what they can do at once is not known here.
            frozenset(f"{server.name}_{tool}" for server in config.mcp_servers for tool in server.tools).__contains__,
            quotas,
        )
        return cls(config, deps, metrics, windows, mounts, gates, catalogue, classifier, measures)

    # Once: none of them draws examples.
    @cached_property
    def _mend_prompt(self) -> str:
        return self.catalogue.find("mend", "en").render()

    @cached_property
    def _judge_prompt(self) -> str:
        return self.catalogue.find("judge", "en").render()

    # Once: neither holds anything of an episode.
    @cached_property
    def _record(self) -> RunRepository:
        return RunRepository(self.deps.store)

    @cached_property
    def _policy(self) -> PolicyService:
        return PolicyService(self.deps.clients, tags=False)

    # Once: the longest run of all efforts and models is among them.
    @cached_property
    def _deadlines(self) -> Mapping[str, float]:
        return make_deadlines(self.config)

    def __call__(self, task: Task, steps: Sequence[Step], cut_short: Step | None = None) -> EpisodeResources:
        """Create the resources of one episode; a resumed one gets back its sheets, figures, numbers and todo list.

        ``steps`` are those of the episode itself, and grow with it. ``cut_short`` holds the finished calls of a step
        that a previous worker did not finish.
        """
        config, deps = self.config, self.deps
        known = [*steps, *([cut_short] if cut_short else [])]
        material = [*task.given, *(item for step in known for result in step.results for item in result.material)]
        # Sandboxes without access to the store get each table inside the call that injects it.
        carrying = None if config.frames_by_reference else deps.store
        session = Session.from_material(
            deps.clients, task.run_id, config.tool_timeout_s, material, task.sheets, carrying
        )
        # A resumed run goes on counting: fig_3 must not name another figure than the one that the model has seen.
        figures = computed = last = 0
        for item in material:
            figures += len(item.item.figures) if item.kind == "code" else 0
            computed += bool(item.computed_by)
            last = max(last, item.number)
        results = ResultTables(deps.clients, deps.store, task.run_id, config.tool_timeout_s)
        stored = FigureStore(deps.store, task.run_id, figures)
        python = Python(session, stored, self.metrics.styles, results, computed, task.is_rollout)
        todo, window = Todo.from_steps(known), self.windows.of(task)

        def make_tools() -> Sequence[Tool]:
            shown = ShownDocuments.from_steps(task.run_id, known)
            return select_tools(task, self._make_tools(task, steps, shown, todo, session, python))

        ending = self._make_ending(python, task)
        if isinstance(ending, CoverageEnding):
            ending.begin(task.question, task.read)

        async def close() -> None:
            if isinstance(ending, CoverageEnding):
                await ending.close()
            window.close(steps)
            await session.close()

        return EpisodeResources(
            # Now where the task names some: an unknown one refuses the whole request.
            self._make_registry(task, make_tools() if task.tools else make_tools, last, cut_short),
            window,
            ending,
            close,
            todo,
            config.prices(task.model),
            self.metrics,
            None if self.classifier is None else partial(needs_evidence, classifier=self.classifier),
        )

    def _make_tools(
        self, task: Task, steps: Sequence[Step], shown: ShownDocuments, todo: Todo, session: Session, python: Python
    ) -> list[Tool]:
        """Return the built-in tools and those of external servers."""
        config, deps, timeout_s = self.config, self.deps, self.config.tool_timeout_s
        read_asked = None if self.measures is None else partial(read_measures, classifier=self.measures)
        tools: list[Tool] = [
            *([] if task.is_thinking else [Think(config.think_chars)]),
            Finish(),
            TodoList(todo),
            Recall(steps),
            Search(deps.clients, task.corpora or (config.corpus,), task.as_of, timeout_s, shown),
            Fetch(deps.clients, task.corpora or (config.corpus,), task.as_of, timeout_s, shown),
            DataCatalogue(deps.clients, task.as_of, timeout_s, session),
            Data(
                deps.clients,
                session,
                task.as_of,
                timeout_s,
                self.windows.metrics.digest,
                read_asked,
                list_questions(task),
                task.question,
                list_vendors_off(task.sources_off),
                list_parts,
            ),
            Sql(deps.clients, session, timeout_s, self.windows.metrics.digest),
            python,
            *self._make_memory_tools(task, session, python),
            *self.mounts.tools(),
        ]
        allowance = Allowance(config.max_delegations, config.delegated_rounds, config.delegated_tokens)
        delegation = SubRunClient(deps.bus, self._record, task, allowance)
        # Without places for sub-runs the tool is not offered at all; a model would call it and fail each time.
        return [*tools, Delegate(delegation, session)] if delegation.is_allowed else tools

    def _make_memory_tools(self, task: Task, session: Session, python: Python) -> list[Tool]:
        """Return the tools for earlier turns; none for who has no such turns, and for trainers' episodes."""
        if not task.has_memory or task.is_rollout:
            return []
        turns, timeout_s = RecordedTurns(self._record), self.config.tool_timeout_s
        return [
            SearchTurns(self.deps.clients, turns, timeout_s),
            Reuse(self.deps.clients, turns, session, python, task.conversation_id, timeout_s, task.follows),
        ]

    def _make_registry(
        self,
        task: Task,
        tools: Sequence[Tool] | Callable[[], Sequence[Tool]],
        material: int,
        cut_short: Step | None,
    ) -> Registry:
        log = self.deps.telemetry.log
        return Registry(
            tools,
            material,
            make_bounds(self.config, self._deadlines, self.gates, task),
            # Called for bugs only: an expected failure of a tool is a result for the model, not a line of the log.
            lambda tool, error: log.error("tool broke", run_id=task.run_id, tool=tool, error=repr(error)),
            cut_short.results if cut_short else (),
            task.tools_off,
        )

    def _make_ending(self, python: Python, task: Task) -> Ending:
        """Return the verification of answers; figures run in the same session as the tool ``python``."""
        config, policy = self.config, self._policy
        evidence = Evidence(self.deps.store)
        checked = CheckedEnding(
            evidence,
            Figures(python, PolicyCoder(policy, self._mend_prompt)),
            PolicyJudge(policy, self._judge_prompt) if config.judge_claims else None,
            config.correct_answers,
            config.answer_material_tokens,
            self.classifier,
            LengthBand(config.answer_least_chars, config.answer_most_chars),
        )
        if not task.is_compared:
            return checked
        reader = QuestionReader(self.deps.clients, task.as_of)
        return CoverageEnding(checked, reader, evidence, config.correct_coverage)


def select_tools(task: Task, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools that the task allows, plus ``finish``; raise ``InvalidField`` for an unknown one."""
    if not task.tools:
        return list(tools)
    names = sorted(tool.name for tool in tools)
    for place, name in enumerate(task.tools):
        if name not in names:
            raise InvalidField(f"tools[{place}]", f"{name!r} is not one of {', '.join(names)}")
    # Without `finish` an episode could only end by exhausting its budget.
    return [tool for tool in tools if tool.name in (*task.tools, Finish.name)]


def make_deadlines(config: Config) -> dict[str, float]:
    """Return the deadlines of tools that do not have the usual one, in seconds by name."""
    usual = config.tool_timeout_s
    deadlines = {
        # A cell may wait for its session to be rebuilt, sheets and earlier cells included.
        "python": 3 * usual + GRACE_S,
        # A sub-run has its own deadline, a share of its parent's time.
        "delegate": config.longest_run_ms / 1000,
        **{f"{one.name}_{tool}": one.timeout_s + GRACE_S for one in config.mcp_servers for tool in one.tools},
    }
    return {**deadlines, **config.tool_deadlines_s}


def make_bounds(config: Config, deadlines: Mapping[str, float], gates: Gates, task: Task) -> CallLimits:
    """Return the deadlines and concurrency limits of a task's tools, and its patience with them."""
    return CallLimits(
        config.tool_timeout_s + GRACE_S,
        deadlines,
        gates,
        config.rollout_patience_s if task.is_rollout else config.tool_patience_s,
        # Trainers would learn from a failure that no model caused.
        is_strict=task.is_rollout,
        run=task.run_id,
    )


def list_questions(task: Task) -> list[str]:
    """Return the questions from which the episode's program is read, its own one last.

    They are those of whoever made the question whole by a program, else the users' own words.
    """
    if task.program_texts:
        return list(task.program_texts)
    earlier = [question_of(one.content).strip() for one in task.history if one.role is Role.USER]
    return [*filter(None, earlier), task.asked or task.question]
