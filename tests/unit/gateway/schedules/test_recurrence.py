"""Test when a question is due: by the clocks of its time zone, in short months, and across changes of clocks."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from fathom.core.errors import InvalidField
from fathom.services.gateway.schedules.recurrence import MAX_COUNT, Recurrence


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("recurrence", "after", "due"),
    [
        (Recurrence("day", "09:00", "UTC"), "2026-03-01 08:59", "2026-03-01 09:00"),
        (Recurrence("day", "09:00", "UTC"), "2026-03-01 09:00", "2026-03-02 09:00"),
        # A Sunday is followed by the Monday of the next week.
        (Recurrence("week", "07:30", "UTC", 1), "2026-03-01 12:00", "2026-03-02 07:30"),
        (Recurrence("week", "07:30", "UTC", 7), "2026-03-01 12:00", "2026-03-08 07:30"),
        (Recurrence("month", "18:00", "UTC", 15), "2026-03-15 18:00", "2026-04-15 18:00"),
        # The last day of a month without a 31st, and of February in two years.
        (Recurrence("month", "18:00", "UTC", 31), "2026-03-31 18:00", "2026-04-30 18:00"),
        (Recurrence("month", "18:00", "UTC", 30), "2026-01-30 18:00", "2026-02-28 18:00"),
        (Recurrence("month", "18:00", "UTC", 31), "2028-01-31 18:00", "2028-02-29 18:00"),
        (Recurrence("day", "23:59", "UTC"), "2026-12-31 23:59", "2027-01-01 23:59"),
    ],
)
def test_the_next_time_comes_after_a_moment(recurrence: Recurrence, after: str, due: str) -> None:
    assert recurrence.next_after(at(after)) == at(due)


def test_nine_o_clock_stays_nine_o_clock_when_clocks_change() -> None:
    recurrence = Recurrence("day", "09:00", "Europe/Berlin")
    before, after = at("2026-03-28 09:00", "Europe/Berlin"), at("2026-03-29 09:00", "Europe/Berlin")
    assert recurrence.next_after(before) == after
    assert after - before == 23 * 3_600


def test_a_time_that_clocks_pass_over_comes_once_and_one_that_they_have_twice_too() -> None:
    recurrence = Recurrence("day", "02:30", "Europe/Berlin")
    for first, last, days in (("2026-03-28", "2026-03-31", 3), ("2026-10-24", "2026-10-27", 3)):
        start, end = at(f"{first} 12:00", "Europe/Berlin"), at(f"{last} 12:00", "Europe/Berlin")
        assert recurrence.count_between(start, end) == days
    spring = recurrence.next_after(at("2026-03-28 12:00", "Europe/Berlin"))
    assert datetime.fromtimestamp(spring, ZoneInfo("Europe/Berlin")).hour == 3


def test_times_between_two_moments_are_counted_up_to_a_bound() -> None:
    recurrence = Recurrence("day", "09:00", "UTC")
    due = at("2026-03-01 09:00")
    assert recurrence.count_between(due, due) == 0
    assert recurrence.count_between(due, at("2026-03-04 09:00")) == 3
    assert recurrence.count_between(due, datetime(2126, 1, 1, tzinfo=UTC).timestamp()) == MAX_COUNT


@pytest.mark.parametrize(
    ("recurrence", "field"),
    [
        (Recurrence("day", "09:00", "Mars/Olympus"), "time_zone"),
        (Recurrence("day", "09:00", "../../etc/passwd"), "time_zone"),
        (Recurrence("day", "09:00", "Europe"), "time_zone"),
        (Recurrence("day", "09:00", "a\0b"), "time_zone"),
        (Recurrence("day", "09:00", "UTC", 3), "day"),
        (Recurrence("week", "09:00", "UTC", 0), "day"),
        (Recurrence("week", "09:00", "UTC", 8), "day"),
        (Recurrence("month", "09:00", "UTC", 32), "day"),
    ],
)
def test_what_is_no_time_is_named(recurrence: Recurrence, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        recurrence.validate()
    assert refused.value.field == field
