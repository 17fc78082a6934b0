"""The gateway's routes over doubles of its own boundary, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.errors import FathomError, InvalidField, Overloaded
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.problems import STATUS, to_problem
from fathom.transport.store.refs import to_ref
from tests.e2e.replay import ReplayHouse
from tests.e2e.script import SHEET_ID
from tests.support.waiting import eventually

Door = tuple[httpx.AsyncClient, ReplayHouse]
Opened = Callable[..., AbstractAsyncContextManager[Door]]


async def ask(client: httpx.AsyncClient, **more: str | int | list[str]) -> str:
    answer = await client.post("/v1/runs", json={"question": "why?", **more})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run_id"])


async def read_events(client: httpx.AsyncClient, path: str, **headers: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(event, id, data) of a whole stream."""
    answer = await client.get(path, headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    found = []
    for block in answer.text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        # Comments between the events keep an idle connection open and carry nothing.
        if fields:
            found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
    return found


async def test_what_becomes_of_long_conversations_may_be_chosen(door: Door) -> None:
    client, house = door
    await ask(client, request_id="run_1", window="summarize")
    await ask(client, request_id="run_2")
    assert house.planner.asked[0].window.policy == trajectory.STEP_POLICY_SUMMARIZE
    # Not chosen is not "off": the planner's own setting counts.
    assert not house.planner.asked[1].HasField("window")
    answer = await client.post("/v1/runs", json={"question": "why?", "window_tokens": 4096})
    assert answer.status_code == 202
    assert (house.planner.asked[2].window.policy, house.planner.asked[2].window.tokens) == (0, 4096)
    for body, field in (({"window": "keep"}, "window"), ({"window_tokens": -1}, "window_tokens")):
        answer = await client.post("/v1/runs", json={"question": "why?", **body})
        assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_the_effort_of_a_question_may_be_chosen(door: Door) -> None:
    client, house = door
    await ask(client, request_id="run_1", effort="deep")
    await ask(client, request_id="run_2")
    assert [asked.effort for asked in house.planner.asked] == [planner.EFFORT_DEEP, planner.EFFORT_UNSPECIFIED]
    answer = await client.post("/v1/runs", json={"question": "why?", "effort": "heroic"})
    assert (answer.status_code, answer.json()["field"]) == (400, "effort")


async def test_sources_may_be_switched_off_for_a_question(door: Door) -> None:
    client, house = door
    await ask(client, sources_off=["documents", "web"])
    assert list(house.planner.asked[-1].sources_off) == ["documents", "web"]
    refused = await client.post("/v1/runs", json={"question": "why?", "sources_off": ["x"] * 33})
    assert (refused.status_code, refused.json()["field"]) == (400, "sources_off")


async def test_a_run_is_accepted_followed_and_read(door: Door) -> None:
    client, house = door
    answer = await client.post("/v1/runs", json={"question": "why?", "request_id": "run_1"})
    assert answer.status_code == 202
    assert answer.json() == {"run_id": "run_1", "conversation_id": "conv_run_1"}
    assert answer.headers["location"] == "/v1/runs/run_1"
    assert house.planner.asked[0].model == "planner"
    events = await read_events(client, "/v1/runs/run_1/events")
    assert [ident for _, ident, _ in events] == [str(number) for number in range(1, len(events) + 1)]
    assert events[0][2]["started"]["model"] == "rules"
    assert events[-1][2]["finished"]["stop_reason"] == "STOP_REASON_FINISHED"
    run = (await client.get("/v1/runs/run_1")).json()
    assert run["running"] is False
    assert run["trajectory"]["answer"]["cited"] == [1, 2, 3]
    assert run["trajectory"]["token_ids"] == []
    assert run["trajectory"]["steps"][0]["completion"]["sampled_token_ids"] == []
    assert [item["run_id"] for item in (await client.get("/v1/runs")).json()["runs"]] == ["run_1"]


async def test_the_same_request_id_joins_the_run(door: Door) -> None:
    client, house = door
    assert await ask(client, request_id="run_2") == await ask(client, request_id="run_2")
    assert list(house.planner.runs) == ["run_2"]


@pytest.mark.parametrize("by_header", [True, False])
async def test_a_stream_resumes_after_the_last_event(door: Door, by_header: bool) -> None:
    client, _ = door
    run_id = await ask(client)
    path = f"/v1/runs/{run_id}/events"
    whole = await read_events(client, path)
    rest = (
        await read_events(client, path, **{"Last-Event-ID": "5"})
        if by_header
        else await read_events(client, f"{path}?after=5")
    )
    # Browsers send the header by themselves when they reconnect; other clients name the place in the address.
    assert rest == whole[5:]


async def test_a_broken_planner_stream_is_taken_up_without_loss_or_repetition(
    door: Door,
) -> None:
    client, house = door
    run_id = await ask(client)
    house.planner.break_after = 3
    events = await read_events(client, f"/v1/runs/{run_id}/events")
    assert [int(ident) for _, ident, _ in events] == list(range(1, len(events) + 1))
    # Taken up behind the last event that arrived: asking for all of them again would repeat three.
    assert house.planner.watched == [0, 3]


async def test_a_planner_that_stays_away_ends_the_stream_with_its_name(open_with: Opened) -> None:
    async with open_with(patience_s=0.01) as (client, house):
        run_id = await ask(client)
        house.planner.gone = "is restarting"
        [(kind, ident, failure)] = await read_events(client, f"/v1/runs/{run_id}/events")
    assert (kind, ident, failure["culprit"], failure["reason"]) == ("failure", "", "planner", "DEPENDENCY_FAILED")


async def test_closing_ends_open_streams_so_that_the_server_can_drain(door: Door) -> None:
    client, house = door
    # The run stands still in its middle, with its stream open.
    house.planner.hold(before=4)
    run_id = await ask(client)
    reading = asyncio.create_task(read_events(client, f"/v1/runs/{run_id}/events"))
    await eventually(lambda: house.planner.watched)
    await house.service.close()
    # Bounded, since a stream that does not end is what this test looks for.
    events = await asyncio.wait_for(reading, 5)
    assert [kind for kind, _, _ in events] == ["run"] * len(events)
    assert not any("finished" in data for _, _, data in events)


async def test_a_run_is_stopped_and_judged(door: Door) -> None:
    client, house = door
    house.planner.hold(before=4)
    run_id = await ask(client)
    assert (await client.post(f"/v1/runs/{run_id}/stop")).json() == {"was_running": True}
    events = await read_events(client, f"/v1/runs/{run_id}/events")
    assert events[-1][2]["finished"]["stop_reason"] == "STOP_REASON_STOPPED"
    said = f"/v1/runs/{run_id}/feedback"
    assert (await client.get(said)).json() == {"helpful": None, "tags": [], "comment": "", "edited_answer": ""}
    for body in ({"helpful": False, "comment": "wrong"}, {"helpful": True, "tags": ["clear"]}):
        assert (await client.post(said, json=body)).status_code == 204
    assert house.memory.feedback[1].tags == ["clear"]
    newest = {"helpful": True, "tags": ["clear"], "comment": "", "edited_answer": ""}
    assert (await client.get(said)).json() == newest
    assert (await client.get("/v1/runs/a b/feedback")).status_code == 400
    # All of a conversation at once, each as it was said last.
    of_all = (await client.get(f"/v1/conversations/conv_{run_id}/feedback")).json()
    assert of_all == {"judgements": [{"run_id": run_id, **newest}]}
    assert (await client.get("/v1/conversations/conv_other/feedback")).json() == {"judgements": []}
    assert (await client.get("/v1/conversations/a b/feedback")).status_code == 400


async def test_consent_is_stated_with_a_run_of_a_run_and_of_all(door: Door) -> None:
    client, house = door
    asked = {"question": "why?", "request_id": "run_1", "consent": "refused"}
    assert (await client.post("/v1/runs", json=asked)).status_code == 202
    assert house.planner.runs["run_1"].request.consent == trajectory.CONSENT_REFUSED
    assert (await client.get("/v1/consent")).json() == {"consent": "", "of_run": False}
    assert (await client.put("/v1/consent", json={"consent": "given"})).status_code == 204
    assert (await client.get("/v1/consent")).json() == {"consent": "given", "of_run": False}
    assert (await client.put("/v1/runs/run_1/consent", json={"consent": "refused"})).status_code == 204
    assert (await client.get("/v1/runs/run_1/consent")).json() == {"consent": "refused", "of_run": True}
    assert (await client.put("/v1/consent", json={"consent": "perhaps"})).status_code == 400


async def test_a_run_that_waits_in_its_queue_is_accepted(open_with: Opened) -> None:
    async with open_with(start_timeout_s=0.05) as (client, house):
        house.planner.hold(before=1)
        answer = await client.post("/v1/runs", json={"question": "why?", "request_id": "run_3"})
    assert answer.status_code == 202
    # The conversation is the planner's to name, which has not begun; the run's id is the gateway's.
    assert answer.json() == {"run_id": "run_3", "conversation_id": ""}


async def test_a_run_that_waits_says_at_once_how_many_are_before_it(door: Door) -> None:
    client, house = door
    house.planner.before = 3
    answer = await client.post("/v1/runs", json={"question": "why?", "request_id": "run_4"})
    assert answer.status_code == 202
    waiting = {"before": 3, "expected_ms": 9_000}
    assert answer.json() == {"run_id": "run_4", "conversation_id": "conv_1", "waiting": waiting}


async def test_a_place_in_the_queue_does_not_set_a_browsers_stream_back(door: Door) -> None:
    client, house = door
    run_id = await ask(client)
    house.planner.before = 3
    (_, place, waiting), *events = await read_events(client, f"/v1/runs/{run_id}/events?after=2")
    assert waiting["waiting"]["before"] == 3
    assert place == "", "an id of 0 would make a browser ask for all events again"
    assert [int(ident) for _, ident, _ in events] == list(range(3, len(events) + 3))


async def test_a_run_that_is_refused_says_when_to_come_again(door: Door) -> None:
    client, house = door
    house.planner.full = Overloaded("9 runs wait, about 300 s: ask again later", 60.0)
    answer = await client.post("/v1/runs", json={"question": "why?"})
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")
    assert answer.json()["reason"] == "OVERLOADED"


@pytest.mark.parametrize(
    ("body", "status", "reason", "field"),
    [
        ({"question": ""}, 400, "INVALID_FIELD", "question"),
        ({"question": " \n"}, 400, "INVALID_FIELD", "question"),
        # One more than the limit, and far more, yet within the limit of a body.
        ({"question": "x" * 8_001}, 400, "INVALID_FIELD", "question"),
        ({"question": "x" * 100_000}, 400, "INVALID_FIELD", "question"),
        ({}, 400, "INVALID_FIELD", "question"),
        ({"question": 5}, 400, "INVALID_FIELD", "question"),
        ({"question": "why?", "colour": "red"}, 400, "INVALID_FIELD", "colour"),
        ({"question": "why?", "protocol": "magic"}, 400, "INVALID_FIELD", "protocol"),
        # An id becomes part of keys and subjects, where a slash would divide them.
        ({"question": "why?", "request_id": "a/b"}, 400, "INVALID_FIELD", "request_id"),
        (b'{"question": "why?"', 400, "INVALID_FIELD", "body"),
        (b"[1]", 400, "INVALID_FIELD", "body"),
        (b"", 400, "INVALID_FIELD", "body"),
        ({"question": "x" * 1_100_000}, 413, "PAYLOAD_TOO_LARGE", None),
    ],
)
async def test_bad_questions_are_problems_that_name_the_field(
    door: Door, body: Any, status: int, reason: str, field: str | None
) -> None:
    client, house = door
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await client.post("/v1/runs", content=content, headers={"content-type": "application/json"})
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["status"], problem["reason"], problem.get("field")) == (
        status, status, reason, field,
    )  # fmt: skip
    assert problem["title"]
    # Refused at the door: no service has heard of it.
    assert house.planner.asked == []


