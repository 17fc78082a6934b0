"""Upstream calls per tool call of a foreign reading tool, in groups of eight siblings as trainers play them.

Siblings ask alike and are not in step: each makes its calls with pauses of its own, as its model would. ``alike`` is the
share of calls that all siblings of a group make; the rest is each one's own. The goal is 0.35 where all ask alike.
"""

from __future__ import annotations

import asyncio
import json
import random

import structlog

from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.config import McpServer
from fathom.services.planner.mcp.mount import Mounts
from fathom.services.planner.tools.registry import CallLimits, Registry
from fathom.transport.sockets import reserved_port
from fathom.transport.store.memory import MemoryStore
from tests.integration.planner.test_mcp import serving
from tests.integration.planner.toy_server import Toy

GROUPS, SIBLINGS, CALLS, PAUSE_S = 4, 8, 10, 0.05


async def play_sibling(mounts: Mounts, group: int, sibling: int, alike: float) -> None:
    """Make one sibling's calls."""
    draw = random.Random(f"{group} {sibling}")
    shared = random.Random(group)
    registry = Registry(mounts.tools(), 0, CallLimits(30.0))
    for number in range(CALLS):
        is_shared = shared.random() < alike
        symbol = f"{group}-{number}" if is_shared else f"{group}-{number}-{sibling}"
        await asyncio.sleep(draw.random() * PAUSE_S)
        await registry.call("id", ToolCall(f"c{number}", "toy_looked", json.dumps({"symbol": symbol})))


async def measure(alike: float, cache_s: float) -> float:
    """Return upstream calls per tool call."""
    toy = Toy()
    with reserved_port() as port:
        async with serving(toy, port) as url:
            server = McpServer(name="toy", url=url, tools=("looked",), timeout_s=30.0, cache_s=cache_s)
            mounts = Mounts([server], MemoryStore(), structlog.get_logger())
            mounts.start()
            await mounts.wait_until_listed(30.0)
            places = [(group, sibling) for group in range(GROUPS) for sibling in range(SIBLINGS)]
            await asyncio.gather(*(play_sibling(mounts, *place, alike) for place in places))
            await mounts.close()
    return len(toy.heard) / (GROUPS * SIBLINGS * CALLS)


async def run() -> None:
    print(f"{GROUPS} groups of {SIBLINGS}, {CALLS} calls each: upstream calls per tool call")
    print("calls alike    held 60 s    in flight alone")
    for alike in (1.0, 0.8, 0.5):
        print(f"{alike:10.0%}    {await measure(alike, 60.0):9.3f}    {await measure(alike, 0.0):15.3f}")
