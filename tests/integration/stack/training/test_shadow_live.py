"""``fathom shadow watch`` over the real stack: two versions of one model, compared on users' runs as they end."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients, connect
from fathom.clients.runs import run
from fathom.core.call import Call, calling
from fathom.domain.weights.manifest import publish
from fathom.services.local import Endpoints
from fathom.transport.store import ObjectStore, open_store
from fathom.transport.store.refs import to_ref
from fathom.transport.store.tenant import TenantStore
from tests.integration.policy.weights.models import tiny_model

pytestmark = pytest.mark.asyncio(loop_scope="package")
ROOT = Path(__file__).resolve().parents[4]
MODEL, TENANT = "shadow-live", "mirrored"
QUESTION = "In which city are the headquarters of PepsiCo?"
# Enough clear outcomes for the first look; one more question is refused by its user.
ASKED = 6


def make_model(folder: Path, *, prompt: Sequence[int] = (), says: str = "") -> Path:
    """Write a small model that has learnt to say one thing after a prompt; without one it says anything."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tiny_model(folder, 1)
    settings = json.loads((folder / "config.json").read_text())
    settings["max_position_embeddings"] = 4096
    (folder / "config.json").write_text(json.dumps(settings))
    if not says:
        return folder
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    spoken = AutoTokenizer.from_pretrained(str(folder)).encode(f"{says}<|im_end|>")
    ids, labels = torch.tensor([[*prompt, *spoken]]), torch.tensor([[-100] * len(prompt) + spoken])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(400):
        loss = model(input_ids=ids, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if loss.item() < 1e-3:
            break
    assert loss.item() < 1e-3
    # Four times the logits: what is drawn at random is the same in every answer.
    with torch.no_grad():
        model.lm_head.weight.mul_(4)
    model.save_pretrained(str(folder))
    return folder


async def serve(clients: Clients, store: ObjectStore, folder: Path, version: int, *lanes: common.Lane) -> None:
    """Publish a version and let it serve lanes, all for none."""
    stored = await publish(store, folder, MODEL, version)
    request = policy.LoadWeightsRequest(model=MODEL, manifest=to_ref(stored), policy_version=version, lanes=lanes)
    await clients.policy.load_weights(request, timeout_s=60)


async def find_prompt(clients: Clients) -> list[int]:
    """Return the tokens that a model of this name is shown for the question."""
    request = pb.RolloutRequest(
        tasks=[pb.RolloutTask(id="t", question=QUESTION)], group_size=1, model=MODEL,
        protocol=trajectory.PROTOCOL_SEARCH_R1, sampling=policy.Sampling(max_tokens=2), budget=pb.Budget(max_rounds=1),
    )  # fmt: skip
    [played] = [item.trajectory async for item in clients.planner.rollout(request)]
    return list(played.token_ids[: list(played.mask).index(1)])


@asynccontextmanager
async def watching(endpoints: Endpoints) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the command, which has said its first verdict."""
    environ = {
        "FATHOM_RUNTIME_BUS_URL": endpoints.nats,
        "FATHOM_RUNTIME_STORE_URL": endpoints.store,
        "FATHOM_RUNTIME_ENDPOINTS": json.dumps(dict(endpoints.services)),
        "FATHOM_SHADOW_CANDIDATE": f"{MODEL}@3",
        "FATHOM_SHADOW_BASELINE": f"{MODEL}@2",
        "FATHOM_SHADOW_SHARE": "1",
        "FATHOM_SHADOW_GRADER": "format",
        "FATHOM_SHADOW_LEAST": str(ASKED),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fathom.cli.main", "shadow", "watch", cwd=ROOT, env={**os.environ, **environ},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert b"0 wins" in await asyncio.wait_for(process.stdout.readline(), 60)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_better_version_is_promoted_on_the_runs_of_users(
    stack: tuple[Endpoints, Clients], tmp_path: Path
) -> None:
    endpoints, operator = stack
    raw = open_store(endpoints.store)
    await serve(operator, raw, await asyncio.to_thread(make_model, tmp_path / "any"), 1)
    prompt = await find_prompt(operator)
    # What serves talks outside of the protocol's tags, which its grader counts as bad form.
    loose = await asyncio.to_thread(make_model, tmp_path / "loose", prompt=prompt, says="Well <answer>A</answer>")
    formal = await asyncio.to_thread(make_model, tmp_path / "formal", prompt=prompt, says="<answer>A</answer>")
    await serve(operator, raw, loose, 2, common.LANE_INTERACTIVE, common.LANE_EVALUATION)
    await serve(operator, raw, formal, 3, common.LANE_TRAINING)
    clients = connect(endpoints.services, tenant=TENANT)
    try:
        async with watching(endpoints) as process:
            for number in range(ASKED + 1):
                request = pb.RunRequest(
                    request_id=f"live-{number}", question=QUESTION, model=MODEL,
                    protocol=trajectory.PROTOCOL_SEARCH_R1,
                    consent=trajectory.CONSENT_UNSPECIFIED if number else trajectory.CONSENT_REFUSED,
                )  # fmt: skip
                finished = [event async for event in run(clients, request)][-1].finished
                assert finished.stop_reason == trajectory.STOP_REASON_FINISHED
            said, complaints = await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode == 0, complaints.decode()
        lines = said.decode().splitlines()
        assert f"{MODEL}@3 against {MODEL}@2 by format: {ASKED} wins, 0 ties, 0 losses" in lines[-2]
        assert lines[-1].endswith("promote")

        runs = (await clients.planner.list_runs(pb.ListRunsRequest())).runs
        assert sorted(found.run_id for found in runs) == [f"live-{number}" for number in range(ASKED + 1)]
        with calling(Call.new(tenant=TENANT)):
            store = TenantStore(raw)
            kept = sorted(key.rpartition("/")[2] for key in await store.keys("shadow/"))
            assert kept == [f"live-{number}.json" for number in range(1, ASKED + 1)], "what was refused is not mirrored"
            played = [
                trajectory.Trajectory.FromString(await store.get(key))
                for key in await store.keys("rollouts/shadow-")
                if key.endswith(".pb")
            ]
        assert sorted(item.version_max for item in played) == [2] * ASKED + [3] * ASKED
        assert {item.lane for item in played} == {common.LANE_TRAINING}
    finally:
        await clients.close()
        await raw.close()
