"""``fathom up``: runs the local stack in the foreground."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from rich.console import Console

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.cli.ask import ask
from fathom.clients import connect
from fathom.services.local import Endpoints, LocalSettings, LocalStack


def run_stack(home: Path, *, processes: bool, port: int, config: Path | None, question: str, once: bool) -> None:
    """Start the stack, answer ``question`` if there is one, and stay up until a signal."""
    import uvloop

    console = Console()
    settings = LocalSettings(home=home, processes=processes, gateway_port=port, config=config)

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        stack = LocalStack(settings, lambda name, state: console.print(f"  [dim]{name:<10}[/] {state}"))
        async with stack.running() as endpoints:
            duties = [asyncio.create_task(stack.until_broken()), asyncio.create_task(stop.wait())]
            if question:
                duties.append(asyncio.create_task(answer(endpoints, question, console, once=once)))
            else:
                console.print(f"[bold]page[/] {endpoints.gateway}   (Ctrl-C stops)")
            try:
                done, _ = await asyncio.wait(duties, return_when=asyncio.FIRST_COMPLETED)
                for duty in done:
                    duty.result()
            finally:
                for duty in duties:
                    duty.cancel()
                await asyncio.gather(*duties, return_exceptions=True)

    uvloop.run(work())


async def answer(endpoints: Endpoints, question: str, console: Console, *, once: bool) -> None:
    """Ask the question and print the answer; with ``once`` return afterwards, otherwise never."""
    clients = connect(endpoints.services)
    try:
        console.print(f"[bold]question[/] {question}")
        await ask(clients, pb.RunRequest(question=question), console, endpoints.gateway)
    finally:
        await clients.close()
    if not once:
        console.print(f"\n[bold]page[/] {endpoints.gateway}   (Ctrl-C stops)")
        await asyncio.Event().wait()
