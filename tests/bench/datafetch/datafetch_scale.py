"""Measure how long a query takes on the bundled tables and on 50 million rows, and what a group of eight costs.

Baselines of the same run: the parquet file read by DuckDB for each query, eight callers each on their own, and for
tables in PostgreSQL (``FATHOM_BENCH_POSTGRES_ROWS``) a plain SELECT there.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

from fathom.services.datafetch.config import Config, SemanticFolder
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Query
from tests.support.postgres import serve_postgres

TABLES = Path(".fathom/data/tables")
ROWS = int(os.environ.get("FATHOM_BENCH_ROWS", "50000000"))
POSTGRES_ROWS = int(os.environ.get("FATHOM_BENCH_POSTGRES_ROWS", "5000000"))
ENTITIES, QUERIES, GROUP = 2_000, 60, 8
YAML = """version: 1
tables:
  - {id: large, path: large.parquet, series: series.parquet, layout: long, source: synthetic, vendor: bench}
entities:
"""


def build(folder: Path) -> None:
    """A long table, sorted as the bundle is: entities × five indicators × days."""
    days = ROWS // (ENTITIES * 5)
    with duckdb.connect() as connection:
        connection.execute("set threads = 2")
        connection.execute("set memory_limit = '3GB'")
        connection.execute("set preserve_insertion_order = true")
        connection.execute(
            f"copy (select 'E' || lpad((i // {days} % {ENTITIES})::varchar, 4, '0') as entity,"
            f" 'x' || (i // {days * ENTITIES})::varchar as indicator,"
            f" date '1990-01-01' + (i % {days})::int as date, (hash(i) % 100000) / 100.0 as value"
            f" from range({days * ENTITIES * 5}) t(i)) to '{folder / 'large.parquet'}' (format parquet, row_group_size 100000)"
        )
        connection.execute(
            "copy (select entity, indicator, 'value ' || indicator as name, 'points' as unit, 'daily' as frequency,"
            f" 'synthetic' as source, min(date) as first_date, max(date) as as_of from '{folder / 'large.parquet'}'"
            f" group by entity, indicator) to '{folder / 'series.parquet'}' (format parquet)"
        )
    names = "".join(f"  - {{id: E{n:04d}, name: Entity {n:04d}, kind: other}}\n" for n in range(ENTITIES))
    (folder / "large.yaml").write_text(YAML + names, encoding="utf-8")


async def run() -> None:
    engine = Engine(Config(data_dir=TABLES, cache_entries=0))
    await engine.start()
    rng = random.Random(1)
    stocks = [spec.id for spec in engine.layer.entities.values() if spec.kind == "stock"]
    years = [(date(y, 1, 1), date(y, 12, 31)) for y in range(1995, 2022)]

    def draw_bundled_query() -> Query:
        start, end = rng.choice(years)
        return Query(tuple(rng.sample(stocks, 2)), ("close_adj",), start, end)

    path = str(TABLES / "observations.parquet")
    print(f"{'':<34}{'p50 ms':>9}{'p99 ms':>9}")
    ours = await print_median("Query, bundled", lambda: engine.run(draw_bundled_query(), None))
    plain = await print_median("the file by DuckDB, bundled", lambda: scan_file(path, draw_bundled_query()))
    print(f"{'ratio':<34}{ours / plain:>9.2f}")
    ours = await print_median(
        "question, bundled", lambda: engine.ask(f"{rng.choice(stocks)} close in {rng.randrange(1995, 2022)}", None)
    )
    await engine.close()
    await group()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = time.perf_counter()
        build(folder)
        print(
            f"{ROWS:,} rows written in {time.perf_counter() - started:.0f} s, {(folder / 'large.parquet').stat().st_size / 1e6:.0f} MB"
        )
        large = Engine(Config(data_dir=TABLES, cache_entries=0, semantic=[SemanticFolder(folder=folder)]))
        started = time.perf_counter()
        await large.start()
        print(f"opened in {time.perf_counter() - started:.1f} s")

        def wide() -> Query:
            who = tuple(f"E{n:04d}" for n in rng.sample(range(ENTITIES), 2))
            return Query(who, (f"x{rng.randrange(5)}",), date(1995, 1, 1), date(1999, 12, 31))

        ours = await print_median(f"Query, {ROWS / 1e6:.0f} million rows", lambda: large.run(wide(), None))
        plain = await print_median("the file by DuckDB", lambda: scan_file(str(folder / "large.parquet"), wide()))
        print(f"{'ratio':<34}{ours / plain:>9.2f}")
        await large.close()
    with serve_postgres() as url:
        await compare_in_postgres(url)


async def compare_in_postgres(url: str) -> None:
    """Print what a query over a table in PostgreSQL takes, beside a plain SELECT of the same rows there."""
    import psycopg

    days = POSTGRES_ROWS // (ENTITIES * 5)
    with psycopg.connect(url, autocommit=True) as connection, tempfile.TemporaryDirectory() as name:
        started = time.perf_counter()
        connection.execute(
            "create unlogged table large as select 'E' || lpad((i / %s %% %s)::text, 4, '0') as entity,"
            " 'x' || (i / %s) as indicator, date '1990-01-01' + (i %% %s)::int as date,"
            " (hashint8(i) %% 100000) / 100.0::float8 as value from generate_series(0::bigint, %s) i",
            [days, ENTITIES, days * ENTITIES, days, days * ENTITIES * 5 - 1],
            prepare=False,
        )
        connection.execute("create index on large (indicator, entity, date)")
        connection.execute("analyze large")
        connection.execute(
            "create table large_series as select entity, indicator, 'value ' || indicator as name, 'points' as unit,"
            " 'daily' as frequency, 'synthetic' as source, min(date) as first_date, max(date) as as_of from large"
            " group by entity, indicator"
        )
        print(f"{POSTGRES_ROWS:,} rows in PostgreSQL, with an index, in {time.perf_counter() - started:.0f} s")
        folder = Path(name)
        place = "database: bench, relation: large, series: large_series"
        names = "".join(f"  - {{id: E{n:04d}, name: Entity {n:04d}, kind: other}}\n" for n in range(ENTITIES))
        text = YAML.replace("path: large.parquet, series: series.parquet", place) + names
        (folder / "large.yaml").write_text(text, encoding="utf-8")
        settings: dict[str, Any] = {"databases": {"bench": url}, "semantic": [SemanticFolder(folder=folder)]}
        engine = Engine(Config(data_dir=TABLES, cache_entries=0, **settings))
        await engine.start()
        rng = random.Random(3)

        def draw() -> Query:
            who = tuple(f"E{n:04d}" for n in rng.sample(range(ENTITIES), 2))
            return Query(who, (f"x{rng.randrange(5)}",), date(1990, 1, 1), date(1999, 12, 31))

        async def select(settings: str = "") -> None:
            query = draw()

            def read() -> None:
                if settings:
                    connection.execute(settings, prepare=False)
                connection.execute(
                    "select entity, date, value from large where indicator = %s and entity in (%s, %s)"
                    " and date between %s and %s order by date",
                    [query.indicators[0], *query.entities, query.start, query.end],
                ).fetchall()

            await asyncio.to_thread(read)

        ours = await print_median(
            f"Query, {POSTGRES_ROWS / 1e6:.0f} million rows there", lambda: engine.run(draw(), None)
        )
        plain = await print_median("plain SELECT there, by its index", select)
        print(f"{'ratio':<34}{ours / plain:>9.2f}")
        by_scan = "set enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off"
        plain = await print_median("plain SELECT there, by a scan", lambda: select(by_scan), 10)
        print(f"{'ratio':<34}{ours / plain:>9.2f}")
        await engine.close()


async def scan_file(path: str, query: Query) -> None:
    """Read the same rows straight from the file."""

    def read() -> None:
        with duckdb.connect() as connection:
            connection.execute("set threads = 2")
            connection.execute(
                "select entity, date, value from read_parquet(?) where indicator = ? and entity in (?, ?) and date between ? and ? order by date",
                [path, query.indicators[0], *query.entities, query.start, query.end],
            ).fetchall()

    await asyncio.to_thread(read)


async def print_median(title: str, once: Callable[[], Awaitable[object]], count: int = QUERIES) -> float:
    """Print and return the median, in milliseconds."""
    times = []
    for _ in range(count):
        started = time.perf_counter()
        await once()
        times.append((time.perf_counter() - started) * 1e3)
    times.sort()
    print(f"{title:<34}{statistics.median(times):>9.1f}{times[int(0.99 * len(times))]:>9.1f}")
    return statistics.median(times)


async def group() -> None:
    """Eight rollouts of a task ask much the same: how often the tables are read, with and without the shared loads."""
    rng = random.Random(2)
    tasks = [
        [f"{who} close in {year}" for who in rng.sample(["Apple", "Microsoft", "Walmart", "Pfizer"], 3)]
        for year in range(2005, 2015)
    ]
    for entries in (0, 256):
        engine = Engine(Config(data_dir=TABLES, cache_entries=entries))
        await engine.start()
        started, computed = time.perf_counter(), 0
        for questions in tasks:
            if entries:
                await asyncio.gather(*(engine.ask(question, None) for question in questions for _ in range(GROUP)))
            else:
                await asyncio.gather(
                    *(engine._ask(question, None, date(2022, 12, 31)) for question in questions for _ in range(GROUP))
                )
        asked = sum(len(questions) for questions in tasks) * GROUP
        computed = engine.results.loads if entries else asked * 2
        title = "shared loads and memory" if entries else "each on its own"
        print(
            f"{title:<34}{asked} questions, {computed} computations (question and query), {time.perf_counter() - started:.2f} s"
        )
        await engine.close()


if __name__ == "__main__":
    asyncio.run(run())
