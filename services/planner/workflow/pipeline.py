"""Execution of the fixed pipeline: rewrite, plan, collect, reflect once, collect once more, answer.

Each stage is one step of the episode: one completion and the calls that follow from it. Steps are journalled,
recorded and resumed as an agent's are; a recorded stage is not sampled again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from fathom.core.errors import Conflict
from fathom.domain.chat.messages import Completion, Message, ToolCall
from fathom.domain.chat.pipeline import COMPOSE, PLAN, REFLECT, REWRITE
from fathom.domain.text.language import language_of
from fathom.services.planner.answering.rendering.drafting import Draft
from fathom.services.planner.episode.budget import BudgetState, measure_budget
from fathom.services.planner.episode.deadline import Lifetime
from fathom.services.planner.episode.limits import vary_seed
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.episode.tool_calls import CallExecutor
from fathom.services.planner.model.episode import Answer, Episode, Outcome, Step, StopReason, ToolResult, ToolStatus
from fathom.services.planner.model.interfaces import Observer, Policy
from fathom.services.planner.model.stages import Fault, Flaw, LibraryLookup, StageNote, SubQuery
from fathom.services.planner.model.todo import TodoItem
from fathom.services.planner.model.view import View
from fathom.services.planner.workflow import stage_prompts
from fathom.services.planner.workflow.enrichment import QuestionContext
from fathom.services.planner.workflow.model_rewriting import read_reply
from fathom.services.planner.workflow.planning import FinalPlan, fallback_plan, fallback_reflection, finalise_plan
from fathom.services.planner.workflow.protocol import Workflow
from fathom.services.planner.workflow.stage_outputs import read_plan, read_reflection
from fathom.services.planner.workflow.sub_queries import find_askable, list_read, make_calls, make_reads

Read = Callable[[Completion], Awaitable[StageNote]]


class BudgetSpent(Exception):
    """Raised when the budget allows no further stage; the message holds the account."""


class Pipeline:
    """Executor of one workflow episode, with the interface of ``AgentLoop``."""

    def __init__(
        self,
        episode: Episode,
        protocol: Workflow,
        policy: Policy,
        resources: EpisodeResources,
        observer: Observer,
        cut_short: Step | None = None,
    ) -> None:
        """Create the executor; ``cut_short`` is a stage that a previous worker sampled but did not finish."""
        self.episode, self._protocol, self._cut_short = episode, protocol, cut_short
        self._policy, self._resources, self._observer = policy, resources, observer
        # Repeats are dropped before they become calls.
        self._calls = CallExecutor(episode.task.run_id, resources.tools, observer, resources.metrics, None)
        specs = resources.tools.specs
        self._arguments = find_askable(specs)
        self._tools = [(spec.name, spec.description) for spec in specs if spec.name in self._arguments]
        self._chinese = language_of(episode.task.question) == "zh"
        self._life, self._sampling, self._room = Lifetime(resources.tools.waits, episode.extend), False, 0

    def stop(self) -> None:
        """Request the end of the episode and cancel the call in flight."""
        self._life.stop()

    def edit_todo(self, items: Sequence[TodoItem]) -> tuple[TodoItem, ...]:
        """Raise ``Conflict``, because the stages are fixed and there is no list to edit."""
        raise Conflict("a workflow has no todo list", metadata={"field": "run_id"})

    async def run(self) -> Outcome:
        """Run the remaining stages to the end; never raises ``FathomError``."""
        deadline = self.episode.task.limits.deadline
        return await self._life.run(
            self._run_stages, deadline, lambda: "policy" if self._sampling else self._calls.waiting_for
        )

    async def _run_stages(self) -> Outcome:
        try:
            self._room = await self._resources.window.room()
            question = await self._rewrite()
            await self._plan(question)
            await self._reflect(question)
            return Outcome(StopReason.FINISHED, await self._answer(question))
        except BudgetSpent as spent:
            return Outcome(StopReason.BUDGET, None, f"the budget is spent: {spent}")

    def _find_recorded(self, name: str) -> Step | None:
        """Return the first recorded step of a stage, or None."""
        return next((step for step in self.episode.steps if step.stage and step.stage.name == name), None)

    async def _rewrite(self) -> str:
        """Return the question in self-contained form; unchanged when there is no history."""
        task, step = self.episode.task, self._find_recorded(REWRITE)
        question = task.question
        opening = self.episode.opening  # a replay has it from the record
        if task.history:
            opening = stage_prompts.prompt_rewrite(self._protocol.prompt_set, task, self._room)
        if step is None and opening:

            async def read(completion: Completion) -> StageNote:
                made = read_reply(completion.text, question)
                return StageNote(REWRITE, made.question, flaws=made.flaws)

            step = await self._run_stage(opening, read)
        return step.stage.text if step is not None and step.stage is not None else question

    async def _plan(self, question: str) -> None:
        """Decompose the question and collect for the first time."""
        if self._find_recorded(PLAN) is not None:
            return
        around = QuestionContext()
        # An interrupted stage has its prompt in its record; the library is not asked again.
        if not self._is_cut_short():
            around = await self._protocol.enricher.find_context(question, self._chinese)
        messages = stage_prompts.prompt_plan(
            self._protocol.prompt_set, self.episode.task, question, self._tools, around, self._room
        )

        async def read(completion: Completion) -> StageNote:
            queries, flaws = read_plan(completion.text, self._arguments)
            if not queries:  # unusable plan: send the question itself to both tools
                flaws = flaws or [Flaw(Fault.NO_QUERY)]
                queries = fallback_plan(question, list(self._arguments))
            return await self._make_note(PLAN, queries, flaws, around)

        await self._run_stage(messages, read)

    async def _reflect(self, question: str) -> None:
        """Review the results once and collect a second and last time."""
        if (
            self._find_recorded(REFLECT) is not None
            or self._find_recorded(COMPOSE) is not None
            or not self._protocol.reflects
        ):
            return
        if self._measure_budget().rounds_left < 2:
            return  # the last round is for the answer
        asked = self._list_asked()
        messages = stage_prompts.prompt_reflect(
            self._protocol.prompt_set, self.episode.task, question, self._tools, asked, self._room
        )

        async def read(completion: Completion) -> StageNote:
            queries, flaws = read_reflection(completion.text, self._arguments)
            if not queries and flaws:
                found = [result.status is ToolStatus.OK for _, result in asked]
                queries = fallback_reflection([query for query, _ in asked], found, list(self._arguments))
            return await self._make_note(REFLECT, queries, flaws, QuestionContext())

        await self._run_stage(messages, read)

    async def _answer(self, question: str) -> Answer:
        """Write the answer from all material, with at most one correction."""
        task, protocol = self.episode.task, self._protocol
        messages = stage_prompts.prompt_compose(
            protocol.prompt_set, task, question, self.episode, protocol.material_tokens, self._room
        )
        last = self.episode.steps[-1]
        if last.stage is not None and last.stage.name == COMPOSE:
            ended = await self._finish(last)
            if isinstance(ended, Answer):
                return ended
            messages = (ended,)
        while True:
            step = await self._run_stage(messages, note_composed)
            ended = await self._finish(step)
            if isinstance(ended, Answer):
                return ended
            self._observer.on_draft_dropped(step.index, "correction")
            messages = (ended,)

    async def _finish(self, step: Step) -> Answer | Message:
        budget = self._measure_budget()
        return await self._resources.ending.finish(
            step.completion.text.strip(), self.episode, budget.is_over or budget.rounds_left < 1
        )

    async def _make_note(
        self, name: str, queries: Sequence[SubQuery], flaws: Sequence[Flaw], around: QuestionContext
    ) -> StageNote:
        """Validate sub-questions against the library and the routing rules, expand periods, and drop repeats."""
        texts = [query.text for query in queries]
        names = [name for query in queries for name in query.indicators]
        meant = LibraryLookup()
        if texts:
            meant = await self._protocol.enricher.look_up(names, texts, self._chinese)
        asked = [query for query, _ in self._list_asked()]
        plan: FinalPlan = finalise_plan(queries, asked, meant, list(self._arguments), self._today)
        for flaw in (*flaws, *plan.flaws):
            self._resources.metrics.flaws.labels(name, flaw.fault.value).inc()
        widening = (*around.widening, *meant.widening)
        return StageNote(name, "", plan.queries, (*flaws, *plan.flaws), widening, meant)

    def _list_asked(self) -> list[tuple[SubQuery, ToolResult]]:
        """Return the sub-questions sent so far, with their results."""
        found: list[tuple[SubQuery, ToolResult]] = []
        for step in self.episode.steps:
            if step.stage is not None:
                # Results of reading hits follow those of the sub-questions and have none.
                found += zip(step.stage.sent_queries, step.results, strict=False)
        return found

    async def _run_stage(self, messages: tuple[Message, ...], read: Read) -> Step:
        """Run one stage: its completion, which is sampled only once even across workers, its calls, its record."""
        index = len(self.episode.steps)
        # Sampled by an earlier worker: only its calls are made, and those that ended are taken from the record.
        if self._is_cut_short() and self._cut_short is not None:
            sampled = replace(self._cut_short, results=())
        else:
            sampled = await self._sample(index, messages, read)
        await self._observer.on_sampled(sampled)
        step = await self._collect(sampled)
        await self._observer.on_step_finished(step)
        self.episode.append(step)
        return step

    async def _sample(self, index: int, messages: tuple[Message, ...], read: Read) -> Step:
        episode, task = self.episode, self.episode.task
        budget = self._measure_budget()
        if budget.is_over:
            raise BudgetSpent(str(budget))
        going_on = len(messages) == 1  # a correction continues the stage's own conversation
        view = View((*episode.visible, *messages), episode.token_ids, episode.covered) if going_on else View(messages)
        # Only the last stage's text is an answer that readers may see as it streams; a trainer's episode has none.
        is_shown = read is note_composed and not task.is_rollout
        draft = Draft.of({item.number for item in episode.material}, prose=True) if is_shown else None

        def hear(piece: str) -> None:
            if draft is not None and (text := draft.feed(piece)):
                self._observer.on_drafted(index, text)

        self._sampling = True
        sampling = vary_seed(self._protocol.sampling(task), index)
        request_id = f"{task.run_id}-{index}"
        completion = await self._policy.generate(request_id, task, view, (), sampling, hear if is_shown else None)
        self._sampling = False
        if draft is not None:
            if rest := draft.end():
                self._observer.on_drafted(index, rest)
            self._observer.on_drafted(index, "")
        note = replace(await read(completion), room=self._room)
        calls = make_calls(note.name, note.sent_queries, self._arguments)
        return Step(index, messages, replace(completion, tool_calls=calls), stage=note)

    async def _collect(self, sampled: Step) -> Step:
        """Return the step with the results of its sub-questions and of reading search hits."""
        index, stage = sampled.index, sampled.stage
        calls = sampled.completion.tool_calls
        if not calls or stage is None:
            return sampled
        # An interrupted stage may hold the reads of hits as well, which follow from the results.
        asked = calls[: len(stage.sent_queries)]
        results = await self._calls.run(index, asked)
        known = [result for step in self.episode.steps for result in step.results]
        reads: tuple[ToolCall, ...] = ()
        if "fetch" in self._resources.tools.names:
            reads = make_reads(stage.name, results, list_read(known))
        read = await self._calls.run(index, reads)
        completion = replace(sampled.completion, tool_calls=(*asked, *reads))
        return replace(sampled, completion=completion, results=(*results, *read))

    def _is_cut_short(self) -> bool:
        """Return whether the current stage was interrupted after sampling."""
        return self._cut_short is not None and self._cut_short.index == len(self.episode.steps)

    def _measure_budget(self) -> BudgetState:
        return measure_budget(self.episode, self.episode.task.limits, self._resources.prices, time.monotonic())

    @property
    def _today(self) -> date:
        said = self.episode.task.date
        return date.fromisoformat(said) if said else datetime.now(UTC).date()


async def note_composed(completion: Completion) -> StageNote:
    """Return the note of the compose stage, which consists of text only."""
    return StageNote(COMPOSE)


def find_rewritten_question(steps: Sequence[Step]) -> str:
    """Return the rewritten question; "" for an episode without that stage."""
    return next((step.stage.text for step in steps if step.stage and step.stage.name == REWRITE), "")
