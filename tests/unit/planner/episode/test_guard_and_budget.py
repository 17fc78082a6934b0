"""The end that comes too early, the budget that runs out, and the sentence that comes twice."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from fathom.core.errors import InvalidField
from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.chat.messages import Role
from fathom.services.planner.answering.repetition import find_repetitions
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.budget import WARNED
from fathom.services.planner.episode.dialogue import LAST_ROUND
from fathom.services.planner.episode.limits import cap_cost
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.effort import Prices
from fathom.services.planner.model.episode import Episode, Limits, Step, StopReason, Task
from fathom.services.planner.model.todo import Todo
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.planner.tools.todo import TodoList
from tests.support.observer import RecordingObserver
from tests.unit.planner.episode.test_loop import Echo, Script, echo, finish, research, task

# A list of one entry, and the call that ticks it off: what holds an end back, and what lets it go.
PLAN = format_tool_call("todo", {"intent": "plan", "action": "add", "items": ["find the price"]})
DONE = format_tool_call("todo", {"intent": "plan", "action": "done", "numbers": [1]})


def make_task(question: str, max_rounds: int = 10, max_tokens: int = 10_000, max_cost: float = 0.0) -> Task:
    bounds = Limits(max_rounds, max_tokens, time.monotonic() + 20, max_cost=max_cost)
    return replace(task(), question=question, limits=bounds)


async def asks_about_the_world(question: str) -> bool:
    """Stands for the classifier, which test_question_routing.py tries."""
    return question not in ("why?", "Hello")


def make(policy: Script, about: Task, steps: list[Step] | None = None, prices: Prices | None = None) -> AgentLoop:
    episode = Episode(about, research().opening(about))
    for step in steps or []:
        episode.append(step)
    todo = Todo.from_steps(episode.steps)
    registry = Registry([Echo(), Think(), Finish(), TodoList(todo)], len(episode.material))
    return AgentLoop(
        episode,
        research(),
        policy,
        EpisodeResources(registry, todo=todo, prices=prices or Prices(), needs_evidence=asks_about_the_world),
        RecordingObserver(),
    )


def refusals(loop: AgentLoop, why: str) -> float:
    return float(loop._resources.metrics.refusals.labels(why)._value.get())


async def test_an_answer_from_memory_is_refused_once_for_a_question_that_needs_evidence() -> None:
    # From memory twice: the second time the model insists, and the guard is a reminder, no wall.
    policy = Script(finish("It rose 80 %."), finish("It rose 80 %, I am sure."))
    loop = make(policy, make_task("How much did Apple rise in 2020?"))
    outcome = await loop.run()
    assert outcome.answer is not None
    assert (outcome.answer.markdown, len(policy.requests)) == ("It rose 80 %, I am sure.", 2)
    told = policy.requests[1][1][-1]
    # As the result of its own call, or an endpoint would refuse the conversation.
    assert (told.role, told.tool_call_id) == (Role.TOOL, loop.episode.steps[0].completion.tool_calls[0].id)
    assert json.loads(told.content)["status"] == "refused"
    assert refusals(loop, "evidence") == 1
    again = make(
        Script(finish("x"), finish("It rose 80 %, I am sure."), first=1), loop.episode.task, loop.episode.steps[:1]
    )
    assert await again.run() == outcome, "the refusal is a function of the steps"
    assert again.episode.messages == loop.episode.messages


async def test_an_answer_that_names_what_it_leaves_open_needs_no_source() -> None:
    """As the prompt says of a question that no tool can help with."""
    # The answer says what it has no source for, which is what the guard wants to hear.
    said = {"answer": "No source here has the weather.", "reading": {"open": ["the weather"]}}
    policy = Script(format_tool_call("finish", {"intent": "end", **said}))
    loop = make(policy, make_task("What is the weather today?"))
    outcome = await loop.run()
    assert outcome.answer is not None
    assert (outcome.stop, len(policy.requests), refusals(loop, "evidence")) == (StopReason.FINISHED, 1, 0)


async def test_open_entries_of_the_list_hold_the_end_back_once() -> None:
    policy = Script(PLAN, echo("a"), finish("Early."), DONE, finish("Now."))
    loop = make(policy, make_task("Compare a and b"))
    outcome = await loop.run()
    assert outcome.answer is not None
    assert outcome.answer.markdown == "Now."
    # The fourth request is the one after the refused end, and names the open entry.
    assert "find the price" in policy.requests[3][1][-1].content
    assert (refusals(loop, "todo"), refusals(loop, "evidence")) == (1, 0)


async def test_a_simple_question_ends_in_one_call() -> None:
    policy = Script(finish("Sunny."))
    assert (await make(policy, make_task("Hello")).run()).stop is StopReason.FINISHED
    assert len(policy.requests) == 1


async def test_the_guard_lets_pass_what_was_looked_up_even_in_vain_and_holds_nothing_back_in_the_last_round() -> None:
    # A source that failed counts as looked up: to ask again for evidence would lead nowhere.
    policy = Script(echo("fail"), finish("Not known."))
    assert (await make(policy, make_task("Price in 2020?")).run()).stop is StopReason.FINISHED
    assert len(policy.requests) == 2
    # In the only round there is no other one in which to mend anything.
    policy = Script(finish("At once."))
    assert (await make(policy, make_task("Price in 2020?", max_rounds=1)).run()).stop is StopReason.FINISHED


async def test_rounds_are_warned_of_once_and_the_last_is_announced() -> None:
    policy = Script(*[echo(str(n)) for n in range(10)])
    loop = make(policy, make_task("why?"))
    outcome = await loop.run()
    said = [step.new_messages[-1].content for step in loop.episode.steps]
    # Warned at 80 % of ten rounds, counted from 0.
    assert [n for n, text in enumerate(said) if text.startswith(WARNED)] == [8]
    assert "8 of 10 rounds" in said[8]
    assert [n for n, text in enumerate(said) if text.startswith(LAST_ROUND)] == [9]
    assert (outcome.stop, len(policy.requests)) == (StopReason.BUDGET, 10)
    # A worker that takes over after nine rounds says the same words at the same places.
    again = make(Script(*[echo(str(n)) for n in range(10)], first=9), loop.episode.task, loop.episode.steps[:9])
    await again.run()
    assert again.episode.messages == loop.episode.messages


async def test_tokens_force_a_last_round_before_they_are_spent() -> None:
    policy = Script(*[echo(str(n)) for n in range(12)], finish("In time."))  # five tokens each
    # After 60 of 68 tokens one more round of five fits, and a second one does not.
    loop = make(policy, make_task("why?", max_tokens=68, max_rounds=20))
    outcome = await loop.run()
    said = [step.new_messages[-1].content for step in loop.episode.steps]
    # The 12th round begins with 55 of 68 tokens spent, which is past 80 %.
    assert [n for n, text in enumerate(said) if text.startswith(WARNED)] == [11]
    assert said[12].startswith(LAST_ROUND)
    assert outcome.stop is StopReason.FINISHED


async def test_a_forced_last_round_without_an_end_is_the_end() -> None:
    policy = Script(*[echo(str(n)) for n in range(20)])
    loop = make(policy, make_task("why?", max_tokens=48, max_rounds=20))
    outcome = await loop.run()
    assert (outcome.stop, len(policy.requests)) == (StopReason.BUDGET, 9)
    # Nine rounds of five tokens; a tenth would pass 48.
    assert "45 of 48 tokens" in outcome.error


async def test_money_is_a_budget_when_tokens_have_a_price() -> None:
    prices = Prices(prompt=1_000.0, completion=2_000.0)  # 10 and 5 tokens: 0.02 a round
    policy = Script(*[echo(str(n)) for n in range(9)], finish("Cheap."))
    loop = make(policy, make_task("why?", max_cost=0.11), prices=prices)
    outcome = await loop.run()
    said = [step.new_messages[-1].content for step in loop.episode.steps]
    # Four rounds cost 0.08; the fifth leaves 0.01, and the next would need 0.02.
    assert said[4].startswith(LAST_ROUND), "a sixth round like the others would cost too much"
    assert (outcome.stop, len(policy.requests)) == (StopReason.BUDGET, 5)
    assert "0.1 of 0.11 cost" in outcome.error
    policy = Script(*[echo(str(n)) for n in range(4)], finish("Cheap."))
    loop = make(policy, make_task("why?", max_cost=0.11), prices=prices)
    assert (await loop.run()).stop is StopReason.FINISHED
    # Without prices the bound on cost bounds nothing.
    policy = Script(*[echo(str(n)) for n in range(6)], finish("Free."))
    assert (await make(policy, make_task("why?", max_cost=0.1)).run()).stop is StopReason.FINISHED


async def test_time_is_warned_of_and_forces_the_last_round() -> None:
    about = make_task("why?")
    # A run's last 1.5 s of 10 are its last 15 %.
    about = replace(about, limits=Limits(20, 10_000, time.monotonic() + 1.5, 10.0))  # 85 % are gone
    policy = Script(echo("a"), finish("b"))
    await make(policy, about).run()
    assert "seconds" in policy.requests[0][1][-1].content
    about = replace(about, limits=Limits(20, 10_000, time.monotonic() + 0.5, 10.0))
    policy = Script(echo("a"), finish("b"))
    loop = make(policy, about)
    # On a slow machine the half second may pass before the first reply; both ends are right.
    assert (await loop.run()).stop is StopReason.BUDGET or policy.requests[-1][1][-1].content.startswith(LAST_ROUND)


def test_requests_may_only_tighten_the_cost() -> None:
    # 0 is "no limit" on either side; the tighter of two limits counts.
    assert [cap_cost(*pair, "f") for pair in ((0, 0), (0, 2), (1, 0), (1, 2), (3, 2))] == [0, 2, 1, 1, 2]
    for bad in (-1.0, float("nan")):
        with pytest.raises(InvalidField, match="f: must not be negative"):
            cap_cost(bad, 1.0, "f")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Apple's shares rose strongly over the year [1]. Margins fell. Apple's shares rose strongly over the year [2].", 1),
        ("Apple's shares rose by 5% over the year 2019. Apple's shares rose by 7% over the year 2020.", 0),
        ("苹果公司的股价在过去一年中大幅上涨[1]。利润下降。苹果公司股价在过去一年中大幅上涨[2]。", 1),
        ("Yes. Yes. Yes.", 0),
        ("```\nprint('the very same line of code')\nprint('the very same line of code')\n```", 0),
        ("| Apple Inc | a long cell of a table |\n| Apple Inc | a long cell of a table |", 0),
        ("- The drawdown was the deepest of all companies\n- The drawdown was the deepest of all companies", 1),
        ("", 0),
    ],
)  # fmt: skip
def test_sentences_that_come_again_are_flagged(text: str, count: int) -> None:
    assert len(find_repetitions(text)) == count


def test_a_flood_of_sentences_is_bounded() -> None:
    # CPU time, which a busy machine does not lengthen; quadratic work over these sentences would take minutes.
    started = time.process_time()
    find_repetitions("\n".join(f"This is sentence {chr(97 + n % 26) * 40} of a flood {n}." for n in range(20_000)))
    assert time.process_time() - started < 2


async def test_a_finish_behind_other_calls_does_not_end_and_says_so() -> None:
    policy = Script(echo("a") + finish("Blind."), finish("Seen."))
    loop = make(policy, make_task("why?"))
    outcome = await loop.run()
    assert outcome.answer is not None
    assert outcome.answer.markdown == "Seen."
    # The first call is made, the finish behind it was written without its result.
    assert [result.status.value for result in loop.episode.steps[0].results] == ["ok", "invalid"]
    assert "by itself" in loop.episode.steps[0].results[1].content


async def test_calls_behind_a_finish_that_is_refused_have_a_result_too() -> None:
    policy = Script(PLAN, finish("Early.") + echo("a"), finish("Early, still."))
    loop = make(policy, make_task("why?"))
    outcome = await loop.run()
    assert outcome.answer is not None
    sampled, told = loop.episode.steps[1].completion, loop.episode.steps[2].new_messages
    # Both calls of the refused round have a result, the finish and the one behind it.
    assert [message.tool_call_id for message in told] == [call.id for call in sampled.tool_calls]
    assert "was not made" in told[1].content
    assert notes_of(loop) == ["todo: plan", "todo ok"]


def notes_of(loop: AgentLoop) -> list[str]:
    observer = loop._observer
    assert isinstance(observer, RecordingObserver)
    return observer.log
