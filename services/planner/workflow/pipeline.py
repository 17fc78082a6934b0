"""Execution of the fixed pipeline: rewrite, plan, collect, reflect once, collect once more, answer.

Each stage is one step of the episode: one completion and the calls that follow from it. Steps are journalled,
recorded and resumed as an agent's are; a recorded stage is not sampled again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from fathom.errors import Conflict
from fathom.protocol.language import language_of
from fathom.protocol.messages import Completion, Message, ToolCall
from fathom.protocol.pipeline import COMPOSE, PLAN, REFLECT, REWRITE
from services.planner.answering.drafting import Draft
from services.planner.budget import Account, account
from services.planner.calls import Calls
from services.planner.lifetime import Lifetime
from services.planner.model import Answer, Episode, Outcome, Step, Stop, ToolResult, ToolState
from services.planner.ports import Observer, Policy
from services.planner.stage import Stage
from services.planner.todo import TodoItem
from services.planner.window.view import View
from services.planner.workflow import asking
from services.planner.workflow.collecting import askable, calls_for, read_already, reads_for
from services.planner.workflow.planning import Planned, fallback_plan, fallback_reflection, planned
from services.planner.workflow.protocol import Workflow
from services.planner.workflow.reading import read_plan, read_question, read_reflection
from services.planner.workflow.record import Fault, Flaw, Meant, StageNote, SubQuery
from services.planner.workflow.widening import Around

Read = Callable[[Completion], Awaitable[StageNote]]
MAX_QUESTION_CHARS = 2_000


class BudgetSpent(Exception):
    """Raised when the budget allows no further stage; the message holds the account."""


class Pipeline:
    """Executor of one workflow episode, with the interface of ``Loop``."""

    def __init__(
        self,
        episode: Episode,
        protocol: Workflow,
        policy: Policy,
        stage: Stage,
        observer: Observer,
        cut_short: Step | None = None,
    ) -> None:
        """Create the executor; ``cut_short`` is a stage that a previous worker sampled but did not finish."""
        self.episode, self._protocol, self._cut_short = episode, protocol, cut_short
        self._policy, self._stage, self._observer = policy, stage, observer
        # Repeats are dropped before they become calls.
        self._calls = Calls(episode.task.run_id, stage.tools, observer, stage.metrics, None)
        specs = stage.tools.specs
        self._arguments = askable(specs)
        self._tools = [(spec.name, spec.description) for spec in specs if spec.name in self._arguments]
        self._chinese = language_of(episode.task.question) == "zh"
        self._life, self._sampling, self._room = Lifetime(), False, 0

    def stop(self) -> None:
        """Request the end of the episode and cancel the call in flight."""
        self._life.stop()

    def edit_todo(self, items: Sequence[TodoItem]) -> tuple[TodoItem, ...]:
        """Raise ``Conflict``, because the stages are fixed and there is no list to edit."""
        raise Conflict("a workflow has no todo list", metadata={"field": "run_id"})

    async def run(self) -> Outcome:
        """Run the remaining stages to the end; never raises ``FathomError``."""
        deadline = self.episode.task.limits.deadline
        return await self._life.spend(
            self._stages, deadline, lambda: "policy" if self._sampling else self._calls.waiting_for
        )

    async def _stages(self) -> Outcome:
        try:
            self._room = await self._stage.window.room()
            question = await self._rewritten()
            await self._planned(question)
            await self._reflected(question)
            return Outcome(Stop.FINISHED, await self._answered(question))
        except BudgetSpent as spent:
            return Outcome(Stop.BUDGET, None, f"the budget is spent: {spent}")

    def _recorded(self, name: str) -> Step | None:
        """Return the first recorded step of a stage, or None."""
        return next((step for step in self.episode.steps if step.stage and step.stage.name == name), None)

    async def _rewritten(self) -> str:
        """Return the question in self-contained form; unchanged when there is no history."""
        task, step = self.episode.task, self._recorded(REWRITE)
        question = task.question
        opening = self.episode.opening  # a replay has it from the record
        if task.history:
            opening = asking.rewriting(self._protocol.said, task, self._room)
        if step is None and opening:

            async def read(completion: Completion) -> StageNote:
                text, flaws = read_question(completion.text, question, MAX_QUESTION_CHARS)
                return StageNote(REWRITE, text, flaws=flaws)

            step = await self._step(opening, read)
        return step.stage.text if step is not None and step.stage is not None else question

    async def _planned(self, question: str) -> None:
        """Decompose the question and collect for the first time."""
        if self._recorded(PLAN) is not None:
            return
        around = Around()
        if not self._is_cut_short():
            around = await self._protocol.widener.around(question, self._chinese)
        messages = asking.planning(self._protocol.said, self.episode.task, question, self._tools, around, self._room)

        async def read(completion: Completion) -> StageNote:
            queries, flaws = read_plan(completion.text, self._arguments)
            if not queries:  # a plan that is of no use is the question itself, for each of the two tools
                flaws = flaws or [Flaw(Fault.NO_QUERY)]
                queries = fallback_plan(question, list(self._arguments))
            return await self._note(PLAN, queries, flaws, around)

        await self._step(messages, read)

    async def _reflected(self, question: str) -> None:
        """Review the results once and collect a second and last time."""
        if self._recorded(REFLECT) is not None or self._recorded(COMPOSE) is not None or not self._protocol.reflects:
            return
        if self._account().rounds_left < 2:
            return  # what is left is for the answer
        asked = self._asked()
        messages = asking.reflecting(self._protocol.said, self.episode.task, question, self._tools, asked, self._room)

        async def read(completion: Completion) -> StageNote:
            queries, flaws = read_reflection(completion.text, self._arguments)
            if not queries and flaws:
                found = [result.status is ToolState.OK for _, result in asked]
                queries = fallback_reflection([query for query, _ in asked], found, list(self._arguments))
            return await self._note(REFLECT, queries, flaws, Around())

        await self._step(messages, read)

    async def _answered(self, question: str) -> Answer:
        """Write the answer from all material, with at most one correction."""
        task, protocol = self.episode.task, self._protocol
        messages = asking.composing(protocol.said, task, question, self.episode, protocol.material_tokens, self._room)
        last = self.episode.steps[-1]
        if last.stage is not None and last.stage.name == COMPOSE:
            ended = await self._finish(last)
            if isinstance(ended, Answer):
                return ended
            messages = (ended,)
        while True:
            step = await self._step(messages, composed)
            ended = await self._finish(step)
            if isinstance(ended, Answer):
                return ended
            self._observer.dropped(step.index, "correction")
            messages = (ended,)

    async def _finish(self, step: Step) -> Answer | Message:
        budget = self._account()
        return await self._stage.ending.finish(
            step.completion.text.strip(), self.episode, budget.over or budget.rounds_left < 1
        )

    async def _note(self, name: str, queries: Sequence[SubQuery], flaws: Sequence[Flaw], around: Around) -> StageNote:
        """Validate sub-questions against the library and the routing rules, expand periods, and drop repeats."""
        texts = [query.text for query in queries]
        names = [name for query in queries for name in query.indicators]
        meant = Meant()
        if texts:
            meant = await self._protocol.widener.meant(names, texts, self._chinese)
        asked = [query for query, _ in self._asked()]
        plan: Planned = planned(queries, asked, meant, list(self._arguments), self._today)
        for flaw in (*flaws, *plan.flaws):
            self._stage.metrics.flaws.labels(name, flaw.fault.value).inc()
        widening = (*around.widening, *meant.widening)
        return StageNote(name, "", plan.queries, (*flaws, *plan.flaws), widening, meant)

    def _asked(self) -> list[tuple[SubQuery, ToolResult]]:
        """Return the sub-questions sent so far, with their results."""
        found: list[tuple[SubQuery, ToolResult]] = []
        for step in self.episode.steps:
            if step.stage is not None:
                found += zip(step.stage.sent, step.results, strict=False)
        return found

    async def _step(self, messages: tuple[Message, ...], read: Read) -> Step:
        """Run one stage: its completion, which is sampled only once even across workers, its calls, its record."""
        index = len(self.episode.steps)
        if self._is_cut_short() and self._cut_short is not None:
            sampled = replace(self._cut_short, results=())
        else:
            sampled = await self._sampled(index, messages, read)
        await self._observer.sampled(sampled)
        step = await self._collected(sampled)
        await self._observer.step_done(step)
        self.episode.append(step)
        return step

    async def _sampled(self, index: int, messages: tuple[Message, ...], read: Read) -> Step:
        episode, task = self.episode, self.episode.task
        budget = self._account()
        if budget.over:
            raise BudgetSpent(str(budget))
        going_on = len(messages) == 1  # a correction: the stage's own conversation goes on
        view = View((*episode.visible, *messages), episode.token_ids, episode.covered) if going_on else View(messages)
        # Only the last stage writes what a reader may see while it is written.
        draft = Draft.of({item.number for item in episode.material}, prose=True) if read is composed else None

        def hear(piece: str) -> None:
            if draft is not None and (text := draft.feed(piece)):
                self._observer.drafted(index, text)

        self._sampling = True
        sampling = self._protocol.sampling(task)
        completion = await self._policy.generate(f"{task.run_id}-{index}", task, view, (), sampling, hear)
        self._sampling = False
        if draft is not None:
            if rest := draft.end():
                self._observer.drafted(index, rest)
            self._observer.drafted(index, "")
        note = replace(await read(completion), room=self._room)
        calls = calls_for(note.name, note.sent, self._arguments)
        return Step(index, messages, replace(completion, tool_calls=calls), stage=note)

    async def _collected(self, sampled: Step) -> Step:
        """Return the step with the results of its sub-questions and of reading search hits."""
        index, stage = sampled.index, sampled.stage
        calls = sampled.completion.tool_calls
        if not calls or stage is None:
            return sampled
        asked = calls[: len(stage.sent)]
        results = await self._calls.run(index, asked)
        known = [result for step in self.episode.steps for result in step.results]
        reads: tuple[ToolCall, ...] = ()
        if "fetch" in self._stage.tools.names:
            reads = reads_for(stage.name, results, read_already(known))
        read = await self._calls.run(index, reads)
        completion = replace(sampled.completion, tool_calls=(*asked, *reads))
        return replace(sampled, completion=completion, results=(*results, *read))

    def _is_cut_short(self) -> bool:
        """Return whether the current stage was interrupted after sampling."""
        return self._cut_short is not None and self._cut_short.index == len(self.episode.steps)

    def _account(self) -> Account:
        return account(self.episode, self.episode.task.limits, self._stage.prices, time.monotonic())

    @property
    def _today(self) -> date:
        said = self.episode.task.date
        return date.fromisoformat(said) if said else datetime.now(UTC).date()


async def composed(completion: Completion) -> StageNote:
    """Return the note of the compose stage, which consists of text only."""
    return StageNote(COMPOSE)


def rewritten(steps: Sequence[Step]) -> str:
    """Return the rewritten question; "" for an episode without that stage."""
    return next((step.stage.text for step in steps if step.stage and step.stage.name == REWRITE), "")
