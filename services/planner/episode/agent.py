"""Agent loop of an episode: sample, decide, call tools, record; shared by production and training."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import partial

from fathom.core.errors import Conflict, ContextTooLong, FathomError
from fathom.domain.chat.messages import Completion, Message, Role, ToolCall, ToolSpec
from fathom.domain.chat.quoting import quote
from fathom.services.planner.answering.rendering.available import compose_available, mark_truncated
from fathom.services.planner.answering.rendering.drafting import Draft
from fathom.services.planner.answering.rendering.finish import CitedEnding
from fathom.services.planner.answering.rendering.material import list_material
from fathom.services.planner.episode import finish_guard
from fathom.services.planner.episode.budget import BudgetState, has_warning, measure_budget
from fathom.services.planner.episode.continuation import CUT_OFF
from fathom.services.planner.episode.deadline import Lifetime
from fathom.services.planner.episode.dialogue import FINISH, Decision, EpisodeProtocol
from fathom.services.planner.episode.interpretation import Situation, describe_cut_call, interpret
from fathom.services.planner.episode.limits import vary_seed
from fathom.services.planner.episode.loop_detector import RepeatDetector
from fathom.services.planner.episode.progress import MAX_EMPTY, MAX_IDLE, count_empty, find_stall, is_filtered
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.episode.tool_calls import CallExecutor, refuse_after_finish
from fathom.services.planner.model.episode import (
    Answer,
    Episode,
    MaterialKind,
    Outcome,
    Shortfall,
    Step,
    StopReason,
    ToolResult,
)
from fathom.services.planner.model.interfaces import Observer, Policy
from fathom.services.planner.model.todo import TodoItem, format_edit, validate_items
from fathom.services.planner.model.view import View

FINAL_TOKENS = 2_000
"""Budget of the material list in the last round, in tokens by an upper estimate."""
PRODUCT = "fathom"
"""Author of an answer that the planner gives in the model's place."""
ENDING_S = 20.0
"""Seconds for the check of an answer that is given in the model's place, after the run's own time may be over."""
# Looked up in recorded messages, so a change of the words makes older runs forget that they were told.
STALLED = {
    Shortfall.REPEATING: "Your last calls were made before and gave nothing new: call `finish` now with what is known,"
    " and say what is missing.",
    Shortfall.IDLE: f"The last {MAX_IDLE} rounds found nothing new: call `finish` now with what is known, and say what"
    " is missing.",
}


