"""Fathom's tools as a Gymnasium environment: an episode is a question, an action and an observation are texts.

    uv pip install gymnasium
    FATHOM_MCP_TOKEN=s3cret fathom mcp serve --transport http --port 8090 --lane training

    env = FathomEnv("http://127.0.0.1:8090/mcp", [{"question": "…", "references": ["…"]}], token="s3cret")

An action is the JSON of ``{"tool": NAME, "arguments": {…}}`` or of ``{"answer": TEXT}``; ``reset`` returns the tools'
specifications in ``info["tools"]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium import spaces

from fathom.clients.environment import ResearchEnv, parse_action
from fathom.core.errors import InvalidField

Task = dict[str, Any]
MAX_ACTION_CHARS, MAX_OBSERVATION_CHARS = 32_768, 1_048_576


class AnyText(spaces.Text):
    """Space of all texts up to a length, in any script; samples are made of letters and digits."""

    def contains(self, x: Any) -> bool:
        """Return True for a text that is not too long."""
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length


class FathomEnv(gymnasium.Env[str, str]):
    """Environment of one episode at a time over ``fathom mcp serve --transport http --lane training``.

    Without ``options`` an episode has one of the tasks, drawn by the seed. A failure of the services raises
    ``NotReady``: drop the episode, and reset.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self, url: str, tasks: Sequence[Task], *, token: str = "", reward: str = "", max_steps: int = 15
    ) -> None:
        if not tasks:
            raise InvalidField("tasks", "is empty")
        self._inner = ResearchEnv(url, token=token, reward=reward, max_steps=max_steps)
        self._tasks, self._max_steps, self._steps = list(tasks), max_steps, 0
        self.action_space = AnyText(MAX_ACTION_CHARS)
        # An answer ends its episode and is observed by nothing.
        self.observation_space = AnyText(MAX_OBSERVATION_CHARS, min_length=0)

    def reset(self, *, seed: int | None = None, options: Task | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode with the task in ``options``, or one that is drawn; return its question and the tools."""
        super().reset(seed=seed)
        self._steps = 0
        task = options or self._tasks[int(self.np_random.integers(len(self._tasks)))]
        return self._inner.reset(options=task)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Call a tool or answer; an action that is neither is told what is wrong with it, and costs a step."""
        self._steps += 1
        is_last = self._steps >= self._max_steps
        try:
            parse_action(action)
        except InvalidField as error:
            return error.message, 0.0, False, is_last, {"is_error": True}
        text, reward, terminated, truncated, info = self._inner.step(action)
        return text[:MAX_OBSERVATION_CHARS], reward, terminated, truncated or (is_last and not terminated), info

    def close(self) -> None:
        """End the episode and the connections."""
        self._inner.close()
