"""``fathom train``: an algorithm against the running services, with a progress bar and a reward line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fathom.call import Lane
from fathom.cli.local import LocalEndpoints, read_endpoints
from fathom.clients import connect
from fathom.config import load
from fathom.errors import NotFound, NotReady
from fathom.store import open_store

ALGORITHMS = ("grpo",)


def run_training(algorithm: str, config: Path, home: Path, overrides: list[str]) -> None:
    """Trains; raises ``NotFound`` for an unknown algorithm, ``ConfigError`` for a wrong setting."""
    if algorithm not in ALGORITHMS:
        raise NotFound("algorithm", algorithm, ALGORITHMS)
    import uvloop

    uvloop.run(train(config, home, overrides))


async def train(config: Path, home: Path, overrides: list[str]) -> None:
    from trainers.config import GrpoConfig, read_overrides

    console = Console()
    settings = load(GrpoConfig, "grpo", file=config, overrides=read_overrides(overrides))
    async with stack(home, console) as endpoints:
        from trainers import grpo

        clients, store = connect(endpoints.services, lane=Lane.TRAINING), open_store(endpoints.store)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        try:
            with Progress(*columns, console=console) as progress:
                bar = progress.add_task("starting", total=settings.steps)

                def show(report: grpo.StepReport) -> None:
                    line = f"reward {report.reward:.3f}  loss {report.loss:+.4f}  kl {report.kl:.4f}"
                    progress.update(bar, completed=report.step, description=line)

                result = await grpo.train(settings, clients, store, show)
        finally:
            await clients.close()
            await store.close()
    console.print(result.summary())


@asynccontextmanager
async def stack(home: Path, console: Console) -> AsyncIterator[LocalEndpoints]:
    """The running stack, or one of our own for the time of the training."""
    try:
        yield read_endpoints(home)
        return
    except NotReady:
        console.print("no stack is up: starting one for this training")
    from services.local import LocalSettings, LocalStack

    async with LocalStack(LocalSettings(home=home, gateway_port=0)).running() as started:
        yield LocalEndpoints(started.services, started.gateway, started.nats, started.store)
