"""Recurrence of a question: every day, week or month, at a time of a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dateutil.rrule import DAILY, MONTHLY, WEEKLY, rrule

from fathom.core.errors import InvalidField

EVERY = ("day", "week", "month")
# Days of a month that every month has; later ones are the last day of a month that is too short.
SURE_DAYS = 28
# More than the days of a gateway that was away for two years; counting stops there.
MAX_COUNT = 1_000
# Further back than the time before of any recurrence.
BACK = timedelta(days=63)
LAST_DAY = {"day": 0, "week": 7, "month": 31}


@dataclass(frozen=True)
class Recurrence:
    """Days and time of a time zone. ``day`` is 1 (Monday) to 7 of a week, 1 to 31 of a month, and 0 for every day."""

    every: str
    at: str
    """As ``HH:MM``, by the clocks of the zone."""
    time_zone: str
    """As the IANA database names it, e.g. ``Europe/Berlin``."""
    day: int = 0

    def validate(self) -> None:
        """Raise ``InvalidField`` for an unknown time zone, and for a day that the recurrence does not have."""
        try:
            ZoneInfo(self.time_zone)
        # Names that are paths, folders and what is no zone at all fail in ways of their own.
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise InvalidField("time_zone", f"{self.time_zone[:60]!r} is no time zone such as Europe/Berlin") from error
        last = LAST_DAY[self.every]
        if not min(1, last) <= self.day <= last:
            allowed = f"1 to {last}" if last else "0"
            raise InvalidField("day", f"must be {allowed} for every {self.every}")

    def next_after(self, moment: float) -> float:
        """Return the first time after a moment, both in seconds since 1970."""
        return next(time for time in self._list_from(moment) if time > moment)

    def count_between(self, after: float, until: float) -> int:
        """Return how many times come after one moment and not after another one; at most ``MAX_COUNT``."""
        count = 0
        for time in self._list_from(after):
            if time > until or count == MAX_COUNT:
                break
            count += time > after
        return count

    def _list_from(self, moment: float) -> Iterator[float]:
        """Yield times in their order, beginning before a moment."""
        zone = ZoneInfo(self.time_zone)
        hour, minute = map(int, self.at.split(":"))
        start = datetime.fromtimestamp(moment, zone).replace(tzinfo=None) - BACK
        # By the clocks of the zone, so that nine o'clock stays nine o'clock when they are put forward or back: a time
        # that they pass over is as much later as they are, of one that they have twice it is the first.
        begin = start.replace(day=1, hour=hour, minute=minute, second=0, microsecond=0)
        for local in rrule(dtstart=begin, **self._describe_rule()):
            yield local.replace(tzinfo=zone).timestamp()

    def _describe_rule(self) -> dict[str, Any]:
        if self.every == "day":
            return {"freq": DAILY}
        if self.every == "week":
            return {"freq": WEEKLY, "byweekday": self.day - 1}
        if self.day <= SURE_DAYS:
            return {"freq": MONTHLY, "bymonthday": self.day}
        return {"freq": MONTHLY, "bymonthday": tuple(range(SURE_DAYS, self.day + 1)), "bysetpos": -1}
