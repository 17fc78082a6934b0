"""``examples/gymnasium_env.py`` under Gymnasium's own checker and wrappers, against a real stack.

Skipped where Gymnasium is not installed; docs/tools.md says how it is.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.services.local import Endpoints
from tests.integration.stack.harnesses.test_environment import QUESTION, TASK, serving

pytest.importorskip("gymnasium", reason="Gymnasium is not installed: docs/tools.md")

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
TASKS = [TASK, {"question": "What was Apple's closing price on 2020-12-30?"}]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def describe(url: str, reward: str, **settings: Any) -> EnvSpec:
    """Return the environment as Gymnasium's registry keeps one."""
    settings = {"url": url, "tasks": TASKS, "token": "s3cret", "reward": reward, **settings}
    return EnvSpec(id="Fathom-v0", entry_point="gymnasium_env:FathomEnv", kwargs=settings)


def find_faults(spec: EnvSpec) -> list[str]:
    """Return what Gymnasium's checker warns of; it raises for what is worse."""
    env = gymnasium.make(spec)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        check_env(env.unwrapped)
    env.close()
    return [str(one.message) for one in found if issubclass(one.category, UserWarning)]


def play(spec: EnvSpec) -> float:
    """Play an episode behind Gymnasium's wrappers; return the reward of its answer."""
    env = gymnasium.make(spec)
    observation, info = env.reset(seed=1, options=TASK)
    assert observation == QUESTION
    assert "data" in {tool["function"]["name"] for tool in info["tools"]}
    action = {"tool": "data", "arguments": {"intent": "the price", "question": "Apple closing price in 2020"}}
    observation, reward, terminated, truncated, info = env.step(json.dumps(action))
    assert (reward, terminated, truncated, info) == (0.0, False, False, {"is_error": False})
    assert json.loads(observation.partition("\n")[0])["sheets"][0]["variable"] == "sheet_1"
    action = {"tool": "python", "arguments": {"intent": "数行", "code": "print('行', len(sheet_1) > 200)"}}
    text = json.dumps(action, ensure_ascii=False)
    assert text in env.action_space
    observation, *_ = env.step(text)
    assert "行 True" in observation
    assert observation in env.observation_space
    _, reward, terminated, truncated, _ = env.step('{"answer": "130.73"}')
    assert (terminated, truncated) == (True, False)
    env.close()
    return float(reward)


def speak_nonsense(spec: EnvSpec) -> list[tuple[str, bool]]:
    """Return what each action that is none is told, and whether it was the last, up to the end of the episode."""
    env = gymnasium.make(spec)
    env.reset(seed=1)
    answers = []
    for action in ("the price, please", '{"tool": 3}', '{"tool": "no_such_tool"}'):
        observation, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, info) == (0.0, False, {"is_error": True})
        answers.append((observation, truncated))
    env.close()
    return answers


async def test_gymnasiums_checker_finds_nothing(stack: Stack) -> None:
    endpoints, _ = stack
    async with asyncio.timeout(600), serving(endpoints) as url:
        assert await asyncio.to_thread(find_faults, describe(url, endpoints.services["reward"])) == []


async def test_an_episode_is_played_and_graded_behind_gymnasiums_wrappers(stack: Stack) -> None:
    endpoints, _ = stack
    async with asyncio.timeout(600), serving(endpoints) as url:
        spec = describe(url, endpoints.services["reward"], max_steps=3)
        assert await asyncio.to_thread(play, spec) == 1.0


async def test_an_action_that_is_none_costs_a_step(stack: Stack) -> None:
    endpoints, _ = stack
    async with asyncio.timeout(600), serving(endpoints) as url:
        (no_json, first), (no_tool, second), (unknown, third) = await asyncio.to_thread(
            speak_nonsense, describe(url, "", max_steps=3)
        )
    assert no_json.startswith("action: is no JSON")
    assert no_tool.startswith("action: must be")
    assert "no_such_tool" in unknown
    assert (first, second, third) == (False, False, True)


async def test_an_environment_without_tasks_is_refused() -> None:
    with pytest.raises(InvalidField, match="tasks"):
        gymnasium.make(describe("http://127.0.0.1:1/mcp", "", tasks=[]))
