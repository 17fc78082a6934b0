"""``python -m tests.bench memory``: what memory recalls, how fast a window is, and what kills of replicas lose.

Figures of time are ratios within the run. ``python -m tests.bench memory FILE`` takes other planted turns
(``tests/golden/memory/README.md`` says their form). The rewriting sets CANARD and rewrite_zh are read by ``rewritings``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench.memory import locomo, planted, windows
from tests.bench.memory.replicas import kill_in_turn
from tests.bench.memory.stores import MODELS, open_vectors
from tests.support.postgres import serve_postgres

TURNS, KILLS_EVERY = 10_000, 500


async def run(path: str = "") -> None:
    """Print the figures."""
    ways = ("meaning and words", "words") if (MODELS / "encoders").is_dir() else ("words",)
    for way in ways:
        print(f"recall by {way}")
        await print_planted(Path(path) if path else planted.FILE, way)
        await print_locomo(way)
    with serve_postgres() as url, tempfile.TemporaryDirectory() as folder:
        for name, place in (("SQLite", Path(folder) / "memory.sqlite3"), ("PostgreSQL", url)):
            waits = await windows.measure(place)
            print(
                f"GetWindow on {name}: p99 alone {waits.alone * 1000:.2f} ms, of {windows.CONVERSATIONS} conversations"
                f" {waits.together * 1000:.2f} ms, ratio {waits.together / waits.alone:.2f} ({waits.rate:.0f} a second);"
                f" to one alone without pauses {waits.together / waits.without_pauses:.2f}"
            )
    with serve_postgres() as url:
        report = await kill_in_turn(url, TURNS, KILLS_EVERY)
        print(f"two replicas killed in turn: {report}")


async def print_planted(path: Path, way: str) -> None:
    """Print how many planted turns were found."""
    if not path.is_file():  # noqa: ASYNC240 - a benchmark alone on its loop
        print(f"  planted turns: {path} is not there")
        return
    found, all_of, missed = await planted.measure(path, open_vectors(way))
    shares = ", ".join(f"{language} {found[language]}/{count}" for language, count in sorted(all_of.items()))
    print(f"  planted turn among the first {planted.TOP}: {found.total()}/{all_of.total()} ({shares})")
    print(f"  missed: {', '.join(missed) or 'none'}")


async def print_locomo(way: str) -> None:
    """Print the figures of LoCoMo."""
    if not locomo.FILE.is_file():
        print(f"  LoCoMo: {locomo.FILE} is not there")
        return
    print("\n".join(locomo.describe(await locomo.measure(open_vectors(way)))))
