"""Annual-report questions asked otherwise by the changes of ``tests.bench.datafetch.perturbation``, kind by kind.

``tests.bench.datafetch.perturb`` has the changes that the synonyms were fitted beside; these here were written apart from them,
so that the two figures together tell how far the understanding carries. A fixed sample of ids B, held-out words.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fathom.core.errors import FathomError
from fathom.services.datafetch.engine import Engine
from tests.bench.datafetch.datafetch_gold import TABLES
from tests.bench.datafetch.finglm import DATA, case_of, judge, open_engine, raw
from tests.bench.datafetch.perturbation import Kind, Variant, of_finglm, perturb
from tests.bench.datafetch.perturbation.variants import compound

SEED, SAMPLE = 20_260, 300
Row = dict[str, Any]


async def run() -> None:
    """Prints accuracy per kind and its ratio to that of the same questions as written, and some that broke."""
    if not DATA.is_dir():
        print(f"left out: {DATA} is not there")
        return
    rows = random.Random(SEED).sample(raw("B"), SAMPLE)
    engine = await open_engine(TABLES)
    clean = {row["_id"]: not await fault(engine, row, Variant(row["question"], ())) for row in rows}
    print(f"seed {SEED}, {SAMPLE} of ids B\n{'change':<12}{'n':>5}{'as written':>12}{'changed':>9}{'ratio':>7}")
    broken: list[str] = []
    for kind in (*Kind, None):
        pairs = vary_rows(rows, kind)
        faults = [await fault(engine, row, variant) for row, variant in pairs]
        right = sum(not said for said in faults) / max(len(pairs), 1)
        before = sum(clean[row["_id"]] for row, _ in pairs) / max(len(pairs), 1)
        print(f"{kind or 'several':<12}{len(pairs):>5}{before:>12.1%}{right:>9.1%}{right / max(before, 1e-9):>7.2f}")
        told = [
            f"  {v.text}\n    {said}"
            for (row, v), said in zip(pairs, faults, strict=True)
            if said and clean[row["_id"]]
        ]
        broken += told[:6]
    await engine.close()
    print("\n".join(["right as written and wrong when changed, at most six of a kind:", *broken]))


def vary_rows(rows: Sequence[Row], kind: Kind | None) -> list[tuple[Row, Variant]]:
    """Return the rows that a kind of change applies to, with their variants; None is several kinds at once."""
    asked = [(row, of_finglm(row)) for row in rows]
    made = [(row, compound(a, SEED) if kind is None else perturb(a, kind, SEED)) for row, a in asked]
    return [(row, variant) for row, variant in made if variant is not None]


async def fault(engine: Engine, row: Row, variant: Variant) -> str:
    """Return what is wrong with the answer to a variant; "" for nothing."""
    case = replace(case_of(row), question=variant.text, scale=variant.scale, as_of=variant.as_of)
    try:
        return judge(case, await engine.ask(case.question, case.as_of))
    except FathomError as error:
        return f"{error.reason}: {error.message}"
