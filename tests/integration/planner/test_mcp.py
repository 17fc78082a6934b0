"""Foreign tools over both transports through our registry: the loop cannot tell them from its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from fathom.api.common.v1 import common_pb2 as common
from fathom.core.call import Call, calling
from fathom.core.errors import InvalidField, NotFound
from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.config import McpServer
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.mcp import relay
from fathom.services.planner.mcp.describing import list_servers
from fathom.services.planner.mcp.mount import Mount, Mounts
from fathom.services.planner.mcp.probing import probe_server
from fathom.services.planner.mcp.results import SharedResults
from fathom.services.planner.metrics import Metrics
from fathom.services.planner.model.episode import Episode, MaterialKind, StopReason, ToolStatus
from fathom.services.planner.model.recording import Mode, RecordingChoice
from fathom.services.planner.recording.tape import Recordings, playing
from fathom.services.planner.tools.gates import Gates
from fathom.services.planner.tools.registry import CallLimits, Registry
from fathom.services.planner.tools.think import Finish, Think
from fathom.transport.sockets import reserved_port
from fathom.transport.store import open_store
from fathom.transport.store.memory import MemoryStore
from tests.integration.planner.toy_server import Toy, describe_tool
from tests.support.observer import RecordingObserver
from tests.support.waiting import eventually
from tests.unit.planner.episode.test_loop import Script, finish, research, task

NAMES = ("quote", "meant", "hang", "flood", "fail", "poison", "picky", "slow", "release", "broken", "secrets", "looked")
TOOLS = (*NAMES, "lying", "absent")
MOUNTED = [f"toy_{name}" for name in NAMES]
PROGRAM = (sys.executable, str(Path(__file__).with_name("toy_server.py")))


@asynccontextmanager
async def serving(toy: Toy, port: int) -> AsyncIterator[str]:
    """The toy over HTTP, in this loop."""
    http = toy.server().streamable_http_app()
    program = uvicorn.Server(uvicorn.Config(http, port=port, log_level="error", timeout_graceful_shutdown=1))
    running = asyncio.create_task(program.serve())
    await eventually(lambda: program.started)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        program.should_exit = True
        await running


@asynccontextmanager
async def mount_toy(**where: Any) -> AsyncIterator[Mounts]:
    settings = McpServer(name="toy", tools=TOOLS, timeout_s=2.0, **where)
    mounts = Mounts([settings], open_store("memory://"), structlog.get_logger())
    mounts.start()
    await mounts.wait_until_listed(20.0)
    try:
        yield mounts
    finally:
        await mounts.close()


@pytest.fixture(params=["http", "stdio"])
async def mounts(request: pytest.FixtureRequest) -> AsyncIterator[Mounts]:
    if request.param == "stdio":
        async with mount_toy(command=PROGRAM) as found:
            yield found
    else:
        with reserved_port() as port:
            async with serving(Toy(), port) as url, mount_toy(url=url) as found:
                yield found


def registry(mounts: Mounts) -> Registry:
    return Registry([Think(), Finish(), *mounts.tools()], 0, CallLimits(8.0))


async def call(mounts: Mounts, name: str, **arguments: Any) -> Any:
    return await registry(mounts).call("id", ToolCall("c", name, json.dumps(arguments)))


async def test_only_allowed_and_sound_tools_are_mounted_with_our_intent(mounts: Mounts) -> None:
    assert [tool.name for tool in mounts.tools()] == MOUNTED
    for spec in registry(mounts).specs:
        assert json.loads(spec.parameters_json)["required"][0] == "intent"


async def test_the_loop_cannot_tell_a_foreign_tool_from_its_own(mounts: Mounts) -> None:
    line = format_tool_call("toy_quote", {"intent": "see the price", "symbol": "AAPL"})
    policy = Script(line, finish("It is at 42.5 [1]."))
    episode = Episode(task(), research().opening(task()))
    loop = AgentLoop(episode, research(), policy, EpisodeResources(registry(mounts)), RecordingObserver())
    outcome = await loop.run()
    assert outcome.stop is StopReason.FINISHED
    assert outcome.answer is not None
    assert outcome.answer.cited == (1,)
    result = episode.steps[0].results[0]
    assert (result.intent, result.status, result.call.name) == ("see the price", ToolStatus.OK, "toy_quote")
    assert (result.material[0].kind, result.material[0].item.text) == (MaterialKind.PASSAGE, "AAPL is at 42.5")
    assert "<quoted>\nAAPL is at 42.5\n</quoted>" in result.content


async def test_an_intent_of_their_own_is_kept_apart_from_ours(mounts: Mounts) -> None:
    result = await call(mounts, "toy_meant", intent="ours", tool_intent="theirs")
    assert result.intent == "ours"
    assert '{"intent": "theirs"}' in result.content


async def test_time_and_size_are_bounded_and_failures_name_the_server(mounts: Mounts) -> None:
    async with asyncio.timeout(8):
        result = await call(mounts, "toy_hang")
    assert (result.status, "toy: did not answer within 2 s" in result.content) == (ToolStatus.FAILED, True)
    assert result.material[0].kind is MaterialKind.MISSING
    result = await call(mounts, "toy_fail")
    assert (result.status, "the market is closed" in result.content) == (ToolStatus.FAILED, True)
    result = await call(mounts, "toy_poison")
    assert (result.status, result.content.count("</quoted>"), "<|im_start|>" in result.content) == (
        ToolStatus.OK,
        1,
        False,
    )
    flooded = await call(mounts, "toy_flood")
    assert len(flooded.content) < 8_000

    assert (await call(mounts, "toy_quote", symbol="MSFT")).status is ToolStatus.OK


async def test_an_oversized_result_or_an_error_fails_its_own_call_alone(mounts: Mounts) -> None:
    """Other runs share the connection: their calls in flight must not fail with it."""
    slow = asyncio.create_task(call(mounts, "toy_slow"))
    flooded = await call(mounts, "toy_flood")
    assert (flooded.status, "ask for less" in flooded.content) == (ToolStatus.FAILED, True)
    broken = await call(mounts, "toy_broken")
    assert (broken.status, "out of order" in broken.content) == (ToolStatus.FAILED, True)
    assert not slow.done()
    assert (await call(mounts, "toy_release")).status is ToolStatus.OK
    assert (await slow).status is ToolStatus.OK


async def test_malformed_arguments_never_reach_the_server(mounts: Mounts) -> None:
    result = await call(mounts, "toy_quote", symbol=3)
    assert (result.status, "toy_quote.symbol" in result.content) == (ToolStatus.INVALID, True)


async def test_a_schema_that_drifts_is_named_and_the_next_episode_has_the_new_one() -> None:
    toy = Toy()
    with reserved_port() as port:
        async with serving(toy, port) as url, mount_toy(url=url) as mounts:
            episode = registry(mounts)
            first = await episode.call("id", ToolCall("c", "toy_picky", '{"n": 1}'))
            assert first.status is ToolStatus.OK
            toy.tools["picky"] = describe_tool("picky", n={"type": "integer"}, m={"type": "integer"})
            second = await episode.call("id", ToolCall("c", "toy_picky", '{"n": 1}'))
            assert (second.status, "has changed its arguments" in second.content) == (ToolStatus.FAILED, True)
            again = await call(mounts, "toy_picky", n=1, m=2)
            assert again.status is ToolStatus.OK
            del toy.tools["fail"]
            gone = await episode.call("id", ToolCall("c", "toy_fail", "{}"))
            assert "no longer offers toy_fail" in gone.content
            assert "toy_fail" not in [tool.name for tool in mounts.tools()]


async def test_a_server_that_is_down_holds_nobody_up_and_comes_back_by_itself() -> None:
    with reserved_port() as port:
        url = f"http://127.0.0.1:{port}/mcp"
        settings, store = McpServer(name="toy", tools=TOOLS, timeout_s=2.0, url=url), open_store("memory://")
        mounts = Mounts([settings], store, structlog.get_logger())
        mounts.start()
        async with asyncio.timeout(2.0):
            await mounts.wait_until_listed(0.3)
        assert mounts.tools() == []
        async with serving(Toy(), port):
            await mounts.wait_until_listed(20.0)
            assert [tool.name for tool in mounts.tools()] == MOUNTED
            episode = registry(mounts)
            assert (await episode.call("id", ToolCall("c", "toy_quote", '{"symbol": "A"}'))).status is ToolStatus.OK
        lost = await episode.call("id", ToolCall("c", "toy_quote", '{"symbol": "A"}'))
        assert (lost.status, lost.material[0].kind) == (ToolStatus.FAILED, MaterialKind.MISSING)
        assert "toy" in lost.content

        async def is_answered() -> bool:
            return (await episode.call("id", ToolCall("c", "toy_quote", '{"symbol": "A"}'))).status is ToolStatus.OK

        async with serving(Toy(), port):
            await eventually(is_answered, every_s=0.2)
        await mounts.close()
        later = Mounts([settings], store, structlog.get_logger())
        later.start()
        await later.wait_until_listed(0.3)
        assert registry(later).specs == episode.specs, "a run that goes on has the tools with which it began"
        unreached = await call(later, "toy_quote", symbol="A")
        assert (unreached.status, "toy: is not connected" in unreached.content) == (ToolStatus.FAILED, True)
        await later.close()


async def test_a_program_whose_planner_is_gone_ends(tmp_path: Path) -> None:
    """Killed, not stopped: nobody is left to end the program but the relay."""
    note = tmp_path / "pid"
    stubborn = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        relay.__file__,
        "1000",
        sys.executable,
        "-c",
        stubborn,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    await eventually(lambda: note.exists() and note.read_text())
    async with asyncio.timeout(20):
        assert holder.stdin is not None
        holder.stdin.close()  # what the kernel does for a planner that was killed
        assert await holder.wait() == 1
        with pytest.raises(ProcessLookupError):
            os.kill(int(note.read_text()), 0)


async def test_a_line_without_end_ends_the_program(tmp_path: Path) -> None:
    flood = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-I", relay.__file__, "100000", sys.executable, "-c", flood,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(20):
        assert holder.stdout is not None
        assert await holder.stdout.read() == b""
        assert await holder.wait() != 0


async def test_a_message_over_the_limit_is_answered_wherever_its_id_stands() -> None:
    """Other SDKs write the id behind the result; a string may hold what looks like the end of anything."""
    inner = {"text": 'quoted \\" and "id": 9 } ] \\\\', "list": [{"id": 7}] * 3000}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "result": inner},
        {"result": inner, "jsonrpc": "2.0", "id": "two"},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": inner},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
    ]
    program = f"import json\nfor line in {lines!r}: print(json.dumps(line), flush=True)\nimport sys; sys.stdin.read()"
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-I", relay.__file__, "8000", sys.executable, "-c", program,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdin is not None
    assert holder.stdout is not None
    async with asyncio.timeout(20):
        read = [json.loads(await holder.stdout.readline()) for _ in range(3)]
        holder.stdin.close()
        await holder.wait()
    assert [(message["id"], "error" in message) for message in read] == [(1, True), ("two", True), (3, False)]


@given(
    message=st.dictionaries(st.text(), st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner))),
    ensure_ascii=st.booleans(),
    size=st.integers(1, 9),
)
def test_an_outline_has_the_members_of_the_object(message: dict[str, Any], ensure_ascii: bool, size: int) -> None:
    line, outline = json.dumps(message, ensure_ascii=ensure_ascii).encode() + b"\n", relay.Outline()
    for start in range(0, len(line), size):
        outline.feed(line[start : start + size])
    assert outline.read() == {name: None if isinstance(value, list) else value for name, value in message.items()}


async def test_a_server_gets_its_environment_and_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "s3cret")
    async with mount_toy(command=PROGRAM, env={"TOY_KEY": "key ${ACME_KEY}"}) as mounts:
        assert '["key s3cret", null]' in (await call(mounts, "toy_secrets")).content
    with reserved_port() as port:
        async with serving(Toy(), port) as url, mount_toy(url=url, http_headers={"x-toy-key": "${ACME_KEY}"}) as mounts:
            assert '[null, "s3cret"]' in (await call(mounts, "toy_secrets")).content
    server = McpServer(name="toy", tools=TOOLS, url="http://x", http_headers={"x-toy-key": "${NOT_SET}"}, timeout_s=1)
    with pytest.raises(InvalidField, match=r"http_headers\.x-toy-key: the environment has no NOT_SET"):
        server.headers()


@asynccontextmanager
async def mount_counted(**settings: Any) -> AsyncIterator[tuple[Mounts, Toy]]:
    """Yield a mounted toy and the toy itself, which has heard what came upstream."""
    toy = Toy()
    with reserved_port() as port:
        async with serving(toy, port) as url, mount_toy(url=url, **settings) as mounts:
            yield mounts, toy


@pytest.mark.parametrize("reads", [True, None])
async def test_equal_calls_of_a_group_go_upstream_once(reads: bool | None) -> None:
    """By the operator's word, or by what the server declares."""
    async with mount_counted(reads=reads) as (mounts, toy):
        group = [call(mounts, "toy_looked", symbol="AAPL", intent=f"sibling {number}") for number in range(8)]
        results = await asyncio.gather(*group)
        assert {result.content for result in results} == {results[0].content}
        assert [result.intent for result in results[:2]] == ["sibling 0", "sibling 1"]
        again = await call(mounts, "toy_looked", symbol="AAPL")
        other = await call(mounts, "toy_looked", symbol="MSFT")
        assert (again.content, other.status) == (results[0].content, ToolStatus.OK)
        assert toy.heard == [("looked", {"symbol": "AAPL"}), ("looked", {"symbol": "MSFT"})]
        with calling(Call.new(tenant="other")):
            await call(mounts, "toy_looked", symbol="AAPL")
        assert len(toy.heard) == 3, "a tenant reads nothing that another one has asked for"


