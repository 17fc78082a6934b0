"""The table of ``fathom eval answers``."""

from __future__ import annotations

from fathom.cli.answers import format_table
from fathom.operations.monitoring.grades import Row


def test_the_mean_has_an_interval_over_runs_not_over_cells() -> None:
    rows = [Row(f"r{run}", "code", float(run % 2), "", cell) for run in range(10) for cell in range(20)]
    (line,) = format_table(rows).splitlines()[1:]
    name, runs, grades, mean, low, _, high, least, zero = line.split()
    assert (name, runs, grades, mean, least, zero) == ("code", "10", "200", "0.500", "0.000", "100")
    # Ten runs of which half are right; of 200 cells it would be 0.43 to 0.57.
    assert float(low) <= 0.3
    assert float(high) >= 0.7