@pytest.mark.parametrize(
    ("sent", "cause"), [("", "missing"), ("text/plain", "text/plain"), ("application/x-www-form-urlencoded", "form")]
)
async def test_a_body_that_is_not_said_to_be_json_names_the_header(door: Door, sent: str, cause: str) -> None:
    client, house = door
    headers = {"content-type": sent} if sent else {}
    answer = await client.post("/v1/runs", content=b'{"question": "why?"}', headers=headers)
    problem = answer.json()
    assert (answer.status_code, problem["reason"], problem["field"]) == (415, "INVALID_FIELD", "content-type")
    assert "application/json" in problem["detail"]
    assert cause in problem["detail"]
    assert house.planner.asked == []


async def test_a_body_of_unknown_length_is_bounded_too(door: Door) -> None:
    client, _ = door

    # Without a Content-Length, so that the size shows only while the body is read.
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536

    answer = await client.post("/v1/runs", content=endless())
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "path",
    ["/v1/runs/none", "/v1/runs/none/events", "/v1/runs/none/figures/fig_1", f"/v1/tables/{SHEET_ID}x", "/v1/nothing"],
)
async def test_what_does_not_exist_is_a_404_problem(door: Door, path: str) -> None:
    answer = await door[0].get(path)
    assert (answer.status_code, answer.json()["reason"]) == (404, "NOT_FOUND")


