"""A text with the control tokens of many families stays text on every way to a model: rollouts, runs, OpenAI's API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
import torch  # noqa: F401 - before transformers, which looks for it
from tokenizers import AddedToken
from transformers import AutoTokenizer

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.domain.smollm2 import smollm2_folder
from fathom.services.local import Endpoints
from fathom.trainers.rollouts.groups import Group, to_data
from fathom.trainers.rollouts.publisher import Publisher
from fathom.trainers.store_files import StoredFiles, StoreFolder
from fathom.transport.store import open_store
from tests.conftest import HOME
from tests.support.training.reciter import add_speeches, write_reciter
from tests.unit.protocol.tokenizer_families import MARKS, list_controls, list_marks

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]
Stack = tuple[Endpoints, Clients]
LOOSE = [mark for family in MARKS.values() for mark in family.loose]
SPECIAL = [mark for family in MARKS.values() for mark in list_marks(family) if mark not in LOOSE]
QUESTION = "Which mark is it?"
# Printed by the sandbox, so that the marks stand in what a tool says.
CELL = f"print(bytes.fromhex('{''.join([*SPECIAL, *LOOSE]).encode().hex()}').decode())"
CALL = {"name": "python", "arguments": {"intent": "show the marks", "code": CELL}}
SPEECHES = {
    "marked-calls": f"<tool_call>\n{json.dumps(CALL)}\n</tool_call>",
    "marked-answers": "It is a mark of no model, as far as can be seen.",
}
"""The reply of each model to any question, by its name; one token each."""


def make_tokenizer() -> Any:
    """SmolLM2's tokenizer and template, with the marks of all families, and with each speech as one token."""
    tokenizer = AutoTokenizer.from_pretrained(str(smollm2_folder(HOME / "models")), local_files_only=True)
    tokenizer.add_tokens([AddedToken(mark, special=True, normalized=False) for mark in SPECIAL], special_tokens=True)
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in LOOSE])
    add_speeches(tokenizer, list(SPEECHES.values()))
    return tokenizer


def upload(folder: Path, target: StoreFolder) -> StoredFiles:
    return target.upload(folder)


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def tokenizer(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    """The tokenizer of the models, which policy serves, published as a trainer does."""
    endpoints, clients = stack
    made, store = make_tokenizer(), open_store(endpoints.store)
    for name, speech in SPEECHES.items():
        folder = tmp_path_factory.mktemp(name)
        write_reciter(folder, made, {"\n": [speech]})
        await Publisher(clients, store, endpoints.store, name).publish(partial(upload, folder))
    await store.close()
    yield made


def list_prompts(tokenizer: Any, item: trajectory.Trajectory) -> list[list[str]]:
    """The control tokens of what the model was shown in each step; the next ones hold the model's own words."""
    return [list_controls(tokenizer, list(step.completion.prompt_token_ids)) for step in item.steps]


def write_text(text: str) -> str:
    """A question with the text at both ends and in the middle."""
    return f"{text} {QUESTION} {text}{QUESTION}{text}"


MARKED = write_text("".join([*SPECIAL, *LOOSE]))


async def test_questions_and_observations_of_rollouts_stay_text(stack: Stack, tokenizer: Any) -> None:
    _, clients = stack

    async def play(question: str) -> trajectory.Trajectory:
        request = pb.RolloutRequest(
            tasks=[pb.RolloutTask(id="t", question=question, references=["x"])], group_size=1, model="marked-calls",
            protocol=trajectory.PROTOCOL_RESEARCH, tools=["python"], grader="em",
            sampling=policy.Sampling(temperature=1.0, max_tokens=8, seed=1), budget=pb.Budget(max_rounds=2),
        )  # fmt: skip
        [item] = [response.trajectory async for response in clients.planner.rollout(request)]
        assert item.stop_reason != trajectory.STOP_REASON_FAILED, item.error
        return item

    quiet, marked = await play(write_text("x")), await play(MARKED)
    prompts = list_prompts(tokenizer, marked)
    assert len(prompts) > 1, "there is an observation"
    assert "[gMASK]" in marked.steps[0].tool_results[0].content, "which has marks that no list knows"
    assert prompts == list_prompts(tokenizer, quiet)
    # The instruction for tools, which is the template's own, names their tags.
    assert {control for prompt in prompts for control in prompt} - set(LOOSE) == {"<|im_start|>", "<|im_end|>"}
    # A learner trains on these ids and on no others.
    ids = to_data([Group({"uid": "t"}, (marked,))]).tensor("input_ids")[0]
    assert ids[-len(marked.token_ids) :].tolist() == list(marked.token_ids)


async def test_a_question_by_openais_api_stays_text(stack: Stack, tokenizer: Any) -> None:
    endpoints, clients = stack
    found = []
    async with openai.AsyncOpenAI(base_url=f"{endpoints.gateway}/v1", api_key="none", max_retries=0) as client:
        for text in (write_text("x"), MARKED):
            messages: list[Any] = [{"role": "user", "content": text}]
            said = await client.chat.completions.create(model="marked-answers", messages=messages)
            item = (await clients.planner.get_run(pb.GetRunRequest(run_id=said.id))).trajectory
            assert item.question == text
            found.append(list_prompts(tokenizer, item))
    assert found[0], "the model was asked"
    assert found[0][0].count("<|im_start|>") > 1
    assert found[0] == found[1]


async def test_a_conversation_by_policys_own_api_stays_text(stack: Stack, tokenizer: Any) -> None:
    endpoints, clients = stack

    def converse(text: str) -> list[Mapping[str, str]]:
        turns = ("user", text), ("assistant", "Which one?"), ("user", text)
        return [{"role": "system", "content": "You answer."}, *({"role": role, "content": say} for role, say in turns)]

    roles = {"system": policy.ROLE_SYSTEM, "user": policy.ROLE_USER, "assistant": policy.ROLE_ASSISTANT}
    found = []
    async with openai.AsyncOpenAI(base_url=f"{endpoints.gateway}/policy/v1", api_key="none", max_retries=0) as client:
        for text in ("x", MARKED):
            messages: list[Any] = converse(text)
            said = await client.chat.completions.create(model="marked-answers", messages=messages)
            request = policy.TokenizeRequest(
                model="marked-answers", add_generation_prompt=True,
                messages=[policy.Message(role=roles[one["role"]], content=one["content"]) for one in messages],
            )  # fmt: skip
            ids = list((await clients.policy.tokenize(request)).token_ids)
            assert said.usage is not None
            assert said.usage.prompt_tokens == len(ids), "what was sampled from is what is tokenized"
            found.append(list_controls(tokenizer, ids))
    assert found[0].count("<|im_start|>") == 5
    assert found[0] == found[1]
