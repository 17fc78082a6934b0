"""Series with known measures.

``make_bacon`` has the 24 monthly returns of portfolio and benchmark of Carl R. Bacon, Practical Portfolio Performance
Measurement and Attribution, 2nd edition, 2008; the R package PerformanceAnalytics prints the book's results beside its
examples. ``make_wave`` is a formula whose measures were computed by empyrical-reloaded 0.5.9, which is not installed
here (docs/decisions/0015).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

PORTFOLIO = (
    0.003, 0.026, 0.011, -0.010, 0.015, 0.025, 0.016, 0.067, -0.014, 0.040, -0.005, 0.081,
    0.040, -0.037, -0.061, 0.017, -0.049, -0.022, 0.070, 0.058, -0.065, 0.024, -0.005, -0.009,
)  # fmt: skip
BENCHMARK = (
    0.002, 0.025, 0.018, -0.011, 0.014, 0.018, 0.014, 0.065, -0.015, 0.042, -0.006, 0.083,
    0.039, -0.038, -0.062, 0.015, -0.048, 0.021, 0.060, 0.056, -0.067, 0.019, -0.003, 0.000,
)  # fmt: skip


def make_bacon() -> pd.DataFrame:
    """Month-end values of 100 compounded by the returns."""
    dates = pd.date_range("1999-12-31", periods=25, freq="ME")
    return pd.DataFrame(
        {
            name: 100 * np.cumprod([1.0, *(1 + np.array(found))])
            for name, found in (("portfolio", PORTFOLIO), ("benchmark", BENCHMARK))
        },
        index=dates,
    )


def make_wave() -> pd.DataFrame:
    """Two daily prices over 2018 and 2019 that rise in waves."""
    dates = pd.bdate_range("2018-01-01", "2019-12-31")
    # A formula and no random numbers: whoever doubts a figure computes it again with another library.
    n = np.arange(len(dates))
    wave = 100 * (1 + 0.0005 * n) * (1 + 0.03 * np.sin(n / 7))
    market = 50 * (1 + 0.0003 * n) * (1 + 0.02 * np.sin(n / 7 + 0.3) + 0.01 * np.cos(n / 3))
    return pd.DataFrame({"wave": wave, "market": market}, index=dates)


def make_rate(values: list[float], start: str = "2017-12-01", unit: str = "%") -> pd.DataFrame:
    """A monthly rate as a sheet, which carries its unit."""
    dates = pd.date_range(start, periods=len(values), freq="MS")
    sheet = pd.DataFrame({"date": dates, "fedfunds": values})
    sheet.attrs["units"] = {"fedfunds": unit}
    return sheet