class AgentLoop:
    """Executor of one episode. ``stop`` ends it early; collected results survive."""

    def __init__(
        self,
        episode: Episode,
        protocol: EpisodeProtocol,
        policy: Policy,
        resources: EpisodeResources,
        observer: Observer,
        cut_short: Step | None = None,
    ) -> None:
        """Create the executor; ``cut_short`` is a step that a previous worker sampled but did not finish."""
        self.episode, self._cut_short = episode, cut_short
        self._protocol, self._policy, self._resources, self._observer = protocol, policy, resources, observer
        # What the model says is then taken word for word, as trainers expect it.
        self._is_strict = protocol.tags or episode.task.is_rollout
        # Tag protocols are published training environments: none of our guards may intervene.
        repeats = None if protocol.tags else RepeatDetector.from_steps(episode.steps)
        self._calls = CallExecutor(episode.task.run_id, resources.tools, observer, resources.metrics, repeats)
        self._life = Lifetime(resources.tools.waits, episode.extend)
        self._edited: tuple[TodoItem, ...] | None = None
        self._sampling = False
        self._draft: Draft | None = None

    def stop(self) -> None:
        """Request the end of the episode and cancel the call in flight."""
        self._life.stop()

    def edit_todo(self, items: Sequence[TodoItem]) -> tuple[TodoItem, ...]:
        """Replace the todo list from the next round on, which informs the model; return the list as it will be stored.

        Raises ``InvalidField``. The edit is durable when the step of that round is recorded.
        """
        # Only remembered here: the list changes with the next round's message, so that record and state never differ.
        self._edited = validate_items(items)
        return self._edited

    async def run(self) -> Outcome:
        """Run the remaining rounds to the end; never raises ``FathomError``, except ``LeaseLost``."""
        deadline = self.episode.task.limits.deadline
        outcome = await self._life.run(
            self._play_rounds, deadline, lambda: "policy" if self._sampling else self._calls.waiting_for
        )
        if outcome.answer is not None or outcome.shortfall is None or self._is_strict:
            return outcome
        return replace(outcome, answer=await self._give_available(outcome.shortfall))

    async def _play_rounds(self) -> Outcome:
        decision, pending = self._resume()
        while True:
            # An answer may come from the last recorded step: a worker that died while checking it is resumed exactly
            # here.
            if decision is not None and decision.answer is not None:
                # The guard first: verifying an answer that is refused anyway would take seconds.
                refused = await self._refuse(decision)
                ended = refused or await self._finish(decision)
                if isinstance(ended, Answer):
                    return Outcome(StopReason.FINISHED, ended)
                self._observer.on_draft_dropped(len(self.episode.steps) - 1, "refused" if refused else "correction")
                # Each call has its result, or endpoints would refuse the conversation.
                pending = (ended, *(self._protocol.render(refuse_after_finish(call)) for call in decision.unmade))
            budget = measure_budget(self.episode, self.episode.task.limits, self._resources.prices, time.monotonic())
            if (over := self._find_end(budget)) is not None:
                return over
            if self._cut_short is not None and self._cut_short.index == len(self.episode.steps):
                # The interrupted step was sampled from these messages; composing them anew could differ (time left, an
                # edit).
                new, last = self._cut_short.new_messages, self._is_announced_last(self._cut_short)
            else:
                last = self._is_last(budget) or self._find_stall() is not None
                new = self._compose_messages(pending, budget, last)
            try:
                decision, pending = await self._play_round(new, last)
            except ContextTooLong as error:
                # Before the first reply nothing was found, and trainers must not learn from it.
                if self._is_strict or not self.episode.steps:
                    raise
                return Outcome(StopReason.UNFINISHED, None, error.message, error.culprit, shortfall=Shortfall.CONTEXT)

    async def _finish(self, decision: Decision) -> Answer | Message:
        """Return the answer, or a correction request if another round is possible."""
        budget = measure_budget(self.episode, self.episode.task.limits, self._resources.prices, time.monotonic())
        # What was cut off would be cut off again.
        last = budget.is_over or self._was_last() or decision.is_cut
        ended = await self._resources.ending.finish(decision.answer or "", self.episode, last)
        if isinstance(ended, Answer) and decision.is_cut:
            return self._mark_cut(ended)
        return ended

    def _mark_cut(self, answer: Answer) -> Answer:
        completion = self.episode.steps[-1].completion
        why = "by a content filter" if is_filtered(completion) else "at the limit of tokens of one reply"
        return mark_truncated(answer, self.episode.task.question, f"the model's text was cut off {why}")

    def _find_end(self, budget: BudgetState) -> Outcome | None:
        """Return the end of an episode that must not go on without an answer of the model; None when it may."""
        told = None if self._is_strict else self._find_announced_stall()
        if told is not None:
            why = "the model did not finish when only that was left: "
            return Outcome(StopReason.UNFINISHED, None, f"{why}{told.value}", shortfall=told)
        if budget.is_over or self._was_last():
            return Outcome(StopReason.BUDGET, None, f"the budget is spent: {budget}", shortfall=Shortfall.BUDGET)
        if not self._is_strict and count_empty(steps := self._own_steps) >= MAX_EMPTY:
            shortfall = Shortfall.FILTERED if is_filtered(steps[-1].completion) else Shortfall.EMPTY
            error = f"the model gave {MAX_EMPTY} {shortfall.value} replies in a row"
            return Outcome(StopReason.UNFINISHED, None, error, shortfall=shortfall)
        return None

    @property
    def _own_steps(self) -> Sequence[Step]:
        """Return the steps of this leg: a resumed run starts anew with what the model may do."""
        return self.episode.steps[self.episode.task.limits.since :]

    def _find_stall(self) -> Shortfall | None:
        """Return why only ``finish`` is left to a model that makes no progress; None when it makes some."""
        stall = "" if self._is_strict else find_stall(self._own_steps)
        return Shortfall(stall) if stall else None

    def _find_announced_stall(self) -> Shortfall | None:
        """Return why the last recorded round was to be the last one, when that was for a lack of progress."""
        said = [new.content for step in self._own_steps[-1:] for new in step.new_messages]
        return next((why for why, text in STALLED.items() if any(text in content for content in said)), None)

    async def _give_available(self, shortfall: Shortfall) -> Answer | None:
        """Return the answer in the model's place; None before its first reply, where the error says all."""
        if not self.episode.steps:
            return None
        text = compose_available(self.episode, shortfall, self._find_draft())
        try:
            async with asyncio.timeout(ENDING_S):
                ended = await self._resources.ending.finish(text, self.episode, True)
        # The end that is being reported must not be replaced by that of its report.
        except (TimeoutError, FathomError):
            ended = await CitedEnding().finish(text, self.episode, True)
        if not isinstance(ended, Answer):
            return None
        # Its first line says why there is no answer: parts of the question that it leaves open go without saying.
        reading = ended.reading and replace(ended.reading, open_texts=())
        return replace(ended, model=PRODUCT, reading=reading)

    def _find_draft(self) -> str:
        """Return the last answer of the model that was sent back to it, e.g. for correction; "" for none."""
        steps = self.episode.steps
        for index in range(len(steps) - 1, -1, -1):
            answer = self._decide(steps[index].completion, steps[:index], steps[index].new_messages, False).answer
            if answer:
                return answer
        return ""

    async def _refuse(self, decision: Decision) -> Message | None:
        """Return the guard's refusal of a premature end; never in the last round, and at most once."""
        if self._protocol.tags or self._was_last():
            return None
        resources = self._resources
        why = await finish_guard.find_refusal_reason(self.episode, resources.todo, resources.needs_evidence)
        if not why:
            return None
        self._resources.metrics.refusals.labels(why).inc()
        return finish_guard.format_refusal(why, self._resources.todo, decision.end)

    def _is_last(self, budget: BudgetState) -> bool:
        # Tag protocols are published environments: only their limit of rounds announces a last one.
        return budget.is_last if not self._protocol.tags else budget.rounds_left == 1

    def _was_last(self) -> bool:
        """Return whether the last recorded round was announced as the last one, or was the last one allowed."""
        steps, limits = self.episode.steps, self.episode.task.limits
        if len(steps) <= limits.since:
            return False
        return self._is_announced_last(steps[-1]) or len(steps) - limits.since == limits.max_rounds

    def _is_announced_last(self, step: Step) -> bool:
        """Return whether the model was told that this is the last round."""
        nudge = self._protocol.nudge()
        notes = [*STALLED.values(), *([nudge.content] if nudge is not None else [])]
        # Read from the record, where the note may be one line of a longer message.
        return any(note in new.content for new in step.new_messages for note in notes)

    def _compose_messages(self, pending: tuple[Message, ...], budget: BudgetState, last: bool) -> tuple[Message, ...]:
        """Return the messages of the next round: pending ones, then one with the user's edit and budget notes."""
        lines: list[str] = []
        if self._edited is not None:
            self._resources.todo.replace(self._edited)
            lines.append(format_edit(self._edited))
            self._edited = None
        nudge, resumed = self._protocol.nudge(), bool(self.episode.steps)
        if last and resumed and nudge is not None:
            stall = self._find_stall()
            lines.append(nudge.content if stall is None or self._is_last(budget) else STALLED[stall])
            if self.episode.material and not self._protocol.tags:
                # The answer is due: list all material that it may cite, whatever the window has compacted.
                lines.append(quote(list_material(self.episode.material, FINAL_TOKENS).text))
        elif not self._protocol.tags and not has_warning(self.episode.messages):
            lines += filter(None, [budget.format_warning()])
        # Some chat templates refuse two user messages in a row, so a correction and the notes share one.
        if lines and resumed and pending and pending[-1].role is Role.USER:
            *pending_before, correction = pending
            return (*pending_before, Message(Role.USER, "\n".join([correction.content, *lines])))
        return (*pending, Message(Role.USER, "\n".join(lines))) if lines else pending

    def _resume(self) -> tuple[Decision | None, tuple[Message, ...]]:
        """Derive the pending decision and messages from the recorded steps."""
        if not self.episode.steps:
            return None, self.episode.opening
        step = self.episode.steps[-1]
        decision = self._decide(step.completion, self.episode.steps[:-1], step.new_messages, self._was_last())
        return decision, self._render_results(decision, step.results)

    def _decide(self, completion: Completion, before: Sequence[Step], asked: Sequence[Message], last: bool) -> Decision:
        """Interpret a completion that followed the steps ``before`` and the messages ``asked``."""
        if self._is_strict:
            # A step without results had no valid action; only one correction in a row is given.
            return self._protocol.decide(completion, bool(before) and not before[-1].results, last)
        found = (item.kind for step in before for result in step.results for item in result.material)
        has_sources = any(kind is not MaterialKind.MISSING for kind in found)
        return interpret(completion, Situation(before, asked, last, has_sources))

    async def _play_round(self, new_messages: tuple[Message, ...], last: bool) -> tuple[Decision, tuple[Message, ...]]:
        episode = self.episode
        index = len(episode.steps)
        # Drafts are for readers, whom a trainer's episode does not have.
        if not self._is_strict:
            prose = last or self._was_corrected() or any(CUT_OFF in message.content for message in new_messages)
            self._draft = Draft.of({item.number for item in episode.material}, prose=prose)
        sampled = await self._sample(index, new_messages, last)
        # Stored before the calls: sampling is the most expensive part of a round, and a resumed run must not see
        # another completion.
        await self._observer.on_sampled(sampled)
        decision = self._decide(sampled.completion, episode.steps, new_messages, last)
        if decision.answer is None and self._draft is not None:
            self._observer.on_draft_dropped(index, "dropped")
        refused = {} if decision.cut is None else {decision.cut.id: describe_cut_call(sampled.completion)}
        step = replace(sampled, results=await self._calls.run(index, decision.calls, refused))
        # Stored first, then appended: a step that could not be stored must not be part of the state.
        await self._observer.on_step_finished(step)
        episode.append(step)
        return decision, self._render_results(decision, step.results)

    async def _sample(self, index: int, new_messages: tuple[Message, ...], last: bool) -> Step:
        """Return the step with its completion, whose calls have unique ids; sampled only once even across workers."""
        if self._cut_short is not None and self._cut_short.index == index:
            return replace(self._cut_short, new_messages=new_messages, results=())
        self._sampling, episode = True, self.episode
        tools = self._offer_tools(last)
        view = await self._resources.window.view(episode, new_messages, tools)
        if view.compaction is not None:
            await self._observer.on_compacted(index, view.compaction)
        try:
            sampled = await self._generate(index, view, tools)
        except ContextTooLong as error:
            # Our count of an endpoint's tokens is an estimate: what it finds too long is compacted, once.
            await self._resources.window.shrink(min(filter(None, (view.tokens, error.limit_tokens)), default=0))
            longer, view = view, await self._resources.window.view(episode, new_messages, tools)
            if view.tokens >= longer.tokens:
                raise
            if view.compaction is not None:
                await self._observer.on_compacted(index, view.compaction)
            sampled = await self._generate(index, view, tools, "-compacted")
        except Conflict:
            # An attempt before this one was asked otherwise, as on another day or while the data's summary could not be
            # had. Nothing of what it sampled is recorded, so this one asks under a key of its own.
            prompt = self._protocol.prompt_hash(episode.task)
            sampled = await self._generate(index, view, tools, f"-{prompt[:8]}")
        self._sampling = False
        if self._draft is not None:
            if rest := self._draft.end():
                self._observer.on_drafted(index, rest)
            # Marks the end of the draft for readers.
            self._observer.on_drafted(index, "")
        calls = sampled.tool_calls
        completion = replace(sampled, tool_calls=make_ids_unique(calls)) if calls else sampled
        # What was not measured before is what the engine has read.
        size = view.tokens or sampled.usage.prompt_tokens
        return Step(index, new_messages, completion, compaction=view.compaction, context_tokens=size)

    def _generate(self, index: int, view: View, tools: tuple[ToolSpec, ...], suffix: str = "") -> Awaitable[Completion]:
        """Return the completion of one request of a round; ``suffix`` tells a second request from the first."""
        # The policy's own coroutine: whatever arrives from the model passes every coroutine above it.
        task = self.episode.task
        return self._policy.generate(
            # The idempotency key: a worker that repeats the request gets the same completion from policy.
            f"{task.run_id}-{index}{suffix}",
            task,
            view,
            tools,
            vary_seed(self._protocol.sampling(task), index),
            None if self._draft is None else partial(self._hear, index, self._draft),
        )

    def _offer_tools(self, last: bool) -> tuple[ToolSpec, ...]:
        """Return the tools of a request; in a last round ``finish`` alone."""
        if self._protocol.tags:
            return ()
        tools = self._protocol.tools(self._resources.tools.specs)
        # Token ids that were rendered before hold the list of tools, so it stays as it is for an engine that has them.
        if not last or self._is_strict or self.episode.covered or not self.episode.steps:
            return tools
        return tuple(tool for tool in tools if tool.name == FINISH) or tools

    def _hear(self, index: int, draft: Draft, piece: str) -> None:
        if text := draft.feed(piece):
            self._observer.on_drafted(index, text)

    def _render_results(self, decision: Decision, results: Sequence[ToolResult]) -> tuple[Message, ...]:
        if decision.correction is not None:
            return (decision.correction,)
        return tuple(self._protocol.render(result) for result in results)

    def _was_corrected(self) -> bool:
        """Return whether the last step had no valid action, so that prose is the answer this time."""
        steps = self.episode.steps
        return bool(steps) and not steps[-1].results


def make_ids_unique(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the calls with unique ids, since a model may repeat or omit ids."""
    known: set[str] = set()
    renamed: list[ToolCall] = []
    for place, call in enumerate(calls):
        name = call.id if call.id and call.id not in known else f"{call.id or 'call'}_{place}"
        # A model may have chosen the very id that was made for another call.
        while name in known:
            name += "_"
        known.add(name)
        renamed.append(replace(call, id=name))
    return tuple(renamed)
