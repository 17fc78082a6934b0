"""Windows, idempotent turns, deletion, feedback; durable over a restart; a broken file is named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fathom import errors
from services.memory.engine import Engine, Turn
from services.memory.points import points


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    engine = Engine(tmp_path / "memory.sqlite3")
    await engine.start()
    yield engine
    await engine.close()


def turn(number: int) -> Turn:
    return Turn(
        f"question {number}?", f"rewritten {number}?", f"Answer {number}. It rose by {number}%.", f"run_{number}"
    )


@pytest.mark.parametrize("count", range(1, 13))
async def test_window_keeps_two_answers_and_ten_turns(engine: Engine, count: int) -> None:
    for number in range(1, count + 1):
        await engine.append(f"r{number}", "c1", turn(number))
    window, omitted = await engine.window("c1", 2, 10)
    kept = range(max(1, count - 9), count + 1)
    assert [item.number for item in window] == list(kept)
    assert [item.question for item in window] == [f"rewritten {number}?" for number in kept]
    assert [bool(item.answer) for item in window] == [number > count - 2 for number in kept]
    assert all(bool(item.bullets) != bool(item.answer) for item in window)
    assert omitted == max(0, count - 10)


async def test_an_unknown_conversation_has_an_empty_window(engine: Engine) -> None:
    assert await engine.window("none", 2, 10) == ([], 0)
    with pytest.raises(errors.NotFound):
        await engine.turns("none")


async def test_a_turn_is_appended_once_also_over_a_restart(engine: Engine, tmp_path: Path) -> None:
    first = await engine.append("r1", "c1", turn(1))
    assert await engine.append("r1", "c1", turn(1)) == first
    await engine.close()
    again = Engine(tmp_path / "memory.sqlite3")
    await again.start()
    assert await again.append("r1", "c1", turn(1)) == first
    assert len(await again.turns("c1")) == 1
    with pytest.raises(errors.Conflict):
        await again.append("r1", "c1", turn(2))
    await again.close()
    await engine.start()


async def test_conversations_are_listed_renamed_pinned_deleted(engine: Engine) -> None:
    for name in ("c1", "c2"):
        await engine.append(f"r-{name}", name, turn(1))
    assert [item.id for item in await engine.conversations()] == ["c2", "c1"]
    assert (await engine.update("c1", "Title", True)).title == "Title"
    assert [item.id for item in await engine.conversations()] == ["c1", "c2"]
    assert await engine.delete("c1") == 1
    for missing in (engine.delete("c1"), engine.update("c1", "x", None)):
        with pytest.raises(errors.NotFound):
            await missing
    await engine.feedback("f1", "run_1", True, ["good"], "")
    await engine.feedback("f1", "run_1", True, ["good"], "")


async def test_bad_input_is_named(engine: Engine) -> None:
    for request, conversation, question, field in (
        ("../x", "c", "q", "request_id"), ("r", "a b", "q", "conversation_id"), ("r", "c", "  ", "turn.question"),
    ):  # fmt: skip
        with pytest.raises(errors.InvalidField) as bad:
            await engine.append(request, conversation, Turn(question, "", "", ""))
        assert bad.value.field == field


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(errors.CorruptData, match=r"memory\.sqlite3"):
        await Engine(path).start()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Intro. It rose 5%. It fell 3%. Then 2. Then 1.", ["It rose 5%.", "It fell 3%.", "Then 2."]),
        ("No figures here. None.", ["No figures here."]),
        ("上涨5%。下跌。", ["上涨5%。"]),
        ("**Bold** [1] {{table:sheet_1}} rose 4%.", ["Bold   rose 4%."]),
        ("", []),
    ],
)
def test_points(answer: str, expected: list[str]) -> None:
    assert points(answer) == expected
