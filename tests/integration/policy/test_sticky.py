"""Two policy services behind one URL: a conversation finds its prefix again, and survives the loss of its replica."""

from __future__ import annotations

import io
from contextlib import AsyncExitStack
from pathlib import Path

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.core.ids import new_id
from fathom.core.telemetry import Telemetry
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.services.policy.config import Config
from fathom.services.policy.server import build
from tests.integration.policy.conftest import local


async def turn(clients: Clients, messages: list[pb.Message], ids: list[int], covered: int) -> pb.Completion:
    request = pb.GenerateRequest(
        request_id=new_id("t"),
        messages=messages,
        context_token_ids=ids,
        context_messages=covered,
        sampling=pb.Sampling(max_tokens=8),
    )
    completion = [event async for event in clients.policy.generate(request)][-1].completion
    ids += [*completion.prompt_token_ids, *completion.sampled_token_ids]
    messages.append(pb.Message(role=pb.ROLE_ASSISTANT, content=completion.text))
    messages.append(pb.Message(role=pb.ROLE_USER, content="call"))
    return completion


async def test_a_conversation_stays_with_its_prefix(scribe_folder: Path, tmp_path: Path) -> None:
    runtime = Runtime(store_url="memory://", grace_s=0.1, log_level="error")
    config = Config(models={"m": local(scribe_folder)}, default_model="m", cache_dir=tmp_path)
    async with AsyncExitStack() as stack:
        urls, lives = [], []
        for _ in range(2):
            life = await stack.enter_async_context(AsyncExitStack())
            deps = await life.enter_async_context(dependencies("policy", runtime))
            hosted = await life.enter_async_context(hosting(build(config, deps), deps, runtime))
            await hosted.warm
            urls.append(hosted.url.removeprefix("grpc://"))
            lives.append(life)
        clients = Clients({"policy": f"grpc://{','.join(urls)}"}, Telemetry("test", stream=io.StringIO()))
        stack.push_async_callback(clients.close)
        talks = [[pb.Message(role=pb.ROLE_USER, content=f"{index} short {'fox ' * 30}")] for index in range(6)]
        known: list[list[int]] = [[] for _ in talks]
        for round_ in range(4):
            for messages, ids in zip(talks, known, strict=True):
                before = len(ids)
                completion = await turn(clients, messages, ids, len(messages) - 1 if round_ else 0)
                if round_:
                    assert before - 1 <= completion.usage.cached_tokens <= before
        await lives[0].aclose()
        for messages, ids in zip(talks, known, strict=True):
            assert (await turn(clients, messages, ids, len(messages) - 1)).exact
