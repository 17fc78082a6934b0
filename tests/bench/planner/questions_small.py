"""A real small model (SmolLM2-135M on the CPU) as the agent: whether the loop holds, and what the model achieves.

Ten of the questions, one in each kind where there is one, once as it samples and once with its calls guided by a
grammar, so that each round is a well-formed call of some tool. The baseline is the reference policy on the same questions.
``FATHOM_BENCH_QUESTIONS`` and ``FATHOM_BENCH_MODELS`` ask more or fewer. Needs the bundled data and the model's package
(unpacked at the first use).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.clients.runs import run as run_events
from fathom.core.errors import FathomError
from tests.bench.planner.questions import HOME, grade_questions, local_stack
from tests.golden.agent.grading import Given, judge
from tests.golden.agent.reference import Reference
from tests.golden.agent.schema import Question, load_questions
from tests.support.waiting import eventually

COUNT = 10
BUDGET = pb.Budget(max_rounds=3, max_ms=120_000)
MODELS = {
    "rules": {"engine": "rules"},
    "small": {"engine": "transformers", "max_tokens": 48},
    "guided": {"engine": "transformers", "max_tokens": 96, "guided_calls": True},
}


async def run() -> None:
    """Each run's end, rounds and seconds; then how many were right."""
    reference = Reference(HOME / "data" / "tables")
    by_kind = {question.kind: question for question in reversed(load_questions())}
    questions = list(by_kind.values())[: int(os.environ.get("FATHOM_BENCH_QUESTIONS", COUNT))]
    async with local_stack(MODELS) as (clients, store):
        base = await grade_questions(questions, clients, store, reference, "rules")
        full = sum(verdict.right for verdict in base) / len(questions)
        for model in os.environ.get("FATHOM_BENCH_MODELS", "small,guided").split(","):
            await until_ready(clients, model)
            ends, right, called = Counter[str](), 0, 0
            for question in questions:
                started = time.perf_counter()
                end, rounds, calls, answer = await ask(question, clients, model)
                ends[end] += 1
                called += calls
                right += judge(question, Given(answer, {}), reference).right
                took = f"{rounds} rounds {calls} calls {time.perf_counter() - started:>6.1f} s"
                print(f"{model:<8}{question.id:<14}{end:<12}{took}  {answer[:70]!r}", flush=True)
            share = right / len(questions)
            print(
                f"{model}: ends {dict(ends)}; tool calls {called}; right {share:.0%}, rules {full:.0%}, "
                f"ratio {share / max(full, 1e-9):.2f}"
            )


async def until_ready(clients: Clients, model: str) -> None:
    """The model is unpacked and loaded first."""

    async def is_ready() -> bool:
        found = await clients.policy.get_model(policy.GetModelRequest(model=model))
        return found.model.state == policy.MODEL_STATE_READY

    await eventually(is_ready, within_s=300, every_s=0.5)


async def ask(question: Question, clients: Clients, model: str) -> tuple[str, int, int, str]:
    """(how it ended, rounds, tool calls, answer or error) of one run; an error of the service itself is a crash."""
    ident = f"{model}-{question.id}"
    try:
        request = pb.RunRequest(question=question.ask, request_id=ident, model=model, budget=BUDGET)
        events = [event async for event in run_events(clients, request)]
    except FathomError as error:
        return f"crash {error.reason}", 0, 0, error.message
    finished = events[-1].finished
    found = (await clients.planner.get_run(pb.GetRunRequest(run_id=ident))).trajectory
    end = trajectory.StopReason.Name(finished.stop_reason).removeprefix("STOP_REASON_").lower()
    calls = sum(len(step.completion.tool_calls) for step in found.steps)
    return end, len(found.steps), calls, finished.answer.markdown or finished.error


if __name__ == "__main__":
    asyncio.run(run())
