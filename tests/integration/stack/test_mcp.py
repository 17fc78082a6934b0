"""The tools of a real stack through ``fathom mcp serve``, over both transports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from fathom.clients import Clients
from fathom.services.local import Endpoints
from fathom.transport.sockets import reserved_port
from tests.support.waiting import until_listening

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
ROOT = Path(__file__).resolve().parents[3]
SERVE = ("-m", "fathom.cli.main", "mcp", "serve")


def home_of(endpoints: Endpoints) -> str:
    return str(Path(endpoints.store.removeprefix("file://")).parent)


async def call(client: Client, name: str, **arguments: Any) -> tuple[dict[str, Any], str, bool]:
    """Head and body of a result, and whether it is an error."""
    result = await client.call_tool(name, arguments)
    line, _, body = result.content[0].text.partition("\n")  # type: ignore[union-attr]
    return json.loads(line), body, bool(result.is_error)


async def check_tools(client: Client) -> None:
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == [
        "catalogue",
        "data",
        "fetch",
        "python",
        "search",
        "sql",
        "think",
        "todo",
        "ask",
    ]
    assert all(tool.input_schema["required"][0] == "intent" for tool in listed[:-1])
    head, _, wrong = await call(client, "search", intent="find it", query="maximum drawdown")
    assert not wrong
    head, body, wrong = await call(client, "fetch", intent="read it", id=head["hits"][0]["id"])
    assert (wrong, head["material"], "<quoted>" in body) == (False, 1, True)
    head, _, wrong = await call(client, "data", intent="prices", question="Apple closing price in 2020")
    assert (wrong, head["sheets"][0]["variable"], head["sheets"][0]["material"]) == (False, "sheet_1", 2)
    head, body, wrong = await call(client, "python", intent="count", code="print(len(sheet_1) > 200)")
    assert (wrong, "True" in body, head["material"]) == (False, True, 3)
    head, _, wrong = await call(client, "search", query=3)
    assert (wrong, head["status"]) == (True, "invalid")
    assert (await client.call_tool("finish", {"answer": "x"})).is_error


async def check_ask(client: Client) -> None:
    asked = await client.call_tool("ask", {"question": "What was Apple's closing price on 2020-12-31?"})
    answer = asked.structured_content
    assert not asked.is_error
    assert answer is not None
    assert "130.73" in answer["answer"]
    assert answer["run_id"].startswith("run_")
    assert [source["kind"] for source in answer["sources"]] == ["sheet"]
    follow_up = {"question": "And Microsoft?", "conversation_id": answer["conversation_id"]}
    again = (await client.call_tool("ask", follow_up)).structured_content
    assert again is not None
    assert "Microsoft" in again["answer"]
    assert (await client.call_tool("ask", {"question": ""})).is_error


async def test_over_standard_streams(stack: Stack) -> None:
    endpoints, _ = stack
    program = StdioServerParameters(
        command=sys.executable, args=[*SERVE, "--home", home_of(endpoints)], cwd=ROOT, env=dict(os.environ)
    )
    async with asyncio.timeout(90), Client(program) as client:
        await check_tools(client)
        await check_ask(client)


async def test_over_http_each_session_has_its_own_workspace(stack: Stack) -> None:
    endpoints, _ = stack
    http = httpx2.AsyncClient(headers={"authorization": "Bearer s3cret"}, timeout=60)
    with reserved_port() as port:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *SERVE, "--transport", "http", "--port", str(port), "--home", home_of(endpoints), cwd=ROOT,
            env={**os.environ, "FATHOM_MCP_TOKEN": "s3cret"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(90):
                url = f"http://127.0.0.1:{port}/mcp"
                await until_listening("127.0.0.1", port)
                async with httpx2.AsyncClient() as nobody:
                    for headers in ({}, {"authorization": "Bearer wrong"}):
                        assert (await nobody.post(url, json={}, headers=headers)).status_code == 401
                doors = [streamable_http_client(url, http_client=http) for _ in range(2)]
                async with Client(doors[0], mode="legacy") as one, Client(doors[1], mode="legacy") as other:
                    await check_tools(one)
                    _, _, wrong = await call(other, "python", intent="look", code="print(sheet_1)")
                    assert wrong, "another session's sheets are not there"
        finally:
            await http.aclose()
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 15) == 0


async def test_an_open_door_needs_a_token(stack: Stack) -> None:
    endpoints, _ = stack
    process = await asyncio.create_subprocess_exec(
        sys.executable, *SERVE, "--transport", "http", "--host", "0.0.0.0", "--port", "0",
        "--home", home_of(endpoints), cwd=ROOT, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, stderr = await process.communicate()
    assert (process.returncode, b"FATHOM_MCP_TOKEN" in stderr, b"Traceback" in stderr) == (1, True, False)


async def test_without_a_stack_it_says_so(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *SERVE, "--home", str(tmp_path), cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await process.communicate()
    assert (process.returncode, b"no stack is up" in stderr, b"Traceback" in stderr) == (1, True, False)
