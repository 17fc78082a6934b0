"""Implementation of ``fathom data queries``: each step reads one file of queries and writes another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import typer

from fathom.clients.local import read_endpoints
from fathom.domain.text.overlap import Text, find_leaks
from fathom.trainers.commands.left_out import say_left_out
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.queries.duplicates import find_duplicates
from fathom.trainers.data.queries.noise import add_noise
from fathom.trainers.data.queries.record import Query, read_lines, read_queries, write_queries
from fathom.trainers.data.queries.sampling import draw_sample

Done = TypeVar("Done")


def ask_model(home: Path, model: str, temperature: float, work: Callable[[Asker], Awaitable[Done]]) -> Done:
    """Run a step that asks a model of the local stack."""

    async def run() -> Done:
        from fathom.clients import connect
        from fathom.core.call import Lane

        # In the lane of trainings: people's questions go before thousands of such calls.
        clients = connect(read_endpoints(home).services, lane=Lane.TRAINING)
        try:
            return await work(Asker(clients, model, temperature))
        finally:
            await clients.close()

    return asyncio.run(run())


def expand_file(source: Path, target: Path, home: Path, model: str, each: int, intents: int) -> None:
    """Write new queries by intents; print their number, and exit with 1 when the intents are too few."""
    from fathom.trainers.data.queries.intents import expand

    seeds = read_queries(source)
    # Warm, because the same seeds are asked about again and again and other intents are wanted each time.
    done = ask_model(home, model, 1.0, lambda asker: expand(seeds, asker, target, each, intents))
    typer.echo(f"{target}: {done.queries:,} queries with {done.intents:,} intents")
    say_left_out({"no reply of the model could be read": done.dropped}, err=True)
    if done.intents < intents:
        typer.echo(f"the model found {done.intents:,} of {intents:,} intents, and then no more", err=True)
        raise typer.Exit(1)


def rate_file(source: Path, target: Path, home: Path, model: str) -> None:
    """Write queries with their difficulty; print how many of each there are."""
    from fathom.trainers.data.queries.difficulty import rate_all

    queries = read_queries(source)
    # Cold: the same question has to have the same label the next time.
    dropped = ask_model(home, model, 0.0, lambda asker: rate_all(queries, asker, target))
    say_left_out({"the model gave no readable label": dropped}, err=True)
    # Some unreadable replies are usual; a file without a single label is a failure.
    if dropped == len(queries):
        raise typer.Exit(1)
    counts = Counter(query.difficulty for query in read_queries(target))
    typer.echo(f"{target}: " + ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items(), key=str)))


def drop_duplicates(source: Path, target: Path, threshold: float) -> None:
    """Write the queries without near duplicates; print what was left out, with what it is a duplicate of."""
    queries = read_queries(source)
    found = find_duplicates([query.text for query in queries], threshold)
    for item in found:
        typer.echo(f"left out: {queries[item.place].id} is {item.similarity:.2f} of {queries[item.of].id}")
    out = {item.place for item in found}
    count = write_queries((query for place, query in enumerate(queries) if place not in out), target)
    typer.echo(f"{target}: {count:,} of {len(queries):,} queries")


def add_noise_to_file(
    source: Path,
    target: Path,
    operators: Sequence[str],
    rate: float,
    seed: int,
    *,
    only: bool,
    names: Path | None = None,
) -> None:
    """Write the queries, each followed by its noisy form, or with ``only`` those alone; exit with 1 without any.

    ``names`` is a file of names, one a line, that stay as they are.
    """
    queries, fixed = read_queries(source), [line for _, line in read_lines(names)] if names is not None else []
    noisy = [(query, add_noise(query, tuple(operators), rate, seed, fixed)) for query in queries]
    count = sum(changed is not None for _, changed in noisy)
    # A copy of the clean file would look like noise that was added.
    if not count:
        typer.echo("no query was changed, and nothing was written: raise --rate, or name other operators", err=True)
        raise typer.Exit(1)
    rows: list[Query] = []
    for query, changed in noisy:
        rows += [] if only else [query]
        rows += [changed] if changed is not None else []
    write_queries(rows, target)
    typer.echo(f"{target}: {len(rows):,} queries, {count:,} of them with noise")


def sample_file(source: Path, target: Path, total: int, seed: int) -> None:
    """Write the sample; print the numbers, and what there is too little of."""
    sample = draw_sample(read_queries(source), total, seed)
    write_queries(sample.queries, target)
    counts = Counter(query.difficulty for query in sample.queries)
    shown = ", ".join(f"{counts[name]:,} {name}" for name in sample.wanted)  # type: ignore[index]
    typer.echo(f"{target}: {len(sample.queries):,} of {total:,} queries: {shown}")
    for name, count in sample.short.items():
        typer.echo(f"too few: {count:,} {name} of {sample.wanted[name]:,}", err=True)


def check_leaks(training: Sequence[Path], held: Sequence[Path], share: float) -> None:
    """Print each held query that stands in the training files, with where; exit with 1 when there is one."""

    def read(paths: Sequence[Path]) -> list[Text]:
        return [Text(f"{path.name} {query.id}", query.text) for path in paths for query in read_queries(path)]

    texts = read(held)
    leaks = find_leaks(read(training), texts, share=share)
    for leak in leaks:
        typer.echo(f"{leak.held.name}: {leak.share:.0%} of it is in {leak.training.name}: {leak.held.text}")
    typer.echo(f"{len(leaks):,} of {len(texts):,} queries leak into training")
    # For a script, which has to stop before the training begins.
    if leaks:
        raise typer.Exit(1)
