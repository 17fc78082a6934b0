"""Interpreter GRPO on the real stack: cells run in the sandbox on injected tables, three rewards, real steps."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.core.errors import Conflict, InvalidField
from fathom.services.local import Endpoints
from fathom.trainers.algorithms.code_interpreter import CodeGrader, Interpreter, attach_sheets, falling_length
from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.algorithms.ppo import RayPPOTrainer
from fathom.trainers.config import load_config
from fathom.trainers.data.prompt_sampler import Prompts
from fathom.trainers.interfaces import ResourcePoolManager, Role
from fathom.trainers.monitor.collapse import CollapseDetector
from fathom.trainers.monitor.loggers import JsonLines
from fathom.trainers.monitor.report import write_report
from fathom.trainers.rollouts import PlannerRollouts
from fathom.trainers.rollouts.loop_thread import LoopThread
from fathom.trainers.rollouts.publisher import Publisher
from fathom.trainers.rollouts.recording import Recording
from fathom.trainers.rollouts.replayed import ReplayedRollouts
from fathom.transport.store import open_store
from tests.unit.trainers.algorithms.tiny_actor import TinyActor

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]

GOOD = """def growth(frame):
    prices = frame.select_dtypes("number").iloc[:, 0].dropna()
    first = prices.iloc[0]
    last = prices.iloc[-1]
    change = last / first - 1
    rows = len(prices)
    return {"change": change, "rows": rows}
