"""The tools of a real stack as an environment with ``reset`` and ``step``, as harnesses for agents call it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fathom.clients import Clients
from fathom.clients.environment import ResearchEnv
from fathom.core.errors import FailedPrecondition, InvalidField, NotReady
from fathom.services.local import Endpoints
from fathom.transport.sockets import reserved_port
from tests.support.waiting import until_listening

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
ROOT = Path(__file__).resolve().parents[4]
QUESTION = "What was Apple's closing price on 2020-12-31?"
TASK = {"question": QUESTION, "references": ["130.73"], "grader": "em"}


@asynccontextmanager
async def serving(endpoints: Endpoints, *options: str) -> AsyncIterator[str]:
    """Serve the tools for trainings, with further options of the command, and yield their URL."""
    home = Path(endpoints.store.removeprefix("file://")).parent
    with reserved_port() as port:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fathom.cli.main", "mcp", "serve", "--transport", "http", "--port", str(port),
            "--home", str(home), "--lane", "training", *options, cwd=ROOT, env={**os.environ, "FATHOM_MCP_TOKEN": "s3cret"},
        )  # fmt: skip
        try:
            await until_listening("127.0.0.1", port)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


def play(url: str, reward: str) -> tuple[float, float]:
    """Play episodes as a harness does, which has no event loop; return the rewards of a right answer and a wrong one."""
    with ResearchEnv(url, token="s3cret", reward=reward, max_steps=3) as env:
        with pytest.raises(FailedPrecondition, match="reset"):
            env.step({"answer": "130.73"})
        observation, info = env.reset(seed=1, options=TASK)
        assert observation == QUESTION
        names = [tool["function"]["name"] for tool in info["tools"]]
        assert {"data", "python", "search"} <= set(names)

        data = {"tool": "data", "arguments": {"intent": "the price", "question": "Apple closing price in 2020"}}
        observation, reward_value, terminated, truncated, info = env.step(json.dumps(data))
        assert (reward_value, terminated, truncated, info) == (0.0, False, False, {"is_error": False})
        assert json.loads(observation.partition("\n")[0])["sheets"][0]["variable"] == "sheet_1"
        cell = {"tool": "python", "arguments": {"intent": "count", "code": "print(len(sheet_1) > 200)"}}
        observation, *_ = env.step(cell)
        assert "True" in observation

        _, right, terminated, truncated, info = env.step({"answer": "130.73"})
        assert (terminated, truncated) == (True, False)
        assert set(info) == {"components", "reason"}
        with pytest.raises(FailedPrecondition, match="reset"):
            env.step({"answer": "again"})

        # A new episode has nothing of the one before, and is cut off after its steps.
        env.reset(options={**TASK, "references": ["1.23"]})
        observation, _, _, truncated, info = env.step(
            {"tool": "python", "arguments": {"intent": "look", "code": "sheet_1"}}
        )
        assert (truncated, "NameError" in observation) == (False, True)
        assert env.step({"tool": "no_such_tool"})[4] == {"is_error": True}
        assert env.step({"tool": "search", "arguments": {"intent": "find", "query": "drawdown"}})[3] is True
        with pytest.raises(FailedPrecondition):
            env.step({"answer": "130.73"})
        env.reset(options={**TASK, "references": ["1.23"]})
        return right, env.step({"answer": "130.73"})[1]


def meet_an_outage(url: str, end: asyncio.Event, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> str:
    """Lose the server in the middle of an episode; return what its next step raises."""
    with ResearchEnv(url, token="s3cret") as env:
        env.reset(options={"question": "why?"})
        loop.call_soon_threadsafe(end.set)
        asyncio.run_coroutine_threadsafe(ended.wait(), loop).result()
        with pytest.raises(NotReady) as lost:
            env.step({"tool": "think", "arguments": {"intent": "to see", "content": "x"}})
        with pytest.raises(FailedPrecondition):
            env.step({"answer": "a failure of ours is no sample"})
        with pytest.raises(NotReady):
            env.reset(options={"question": "why?"})
        return lost.value.message


async def test_an_episode_is_played_graded_and_forgotten(stack: Stack) -> None:
    endpoints, _ = stack
    async with asyncio.timeout(300), serving(endpoints) as url:
        assert await asyncio.to_thread(play, url, endpoints.services["reward"]) == (1.0, 0.0)


async def test_a_server_that_is_lost_ends_the_episode_and_is_no_observation(stack: Stack) -> None:
    endpoints, _ = stack
    end, ended = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(300):
        async with serving(endpoints) as url:
            playing = asyncio.create_task(
                asyncio.to_thread(meet_an_outage, url, end, asyncio.get_running_loop(), ended)
            )
            await asyncio.wait({playing, waiting := asyncio.create_task(end.wait())}, return_when="FIRST_COMPLETED")
            waiting.cancel()
        ended.set()
        assert url in await playing


async def test_bad_settings_and_tasks_are_refused_by_field() -> None:
    with pytest.raises(InvalidField, match="max_steps"):
        ResearchEnv("http://127.0.0.1:1/mcp", max_steps=0)

    def ask_wrongly() -> None:
        with ResearchEnv("http://127.0.0.1:1/mcp") as env:
            for options, field in (
                ({}, "options.question"),
                ({"question": 3}, "options.question"),
                ({"question": "why?", "references": "130.73"}, "options.references"),
                ({"question": "why?", "refs": []}, "options.refs"),
            ):
                with pytest.raises(InvalidField, match=field):
                    env.reset(options=options)

    await asyncio.to_thread(ask_wrongly)
