"""A moment, and the last day whose figures are known at it."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from fathom.services.datafetch.server import find_last_whole_day


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        (datetime(2020, 6, 30), date(2020, 6, 29)),
        (datetime(2020, 6, 30, 15, 30), date(2020, 6, 29)),
        (datetime(2020, 6, 30, 23, 59, 58), date(2020, 6, 29)),
        (datetime(2020, 6, 30, 23, 59, 59), date(2020, 6, 30)),
        (datetime(2020, 6, 30, 23, 59, 59, 999_999), date(2020, 6, 30)),
        (datetime(2020, 1, 1), date(2019, 12, 31)),
    ],
)
def test_a_day_that_is_not_over_is_not_known(moment: datetime, day: date) -> None:
    assert find_last_whole_day(moment) == day
