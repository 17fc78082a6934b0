"""Executable accuracy of free SQL on defog's questions: what a model writes, checked and run as the service would.

The four databases are loaded into DuckDB (PostgreSQL's SERIAL and to_char made its own). A statement is right when its
result equals that of the gold statement, or of any of its variants: the same rows once each, whatever their order and
the names and order of columns; further columns are allowed, as in the data set's own evaluation (exact or superset).
Numbers are equal within 1e-6. The model is a folder of weights (``FATHOM_BENCH_SQL_MODEL``), ``FATHOM_BENCH_SQL_CASES``
says how many questions of each database are asked. Baselines in the same run: the gold statements themselves (their own
check), a statement that reads the whole of the table whose name is nearest, and the reader of questions without a model,
which has no semantic layer over these tables and must refuse.
"""

from __future__ import annotations

import asyncio
import csv
import itertools
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from fathom.core.errors import FathomError
from fathom.operations.evaluation.public.sql_sets import list_variants, read_defog_database, split_statements
from fathom.operations.evaluation.public.statements import Row, holds, open_duckdb, simplify
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.free_sql import Schema, SqlFallback
from fathom.services.datafetch.warehouse.statements import run_statement
from tests.beside import beside

DATA = beside("defog_sql")
MODEL = Path(os.environ.get("FATHOM_BENCH_SQL_MODEL", ".fathom/models/smollm2"))
CASES = int(os.environ.get("FATHOM_BENCH_SQL_CASES", "3"))
ROWS, SECONDS, NEW_TOKENS = 100_000, 10.0, 160


@dataclass(frozen=True)
class Case:
    """A question and the statements that answer it."""

    base: str
    category: str
    question: str
    gold: tuple[str, ...]


@dataclass
class Tally:
    """Count how many were right, and why the others were not."""

    asked: int = 0
    right: int = 0
    faults: Counter[str] = field(default_factory=Counter)


def cases() -> list[Case]:
    """All questions; braces in a gold statement hold columns that may stand for each other."""
    found = []
    for path in sorted(DATA.glob("instruct_*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                gold = itertools.chain.from_iterable(map(list_variants, split_statements(row["query"])))
                found.append(Case(row["db_name"], row["query_category"], row["question"], tuple(gold)))
    return found


def schema_of(connection: duckdb.DuckDBPyConnection) -> Schema:
    found: dict[str, list[tuple[str, str]]] = {}
    for place, table, column, kind in connection.execute(
        "select schema_name, table_name, column_name, data_type from duckdb_columns() where not internal order by 1, 2, column_index"
    ).fetchall():
        found.setdefault(table if place == "main" else f"{place}.{table}", []).append((column, kind))
    return found


def rows_of(connection: Any, statement: str) -> list[Row]:
    table = run_statement(connection, statement, ROWS, SECONDS)
    columns = [column.to_pylist() for column in table.columns]
    return [tuple(map(simplify, row)) for row in zip(*columns, strict=True)]


def transformer(folder: Path) -> Callable[[str], Awaitable[str]]:
    """A language model from its folder, greedy."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(2)
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(str(folder), local_files_only=True).eval()

    def complete(prompt: str) -> str:
        messages = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        with torch.inference_mode():
            out = model.generate(**ids, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=tokenizer.eos_token_id)
        return str(tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True))

    async def write(prompt: str) -> str:
        return await asyncio.to_thread(complete, prompt)

    return write


async def nearest_table(case: Case, schema: Schema) -> str:
    """The baseline: the whole of the table whose name the question names most of."""
    words = set(re.findall(r"[a-z]+", case.question.lower()))
    score = {t: sum(w.rstrip("s") in t.lower() for w in words if len(w) > 3) for t in schema}
    return f"select * from {max(score, key=lambda table: score[table])}"


async def grade(case: Case, connection: Any, statement: str, tally: Tally, fault: str = "") -> None:
    tally.asked += 1
    if not statement:
        tally.faults[f"no valid statement ({fault.split(';')[0][:60]})"] += 1
        return
    try:
        given = rows_of(connection, statement)
    except FathomError as error:
        tally.faults[f"fails when run: {error.message[:60]}"] += 1
        return
    if any(holds(rows_of(connection, gold), given) for gold in case.gold):
        tally.right += 1
    else:
        tally.faults["another result"] += 1


async def run() -> None:
    """Prints the accuracies and what was wrong."""
    if not DATA.is_dir():
        print(f"skipped: {DATA} is not here")
        return
    everything = cases()
    bases = {
        name: open_duckdb(read_defog_database(DATA / f"{name}.sql"))
        for name in sorted({case.base for case in everything})
    }
    schemas = {name: schema_of(connection) for name, connection in bases.items()}
    gold, base, reader, model = Tally(), Tally(), Tally(), Tally()
    for case in everything:
        await grade(case, bases[case.base], case.gold[0], gold)
        await grade(case, bases[case.base], await nearest_table(case, schemas[case.base]), base)
    await refuse(everything, reader)
    print(f"{len(everything)} questions over {len(bases)} databases")
    show("gold statements against themselves", gold)
    show("the whole of the nearest table", base)
    print(
        f"reader without a model: {reader.asked - reader.right} of {reader.asked} refused, {reader.right} answered of other data"
    )
    if not await asyncio.to_thread(MODEL.is_dir):
        print(f"no model: {MODEL} is not here")
        return
    resort = SqlFallback(transformer(MODEL), MODEL.name)
    some = [c for name in bases for c in spread([c for c in everything if c.base == name], CASES)]
    sample = Tally()
    for case in some:
        await grade(case, bases[case.base], await nearest_table(case, schemas[case.base]), sample)
        written = await resort.write_statement(case.question, schemas[case.base], bases[case.base])
        await grade(case, bases[case.base], written.statement, model, written.fault)
    show(f"{MODEL.name}, {len(some)} questions", model)
    show("the whole of the nearest table, the same questions", sample)
    print(f"difference to that baseline: {100 * (model.right - sample.right) / max(len(some), 1):+.1f} points")


def spread(found: Sequence[Case], count: int) -> list[Case]:
    """So many, from all over."""
    step = max(len(found) // max(count, 1), 1)
    return list(found[::step][:count])


async def refuse(everything: Sequence[Case], tally: Tally) -> None:
    """The questions put to the service's reader over the bundled tables: an answer would be one of other data."""
    engine = Engine(Config(data_dir=Path(".fathom/data/tables"), embedding="off"))
    await engine.start()
    try:
        for case in everything:
            result = await engine.ask(case.question, None)
            tally.asked += 1
            tally.right += bool(result.sheets)
    finally:
        await engine.close()


def show(title: str, tally: Tally) -> None:
    print(f"{title:<52}{tally.right:>4} of {tally.asked:<4}{100 * tally.right / max(tally.asked, 1):>6.1f} %")
    for fault, count in tally.faults.most_common(6):
        print(f"    {count:>3}  {fault}")


if __name__ == "__main__":
    asyncio.run(run())