def test_every_reason_of_the_contract_has_a_status() -> None:
    names = {name.removeprefix("ERROR_REASON_") for name in common.ErrorReason.DESCRIPTOR.values_by_name}
    assert set(STATUS) == names


@pytest.mark.parametrize("kind", FathomError.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_typed_error_is_a_problem(kind: type[FathomError]) -> None:
    error = kind.__new__(kind)
    FathomError.__init__(error, "told", metadata={"field": "f", "culprit": "c"}, retry_after_s=2.4)
    answer = to_problem(error)
    content = json.loads(bytes(answer.body))
    assert content["reason"] == kind.reason
    assert (content["field"], content["culprit"], content["detail"]) == ("f", "c", "told")
    # Whole seconds are all that the header can say.
    assert answer.headers["retry-after"] == "2"


async def test_a_figure_of_the_answer_is_read_like_one_of_a_step(door: Door) -> None:
    client, house = door
    stored = await house.store.put("figures/replayed/fig_2.json", b'{"data": [], "layout": {}}')
    drawn = trajectory.CodeRecord(ok=True, figures=[trajectory.Figure(id="fig_2", ref=to_ref(stored))])
    house.planner.script.answer_material = [trajectory.Material(number=5, code=drawn)]
    run_id = await ask(client)
    await read_events(client, f"/v1/runs/{run_id}/events")
    assert (await client.get(f"/v1/runs/{run_id}/figures/fig_2")).json()["data"] == []
    answer = (await client.get(f"/v1/runs/{run_id}")).json()["trajectory"]["answer"]
    assert [item["number"] for item in answer["material"]] == [5]


@pytest.mark.parametrize(
    ("stored_as", "served_as"),
    [
        ("image/png", "image/png"), ("image/svg+xml", "image/svg+xml"), ("text/html", "text/html; charset=utf-8"),
        ("text/javascript", "application/json"),
    ],
)  # fmt: skip
async def test_a_picture_or_html_is_served_by_its_type_and_may_do_nothing(
    door: Door, stored_as: str, served_as: str
) -> None:
    client, house = door
    stored = await house.store.put("figures/replayed/fig_2", b"<svg/>", stored_as)
    drawn = trajectory.CodeRecord(ok=True, figures=[trajectory.Figure(id="fig_2", ref=to_ref(stored))])
    house.planner.script.answer_material = [trajectory.Material(number=5, code=drawn)]
    run_id = await ask(client)
    await read_events(client, f"/v1/runs/{run_id}/events")
    answer = await client.get(f"/v1/runs/{run_id}/figures/fig_2")
    assert (answer.content, answer.headers["content-type"]) == (b"<svg/>", served_as)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none';")
    assert "script-src" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_figure_is_read_through_its_own_run_only(door: Door) -> None:
    client, house = door
    run_id = await ask(client)
    await read_events(client, f"/v1/runs/{run_id}/events")
    answer = await client.get(f"/v1/runs/{run_id}/figures/fig_1")
    assert answer.json()["data"][0]["type"] == "scatter"
    await house.store.put("secrets/key.json", b"{}")
    # Another figure, another object, a way out of the folder, and the figure's own key: none is a name in this run.
    for name in ("fig_2", "secrets%2Fkey.json", "..%2F..%2Fsecrets%2Fkey.json", "figures%2Freplayed%2Ffig_1.json"):
        assert (await client.get(f"/v1/runs/{run_id}/figures/{name}")).status_code == 404


async def test_a_table_is_filtered_as_a_whole(door: Door) -> None:
    """Each word must occur in the row as it is displayed; the total counts the rows that match."""
    client = door[0]
    path = f"/v1/tables/{SHEET_ID}"
    whole = (await client.get(path, params={"limit": 1000})).json()
    month = (await client.get(path, params={"filter": "2015-02", "limit": 1000})).json()
    assert 0 < month["total"] == len(month["rows"]) < whole["total"]
    assert month["rows"] == [row for row in whole["rows"] if str(row[0]).startswith("2015-02")]
    # A date and a number: two words that only this row has both of.
    row = whole["rows"][3]
    both = (await client.get(path, params={"filter": f"{row[0]} {row[1]}"})).json()
    assert both["rows"] == [row]
    nothing = (await client.get(path, params={"filter": "nowhere", "sort": "date"})).json()
    assert (nothing["total"], nothing["rows"], len(nothing["columns"])) == (0, [], len(whole["columns"]))
    assert (await client.get(path, params={"filter": "x" * 201})).json()["field"] == "filter"


async def test_a_table_is_sorted_as_a_whole_and_paged(door: Door) -> None:
    client, _ = door
    path = f"/v1/tables/{SHEET_ID}"
    page = (await client.get(path, params={"limit": 3})).json()
    assert page["total"] == 30
    assert [column["name"] for column in page["columns"]] == ["date", "AAA.close_adj", "BBB.close_adj"]
    assert page["rows"][0] == ["2015-01-02", 100.0, None]
    sorting: dict[str, Any] = {"sort": "BBB.close_adj", "desc": True, "limit": 7}
    pages = [(await client.get(path, params={**sorting, "offset": start})).json() for start in range(0, 30, 7)]
    values = [row[2] for part in pages for row in part["rows"]]
    assert len(values) == 30
    # A missing value is neither small nor large, and comes last in either direction.
    assert values[-1] is None
    assert values[:-1] == sorted(values[:-1], reverse=True)


@pytest.mark.parametrize(
    ("params", "field"),
    [({"limit": 0}, "limit"), ({"limit": 1001}, "limit"), ({"offset": -1}, "offset"), ({"sort": "x"}, "sort"),
     ({"limit": "many"}, "limit"), ({"desc": "perhaps"}, "desc")],
)  # fmt: skip
async def test_bad_pages_are_problems(door: Door, params: dict[str, Any], field: str) -> None:
    answer = await door[0].get(f"/v1/tables/{SHEET_ID}", params=params)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_a_table_over_the_limit_is_refused(open_with: Opened) -> None:
    async with open_with(max_table_bytes=1_000) as (client, _):
        assert (await client.get(f"/v1/tables/{SHEET_ID}")).status_code == 413


@pytest.mark.parametrize("over", [0, 1])
async def test_the_limits_that_it_tells_are_those_that_it_keeps(open_with: Opened, over: int) -> None:
    async with open_with(max_question_chars=10, max_upload_bytes=2_000) as (client, _):
        told = (await client.get("/v1/limits")).json()
        assert told == {"max_question_chars": 10, "max_upload_bytes": 2_000, "max_tables": 12}
        asked = await client.post("/v1/runs", json={"question": "x" * (told["max_question_chars"] + over)})
        assert asked.status_code == (400 if over else 202)
        tables = [SHEET_ID] * (told["max_tables"] + over)
        assert (
            await client.post("/v1/runs", json={"question": "x", "table_ids": tables})
        ).status_code == asked.status_code
        file = b"x" * (told["max_upload_bytes"] + over)
        sent = await client.post("/v1/documents", params={"name": "memo.md"}, content=file)
        assert sent.status_code == (413 if over else 200)


async def test_what_columns_mean_is_proposed_and_sent_back_as_it_was_edited(open_with: Opened) -> None:
    async with open_with(upload_lifetime_s=60) as (client, house):
        path = f"/v1/tables/{SHEET_ID}/meaning"
        proposed = (await client.get(path)).json()
        assert (proposed["adds"], [one["role"] for one in proposed["columns"]]) == (True, ["date", "value"])
        edited = {"names": ["A"], "aggregation": "sum", "period": "Q1 2024"}
        columns = [proposed["columns"][0], {**proposed["columns"][1], **edited}]
        answer = await client.put(path, json={"columns": columns})
        assert answer.json()["sheet"]["id"] == SHEET_ID
        said = house.datafetch.meanings[0].columns[1]
        assert (list(said.names), said.aggregation, house.datafetch.lifetimes) == (["A"], data.AGGREGATION_SUM, [60])
        assert said.period == "Q1 2024"


async def test_rows_of_a_table_become_passages_of_ones_own_corpus(door: Door) -> None:
    client, house = door
    made = (await client.post(f"/v1/tables/{SHEET_ID}/passages")).json()
    again = (await client.post(f"/v1/tables/{SHEET_ID}/passages", params={"corpus": made["corpus"]})).json()
    assert again["corpus"] == made["corpus"]
    (titles,) = house.retrieval.corpora.values()
    assert len(set(titles)) == 1
    assert (await client.post("/v1/tables/t_none/passages")).status_code == 404


@pytest.mark.parametrize(
    ("column", "field"),
    [({"role": "value"}, "columns"), ({"column": "a", "role": "total"}, "columns"),
     ({"column": "a", "role": "value", "aggregation": "max"}, "columns"), (None, "columns")],
)  # fmt: skip
async def test_a_meaning_without_a_column_or_a_known_role_is_a_problem(
    door: Door, column: dict[str, Any] | None, field: str
) -> None:
    answer = await door[0].put(f"/v1/tables/{SHEET_ID}/meaning", json={"columns": [column] if column else []})
    assert answer.status_code == 400
    assert answer.json()["field"].startswith(field)


@pytest.mark.parametrize(("kind", "starts"), [("csv", b"\xef\xbb\xbfdate,"), ("xlsx", b"PK")])
async def test_a_table_is_exported_whole(door: Door, kind: str, starts: bytes) -> None:
    answer = await door[0].get(f"/v1/tables/{SHEET_ID}/export", params={"format": kind})
    assert answer.content.startswith(starts)
    own = f"{SHEET_ID}.{kind}"
    assert answer.headers["content-disposition"] == f"attachment; filename=\"{own}\"; filename*=UTF-8''{own}"
    if kind == "csv":
        assert len(answer.text.splitlines()) == 31
    assert (await door[0].get(f"/v1/tables/{SHEET_ID}/export?format=pdf")).json()["field"] == "format"


@pytest.mark.parametrize(
    ("wished", "name"),
    [("Close of AAA", "Close%20of%20AAA.csv"), ("苹果", "%E8%8B%B9%E6%9E%9C.csv"), ("a/../b\r\nX: 1", "a%20..%20b%20X%201.csv"),
     ("..", f"{SHEET_ID}.csv"), ('"; x="', "%3B%20x%3D.csv")],
)  # fmt: skip
async def test_a_download_has_the_name_of_its_table(door: Door, wished: str, name: str) -> None:
    answer = await door[0].get(f"/v1/tables/{SHEET_ID}/export", params={"name": wished})
    assert answer.headers["content-disposition"].endswith(f"; filename*=UTF-8''{name}")
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="{SHEET_ID}.csv"')


async def test_conversations_are_listed_read_and_deleted(door: Door) -> None:
    client, _ = door
    run_id = await ask(client)
    await read_events(client, f"/v1/runs/{run_id}/events")
    [item] = (await client.get("/v1/conversations")).json()["conversations"]
    turns = (await client.get(f"/v1/conversations/{item['id']}")).json()["turns"]
    assert turns[0]["run_id"] == run_id
    assert (await client.delete(f"/v1/conversations/{item['id']}")).json() == {"turns": 1}
    assert (await client.get(f"/v1/conversations/{item['id']}")).status_code == 404


async def test_a_conversation_is_renamed_and_pinned(door: Door) -> None:
    client, house = door
    run_id = await ask(client)
    await read_events(client, f"/v1/runs/{run_id}/events")
    [item] = (await client.get("/v1/conversations")).json()["conversations"]
    url = f"/v1/conversations/{item['id']}"
    assert (await client.patch(url, json={"title": "Apple, 苹果"})).json()["title"] == "Apple, 苹果"
    assert not house.memory.edits[item["id"]].HasField("pinned")
    changed = (await client.patch(url, json={"pinned": True})).json()
    assert (changed["title"], changed["pinned"]) == ("Apple, 苹果", True)
    for body, field in (
        ({"title": ""}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"version": -1}, "version"),
        ({"name": "x"}, "name"),
    ):
        refused = await client.patch(url, json=body)
        assert (refused.status_code, refused.json()["field"]) == (400, field)
    assert (await client.patch("/v1/conversations/none", json={"pinned": True})).status_code == 404


