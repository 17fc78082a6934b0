"""Implementation of ``fathom data stage``: each step makes the rows that its target lacks, and says what there is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from fathom.core.errors import InvalidField
from fathom.trainers.data.on_ray import Recipe, Scale, Source, run_on_ray
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.queries.record import Query, read_queries, write_queries
from fathom.trainers.data.stages.record import Record, read_rows
from fathom.trainers.data.stages.running import AT_ONCE, Row, Task, hold, run_tasks

if TYPE_CHECKING:
    from fathom.clients import Clients
    from fathom.domain.encoders.base import Encoder

Done = TypeVar("Done")


def run_on_stack(home: Path, work: Callable[[Clients], Awaitable[Done]]) -> Done:
    """Run a step on the local stack that is up, or on one for its duration."""

    async def run() -> Done:
        from rich.console import Console

        from fathom.clients import connect
        from fathom.core.call import Lane
        from fathom.trainers.commands.local_run import stack

        async with stack(home, Console(stderr=True)) as endpoints:
            # In the lane of trainings: people's questions go before thousands of such calls.
            clients = connect(endpoints.services, lane=Lane.TRAINING)
            try:
                return await work(clients)
            finally:
                await clients.close()

    return asyncio.run(run())


async def make_rows(
    clients: Clients,
    recipe: Recipe[Source, Row],
    sources: Sequence[Source],
    target: Path,
    scale: Scale,
    at_once: int = AT_ONCE,
    more: Sequence[Task[Row]] = (),
) -> dict[str, Row]:
    """Append the rows of the sources, and of ``more`` tasks, that ``target`` lacks; return all of them by id."""
    if scale.ray_above is not None and len(sources) > scale.ray_above:
        await run_on_ray(recipe, sources, clients, target, scale.workers)
    # Behind Ray this makes nothing, and reads what there is.
    return await run_tasks([*recipe.make(clients, sources), *more], target, recipe.row, at_once)


def run_step(
    home: Path,
    target: Path,
    recipe: Recipe[Source, Record],
    sources: Sequence[Source],
    scale: Scale,
    more: Sequence[Task[Record]] = (),
) -> list[Record]:
    """Make the rows that ``target`` lacks, print how many there are of each status, and return them."""
    rows = run_on_stack(home, lambda clients: make_rows(clients, recipe, sources, target, scale, more=more))
    records = list(rows.values())
    counts = Counter(record.status for record in records)
    shown = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))
    typer.echo(f"{target}: {len(records):,} rows: {shown or 'none'}")
    for reason, count in Counter(one.reason for one in records if one.status == "dropped").most_common():
        typer.echo(f"dropped: {count:,} ({reason})", err=True)
    # Some unreadable replies are usual; a file without a single row to use is a failure.
    if not any(record.status in ("accepted", "review") for record in records):
        typer.echo("no row can be used", err=True)
        for reason, count in Counter(one.reason for one in records if one.status == "rejected").most_common(3):
            typer.echo(f"rejected: {count:,} ({reason})", err=True)
        raise typer.Exit(1)
    return records


def play_file(source: Path, target: Path, home: Path, model: str, scale: Scale) -> None:
    """Play the questions; print how many have a plan and an answer."""
    from fathom.trainers.data.stages.episodes import Episode, make_tasks

    queries = read_queries(source)
    recipe = Recipe(lambda clients, some: make_tasks(some, clients, model), Query, Episode)
    # Half as many at once as of other tasks, since an episode is many calls of models and tools.
    rows = run_on_stack(home, lambda clients: make_rows(clients, recipe, queries, target, scale, 4))
    counts = Counter(call.stage for episode in rows.values() for call in episode.calls)
    shown = ", ".join(f"{count:,} {stage}" for stage, count in counts.items())
    typer.echo(f"{target}: {len(rows):,} episodes: {shown or 'no stage'}")


def rewrite_file(source: Path, target: Path, home: Path, writer: str, judge: str, scale: Scale) -> None:
    """Write rewriting data; print the cells of case and distance, and what each writer leaves to people."""
    from fathom.trainers.data.stages.conversations import Conversation, read_conversations
    from fathom.trainers.data.stages.rewriting import CASES, DISTANCES, count_by_writer, count_cells, make_tasks

    conversations = read_conversations(source)
    name = source.name
    # The writer draws, so that its follow-ups differ; the judge does not, so that it judges alike.
    recipe = Recipe(
        lambda clients, some: make_tasks(some, name, Asker(clients, writer, 0.7), Asker(clients, judge)),
        Conversation,
        Record,
    )
    records = run_step(home, target, recipe, conversations, scale)
    cells = count_cells(records)
    for case in CASES:
        shown = "  ".join(f"{distance} back: {cells[case, distance]:,}" for distance in DISTANCES)
        typer.echo(f"follow-ups to an earlier {case}: {shown}")
    for name, counts in sorted(count_by_writer(records).items()):
        typer.echo(
            f"{name or 'nobody'}: {counts['review'] / counts.total():.1%} of {counts.total():,} wait for a person"
        )
    empty = [f"{case} {distance} back" for case in CASES for distance in DISTANCES if not cells[case, distance]]
    if empty:
        typer.echo(f"there is none of: {', '.join(empty)}; bring longer conversations", err=True)
        raise typer.Exit(1)


def plan_file(source: Path, target: Path, home: Path, writer: str, judge: str, scale: Scale, *, written: bool) -> None:
    """Write planning data; print the pairs, and what leaving out the frameworks saves."""
    from fathom.trainers.data.stages.episodes import Episode
    from fathom.trainers.data.stages.planning import build_written, load_written, make_tasks, measure_saving

    episodes = read_rows(source, Episode)
    pairs = build_written(load_written()) if written else []
    recipe = Recipe(
        lambda clients, some: make_tasks(some, Asker(clients, writer), Asker(clients, judge)), Episode, Record
    )
    # Pairs of people go the same way as others, so that one file has all rows, and a second run adds none twice.
    more = [Task(pair.id, partial(hand_over, pair)) for pair in pairs]
    records = run_step(home, target, recipe, episodes, scale, more)
    kinds = Counter(str(record.tags.get("kind")) for record in records if record.rejected)
    typer.echo(f"pairs: {', '.join(f'{count:,} {kind}' for kind, count in sorted(kinds.items())) or 'none'}")
    full, short = measure_saving(records)
    typer.echo(
        f"without frameworks the prompts have {short:,} of {full:,} characters, {1 - short / max(1, full):.1%} less"
    )


async def hand_over(record: Record) -> Record:
    """Return a row that needs nobody."""
    return record


@cache
def load_encoder(models: Path, name: str) -> Encoder:
    """Return an encoder; each process loads it once, however often it makes rows of a few sources."""
    from fathom.domain.encoders.choose import Encoders

    return Encoders(models)(name)


def reflect_file(
    source: Path, target: Path, home: Path, writer: str, judge: str, encoder: str, threshold: float, scale: Scale
) -> None:
    """Write reflection data; print how many of the queries the material had answered."""
    from fathom.trainers.data.stages.episodes import Episode
    from fathom.trainers.data.stages.reflecting import Matcher, make_tasks

    # Absolute, since workers of Ray run in folders of their own.
    models = (home / "models").resolve()
    # Before a stack is started: a wrong name has to be said at once.
    load_encoder(models, encoder)

    def make(clients: Clients, some: Sequence[Episode]) -> Sequence[Task[Record]]:
        matcher = Matcher(load_encoder(models, encoder), Asker(clients, judge), threshold)
        return make_tasks(some, matcher, Asker(clients, writer))

    records = run_step(home, target, Recipe(make, Episode, Record), read_rows(source, Episode), scale)
    asked, answered = (sum(int(one.tags.get(name, 0)) for one in records) for name in ("queries", "answered"))
    typer.echo(f"the material has what {answered:,} of {asked:,} queries ask for")


def answer_file(
    source: Path, target: Path, home: Path, writers: Sequence[str], judge: str, least: int, most: int, scale: Scale
) -> None:
    """Write answer data; print the wins by writer, and the mean of each dimension."""
    from fathom.trainers.data.stages.answering import Band, make_tasks
    from fathom.trainers.data.stages.episodes import Episode
    from fathom.trainers.data.stages.tournament import DIMENSIONS

    if least > most:
        raise InvalidField("least", f"{least:,} is above --most {most:,}")
    # Each writer has one answer by one seed, so that a model named twice would only repeat itself.
    if len(set(writers)) < len(writers):
        raise InvalidField("writer", "one model is named twice")
    band = Band(least, most)
    recipe = Recipe(
        lambda clients, some: make_tasks(
            some, [Asker(clients, name, 0.7) for name in writers], Asker(clients, judge), band
        ),
        Episode,
        Record,
    )
    records = run_step(home, target, recipe, read_rows(source, Episode), scale)
    # Rejected answers count as well: they have won, and only miss the length or cite nothing.
    wins = Counter(record.made_by for record in records if record.output)
    typer.echo("best answers: " + ", ".join(f"{count:,} by {name}" for name, count in wins.most_common()))
    # Rows whose answers were not compared have no scores, as those with a single answer.
    judged = [record for record in records if DIMENSIONS[0] in record.tags]
    means = [
        f"{name} {sum(float(one.tags[name]) for one in judged) / len(judged):.2f}" for name in DIMENSIONS if judged
    ]
    typer.echo(f"their scores: {', '.join(means) or 'none, since there was one answer to each question'}")


def repair_file(source: Path, target: Path, home: Path, mender: str, scale: Scale) -> None:
    """Write repaired answers; print the rate of each kind of fault with its interval."""
    from fathom.trainers.data.stages.repairing import make_tasks, measure_rates
    from fathom.trainers.data.stages.reviewing import read_records

    # As people have decided: what somebody has edited is repaired in its edited form.
    answers = read_records(source)
    recipe = Recipe(lambda clients, some: make_tasks(some, Asker(clients, mender)), Record, Record)
    records = run_step(home, target, recipe, answers, scale)
    for rate in measure_rates(records):
        share = f"{rate.fixed / rate.found:.1%} [{rate.low:.1%}, {rate.high:.1%}]" if rate.found else "no rate"
        typer.echo(f"{rate.kind}: {rate.fixed:,} of {rate.found:,} faults mended, {share}")


def evolve_file(
    source: Path,
    target: Path,
    home: Path,
    writer: str,
    operators: Sequence[str] | None,
    queries: Path | None,
    scale: Scale,
) -> None:
    """Write evolved questions; print how many of each operator can be used."""
    from fathom.trainers.data.stages.evolving import OPERATORS, list_queries, make_tasks

    wanted = list(dict.fromkeys(operators or OPERATORS))
    if unknown := sorted(set(wanted) - set(OPERATORS)):
        raise InvalidField("operator", f"{', '.join(unknown)} is none of {', '.join(OPERATORS)}")
    seeds = read_queries(source)
    recipe = Recipe(lambda clients, some: make_tasks(some, wanted, Asker(clients, writer, 0.7)), Query, Record)
    records = run_step(home, target, recipe, seeds, scale)
    counts = Counter(str(record.tags["operator"]) for record in records if record.status == "accepted")
    typer.echo("usable: " + ", ".join(f"{counts[name]:,} {name}" for name in wanted))
    if queries is not None:
        with hold(queries):
            typer.echo(f"{queries}: {write_queries(list_queries(records), queries):,} queries")
