"""The planner's tools as an environment with ``reset``, ``step`` and ``close``, as harnesses for agents call them.

An episode is a session at ``fathom mcp serve --transport http --lane training``: its Python session, tables and numbers
of material last from one ``reset`` to the next. Actions and observations are text; ``step`` returns what Gymnasium's
does. Needs the extra ``mcp``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.clients.connect import Clients, connect
from fathom.core.errors import FailedPrecondition, InvalidField, NotReady
from fathom.core.extras import name_missing_extra

if TYPE_CHECKING:
    from mcp import Client

Info = dict[str, Any]
NOT_SENDABLE = "cannot be sent as JSON: it has half a character, NaN or too many brackets"


@dataclass
class Episode:
    """One question under way."""

    session: Client
    references: Sequence[str]
    grader: str
    actions: list[str] = field(default_factory=list)
    """Actions so far, for graders that read the whole response."""
    is_over: bool = False


class ResearchEnv:
    """Environment of one episode at a time, for one thread; ``with`` closes it.

    ``token`` is the door's, ``reward`` the URL of the reward service (without it nothing is graded). A failure of the
    services raises ``NotReady`` and ends the episode: it is no observation, and nothing is to be learnt from it.
    """

    metadata: Mapping[str, Any] = {"render_modes": []}
    render_mode = None

    def __init__(
        self, url: str, *, token: str = "", reward: str = "", max_steps: int = 15, timeout_s: float = 120.0
    ) -> None:
        if max_steps < 1:
            raise InvalidField("max_steps", "must be at least 1")
        with name_missing_extra("mcp"):
            import mcp  # noqa: F401 - its absence is named here and not at the first call
            from anyio.from_thread import start_blocking_portal
        self._url, self._token, self._timeout_s, self._max_steps = url, token, timeout_s, max_steps
        self._whole, self._sessions = ExitStack(), ExitStack()
        self._portal = self._whole.enter_context(start_blocking_portal())
        self._clients: Clients | None = None
        if reward:
            self._clients = self._portal.call(connect, {"reward": reward})
        self._episode: Episode | None = None

    def __enter__(self) -> ResearchEnv:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, Info]:
        """Begin an episode; return its question and the tools' specifications in OpenAI's form.

        ``options`` has ``question``, and for a grade ``references`` and ``grader`` ("em" by default). ``seed`` changes
        nothing: tools draw no numbers. Raises ``InvalidField("options.…")`` and ``NotReady``.
        """
        task = dict(options or {})
        question, references = task.pop("question", ""), task.pop("references", ())
        grader = task.pop("grader", "em")
        if not isinstance(question, str) or not question.strip():
            raise InvalidField("options.question", "is missing")
        if isinstance(references, str) or not all(isinstance(one, str) for one in references):
            raise InvalidField("options.references", "must be a list of texts")
        if task:
            raise InvalidField(f"options.{min(task)}", "is unknown; there are: question, references, grader")
        self._end_episode()
        try:
            session = self._sessions.enter_context(
                self._portal.wrap_async_context_manager(open_session(self._url, self._token, self._timeout_s))
            )
            tools = self._portal.call(describe_tools, session)
        except Exception as error:  # the SDK raises groups of whatever its transport does
            self._end_episode()
            raise NotReady(f"no tools at {self._url} ({type(error).__name__})") from error
        self._episode = Episode(session, tuple(references), str(grader))
        return question, {"tools": tools}

    def step(self, action: str | Mapping[str, Any]) -> tuple[str, float, bool, bool, Info]:
        """Return observation, reward, whether the episode has ended or was cut off, and further facts.

        An action is ``{"tool": NAME, "arguments": {…}}`` or ``{"answer": TEXT}``, as an object or its JSON; an answer
        ends the episode and has the only reward. Raises ``InvalidField("action")``, ``FailedPrecondition`` without an
        episode under way, and ``NotReady``.
        """
        episode = self._episode
        if episode is None or episode.is_over:
            raise FailedPrecondition("no episode is under way: reset the environment", metadata={"field": "action"})
        request = parse_action(action)
        episode.actions.append(action if isinstance(action, str) else json.dumps(request, ensure_ascii=False))
        if "answer" in request:
            episode.is_over = True
            value, info = self._grade(episode, request["answer"])
            return "", value, True, False, info
        try:
            text, is_error = self._portal.call(
                call_tool, episode.session, request["tool"], request.get("arguments", {})
            )
        except NotReady as error:
            episode.is_over = True
            text, wait_s = f"{self._url}: {error.message}", error.retry_after_s
            raise NotReady(text, metadata=error.metadata, retry_after_s=wait_s) from error
        episode.is_over = is_cut = len(episode.actions) >= self._max_steps
        return text, 0.0, False, is_cut, {"is_error": is_error}

    def _grade(self, episode: Episode, answer: str) -> tuple[float, Info]:
        if self._clients is None or not episode.references:
            return 0.0, {}
        item = reward.ScoreItem(
            grader=episode.grader, answer=answer, references=episode.references, response="\n".join(episode.actions)
        )
        request = reward.ScoreRequest(items=[item])
        score = self._portal.call(score_answer, self._clients, request)
        return score.value, {"components": dict(score.components), "reason": score.reason}

    def _end_episode(self) -> None:
        self._episode = None
        sessions, self._sessions = self._sessions, ExitStack()
        # Of a session whose server is gone nothing is left to close, and the SDK says so by any error.
        with suppress(Exception):
            sessions.close()

    def close(self) -> None:
        """End the episode and the connections; do nothing the second time."""
        self._end_episode()
        if self._clients is not None:
            self._portal.call(self._clients.close)
            self._clients = None
        self._whole.close()


def parse_action(action: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an action as an object with a tool or an answer; raise ``InvalidField("action")``."""
    if isinstance(action, str):
        try:
            action = json.loads(action)
        except (ValueError, RecursionError) as error:
            raise InvalidField("action", f"is no JSON: {error}") from None
    if not isinstance(action, Mapping):
        raise InvalidField("action", "must be an object")
    if not is_sendable(dict(action)):
        raise InvalidField("action", NOT_SENDABLE)
    if set(action) == {"answer"} and isinstance(action["answer"], str):
        return action
    is_call = isinstance(action.get("tool"), str) and isinstance(action.get("arguments", {}), Mapping)
    if is_call and set(action) <= {"tool", "arguments"}:
        return action
    raise InvalidField("action", 'must be {"tool": NAME, "arguments": {…}} or {"answer": TEXT}')


