"""``python -m tests.bench [name …]``: runs the named benchmarks, or all of them."""

from __future__ import annotations

import asyncio
import sys

from tests.bench import (
    datafetch,
    datafetch_columns,
    datafetch_gold,
    datafetch_pairs,
    datafetch_scale,
    stack,
    transports,
)

BENCHES = {
    "transports": transports.run,
    "stack": stack.run,
    "datafetch": datafetch.run,
    "datafetch_columns": datafetch_columns.run,
    "datafetch_scale": datafetch_scale.run,
    "datafetch_gold": datafetch_gold.run,
    "datafetch_pairs": datafetch_pairs.run,
}


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(BENCHES))
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(BENCHES)}")
        return 2
    for name in names or list(BENCHES):
        print(f"\n== {name}")
        asyncio.run(BENCHES[name]())
    return 0


raise SystemExit(main(sys.argv[1:]))
