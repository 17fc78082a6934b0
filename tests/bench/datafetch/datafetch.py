"""Datafetch on annual reports: right cells on clean and perturbed questions, refusals, and what the parts bring.

Synonyms and formulas were fitted on ids A; ids B are reported. The baseline is exact column names without library.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from fathom.services.datafetch.engine import Engine
from tests.bench.datafetch import finglm, perturb
from tests.bench.datafetch.finglm import Case, judge

TABLES = Path(".fathom/data/tables")


async def run(shown: int = 0, parts: str = "AB") -> None:
    if not finglm.DATA.is_dir():
        print(f"skipped: {finglm.DATA} is not here")
        return
    started = time.perf_counter()
    engine = await finglm.open_engine(TABLES)
    print(
        f"opened in {time.perf_counter() - started:.1f} s: {len(engine.layer.entities):,} entities, {len(engine.layer.indicators):,} indicators"
    )
    for part in parts:
        rows = finglm.raw(part)
        colloquial = perturb.COLLOQUIAL_A if part == "A" else perturb.COLLOQUIAL_B
        unknown = perturb.UNKNOWN_A if part == "A" else perturb.UNKNOWN_B
        seed = 1 if part == "A" else 2
        await score(engine, f"{part} clean", finglm.load(part), shown)
        await score(engine, f"{part} perturbed", perturb.perturb_rows(rows, colloquial, seed), shown)
        await refusals(engine, f"{part} unanswerable", perturb.unanswerable(rows, unknown, seed), shown)
    await engine.close()


async def score(engine: Engine, title: str, cases: Iterable[Case], shown: int) -> None:
    """Share of questions with every right cell and its provenance."""
    wrong: Counter[str] = Counter()
    by_change: dict[str, list[bool]] = defaultdict(list)
    cases, times = list(cases), []
    for case in cases:
        started = time.perf_counter()
        result = await engine.ask(case.question, case.as_of)
        times.append(time.perf_counter() - started)
        fault = judge(case, result)
        for change in case.change.split("+"):
            by_change[change].append(not fault)
        if fault:
            wrong[fault] += 1
            if sum(wrong.values()) <= shown:
                print(
                    f"   {fault}: {case.change} {case.question} | {result.understood.entities} {result.understood.indicators}"
                    f" {result.understood.start} {result.understood.unit} | {[m.detail[:80] for m in result.missing][:2]} want {case.code} {case.cells} {case.derived}"
                )
    right = len(cases) - sum(wrong.values())
    times.sort()
    print(
        f"{title:<18}{right:>6}/{len(cases):<6}{100 * right / len(cases):>6.1f} %   p50 {1e3 * times[len(times) // 2]:.0f} ms"
        f" p99 {1e3 * times[int(0.99 * len(times))]:.0f} ms   {dict(wrong)}"
    )
    if len(by_change) > 1:
        print(
            "   "
            + "  ".join(
                f"{name} {100 * sum(ok) / len(ok):.0f} % of {len(ok)}" for name, ok in sorted(by_change.items())
            )
        )


async def refusals(engine: Engine, title: str, cases: list[Case], shown: int) -> None:
    """Share of unanswerable questions that bring no table and say what is missing."""
    by_kind: dict[str, list[bool]] = defaultdict(list)
    bad = 0
    for case in cases:
        result = await engine.ask(case.question, None)
        refused = not result.sheets and bool(result.missing)
        by_kind[case.change].append(refused)
        if not refused:
            bad += 1
            if bad <= shown:
                print(
                    f"   answered: {case.question} | {result.understood.entities} {result.understood.indicators} {[s.title for s in result.sheets]}"
                )
    print(
        f"{title:<18}{len(cases) - bad:>6}/{len(cases):<6}{100 * (1 - bad / len(cases)):>6.1f} % refused   "
        + "  ".join(f"{name} {100 * sum(ok) / len(ok):.0f} % of {len(ok)}" for name, ok in sorted(by_kind.items()))
    )


if __name__ == "__main__":
    import asyncio
    import sys

    asyncio.run(run(int(sys.argv[2]) if len(sys.argv) > 2 else 0, sys.argv[1] if len(sys.argv) > 1 else "AB"))
