"""Bytes from outside are decoded where they can harm nobody: in a child with limits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.core.errors import InvalidField, NotFound
from fathom.domain import frames
from fathom.domain.decoding import Decoder, DecodingLimits
from tests.support.bombs import (
    decode_for_ever,
    end_like_a_crash,
    find_nothing,
    make_arrow_bomb,
    make_parquet_bomb,
    read_pid,
)
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
LIMITS = DecodingLimits(memory_bytes=256 << 20, processor_s=1, children=1)


@pytest_asyncio.fixture
async def decoder() -> AsyncIterator[Decoder]:
    decoder = Decoder(LIMITS)
    yield decoder
    decoder.close()


async def test_a_table_is_read_in_another_process_which_is_used_again(decoder: Decoder) -> None:
    table = await decoder.run("data", frames.read_table, make_arrow_bomb(1 << 20))
    assert table.num_rows == 131_072
    first, second = [await decoder.run("data", read_pid) for _ in range(2)]
    assert first == second != os.getpid()


async def test_small_files_that_unpack_to_gigabytes_are_refused_by_name(decoder: Decoder) -> None:
    bomb = make_arrow_bomb(512 << 20)
    assert len(bomb) < 300_000
    with pytest.raises(InvalidField, match="data: cannot be decoded within 268,435,456 bytes of memory"):
        await decoder.run("data", frames.read_table, bomb)
    bomb = make_parquet_bomb(60_000, 10_000)
    assert len(bomb) < 1_000
    with pytest.raises(InvalidField, match="data: cannot be decoded within 268,435,456 bytes of memory"):
        await decoder.run("data", frames.read_parquet, bomb)
    # A new child serves the next caller.
    assert (await decoder.run("data", frames.read_table, make_arrow_bomb(1 << 20))).num_rows == 131_072


@pytest.mark.parametrize("function", [decode_for_ever, end_like_a_crash])
async def test_what_decodes_without_end_or_crashes_ends_alone(decoder: Decoder, function: Callable[[], None]) -> None:
    with pytest.raises(InvalidField, match="or 1 s of processor time"):
        await decoder.run("file", function)
    assert await decoder.run("file", read_pid)


async def test_errors_come_back_as_they_were_raised(decoder: Decoder) -> None:
    with pytest.raises(NotFound) as raised:
        await decoder.run("data", find_nothing)
    error = raised.value
    assert (error.message, error.nearest) == ("no series 'GOLD'; nearest: XAU", ("XAU",))
    assert dict(error.metadata) == {"kind": "series", "name": "GOLD", "nearest": "XAU"}


# A service of its own, which prints who decodes for it and is then killed.
SERVICE = """
import asyncio, os, signal
from fathom.domain.decoding import Decoder, DecodingLimits
from tests.support.bombs import read_pid

async def main():
    decoder = Decoder(DecodingLimits(256 << 20, 1, 1))
    print(await decoder.run("data", read_pid), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_a_service_that_is_killed_leaves_no_child(tmp_path: Path) -> None:
    program = tmp_path / "service.py"
    program.write_text(SERVICE)
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, stdout=subprocess.PIPE, cwd=ROOT, env=os.environ | {"PYTHONPATH": "."}
    )
    said, _ = await process.communicate()
    assert process.returncode == -signal.SIGKILL
    child = Path(f"/proc/{int(said)}")
    await eventually(lambda: not child.exists())


async def test_a_caller_that_goes_away_leaves_its_place_only_when_its_call_has_ended(decoder: Decoder) -> None:
    leaving = asyncio.create_task(decoder.run("data", decode_for_ever))
    await asyncio.sleep(0)  # it has the only place now
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    # Served once the limit of processor time has ended the other call, and by another child.
    assert await decoder.run("data", read_pid)
