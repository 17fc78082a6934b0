"""``python -m tests.bench.planner.file_model FOLDER [PORT]``: an OpenAI-compatible endpoint that is played by files.

A person, or another program, is the model. Each request becomes ``FOLDER/KEY-ROUND.md`` with the messages that are new
in this round (tools and system prompt in ``FOLDER/KEY-0.system.md``); the reply is read from ``FOLDER/KEY-ROUND.reply``,
a JSON object ``{"content": "…", "tool_calls": [{"name": "data", "arguments": {…}}]}``, as soon as the file exists. So a
strong model can be measured where no endpoint can be reached. Ends with the process.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

POLL_S = 0.5


def name_round(messages: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    """Return the key of a conversation, from its first messages, and the number of replies before this one."""
    rounds = sum(message["role"] == "assistant" for message in messages)
    # The first reply ends what all rounds of a conversation have in common.
    opening = next((i for i, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
    text = json.dumps([message["content"] for message in messages[:opening]], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:6], rounds


def show_new(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the messages after the model's last reply as text, the system's left out."""
    # Whoever plays the model has seen what came before, as a conversation shows it once.
    last = max((i for i, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    parts = [f"### {message['role']}\n{message['content']}" for message in messages[last + 1 :]]
    return "\n\n".join(part for part in parts if not part.startswith("### system")) + "\n"


def show_system(body: Mapping[str, Any]) -> str:
    """Return the system prompt and the tools of a request as text."""
    system = "\n".join(str(message["content"]) for message in body["messages"] if message["role"] == "system")
    return f"{system}\n\n### tools\n{json.dumps(body.get('tools', []), ensure_ascii=False, indent=1)}\n"


async def read_reply(path: Path) -> dict[str, Any]:
    """Wait for a reply file and return its content; a file that is no JSON yet is read again."""
    while True:
        if await asyncio.to_thread(path.exists):
            try:
                return dict(json.loads(await asyncio.to_thread(path.read_text, encoding="utf-8")))
            # Half written: editors do not write a file at once.
            except json.JSONDecodeError as error:
                print(f"{path.name}: {error}", flush=True)
        await asyncio.sleep(POLL_S)


def make_message(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the assistant's message of a reply in OpenAI's form."""
    calls = [
        {
            "index": index,
            "id": f"call_{uuid.uuid4().hex[:8]}",
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)},
        }
        for index, call in enumerate(reply.get("tool_calls", ()))
    ]
    return {"role": "assistant", "content": reply.get("content", ""), **({"tool_calls": calls} if calls else {})}


def make_app(folder: Path) -> web.Application:
    """Return the endpoint."""

    async def complete(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        key, rounds = name_round(body["messages"])
        if not rounds:
            (folder / f"{key}-0.system.md").write_text(show_system(body), encoding="utf-8")
        (folder / f"{key}-{rounds}.md").write_text(show_new(body["messages"]), encoding="utf-8")
        message = make_message(await read_reply(folder / f"{key}-{rounds}.reply"))
        finish = "tool_calls" if "tool_calls" in message else "stop"
        # About four characters to a token; nobody here has a tokenizer.
        tokens = len(json.dumps(body, ensure_ascii=False)) // 4
        usage = {"prompt_tokens": tokens, "completion_tokens": len(json.dumps(message)) // 4, "total_tokens": 0}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "file"}
        chunks = [
            {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {**head, "choices": [], "usage": usage},
        ]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    # A long conversation with its tables is more than the one megabyte that aiohttp takes otherwise.
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_post("/v1/chat/completions", complete)
    return app


def main(folder: str, port: str = "0") -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    web.run_app(make_app(Path(folder)), host="127.0.0.1", port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
