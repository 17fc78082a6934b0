"""Runs a function as ranks of a process group, each a process of its own with one thread."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

DEADLINE_S = 300


def as_ranks(count: int, folder: Path, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return what ``work(*arguments)`` gives on each rank; raises ``RuntimeError`` when one fails."""
    folder.mkdir(parents=True, exist_ok=True)
    # Each rank would import torch and transformers for seconds: they are forked from one process that has done so.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fathom.trainers.learners.workers"])
    processes = [context.Process(target=run, args=(rank, count, folder, work, arguments)) for rank in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(DEADLINE_S)
        if process.is_alive():
            process.kill()
    if any(process.exitcode for process in processes):
        raise RuntimeError(f"ranks ended with {[process.exitcode for process in processes]}")
    return [torch.load(folder / f"result-{rank}.pt", weights_only=False) for rank in range(count)]


def run(rank: int, count: int, folder: Path, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'rendezvous'}",
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=DEADLINE_S),
    )
    torch.save(work(*arguments), folder / f"result-{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
