"""A model at the network edge whose next call depends only on what it is shown, so that any worker may repeat it.

A question says how many rounds it takes. Some rounds count in the Python session of the episode: the answer is right
only if each cell ran once, in order, in one session.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.integration.stack.scripted_model import ScriptedModel

# Every fourth round counts in the session, every seventh asks the catalogue; the others only think.
COUNTS_EVERY, LOOKS_EVERY = 4, 7
CELL = "counted = globals().get('counted', []) + [{number}]\nprint('counted', *counted, 'in all')"
PRINTED = re.compile(r"counted ([\d ]+) in all")
# Every so many replies, a connection ends in the middle of one, and another one comes late.
BREAKS_EVERY, STALLS_EVERY, STALL_S = 151, 97, 1.0


def make_question(rounds: int, name: str) -> str:
    return f"Count in {rounds} rounds. ({name})"


def count_expected(rounds: int) -> list[int]:
    """Return what the last cell of an episode prints."""
    return [number for number in range(rounds - 1) if number % COUNTS_EVERY == 1]


class CountingModel(ScriptedModel):
    """Says the next call of a question; the connections of some replies break or stall."""

    is_faulty = False
    reply_s = 0.0
    """Time that each reply takes."""
    replies = broken = stalled = 0

    def answer(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], str, int]:
        """Return the message's delta, why it ended, and how many tokens were asked."""
        messages = body["messages"]
        asked = next(
            found for message in reversed(messages) if (found := re.search(r"in (\d+) rounds", str(message["content"])))
        )
        rounds, number = int(asked.group(1)), sum(message["role"] == "assistant" for message in messages)
        name, arguments = self._choose_call(messages, rounds, number)
        call = {"name": name, "arguments": json.dumps({"intent": f"round {number}", **arguments})}
        delta = {"tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": call}]}
        return delta, "tool_calls", 100 * (number + 1)

    def _choose_call(self, messages: Any, rounds: int, number: int) -> tuple[str, dict[str, Any]]:
        if number >= rounds - 1:
            printed = [found for message in messages for found in PRINTED.findall(str(message["content"]))]
            # No brackets: a number in brackets would be a citation.
            return "finish", {"answer": f"Counted {printed[-1] if printed else 'nothing'} in all."}
        if number % COUNTS_EVERY == 1:
            return "python", {"code": CELL.format(number=number)}
        if number % LOOKS_EVERY == 3:
            return "catalogue", {"query": "gold price"}
        return "think", {"content": f"Round {number}."}

    async def reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request and write the reply, or only the beginning of it."""
        self.replies += 1
        if self.is_faulty and self.replies % BREAKS_EVERY == 0:
            self.broken += 1
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: {")
            await writer.drain()
            return
        if self.is_faulty and self.replies % STALLS_EVERY == 0:
            self.stalled += 1
            await asyncio.sleep(STALL_S)
        if self.reply_s:
            await asyncio.sleep(self.reply_s)
        # Whoever asked was killed meanwhile.
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await super().reply(reader, writer)
