"""One question through every service of a real stack: the answer, its sources, its table, its figure, its record."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import httpx
import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run, watch
from fathom.core import errors
from fathom.domain import frames
from fathom.services.local import Endpoints, LocalSettings, LocalStack
from fathom.transport.sockets import PortInUse
from tests.integration.stack.conftest import MODELS, prepare
from tests.support.observer import list_logged

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"
ROOT = Path(__file__).resolve().parents[3]


async def ask(clients: Clients, question: str, **fields: object) -> list[pb.RunEvent]:
    return [event async for event in run(clients, pb.RunRequest(question=question, **fields))]  # type: ignore[arg-type]


async def test_a_comparison_is_answered_with_sources_table_and_figure(stack: Stack) -> None:
    _, clients = stack
    events = await ask(clients, QUESTION, request_id="run-comparison")
    logged = list_logged(events)
    assert [event.sequence for event in logged] == list(range(1, len(logged) + 1))
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    answer = finished.answer
    assert len(answer.cited) >= 2
    assert not answer.unresolved
    assert answer.model == "rules"
    sheets = {item.variable: item.sheet for item in finished.material if item.HasField("sheet")}
    figures = {figure.id for item in finished.material for figure in item.code.figures}
    # The table that the question's words gave stays behind the one that its steps are computed from.
    (shown,) = set(re.findall(r"\{\{table:(\w+)\}\}", answer.markdown))
    assert set(re.findall(r"\{\{figure:(\w+)\}\}", answer.markdown)) <= figures
    assert "{{figure:" in answer.markdown
    chunks = [
        chunk.chunk async for chunk in clients.datafetch.get_table(data.GetTableRequest(sheet_id=sheets[shown].id))
    ]
    assert frames.read_table(b"".join(chunks)).num_rows == sheets[shown].rows
    # The drawdown of Apple between 2015 and 2020, computed from the same adjusted closes by hand: -38.52%.
    assert "-38.52%" in answer.markdown
    intents = [event.tool_started.intent for event in events if event.HasField("tool_started")]
    assert all(intents)
    kinds = [event.WhichOneof("event") for event in events]
    for index, kind in enumerate(kinds):
        if kind == "tool_finished":
            assert "tool_started" in kinds[:index], "an intent goes out before its result"


async def test_the_run_is_recorded_watched_and_joined(stack: Stack) -> None:
    _, clients = stack
    events = await ask(clients, QUESTION, request_id="run-comparison")
    assert events[-1].HasField("finished")
    later = [event async for event in watch(clients, "run-comparison", after=3)]
    assert later == events[3:]
    async with asyncio.timeout(10):
        assert [event async for event in watch(clients, "run-comparison", after=events[-1].sequence)] == []
    found = (await clients.planner.get_run(pb.GetRunRequest(run_id="run-comparison"))).trajectory
    assert found.exact
    # The system prompt ends in what datafetch has, and the record says in which words.
    opening = found.steps[0].new_messages[0].content
    assert "- stock: 21 (AAPL," in opening
    assert found.prompts["data"].startswith("data.")
    assert len(found.token_ids) == len(found.mask) == len(found.log_probs) > 0
    assert [step.index for step in found.steps] == list(range(len(found.steps)))
    listed = await clients.planner.list_runs(pb.ListRunsRequest(page_size=1000))
    assert "run-comparison" in [summary.run_id for summary in listed.runs]
    with pytest.raises(errors.Conflict):
        await ask(clients, "another question", request_id="run-comparison")


async def test_a_conversation_remembers_its_turns(stack: Stack) -> None:
    _, clients = stack
    first = await ask(clients, "What is maximum drawdown?", conversation_id="conv-1")
    assert first[-1].finished.HasField("answer"), first[-1].finished.error
    await ask(clients, "What is CAGR?", conversation_id="conv-1")
    window = await clients.memory.get_window(memory.GetWindowRequest(conversation_id="conv-1"))
    assert [turn.question for turn in window.turns] == ["What is maximum drawdown?", "What is CAGR?"]


async def test_what_is_not_there_is_said(stack: Stack) -> None:
    _, clients = stack
    finished = (await ask(clients, "Compare the share price of Tencent and Alibaba since 2018"))[-1].finished
    assert finished.HasField("answer"), finished.error
    missing = {item.missing.subject for item in finished.material if item.HasField("missing")}
    assert {"Tencent", "Alibaba"} <= missing
    assert "Tencent" in finished.answer.markdown


@pytest.mark.parametrize("question", ["", "   ", "x" * 100_000])
async def test_questions_of_the_wrong_length_are_refused_by_field(stack: Stack, question: str) -> None:
    _, clients = stack
    with pytest.raises(errors.InvalidField) as bad:
        await ask(clients, question)
    assert bad.value.field == "question"


async def command(*arguments: str) -> tuple[int, str, str]:
    """Runs Python with these arguments; the stack goes on meanwhile, for it lives in this loop."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return process.returncode, stdout.decode(), stderr.decode()