def is_sendable(value: dict[str, Any]) -> bool:
    """Return True for what a server can read as JSON; models also write half characters, NaN and endless brackets."""
    from pydantic_core import from_json

    try:
        # As the SDK sends it, and as its servers read it: the envelope counts for their limit of nesting.
        from_json(json.dumps({"params": {"arguments": value}}, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        return False
    return True


@asynccontextmanager
async def open_session(url: str, token: str, timeout_s: float) -> AsyncIterator[Client]:
    """Yield a session of its own at an MCP server over HTTP."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=timeout_s) as http:
        door = streamable_http_client(url, http_client=http)
        # The mode whose sessions have an id: the others have no state between calls.
        async with Client(door, mode="legacy", read_timeout_seconds=timeout_s) as client:
            yield client


async def score_answer(clients: Clients, request: reward.ScoreRequest) -> reward.Score:
    """Return the grade of one answer."""
    # Here and not where it is called: channels belong to the event loop in which they are made.
    return (await clients.reward.score(request)).scores[0]


async def describe_tools(session: Client) -> list[dict[str, Any]]:
    """Return the tools in OpenAI's form for functions."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
        }
        for tool in (await session.list_tools()).tools
    ]


async def call_tool(session: Client, name: str, arguments: Any) -> tuple[str, bool]:
    """Return a tool's result as text, and whether it is an error of the call, such as arguments that are no object.

    Raises ``NotReady`` for a failure of the services, which is no result.
    """
    from mcp import MCPError

    if not isinstance(arguments, Mapping):
        return "arguments: must be an object", True
    sent = dict(arguments)
    # Here, since the SDK's errors do not tell what cannot be sent from a server that is away.
    if not is_sendable(sent):
        return f"arguments: {NOT_SENDABLE}", True
    try:
        result = await session.call_tool(name, sent)
    except MCPError as error:
        data = error.data if isinstance(error.data, Mapping) else {}
        culprit, wait_s = str(data.get("culprit", name)), data.get("retry_after_s")
        raise NotReady(f"{name}: {error.message}", metadata={"culprit": culprit}, retry_after_s=wait_s) from error
    except Exception as error:  # the SDK raises groups of whatever its transport does
        raise NotReady(f"{name}: its server is out of reach ({type(error).__name__})") from error
    parts = [part.text for part in result.content if part.type == "text"]
    return "\n".join(parts), bool(result.is_error)