async def test_equal_calls_of_a_group_take_one_place_at_the_gate_and_what_is_held_takes_none() -> None:
    metrics = Metrics.register(CollectorRegistry())
    gates = Gates(1, {}, metrics.waiting, metrics.wait_seconds)
    async with mount_counted() as (mounts, toy):

        async def ask(symbol: str, run: str) -> Any:
            episode = Registry(mounts.tools(), 0, CallLimits(8.0, gates=gates, run=run))
            return await episode.call("id", ToolCall("c", "toy_looked", json.dumps({"symbol": symbol})))

        asked = [ask("AAPL", f"run_{number}") for number in range(8)]
        found = await asyncio.gather(*asked)
        assert {result.status for result in found} == {ToolStatus.OK}
        assert not all(result.is_cached for result in found), "one of them was asked"
        assert count_admitted(metrics) == 1
        again = await ask("AAPL", "run_9")
        assert (count_admitted(metrics), len(toy.heard), again.is_cached) == (1, 1, True)
        await asyncio.gather(ask("MSFT", "run_1"), ask("GOOG", "run_2"))
        assert (count_admitted(metrics), len(toy.heard)) == (3, 3)


async def test_a_server_is_tried_over_a_connection_of_its_own_and_the_cause_is_told() -> None:
    async with mount_counted() as (mounts, _):
        (mount,) = mounts
        tried = await probe_server(mounts, "toy")
        assert (tried.is_answering, tried.failure, mount.is_connected) == (True, "", True)
        with pytest.raises(NotFound, match="toy"):
            await probe_server(mounts, "other")
    # Nobody listens there any more.
    refused = await probe_server([mount], "toy")
    assert (refused.is_answering, "Connection refused" in refused.failure) == (False, True)
    assert mount.contact.to_proto().failure == refused.failure
    gone = McpServer(name="gone", url="", command=("/nonexistent/program",), tools=TOOLS, timeout_s=2.0)
    missing = await probe_server([Mount(gone, open_store("memory://"), None, SharedResults())], "gone")
    assert (missing.is_answering, missing.failure) == (False, "gone: there is no program program here")