async def test_every_service_answers_by_reflection_and_by_the_command_line(stack: Stack) -> None:
    endpoints, _ = stack
    target = endpoints.services["retrieval"].removeprefix("grpc://")
    status, stdout, stderr = await command("examples/grpc_client.py", target, "maximum drawdown")
    assert status == 0, stderr
    assert "note-method-maximum-drawdown" in stdout
    call, url = ("-m", "fathom.cli.main", "call", "reward", "ListGraders"), ("--url", endpoints.services["reward"])
    status, stdout, _ = await command(*call, *url)
    assert '"search_r1"' in stdout
    for body in ("{", '{"nope": 1}', "[]"):
        status, _, stderr = await command(*call, body, *url)
        assert (status, "body: is no ListGradersRequest" in stderr, "Traceback" in stderr) == (1, True, False)
    status, _, stderr = await command("-m", "fathom.cli.main", "call", "reward", "Nope", *url)
    assert (status, "no method 'reward.Nope'" in stderr) == (1, True)


async def test_the_gateway_serves_the_run_its_table_and_its_figure(stack: Stack) -> None:
    endpoints, clients = stack
    await ask(clients, QUESTION, request_id="run-comparison")
    async with httpx.AsyncClient(base_url=endpoints.gateway, timeout=30) as http:
        seen = []
        async with http.stream("GET", "/v1/runs/run-comparison/events", headers={"last-event-id": "2"}) as response:
            async for line in response.aiter_lines():
                # A ping has no content.
                if line.startswith("data:") and (event := json.loads(line.removeprefix("data:"))):
                    seen.append(event)
        assert seen[0]["sequence"] == "3"
        sheet = next(item["sheet"] for item in seen[-1]["finished"]["material"] if "sheet" in item)
        table = (await http.get(f"/v1/tables/{sheet['id']}", params={"limit": 3, "sort": "date", "desc": True})).json()
        assert (table["total"], table["rows"][0][0]) == (1511, "2020-12-31")
        csv = await http.get(f"/v1/tables/{sheet['id']}/export", params={"format": "csv"})
        assert csv.content.startswith(b"\xef\xbb\xbfdate,")
        xlsx = await http.get(f"/v1/tables/{sheet['id']}/export", params={"format": "xlsx"})
        assert xlsx.content[:2] == b"PK"
        figure = (await http.get("/v1/runs/run-comparison/figures/fig_1")).json()
        assert figure["data"]
        assert (await http.get("/v1/runs/run-comparison/figures/..%2f..%2fx")).status_code == 404
        for body, field in (
            ({"question": ""}, "question"),
            ({"question": "x" * 9000}, "question"),
            ({}, "question"),
            ({"question": "a", "nope": 1}, "nope"),
        ):
            answer = await http.post("/v1/runs", json=body)
            assert answer.status_code == 400
            assert answer.json()["field"] == field
            assert answer.headers["content-type"] == "application/problem+json"
        assert (
            await http.post("/v1/runs", content=b"{", headers={"content-type": "application/json"})
        ).status_code == 400
        assert (await http.post("/v1/runs", content=b"x" * 2_000_000)).status_code == 413
        page = await http.get("/")
        assert "default-src 'self'" in page.headers["content-security-policy"]
        for path in (
            "/static/icon.svg",
            "/static/plotly.min.js",
            "/healthz/live",
            "/healthz/ready",
            "/metrics",
            "/v1/models",
            "/v1/conversations",
        ):
            assert (await http.get(path)).status_code == 200, path


