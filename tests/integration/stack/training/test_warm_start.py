"""The way from the reference policy to a trained one: its episodes on synthesised tasks are exported and imitated."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.services.local import Endpoints
from fathom.trainers.algorithms.sft import Imitation, ImitationTrainer
from fathom.trainers.config.imitation import ImitationConfig
from fathom.trainers.config.tree import TrainConfig
from fathom.trainers.data.export.files import Wanted, export
from fathom.trainers.data.sequences import read_rows
from fathom.trainers.data.synth.bundle import Bundle
from fathom.trainers.data.synth.files import generate
from fathom.transport.store import open_store

pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.slow,
    pytest.mark.usefixtures("one_thread"),
]
Stack = tuple[Endpoints, Clients]


async def test_a_model_learns_to_speak_as_the_reference_policy_did(
    stack: Stack, tables_dir: Path, corpus_dir: Path, tmp_path: Path
) -> None:
    """Rollouts that were right, their own ids, loss on what was sampled; held-out episodes get likely."""
    endpoints, clients = stack
    bundle = Bundle(tables_dir.parent)
    tasks = [task for task in generate(bundle, "search", 80, 3) if task.grader == "em"]
    bundle.close()
    request = pb.RolloutRequest(
        request_id="warm-start", model="rules", protocol=trajectory.PROTOCOL_SEARCH_R1, grader="em", group_size=1,
        tasks=[pb.RolloutTask(id=task.id, question=task.question, references=task.references) for task in tasks],
    )  # fmt: skip
    rewards = [response.trajectory.reward async for response in clients.planner.rollout(request, timeout_s=120.0)]
    done = await export(
        open_store(endpoints.store), Wanted("sft", "rules", prefix="rollouts/warm-start/"), tmp_path / "sft.jsonl", None
    )
    assert done.rows == sum(reward == 1.0 for reward in rewards) >= 12

    rows = read_rows([tmp_path / "sft.jsonl"], ImitationConfig(max_length=8192))
    held, taught = rows[::4], [row for place, row in enumerate(rows) if place % 4]
    torch.manual_seed(0)
    size = max(max(row.ids) for row in rows) + 1
    network = LlamaForCausalLM(
        LlamaConfig(vocab_size=size, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
                    max_position_embeddings=max(len(row.ids) for row in rows), pad_token_id=0)
    )  # fmt: skip
    config = TrainConfig.model_validate(
        {
            "data": {"train_batch_size": 4},
            "actor": {"ppo_micro_batch_size_per_gpu": 1, "optim": {"lr": 0.005}},
            "trainer": {"output": str(tmp_path), "total_training_steps": 30, "total_epochs": 30, "save_freq": 0},
        }
    )
    seen: dict[int, dict[str, float]] = {}
    last = ImitationTrainer(config, network, Imitation(config, 0), taught, held, seen.__setitem__).fit()
    assert last["val/loss"] < 0.35 * seen[0]["val/loss"], (seen[0], last)
    assert last["val/sure"] > 0.2, "of every five words one is certain after thirty steps; of twenty not one was"
    assert seen[0]["val/sure"] < 0.05