async def test_a_table_of_a_conversation_is_renamed_and_pinned(door: Door) -> None:
    client, house = door
    run_id = await ask(client)
    await read_events(client, f"/v1/runs/{run_id}/events")
    [item] = (await client.get("/v1/conversations")).json()["conversations"]
    url = f"/v1/conversations/{item['id']}"
    view = {"sheet_id": SHEET_ID, "title": "Kurse 价格", "pinned": True}
    assert (await client.patch(url, json={"sheet": view})).status_code == 200
    edited = house.memory.edits[item["id"]]
    assert not edited.HasField("title")
    assert not edited.HasField("pinned")
    assert (await client.get(url)).json()["sheets"] == [view]
    for sheet, field in (({"sheet_id": ""}, "sheet.sheet_id"), ({"sheet_id": "t", "title": "x" * 201}, "sheet.title")):
        refused = await client.patch(url, json={"sheet": sheet})
        assert (refused.status_code, refused.json()["field"]) == (400, field)


async def test_a_run_may_follow_an_earlier_turn_and_turns_are_listed_from_either_end(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, house = door
    await ask(client, request_id="run_1")
    await ask(client, request_id="run_2", conversation_id="conv_run_1", parent_turn=0)
    # The beginning of a conversation is not the same as "the newest turn".
    assert [(one.HasField("parent_turn"), one.parent_turn) for one in house.planner.asked] == [(False, 0), (True, 0)]
    wrong = await client.post("/v1/runs", json={"question": "why?", "parent_turn": -1})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "parent_turn")
    asked: list[memory.ListTurnsRequest] = []

    async def note(_: Engine, request: memory.ListTurnsRequest) -> dict[str, Any]:
        asked.append(request)
        return {}

    monkeypatch.setattr(Engine, "list_turns", note)
    await client.get("/v1/conversations/conv_run_1?through=2&order=newest&page_size=1")
    await client.get("/v1/conversations/conv_run_1")
    assert [(one.through, one.newest_first, one.page_size) for one in asked] == [(2, True, 1), (0, False, 100)]
    refused = await client.get("/v1/conversations/conv_run_1?order=random")
    assert (refused.status_code, refused.json()["field"]) == (400, "order")


