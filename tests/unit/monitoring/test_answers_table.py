"""The table of ``fathom eval answers``."""

from __future__ import annotations

from fathom.cli.answers import format_table, list_means, render_grades
from fathom.operations.monitoring.grades import Row, Ungraded


def test_the_mean_has_an_interval_over_runs_not_over_cells() -> None:
    rows = [Row(f"r{run}", "code", float(run % 2), "", cell) for run in range(10) for cell in range(20)]
    (line,) = format_table(list_means(rows)).splitlines()[1:]
    name, runs, grades, mean, low, _, high, least, zero = line.split()
    assert (name, runs, grades, mean, least, zero) == ("code", "10", "200", "0.500", "0.000", "100")
    # Ten runs of which half are right; of 200 cells it would be 0.43 to 0.57.
    assert float(low) <= 0.3
    assert float(high) >= 0.7


def test_the_page_draws_what_lies_between_0_and_1_and_names_what_has_no_grade() -> None:
    rows = [Row(f"r{run}", "code", float(run % 2), "", 0) for run in range(10)]
    rows += [Row("r1", "penalty", -2.0, "", 0)]
    page = render_grades(list_means(rows), [Ungraded("r3", "judge", "no model <yet>")])
    assert page.count("<rect") == 1, "a penalty below 0 has no place on the scale"
    assert "penalty" in page
    assert "no model &lt;yet&gt;" in page
