"""Parallel grading in subprocesses with a time limit per item; an item over its limit fails alone."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from itertools import starmap

from fathom.domain.grading.graders import Item, Score
from fathom.domain.grading.verifier import decode_score, encode_item, grade_item

# Items per turn of a process: enough that the pipe costs little, few enough that all processes have work.
CHUNK = 64
# Longest line that a process may answer; asyncio's default of 64 KiB would break on long reasons.
LINE_BYTES = 1 << 20
Grading = tuple[str, Item]


class Verifier:
    """One grading process; started on first use, and again after it had to be killed."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._process: asyncio.subprocess.Process | None = None

    async def grade(self, chunk: Sequence[Grading]) -> list[Score | str]:
        """Grade a chunk and return results aligned with it.

        An item that exceeds the time limit or ends the process yields a message; the others are still graded.
        """
        found: list[Score | str] = []
        while len(found) < len(chunk):
            found += await self._run(chunk[len(found) :])
        return found

    async def _run(self, chunk: Sequence[Grading]) -> list[Score | str]:
        """Return results up to the end of the chunk or to the first failure, which is then the last of them."""
        process = await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        found: list[Score | str] = []
        whole, clock = False, asyncio.get_running_loop().time
        try:
            process.stdin.write(b"".join(starmap(encode_item, chunk)))
            async with asyncio.timeout(self._timeout_s) as limit:
                for _ in chunk:
                    line = await process.stdout.readline()
                    if not line.endswith(b"\n"):
                        return [*found, "ended the verifier"]
                    found.append(decode_score(line))
                    # The limit is per item, and each line ends one.
                    limit.reschedule(clock() + self._timeout_s)
            whole = True
            return found
        except TimeoutError:
            return [*found, f"took longer than {self._timeout_s:g} s"]
        finally:
            if not whole:  # also when the caller goes away: what it would still say belongs to nobody
                await self.close()

    async def _start(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "fathom.domain.grading.verifier",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES, start_new_session=True,
            )  # fmt: skip
        return self._process

    async def close(self) -> None:
        """Kill the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class Pool:
    """Pool of ``workers`` grading processes; with none, batches run in a thread, where no item can be interrupted."""

    def __init__(self, workers: int, timeout_s: float) -> None:
        self._verifiers = [Verifier(timeout_s) for _ in range(workers)]
        self._idle: asyncio.Queue[Verifier] = asyncio.Queue()
        for verifier in self._verifiers:
            self._idle.put_nowait(verifier)

    async def grade(self, items: Sequence[Grading]) -> list[Score | str]:
        """Grade the items; return for each its score, or a message why there is none."""
        if not self._verifiers:
            return await asyncio.to_thread(lambda: [grade_item(name, item) for name, item in items])
        size = max(1, min(CHUNK, -(-len(items) // len(self._verifiers))))
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        return [score for scores in await asyncio.gather(*map(self._chunk, chunks)) for score in scores]

    async def _chunk(self, chunk: Sequence[Grading]) -> list[Score | str]:
        verifier = await self._idle.get()
        try:
            return await verifier.grade(chunk)
        finally:
            self._idle.put_nowait(verifier)

    async def close(self) -> None:
        await asyncio.gather(*(verifier.close() for verifier in self._verifiers))
