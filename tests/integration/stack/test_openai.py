"""OpenAI's client against a real stack: the agent's answer, a follow-up, and a model without the agent."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients
from fathom.services.local import Endpoints

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
EXAMPLE = Path(__file__).parents[3] / "examples" / "openai_client.py"
QUESTION = "What was Apple's closing price on 2020-12-31?"


async def test_the_agent_answers_openais_client(stack: Stack) -> None:
    endpoints, clients = stack
    async with openai.AsyncOpenAI(base_url=f"{endpoints.gateway}/v1", api_key="none", max_retries=0) as client:
        assert "rules" in [model.id for model in (await client.models.list()).data]
        asked = {"role": "user", "content": QUESTION}
        found = await client.chat.completions.create(model="rules", messages=[asked])
        message = found.choices[0].message
        recorded = (await clients.planner.get_run(pb.GetRunRequest(run_id=found.id))).trajectory
        assert recorded.question == QUESTION
        assert "130.73" in (message.content or "")
        assert message.annotations
        assert all(note.url_citation.url.startswith("http") for note in message.annotations)
        # The caller keeps the conversation: the server is sent all of it, and reads the follow-up by it.
        said = {"role": "assistant", "content": message.content}
        follow_up: list[Any] = [asked, said, {"role": "user", "content": "And Microsoft?"}]
        stream = await client.chat.completions.create(model="rules", messages=follow_up, stream=True)
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert "Microsoft" in text
        assert "2020-12-31" in text
        understood = (await clients.planner.get_run(pb.GetRunRequest(run_id=chunks[0].id))).trajectory.understood
        assert "Microsoft" in understood
        assert "2020-12-31" in understood


async def test_a_model_is_sampled_through_policy(stack: Stack) -> None:
    endpoints, _ = stack
    async with openai.AsyncOpenAI(base_url=f"{endpoints.gateway}/policy/v1", api_key="none", max_retries=0) as client:
        messages = [{"role": "user", "content": "hello"}]
        found = await client.chat.completions.create(model="rules", messages=messages)  # type: ignore[arg-type]
        assert found.choices[0].message.content or found.choices[0].message.tool_calls
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.chat.completions.create(model="no-such-model", messages=messages)  # type: ignore[arg-type]
        assert unknown.value.type == "not_found_error"


async def test_the_example_prints_an_answer_with_its_sources(stack: Stack) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), QUESTION, f"{stack[0].gateway}/v1",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, wrong = await process.communicate()
    assert process.returncode == 0, wrong.decode()
    assert "130.73" in out.decode()
    assert "/v1/tables/" in out.decode()
    assert "tokens" in out.decode()