def count_admitted(metrics: Metrics) -> int:
    """Return how often a call of the toy has taken a place."""
    samples = [sample for family in metrics.wait_seconds.collect() for sample in family.samples]
    return int(next(sample.value for sample in samples if sample.name.endswith("_count")))


async def test_what_was_not_found_is_held_and_a_failure_is_not() -> None:
    async with mount_counted(reads=True) as (mounts, toy):
        for _ in range(2):
            assert (await call(mounts, "toy_looked", symbol="")).status is ToolStatus.EMPTY
            assert (await call(mounts, "toy_fail")).status is ToolStatus.FAILED
        assert [name for name, _ in toy.heard] == ["looked", "fail", "fail"]


@pytest.mark.parametrize("settings", [{"reads": False}, {"reads": True, "cache_s": 0.0}])
async def test_tools_that_act_and_results_that_age_at_once_are_asked_each_time(settings: dict[str, Any]) -> None:
    async with mount_counted(**settings) as (mounts, toy):
        for _ in range(3):
            await call(mounts, "toy_looked", symbol="AAPL")
        assert len(toy.heard) == 3


async def test_a_recorded_episode_asks_no_server_again() -> None:
    store, calls = MemoryStore(), [("toy_quote", {"symbol": "AAPL"}), ("toy_fail", {}), ("toy_broken", {})]
    recordings = Recordings(store)

    async def play_calls(mounts: Mounts, mode: Mode) -> list[str]:
        choice = RecordingChoice("tape", mode)
        await recordings.open(choice, "2026-01-02")
        with playing(recordings.tape(choice, "run_1")):
            return [(await call(mounts, name, **arguments)).content for name, arguments in calls]

    async with mount_counted() as (mounts, toy):
        recorded = await play_calls(mounts, Mode.RECORD)
        heard = len(toy.heard)
        assert await play_calls(mounts, Mode.STRICT) == recorded
        assert ("at 42.5" in recorded[0], len(toy.heard)) == (True, heard)


