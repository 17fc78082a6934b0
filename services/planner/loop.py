"""Agent loop of an episode: sample, decide, call tools, record; shared by production and training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from fathom.protocol.messages import Message, Role, ToolCall
from fathom.protocol.quoting import quoted
from services.planner import guard
from services.planner.answering.drafting import Draft
from services.planner.answering.material import listing
from services.planner.budget import Account, account, warned
from services.planner.calls import Calls, not_made
from services.planner.lifetime import Lifetime
from services.planner.model import Answer, Episode, Outcome, Step, Stop, ToolResult
from services.planner.ports import Observer, Policy
from services.planner.protocols import Decision, EpisodeProtocol
from services.planner.repeats import Repeats
from services.planner.stage import Stage
from services.planner.todo import TodoItem, checked, edit_note

FINAL_TOKENS = 2_000
"""Budget of the material list in the last round, in tokens by an upper estimate."""


class Loop:
    """Executor of one episode. ``stop`` ends it early; collected results survive."""

    def __init__(
        self,
        episode: Episode,
        protocol: EpisodeProtocol,
        policy: Policy,
        stage: Stage,
        observer: Observer,
        cut_short: Step | None = None,
    ) -> None:
        """Create the executor; ``cut_short`` is a step that a previous worker sampled but did not finish."""
        self.episode, self._cut_short = episode, cut_short
        self._protocol, self._policy, self._stage, self._observer = protocol, policy, stage, observer
        # Tag protocols are an environment to train in, whose rules are published: nothing of ours intervenes there.
        repeats = None if protocol.tags else Repeats.rebuilt(episode.steps)
        self._calls = Calls(episode.task.run_id, stage.tools, observer, stage.metrics, repeats)
        self._life = Lifetime()
        self._edited: tuple[TodoItem, ...] | None = None
        self._sampling = False
        self._draft: Draft | None = None

    def stop(self) -> None:
        """Request the end of the episode and cancel the call in flight."""
        self._life.stop()

    def edit_todo(self, items: Sequence[TodoItem]) -> tuple[TodoItem, ...]:
        """Replace the todo list from the next round on, where the model is told; return it as it will be stored.

        Raises ``InvalidField``. The edit is durable when the step of that round is recorded.
        """
        self._edited = checked(items)
        return self._edited

    async def run(self) -> Outcome:
        """Run the remaining rounds to the end; never raises ``FathomError``, except ``TakenOver``."""
        deadline = self.episode.task.limits.deadline
        return await self._life.spend(
            self._rounds, deadline, lambda: "policy" if self._sampling else self._calls.waiting_for
        )

    async def _rounds(self) -> Outcome:
        decision, pending = self._resume()
        while True:
            if decision is not None and decision.answer is not None:
                refused = self._refused(decision)
                ended = refused or await self._finish(decision.answer)
                if isinstance(ended, Answer):
                    return Outcome(Stop.FINISHED, ended)
                self._observer.dropped(len(self.episode.steps) - 1, "refused" if refused else "correction")
                # Each call has its result, or endpoints would refuse the conversation.
                pending = (ended, *(self._protocol.render(not_made(call)) for call in decision.unmade))
            budget = account(self.episode, self.episode.task.limits, self._stage.prices, time.monotonic())
            if budget.over or self._was_last():
                return Outcome(Stop.BUDGET, None, f"the budget is spent: {budget}")
            if self._cut_short is not None and self._cut_short.index == len(self.episode.steps):
                new, last = self._cut_short.new_messages, self._announced(self._cut_short)
            else:
                last = self._is_last(budget)
                new = self._said(pending, budget, last)
            decision, pending = await self._round(new, last)

    async def _finish(self, text: str) -> Answer | Message:
        """Return the answer, or a correction request if another round is possible."""
        budget = account(self.episode, self.episode.task.limits, self._stage.prices, time.monotonic())
        return await self._stage.ending.finish(text, self.episode, budget.over or self._was_last())

    def _refused(self, decision: Decision) -> Message | None:
        """Return the guard's refusal of a premature end; never in the last round, and at most once."""
        if self._protocol.tags or self._was_last():
            return None
        why = guard.reason(self.episode, self._stage.todo)
        if not why:
            return None
        self._stage.metrics.refusals.labels(why).inc()
        return guard.refusal(why, self._stage.todo, decision.end)

    def _is_last(self, budget: Account) -> bool:
        return budget.last if not self._protocol.tags else budget.rounds_left == 1

    def _was_last(self) -> bool:
        """Return whether the last recorded round was announced as the last one, or was the last one allowed."""
        steps, limits = self.episode.steps, self.episode.task.limits
        if len(steps) <= limits.since:
            return False
        return self._announced(steps[-1]) or len(steps) - limits.since == limits.max_rounds

    def _announced(self, step: Step) -> bool:
        """Return whether the model was told that this is the last round."""
        nudge = self._protocol.nudge()
        return nudge is not None and any(nudge.content in new.content for new in step.new_messages)

    def _said(self, pending: tuple[Message, ...], budget: Account, last: bool) -> tuple[Message, ...]:
        """Return the messages of the next round: pending ones, then one with the user's edit and budget notes."""
        lines: list[str] = []
        if self._edited is not None:
            self._stage.todo.replace(self._edited)
            lines.append(edit_note(self._edited))
            self._edited = None
        nudge, resumed = self._protocol.nudge(), bool(self.episode.steps)
        if last and resumed and nudge is not None:
            lines.append(nudge.content)
            if self.episode.material and not self._protocol.tags:
                # The answer is due: its numbers to cite stand together, whatever the window has folded away.
                lines.append(quoted(listing(self.episode.material, FINAL_TOKENS).text))
        elif not self._protocol.tags and (warning := budget.warning()) and not warned(self.episode.messages):
            lines.append(warning)
        if lines and resumed and pending and pending[-1].role is Role.USER:
            *pending_before, correction = pending
            return (*pending_before, Message(Role.USER, "\n".join([correction.content, *lines])))
        return (*pending, Message(Role.USER, "\n".join(lines))) if lines else pending

    def _resume(self) -> tuple[Decision | None, tuple[Message, ...]]:
        """Derive the pending decision and messages from the recorded steps."""
        if not self.episode.steps:
            return None, self.episode.opening
        step = self.episode.steps[-1]
        decision = self._protocol.decide(step.completion, self._corrected(-2), self._was_last())
        return decision, self._answers(decision, step.results)

    async def _round(self, new_messages: tuple[Message, ...], last: bool) -> tuple[Decision, tuple[Message, ...]]:
        episode = self.episode
        index = len(episode.steps)
        if not self._protocol.tags:
            self._draft = Draft.of({item.number for item in episode.material}, prose=last or self._corrected(-1))
        sampled = await self._sampled(index, new_messages)
        await self._observer.sampled(sampled)
        decision = self._protocol.decide(sampled.completion, self._corrected(-1), last)
        if decision.answer is None:
            self._observer.dropped(index, "dropped")
        step = replace(sampled, results=await self._calls.run(index, decision.calls))
        await self._observer.step_done(step)
        episode.append(step)
        return decision, self._answers(decision, step.results)

    async def _sampled(self, index: int, new_messages: tuple[Message, ...]) -> Step:
        """Return the step with its completion, whose calls have unique ids; sampled only once even across workers."""
        if self._cut_short is not None and self._cut_short.index == index:
            return replace(self._cut_short, new_messages=new_messages, results=())
        self._sampling, episode = True, self.episode
        tools = self._protocol.tools(self._stage.tools.specs)
        view = await self._stage.window.view(episode, new_messages, tools)
        if view.compaction is not None:
            await self._observer.compacted(index, view.compaction)
        sampled = await self._policy.generate(
            f"{episode.task.run_id}-{index}",
            episode.task,
            view,
            tools,
            self._protocol.sampling(episode.task),
            lambda piece: self._heard(index, piece),
        )
        self._sampling = False
        if self._draft is not None and (rest := self._draft.end()):
            self._observer.drafted(index, rest)
        self._observer.drafted(index, "")
        completion = replace(sampled, tool_calls=distinct(sampled.tool_calls))
        return Step(index, new_messages, completion, compaction=view.compaction, context_tokens=view.tokens)

    def _heard(self, index: int, piece: str) -> None:
        if self._draft is not None and (text := self._draft.feed(piece)):
            self._observer.drafted(index, text)

    def _answers(self, decision: Decision, results: Sequence[ToolResult]) -> tuple[Message, ...]:
        if decision.correction is not None:
            return (decision.correction,)
        return tuple(self._protocol.render(result) for result in results)

    def _corrected(self, before: int) -> bool:
        """Return whether the step at ``before`` had no valid action, so that its completion was corrected already."""
        steps = self.episode.steps
        return len(steps) >= -before and not steps[before].results


def distinct(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the calls with unique ids, since a model may repeat or omit ids."""
    known: set[str] = set()
    renamed: list[ToolCall] = []
    for place, call in enumerate(calls):
        name = call.id if call.id and call.id not in known else f"{call.id or 'call'}_{place}"
        while name in known:
            name += "_"
        known.add(name)
        renamed.append(replace(call, id=name))
    return tuple(renamed)
