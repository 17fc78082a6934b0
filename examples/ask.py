"""Asks the local stack a question from Python and prints the answer with its sources.

python examples/ask.py "How did Apple's share price develop from 2015 to 2020?"
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import connect
from fathom.clients.local import read_endpoints
from fathom.clients.runs import run

QUESTION = "How did the share price of Apple develop from 2015 to 2020?"


async def main(question: str) -> None:
    clients = connect(read_endpoints(Path(".fathom")).services)
    try:
        async for event in run(clients, pb.RunRequest(question=question)):
            if event.HasField("tool_started"):
                print(f"… {event.tool_started.intent}")
            elif event.HasField("finished"):
                print(event.finished.answer.markdown or event.finished.error)
    finally:
        await clients.close()


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or QUESTION))
