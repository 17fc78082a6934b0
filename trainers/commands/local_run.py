"""``fathom train``: trains on the running stack or a temporary one, with a progress bar and a final report."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fathom.cli.plugins import start_stack
from fathom.clients.local import LocalEndpoints, read_endpoints
from fathom.core.errors import NotReady

if TYPE_CHECKING:
    from fathom.trainers.config import TrainConfig

SHOWN = (
    ("critic/score/mean", "reward"),
    ("acc", "acc"),
    ("actor/entropy", "entropy"),
    ("response_length/mean", "len"),
    ("train/loss", "loss"),
    ("val/loss", "held-out"),
)


@dataclass(frozen=True)
class Wanted:
    """Options from the command line; ``replay`` is a folder of recorded rollouts."""

    algorithm: str
    files: Sequence[Path]
    overrides: Sequence[str]
    home: Path
    replay: Path | None = None

    def config(self) -> TrainConfig:
        """Build the training's settings.

        Raises ``NotFound`` for an unknown algorithm, ``ConfigError`` for a wrong setting.
        """
        from fathom.trainers.jobs.registry import find, load_settings

        # Loaded for its error alone: a missing library is reported before a stack is started.
        find(self.algorithm).load()
        replay = [f"rollout.replay={self.replay}"] if self.replay else []
        return load_settings(self.algorithm, self.files, [*self.overrides, *replay])


def run_training(wanted: Wanted) -> None:
    """Train to the end; SIGINT and SIGTERM end it after the current step, with a checkpoint."""
    import uvloop

    config = wanted.config()
    console = Console()
    console.print(config.to_yaml(), markup=False, highlight=False)
    uvloop.run(train(wanted, config, console))


async def train(wanted: Wanted, config: TrainConfig, console: Console) -> None:
    """Run the training in a separate thread, and a temporary stack, if needed, in this one."""
    from fathom.trainers.jobs.launch import Interruption, Place, Run
    from fathom.trainers.jobs.registry import find

    interruption, loop = Interruption(), asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        # On the loop, since the handler runs there between callbacks: it never interrupts a call half-way.
        loop.add_signal_handler(name, interruption.request)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    async with files_alone() if find(wanted.algorithm).from_files else stack(wanted.home, console) as endpoints:
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("starting", total=config.trainer.total_training_steps)

            def show(step: int, total: int, metrics: dict[str, float]) -> None:
                line = "  ".join(f"{name} {metrics[key]:.3f}" for key, name in SHOWN if key in metrics)
                progress.update(bar, completed=step, total=total, description=line or "validated")

            place = Place(endpoints.services, endpoints.store, find_store(wanted.home))
            run = Run(wanted.algorithm, config, place, show, interruption)
            # In a thread: steps compute for seconds, and the stack's services may run on this loop.
            outcome = await asyncio.to_thread(run.train)
    for note in run.notes:
        console.print(note, style="yellow", markup=False)
    console.print(outcome.summary(), markup=False)


def find_store(home: Path) -> str:
    """Return the URL of the running stack's store, else of the folder in which a local stack has left it, else ""."""
    try:
        return read_endpoints(home).store
    except NotReady:
        folder = home / "store"
        return folder.resolve().as_uri() if folder.is_dir() else ""


@asynccontextmanager
async def files_alone() -> AsyncIterator[LocalEndpoints]:
    """Yield empty endpoints, for a training that reads files and calls no service."""
    yield LocalEndpoints({}, "", "", "")


@asynccontextmanager
async def stack(home: Path, console: Console) -> AsyncIterator[LocalEndpoints]:
    """Yield the endpoints of the running stack, or of a temporary one for the duration of the training."""
    try:
        yield read_endpoints(home)
        return
    except NotReady:
        console.print("no stack is up: starting one for this training")
    async with start_stack(home) as started:
        yield started