async def test_models_say_which_answers_and_which_is_warming(door: Door) -> None:
    models = (await door[0].get("/v1/models")).json()
    assert models["default"] == "rules"
    assert [model["state"] for model in models["models"]] == ["MODEL_STATE_READY", "MODEL_STATE_WARMING"]


async def test_health_and_metrics(door: Door) -> None:
    client, house = door
    assert (await client.get("/healthz/live")).status_code == 200
    assert (await client.get("/healthz/ready")).status_code == 200
    house.dispatchers["planner"].ready = False
    ready = await client.get("/healthz/ready")
    assert (ready.status_code, ready.json()["culprit"]) == (503, "planner")
    assert (await client.get("/healthz/live")).status_code == 200
    # Methods and paths come from callers: as labels they would make a time series each, without bound.
    await client.request("BREW", "/v1/teapots/one")
    text = (await client.get("/metrics")).text
    assert 'method="other",route="other"' in text
    assert "BREW" not in text
    assert 'fathom_http_requests_total{method="GET",route="/healthz/ready",status="503"} 1.0' in text


async def test_a_stopped_run_goes_on_and_its_stream_has_both_ends(door: Door) -> None:
    client, house = door
    house.planner.hold(4)
    run_id = await ask(client)
    assert (await client.post(f"/v1/runs/{run_id}/stop")).json() == {"was_running": True}
    await read_events(client, f"/v1/runs/{run_id}/events")
    house.planner.release()
    answer = await client.post(f"/v1/runs/{run_id}/resume", json={"max_rounds": 3})
    assert (answer.status_code, answer.json()["run_id"]) == (202, run_id)
    events = await read_events(client, f"/v1/runs/{run_id}/events")
    assert [ident for _, ident, _ in events] == [str(number) for number in range(1, len(events) + 1)]
    assert events[-1][2]["finished"]["stop_reason"] == "STOP_REASON_FINISHED"
    assert any("resumed" in event for _, _, event in events)
    again = await client.post(f"/v1/runs/{run_id}/resume", json={})
    # It has its answer by now: there is nothing left to go on with.
    assert (again.status_code, again.json()["status"]) == (409, 409)
    assert (await client.post(f"/v1/runs/{run_id}/resume", json={"max_rounds": -1})).json()["field"] == "max_rounds"