async def test_a_server_is_described_with_what_it_lacks(mounts: Mounts) -> None:
    [found] = list_servers(mounts).servers
    assert (found.name, found.is_connected, list(found.missing_tools)) == ("toy", True, ["lying", "absent"])
    assert found.contact.HasField("answered")
    assert (found.is_program, found.host) in {(True, ""), (False, "127.0.0.1")}


async def test_why_a_server_is_not_reached_is_said_without_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_TOKEN", "very-secret-token")
    with reserved_port() as port:
        where = f"http://127.0.0.1:{port}/very-secret-path?key=very-secret-key"
        settings = McpServer(name="toy", tools=TOOLS, timeout_s=2.0, url=where, token_env="TOY_TOKEN")
        mounts = Mounts([settings], open_store("memory://"), structlog.get_logger())
        mounts.start()
        await eventually(lambda: list_servers(mounts).servers[0].contact.failure)
        listed = list_servers(mounts)
        await mounts.close()
    [found] = listed.servers
    assert (found.is_connected, found.host, found.credential) == (False, "127.0.0.1", common.CREDENTIAL_SET)
    assert b"very-secret" not in listed.SerializeToString()
    monkeypatch.delenv("TOY_TOKEN")
    assert list_servers(mounts).servers[0].credential == common.CREDENTIAL_MISSING