async def test_every_tool_asks_for_its_intent(stack: Stack) -> None:
    _, clients = stack
    models = await clients.planner.list_tools(pb.ListToolsRequest())
    assert [tool.name for tool in models.tools] == [
        "catalogue", "data", "delegate", "fetch", "finish", "python", "recall", "search", "sql", "think", "todo",
    ]  # fmt: skip
    assert all('"intent"' in tool.parameters_json for tool in models.tools)


async def test_a_port_in_use_is_named(stack: Stack, tmp_path: Path, tables_dir: Path, corpus_dir: Path) -> None:
    endpoints, _ = stack
    taken = int(endpoints.gateway.rpartition(":")[2])
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    with pytest.raises(PortInUse, match=f"gateway cannot listen on 127.0.0.1:{taken}"):
        async with LocalStack(LocalSettings(home=home, gateway_port=taken, models=MODELS)).running():
            pass


async def test_a_second_stack_in_one_home_is_refused(stack: Stack) -> None:
    endpoints, _ = stack
    home = Path(endpoints.store.removeprefix("file://")).parent
    with pytest.raises(errors.Conflict, match=f"process {endpoints.pid}"):
        async with LocalStack(LocalSettings(home=home, gateway_port=0, models=MODELS)).running():
            pass


async def test_a_corrupt_data_file_stops_the_stack_with_its_name(
    tmp_path: Path, tables_dir: Path, corpus_dir: Path
) -> None:
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    (home / "data" / "corpus" / "documents.jsonl").write_text("damaged")
    with pytest.raises(errors.CorruptData, match=r"documents\.jsonl"):
        async with LocalStack(LocalSettings(home=home, gateway_port=0, models=MODELS)).running():
            pass


@pytest.mark.parametrize("question", ["Hello", "What was Apple's closing price on 2020-12-31?"])
async def test_a_simple_question_takes_at_most_two_rounds(stack: Stack, question: str) -> None:
    _, clients = stack
    finished = (await ask(clients, question))[-1]
    assert finished.finished.HasField("answer"), finished.finished.error
    found = (await clients.planner.get_run(pb.GetRunRequest(run_id=finished.run_id))).trajectory
    assert len(found.steps) <= 2


async def test_the_command_line_chooses_what_makes_room(stack: Stack) -> None:
    endpoints, clients = stack
    planner = ("--planner", endpoints.services["planner"])
    status, stdout, stderr = await command(
        "-m", "fathom.cli.main", "ask", "Hello", "--window", "delete", "--window-tokens", "4096", "--json", *planner
    )
    assert status == 0, stderr
    run_id = json.loads(stdout.splitlines()[-1])["run_id"]
    assert "finished" in json.loads(stdout.splitlines()[-1])
    assert (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory.steps
    for arguments, said in (
        (("--window", "keep"), "is not one of off, delete"),
        (("--window-tokens", "7"), "window.tokens"),
    ):
        status, _, stderr = await command("-m", "fathom.cli.main", "ask", "Hello", *arguments, *planner)
        assert (status, said in stderr, "Traceback" in stderr) == (1, True, False), stderr


async def test_the_doctor_tells_who_answers(stack: Stack) -> None:
    """Ask this stack what `helm test` asks of a cluster: all well, and one that is not there."""
    from fathom.cli.doctor.local import check_ready

    endpoints, _ = stack
    asked = [*endpoints.services.values(), endpoints.gateway]
    findings = await check_ready([*asked, "grpc://127.0.0.1:1", "http://127.0.0.1:1"])
    assert [finding.good for finding in findings] == [True] * len(asked) + [False, False]
    assert all(finding.detail for finding in findings)