async def test_the_todo_list_is_replaced_whole_and_checked(door: Door) -> None:
    client, house = door
    house.planner.hold(4)
    run_id = await ask(client)
    items = [{"text": "read the report", "state": "done"}, {"text": "compare", "state": "open"}]
    answer = await client.put(f"/v1/runs/{run_id}/todo", json={"items": items})
    version = answer.json()["version"]
    assert answer.json() == {"items": items, "version": version}
    outdated = await client.put(f"/v1/runs/{run_id}/todo", json={"items": [], "version": ""})
    assert (outdated.status_code, outdated.json()["field"]) == (409, "version")
    assert (await client.get(f"/v1/runs/{run_id}")).json()["todo_version"] == version
    bad = await client.put(f"/v1/runs/{run_id}/todo", json={"items": [{"text": "x", "state": "later"}]})
    assert (bad.status_code, bad.json()["field"]) == (400, "items.0.state")
    house.planner.release()
    events = await read_events(client, f"/v1/runs/{run_id}/events")
    assert [event["todo_changed"]["by_user"] for _, _, event in events if "todo_changed" in event] == [True]
    assert (await client.put(f"/v1/runs/{run_id}/todo", json={"items": []})).status_code == 409
    assert (await client.post(f"/v1/runs/{run_id}/replay")).json()["same"] is True


