"""The user's todo list while a run runs: kept, told to the model once, shown to readers once, also over a lost worker."""

from __future__ import annotations

from functools import partial

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.call import Lane
from fathom.core.errors import Conflict, InvalidField
from fathom.domain.chat.hermes import format_tool_call
from fathom.services.planner.model.todo import read_edited_items
from fathom.services.planner.proto.episode import step_from_proto
from fathom.services.planner.runs.control import request_edit
from fathom.services.planner.runs.queue import submit_run
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish, kinds, numbers

PLAN = format_tool_call("todo", {"intent": "to plan", "action": "add", "items": ["one", "two"]})
EDIT = pb.UpdateTodoRequest(
    request_id="edit-1",
    run_id="run_1",
    items=[pb.TodoItem(text="one", state="done"), pb.TodoItem(text="mine", state="done")],
)


async def edits_shown(house: House) -> list[list[str]]:
    """Return the user's lists in the messages of the run, in order."""
    recorded = await house.record.get_trajectory("run_1")
    assert recorded is not None
    messages = [message for step in recorded.steps for message in step_from_proto(step).new_messages]
    return [[item.text for item in items] for message in messages if (items := read_edited_items(message)) is not None]


async def test_an_edit_reaches_model_and_readers_and_is_given_again_for_its_id() -> None:
    house = House(PLAN, echo("wait"), finish("Done [1]."))
    await house.ask()
    async with house.working():
        await eventually(lambda: len(house.policy.sampled) == 2)
        stored = await request_edit(house.bus, EDIT)
        assert [item.text for item in stored.items] == ["one", "mine"]
        assert await request_edit(house.bus, EDIT) == stored
        assert [item.text for item in (await house.runs.get("run_1", common.LANE_INTERACTIVE)).todo] == ["one", "mine"]
        house.release.set()
        events = await house.events()
    changes = [event.todo_changed for event in events if event.HasField("todo_changed")]
    assert [(change.by_user, [item.text for item in change.items]) for change in changes] == [
        (False, ["one", "two"]),
        (True, ["one", "mine"]),
    ]
    assert await edits_shown(house) == [["one", "mine"]]
    assert (await house.runs.replay("run_1")).same
    assert [item.text for item in (await house.runs.get("run_1", common.LANE_INTERACTIVE)).todo] == ["one", "mine"]


async def test_an_edit_of_an_earlier_list_is_refused_with_the_version_of_the_current_one() -> None:
    house = House(PLAN, echo("wait"), finish("Done [1]."))
    await house.ask()
    async with house.working():
        await eventually(lambda: len(house.policy.sampled) == 2)
        listed = (await house.runs.get("run_1", common.LANE_INTERACTIVE)).todo_version
        for earlier in ("", "0-another"):
            with pytest.raises(Conflict, match=f"it is version '{listed}', not '{earlier}'") as refused:
                await request_edit(house.bus, edit_of(earlier, "edit-0"))
            assert refused.value.metadata == {"field": "version", "version": listed}
        stored = await request_edit(house.bus, edit_of(listed, "edit-1"))
        assert stored.version == "edit-1"
        # The same request again is no second edit, though its version has passed by itself.
        assert await request_edit(house.bus, edit_of(listed, "edit-1")) == stored
        assert (await house.runs.get("run_1", common.LANE_INTERACTIVE)).todo_version == "edit-1"
        # The reader who began with the model's list is told of the other reader's.
        with pytest.raises(Conflict, match="it is version 'edit-1'"):
            await request_edit(house.bus, edit_of(listed, "edit-2"))
        house.release.set()
        events = await house.events()
    changes = [event.todo_changed.change_id for event in events if event.HasField("todo_changed")]
    assert changes == [listed, "edit-1"]
    assert (await house.runs.get("run_1", common.LANE_INTERACTIVE)).todo_version == "edit-1"


async def test_the_version_of_a_list_is_known_to_the_worker_that_takes_the_run_over() -> None:
    house = House(PLAN, echo("wait"), echo("b"), finish("Done [1]."))
    await house.ask()
    async with house.working():
        await eventually(lambda: len(house.policy.sampled) == 2)
        await request_edit(house.bus, edit_of(None, "edit-1"))
    async with house.working(house.worker()):
        await eventually(partial(find_refusing_version, house))
        assert await find_refusing_version(house) == "edit-1"
        assert (await request_edit(house.bus, edit_of("edit-1", "edit-2"))).version == "edit-2"
        house.release.set()
        await house.events()
    assert (await house.runs.get("run_1", common.LANE_INTERACTIVE)).todo_version == "edit-2"


async def find_refusing_version(house: House) -> str:
    """Return the version that an edit of no list is refused with; "" while nobody works on the run."""
    with pytest.raises(Conflict) as refused:
        await request_edit(house.bus, edit_of("", "edit-0"))
    return refused.value.metadata.get("version", "")


def edit_of(version: str | None, request_id: str) -> pb.UpdateTodoRequest:
    """Return the edit of a list of a version."""
    edit = pb.UpdateTodoRequest(version=version)
    edit.MergeFrom(EDIT)
    edit.request_id = request_id
    return edit


async def test_an_edit_survives_its_worker() -> None:
    house = House(PLAN, echo("wait"), finish("Done [1]."))
    await house.ask()
    async with house.working():
        await eventually(lambda: len(house.policy.sampled) == 2)
        await request_edit(house.bus, EDIT)
    house.release.set()
    async with house.working(house.worker()):
        events = await house.events()
    assert kinds(events).count("todo_changed") == 2
    assert numbers(events) == list(range(1, len(events) + 1))
    assert await edits_shown(house) == [["one", "mine"]]


async def test_an_edit_survives_a_stop_and_is_told_once() -> None:
    house = House(PLAN, echo("wait"), echo("b"), finish("Done [1]."))
    await house.ask()
    async with house.working():
        await eventually(lambda: len(house.policy.sampled) == 2)
        await request_edit(house.bus, EDIT)
        await house.runs.stop("run_1")
        await house.events()
        house.release.set()
        header, leg = await house.runs.resume(pb.ResumeRunRequest(run_id="run_1"))
        await submit_run(house.bus, header, Lane.INTERACTIVE, leg)
        await house.events(leg=1)
    assert await edits_shown(house) == [["one", "mine"]]


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([pb.TodoItem(text=" ")], "items[0].text"),
        ([pb.TodoItem(text="x" * 500)], "items[0].text"),
        ([pb.TodoItem(text="a"), pb.TodoItem(text="b", state="maybe")], "items[1].state"),
        ([pb.TodoItem(text=str(n)) for n in range(21)], "items"),
    ],
)
async def test_malformed_lists_are_refused_by_field(items: list[pb.TodoItem], field: str) -> None:
    house = House()
    with pytest.raises(InvalidField) as bad:
        await request_edit(house.bus, pb.UpdateTodoRequest(run_id="run_1", items=items))
    assert bad.value.field == field


async def test_a_run_that_nobody_works_on_cannot_be_edited() -> None:
    house = House(finish("Done."))
    with pytest.raises(Conflict, match="nobody works"):
        await request_edit(house.bus, EDIT)