result = growth(sheet_1)
print(result)"""
CELLS = (
    # Eight that run on the table against three that earn little or fail: a few random draws have both.
    *(GOOD.replace("growth", f"growth_{at}") for at in range(8)),
    "print(sheet_1.head())",
    "print(undefined_name)",
    'print("done")',
)
QUESTION = "Adjusted close of Apple in 2019"


def call(name: str, **arguments: str) -> str:
    body = json.dumps({"name": name, "arguments": {"intent": "x", **arguments}})
    return f"<tool_call>{body}</tool_call>"


# A whole call is one token of this vocabulary: a model that has learned nothing still writes calls that parse.
WORDS = [*(call("python", code=cell) for cell in CELLS), call("finish", answer="It rose."), "well", "then"]


def rows() -> list[dict[str, Any]]:
    chat = [{"role": "user", "content": QUESTION}]
    return [
        {"data_source": "code", "prompt": chat, "raw_prompt": chat, "reward_model": {}, "extra_info": {"index": index}}
        for index in range(2)
    ]


async def test_a_rollout_goes_on_under_its_request_id_and_offers_what_was_asked_for(stack: Stack) -> None:
    endpoints, clients = stack
    request = pb.RolloutRequest(
        request_id="rollout-kept",
        tasks=[pb.RolloutTask(id=str(at), question="What is CAGR?", references=["x"]) for at in range(2)],
        group_size=2, protocol=trajectory.PROTOCOL_SEARCH_R1, model="rules", grader="em", budget=pb.Budget(max_rounds=2),
    )  # fmt: skip

    async def play_rollout() -> dict[tuple[int, int], bytes]:
        found = [response.trajectory async for response in clients.planner.rollout(request)]
        return {(i.task_index, i.sample_index): i.SerializeToString(deterministic=True) for i in found}

    first = await play_rollout()
    assert set(first) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert await play_rollout() == first, "times and all: nothing was played again"
    # As if the planner had been killed before it stored this one of four.
    await open_store(endpoints.store).delete("rollouts/rollout-kept/0001-00.pb")
    again = await play_rollout()
    assert {place for place in again if again[place] != first[place]} == {(1, 0)}, "only what was missing was played"
    # The same request id for another request is a mistake of the caller, not a repetition.
    request.group_size = 1
    with pytest.raises(Conflict, match="rollout-kept"):
        await play_rollout()
    for changes, field in (
        ({"tools": ["python"]}, "tools"),
        ({"protocol": trajectory.PROTOCOL_RESEARCH, "tools": ["python", "nope"]}, "tools[1]"),
    ):
        other = pb.RolloutRequest.FromString(request.SerializeToString())
        other.request_id = ""
        other.MergeFrom(pb.RolloutRequest(**changes))  # type: ignore[arg-type]
        with pytest.raises(InvalidField) as bad:
            [response async for response in clients.planner.rollout(other)]
        assert bad.value.field == field


def check_steps(lines: list[dict[str, float]]) -> None:
    """Check that the steps were graded by their cells and moved the weights."""
    for metrics in lines:
        for name in ("reward/style", "reward/length", "reward/execution", "actor/pg_loss", "code/length"):
            assert name in metrics, name
        assert abs(metrics["actor/pg_loss"]) < 1e3
        # Both compute in 32 bits and batch differently; a wrong token or template would give other probabilities.
        assert metrics["mismatch/prob_diff/max"] < 1e-3, "rollout and learner agree"
        assert metrics["code/cells"] > 0
    assert any(metrics["reward/execution"] > 0 for metrics in lines), "a cell ran on the injected table"
    assert any(metrics["actor/grad_norm"] > 0 for metrics in lines)


@pytest.mark.slow
async def test_grpo_on_the_interpreter_takes_real_steps(stack: Stack, tmp_path: Path) -> None:
    endpoints, clients = stack
    config = load_config(
        overrides=[
            "model.name=tiny-coder", "model.hidden=16", "model.layers=1", "model.window=8192", "rollout.n=4",
            "rollout.protocol=research", "rollout.tools=[python]", "rollout.max_turns=2", "rollout.max_tokens=1",
            "data.train_batch_size=2", "data.max_response_length=4096", "actor.optim.lr=0.05",
            "trainer.total_training_steps=2", f"trainer.output={tmp_path}", "interpreter.normalise=components",
            "actor.ppo_mini_batch_size=2", "trainer.val_before_train=false",
        ]
    )  # fmt: skip
    prepared = await attach_sheets(rows(), clients)
    assert prepared[0]["sheets"][0].rows > 100
    store = open_store(endpoints.store)
    records = Recording(open_store(f"file://{tmp_path}"), "rollouts")

    def train(services: Any) -> tuple[list[dict[str, float]], list[list[torch.Tensor]]]:
        log, lines = JsonLines(tmp_path / "metrics.jsonl"), []
        weights: list[list[torch.Tensor]] = []

        def on_step(step: int, metrics: dict[str, float]) -> None:
            log.log(step, metrics)
            lines.append(metrics)

        with LoopThread() as bridge:

            async def open_rollouts() -> PlannerRollouts:
                own = connect(endpoints.services)
                publisher = Publisher(own, store, endpoints.store, config.model.name)
                return PlannerRollouts(
                    config, own, publisher, bridge, records, grade=CodeGrader(own, config.interpreter)
                )

            source = ReplayedRollouts(records, bridge) if services == "records" else bridge.call(open_rollouts())
            actor = TinyActor(config, WORDS)
            weights.append([parameter.detach().clone() for parameter in actor.model.parameters()])
            trainer = RayPPOTrainer(
                config, actor.tokenizer, {Role.ACTOR: actor}, ResourcePoolManager({"all": 1}, {Role.ACTOR: "all"}),
                lambda worker, config, ranks: worker, algorithm=Interpreter(config),
                context=TrainingContext(
                    source, Prompts(prepared), on_step=on_step,
                    inspect=CollapseDetector(config.collapse, (falling_length(config.interpreter),)),
                ),
            )  # fmt: skip
            trainer.fit()
            weights.append([parameter.detach().clone() for parameter in actor.model.parameters()])
        log.close()
        return lines, weights

    lines, weights = await asyncio.to_thread(train, "planner")
    check_steps(lines)
    assert any(not torch.equal(a, b) for a, b in zip(*weights, strict=True))
    page = write_report(tmp_path, "interpreter").read_text()
    assert all(f"reward/{name}" in page for name in ("style", "length", "execution"))

    replayed, again = await asyncio.to_thread(train, "records")
    same = [name for name in lines[0] if not name.startswith(("timing_s", "rollout/wait", "code/", "rollout/begun"))]
    for one, other in zip(lines, replayed, strict=True):
        assert {name: one[name] for name in same} == {name: other[name] for name in same}
    assert all(torch.equal(a, b) for a, b in zip(weights[1], again[1], strict=True)), "the same weights, to the bit"