async def test_a_table_is_uploaded_as_a_file_and_a_run_begins_with_it(door: Door) -> None:
    client, house = door
    content = b"date,price\n2020-01-02,1.5\n"
    answer = await client.post("/v1/tables", params={"name": "Prices.CSV"}, content=content)
    assert answer.status_code == 200
    found = answer.json()
    assert (found["sheet"]["id"], found["sheet"]["title"]) == (SHEET_ID, "Prices.CSV")
    assert [issue["row"] for issue in found["issues"]] == ["3"]
    assert await house.store.keys("uploads/") == [], "the file is deleted once it is a sheet"
    assert house.datafetch.lifetimes == [30 * 86_400]
    await client.post("/v1/runs", json={"question": "why?", "table_ids": [SHEET_ID]})
    assert list(house.planner.asked[-1].table_ids) == [SHEET_ID]


async def test_a_workbook_is_uploaded_once_for_all_its_sheets(door: Door) -> None:
    client, house = door
    house.datafetch.import_ids = ["sheet_a", "sheet_b", "sheet_c"]
    found = (await client.post("/v1/tables", params={"name": "book.xlsx", "further": 1}, content=b"x")).json()
    assert [one["worksheet"] for one in found["further"]] == ["Notes", "Costs"]
    assert [one["reason"] for one in found["further"]] == ["is no table", ""]
    assert (found["sheet"]["id"], found["further"][1]["sheet"]["id"]) == ("sheet_a", "sheet_b")
    refused = await client.post("/v1/tables", params={"name": "book.xlsx", "further": 65}, content=b"x")
    assert (refused.status_code, refused.json()["field"]) == (400, "further")


