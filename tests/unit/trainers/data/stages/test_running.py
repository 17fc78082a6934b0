"""Stages survive a crash without losing or doubling a row, in parallel, and refuse files of something else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pydantic import BaseModel

from fathom.core.errors import Conflict, CorruptData, NotReady
from fathom.trainers.data.stages.running import Task, hold, run_tasks


class Row(BaseModel):
    id: str
    text: str = ""


def make_tasks(count: int, made: list[str], failing: str = "") -> list[Task[Row]]:
    """Tasks that note when they run; one of them may fail."""

    def make_task(name: str) -> Task[Row]:
        async def make() -> Row:
            await asyncio.sleep(0)
            if name == failing:
                raise NotReady("the model is away")
            made.append(name)
            return Row(id=name, text=name * 2)

        return Task(name, make)

    return [make_task(f"t{number}") for number in range(count)]


def read_ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    target, made = tmp_path / "rows.jsonl", list[str]()
    asyncio.run(run_tasks(make_tasks(3, made), target, Row))
    rows = asyncio.run(run_tasks(make_tasks(5, made), target, Row))
    assert sorted(made) == ["t0", "t1", "t2", "t3", "t4"]
    assert list(rows) == ["t0", "t1", "t2", "t3", "t4"]
    assert sorted(read_ids(target)) == sorted(made)


def test_a_failure_keeps_what_was_made_and_is_raised(tmp_path: Path) -> None:
    target, made = tmp_path / "rows.jsonl", list[str]()
    with pytest.raises(NotReady):
        asyncio.run(run_tasks(make_tasks(40, made, failing="t20"), target, Row, at_once=4))
    assert sorted(read_ids(target)) == sorted(made)
    asyncio.run(run_tasks(make_tasks(40, made), target, Row))
    assert sorted(made) == sorted(f"t{number}" for number in range(40))


def test_a_cut_line_is_made_again(tmp_path: Path) -> None:
    target, made = tmp_path / "rows.jsonl", list[str]()
    asyncio.run(run_tasks(make_tasks(3, made), target, Row))
    data = target.read_bytes()
    target.write_bytes(data[:-5])
    lost = made[-1]
    asyncio.run(run_tasks(make_tasks(3, made), target, Row))
    assert made.count(lost) == 2
    assert sorted(read_ids(target)) == ["t0", "t1", "t2"]


@pytest.mark.parametrize("text", ['{"id": "a"}\n{"id": "a"}\n', '{"name": "a"}\n', "[]\n"])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    target = tmp_path / "rows.jsonl"
    target.write_text(text)
    with pytest.raises(CorruptData):
        asyncio.run(run_tasks(make_tasks(1, []), target, Row))
    assert target.read_text() == text


def test_two_processes_do_not_write_to_one_file(tmp_path: Path) -> None:
    with hold(tmp_path / "rows.jsonl"), pytest.raises(Conflict):
        asyncio.run(run_tasks(make_tasks(1, []), tmp_path / "rows.jsonl", Row))


PROGRAM = textwrap.dedent(
    """
    import asyncio, sys
    from pathlib import Path
    from tests.unit.trainers.data.stages.test_running import Row
    from fathom.trainers.data.stages.running import Task, run_tasks

    def make_task(name):
        async def make():
            if name == "t7":
                print("reached", flush=True)
                sys.stdin.read()
            return Row(id=name, text="x" * 1000)
        return Task(name, make)

    asyncio.run(run_tasks([make_task(f"t{n}") for n in range(20)], Path(sys.argv[1]), Row, at_once=1))
    """
)


def test_a_killed_process_loses_no_row_and_doubles_none(tmp_path: Path) -> None:
    target = tmp_path / "rows.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=os.getcwd()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"reached\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()
    before = read_ids(target)
    assert before == [f"t{number}" for number in range(7)]
    made: list[str] = []
    asyncio.run(run_tasks(make_tasks(20, made), target, Row))
    assert sorted(read_ids(target)) == sorted(f"t{number}" for number in range(20))
    assert not set(made) & set(before)
