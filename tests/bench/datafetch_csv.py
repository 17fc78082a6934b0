"""Measure what a CSV of several gigabytes costs as a table: seconds, and the most memory that the process held.

``FATHOM_BENCH_CSV_GB`` is its size, 5 by default. The file is opened in a process of its own, so that the memory is that
of reading alone.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from fathom.services.datafetch.catalog.layer import load
from fathom.services.datafetch.warehouse.database import Warehouse

SIZE_GB = float(os.environ.get("FATHOM_BENCH_CSV_GB", "5"))
ROW_BYTES, ENTITIES = 27, 500
YAML = """version: 1
tables:
  - {id: large, path: large.csv, layout: long, frequency: daily, source: synthetic}
entities:
"""


def build(folder: Path) -> int:
    """Write the CSV, entity by entity and day by day; return its rows."""
    rows = int(SIZE_GB * 1e9 / ROW_BYTES)
    days = 18_000
    with duckdb.connect(config={"threads": 2, "memory_limit": "1GB"}) as connection:
        connection.execute(
            f"copy (select 'E' || lpad((i // {days} % {ENTITIES})::varchar, 4, '0') as entity, 'x' ||"
            f" (i // {days * ENTITIES})::varchar as indicator, date '1975-01-01' + (i % {days})::int as date,"
            f" (hash(i) % 100000) / 100.0 as value from range({rows}) t(i)) to '{folder / 'large.csv'}' (format csv)"
        )
    names = "".join(f"  - {{id: E{n:04d}, name: Entity {n:04d}, kind: other}}\n" for n in range(ENTITIES))
    (folder / "large.yaml").write_text(YAML + names, encoding="utf-8")
    return rows


def open_table(folder: Path) -> None:
    """Open the folder, read one series, and print what it took."""
    started = time.perf_counter()
    layer = load([(folder, folder)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    warehouse = Warehouse(layer)
    opened = time.perf_counter() - started
    started = time.perf_counter()
    found = warehouse.connection.execute(
        "select count(*), min(date), max(date) from t_large where indicator = 'x0' and entity = 'E0007'"
    ).fetchone()
    asked = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    series = sum(len(one.members) for known in warehouse.stored.values() for one in known)
    warehouse.close()
    print(f"opened in {opened:.0f} s, {series:,} series; one of them ({found}) in {asked:.2f} s")
    print(f"memory: {before:.0f} MiB before, {peak:.0f} MiB at most; failures: {layer.failures}")


async def run() -> None:
    """Write the CSV and open it in another process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = time.perf_counter()
        rows = build(folder)
        size = (folder / "large.csv").stat().st_size
        print(
            f"a CSV of {rows:,} rows, {size / 1e9:.2f} GB, written in {time.perf_counter() - started:.0f} s", flush=True
        )
        command = [sys.executable, "-m", "tests.bench.datafetch_csv", name]
        await asyncio.to_thread(subprocess.run, command, check=True)


if __name__ == "__main__":
    open_table(Path(sys.argv[1]))