async def test_a_file_that_is_refused_is_deleted_too(door: Door) -> None:
    client, house = door
    house.datafetch.refusal = InvalidField("data", "is no table")
    answer = await client.post("/v1/tables", params={"name": "bad.csv"}, content=b"x")
    assert (answer.status_code, answer.json()["field"]) == (400, "data")
    assert await house.store.keys("uploads/") == []


async def test_other_files_and_larger_ones_are_refused(door: Door) -> None:
    client, _ = door
    answer = await client.post("/v1/tables", params={"name": "chart.png"}, content=b"x")
    assert (answer.status_code, answer.json()["field"]) == (400, "name")
    # More than any other body may have: uploads have a limit of their own, and it does not lift that of the rest.
    answer = await client.post("/v1/tables", params={"name": "big.csv"}, content=b"x" * 1_500_000)
    assert answer.status_code == 200
    answer = await client.post("/v1/tables", params={"name": "huge.csv"}, content=b"x" * 20_000_001)
    assert answer.status_code == 413
    answer = await client.post("/v1/runs", content=b"x" * 1_500_000)
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/policy/v1/chat/completions"])
@pytest.mark.parametrize(
    ("more", "field"),
    [
        ('"max_tokens": 2147483648', "max_tokens"),
        ('"seed": 9223372036854775808', "seed"),
        ('"messages": [{"role": "user", "content": "half \\ud83d"}]', "body"),
        ('"metadata": {"half \\ud83d": ""}', "body"),
    ],
)
async def test_what_no_field_can_hold_is_refused_at_the_doors_of_openai(
    door: Door, path: str, more: str, field: str
) -> None:
    asked = '{"model": "rules", "messages": [{"role": "user", "content": "why?"}], "stream": true, ' + more + "}"
    answer = await door[0].post(path, content=asked, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        # Half of a pair of surrogates is valid in JSON and has no form in UTF-8, which protobuf's strings are.
        ("/v1/runs", '{"question": "why \\ud800?"}', "question"),
        ("/v1/runs", '{"question": "why?", "model": "\\udfff"}', "model"),
        ("/v1/runs", '{"question": "why?", "table_ids": ["\\ud800"]}', "table_ids"),
        ("/v1/runs", '{"question": "why?", "window_tokens": 1e20}', "window_tokens"),
        # The first number that an int32 of the contract cannot hold.
        ("/v1/runs", '{"question": "why?", "window_tokens": 2147483648}', "window_tokens"),
        ("/v1/runs/run_1/resume", '{"max_rounds": 99999999999}', "max_rounds"),
        ("/v1/runs/run_1/resume", '{"max_ms": 1e20}', "max_ms"),
        ("/v1/runs/run_1/feedback", '{"helpful": true, "comment": "\\ud800"}', "comment"),
    ],
)
async def test_what_no_field_can_hold_is_refused_by_name(door: Door, path: str, body: str, field: str) -> None:
    refused = await door[0].post(path, content=body, headers={"content-type": "application/json"})
    assert (refused.status_code, refused.json()["field"]) == (400, field)


@pytest.mark.parametrize("after", ["99999999999999999999", "1" * 5_000])
async def test_a_place_beyond_all_events_is_no_failure(door: Door, after: str) -> None:
    client, _ = door
    await client.post("/v1/runs", json={"question": "why?", "request_id": "run_1"})
    assert (await client.get(f"/v1/runs/run_1/events?after={after[:30]}")).status_code == 400
    # A header that a browser sends by itself: refusing it would end its stream for good, so that it is passed over.
    assert (await client.get("/v1/runs/run_1/events", headers={"last-event-id": after})).status_code == 200


async def test_a_browser_that_has_the_end_of_a_run_is_told_not_to_connect_again(open_with: Opened) -> None:
    # This client reads an answer to its end before it returns: of a planner that is away, as long as the gateway waits.
    async with open_with(patience_s=0.01) as (client, house):
        run_id = await ask(client)
        path = f"/v1/runs/{run_id}/events"
        last = (await read_events(client, path))[-1][1]
        for answer in (
            await client.get(path, headers={"last-event-id": last}),
            await client.get(path, params={"after": last}),
        ):
            assert (answer.status_code, answer.content) == (204, b"")
        # One event before it there is the end to come, and of a planner that is away nobody knows.
        assert [ident for _, ident, _ in await read_events(client, f"{path}?after={int(last) - 1}")] == [last]
        house.planner.gone = "away"
        async with client.stream("GET", path, headers={"last-event-id": last}) as answer:
            assert answer.status_code == 200
