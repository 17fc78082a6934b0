"""Results of a web search, and the common interface of all engines."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, Protocol

from fathom.core.config import ConfigError
from fathom.core.errors import InvalidField
from fathom.transport.http import MalformedAnswer

# The most that any of the engines gives for one query, and a limit for texts that are no query.
MOST_RESULTS = 50
MOST_QUERY = 2_000
# "3 days ago", as search engines date fresh results.
AGO = re.compile(r"(\d+)\s+(minute|hour|day|week|month|year)s?\s+ago", re.IGNORECASE)
SECONDS = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800, "month": 2_592_000, "year": 31_536_000}
# Dates that are neither ISO nor RFC 2822: "May 20, 2024", "2024年5月20日".
SPELLINGS = ("%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%Y/%m/%d", "%Y年%m月%d日", "%Y-%m-%d %H:%M:%S")
# Tags only: "a < b" has a blank behind the sign and stays.
MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


@dataclass(frozen=True)
class TimeRange:
    """Publication times: ``after`` inclusive, ``before`` exclusive, both timezone-aware; None is open."""

    after: datetime | None = None
    before: datetime | None = None

    def allows(self, when: datetime | None) -> bool:
        """Return True if the time is in the range."""
        if self.after is None and self.before is None:
            return True
        # A result without a time passes no range: it may not have existed then.
        return when is not None and (
            (self.after is None or when >= self.after) and (self.before is None or when < self.before)
        )

    def get_last_day(self) -> datetime | None:
        """Return the last allowed day; engines accept whole days only."""
        # ``before`` is exclusive: midnight belongs to the day before.
        return None if self.before is None else self.before - timedelta(microseconds=1)


@dataclass(frozen=True)
class WebResult:
    """One result without full text, which ``PageFetcher`` reads. ``published`` is timezone-aware, None if unknown."""

    url: str
    title: str
    summary: str
    published: datetime | None
    engine: str


class WebSearch(Protocol):
    """A web search engine."""

    name: ClassVar[str]

    async def search(
        self, query: str, limit: int, published: TimeRange | None = None, deadline: float | None = None
    ) -> list[WebResult]:
        """Return at most ``limit`` results, best first; with a time range only results within it.

        ``deadline`` is on the monotonic clock in seconds. Raises ``InvalidField`` for query and limit, and the errors
        of ``fathom.transport.http.HttpClient.request``.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class NotConfigured(ConfigError):
    """An engine is off; the message names the setting that turns it on."""

    def __init__(self, engine: str, setting: str) -> None:
        super().__init__(f"web search {engine} is off: set {setting}", metadata={"field": setting, "engine": engine})


def read_key(engine: str, setting: str, variable: str) -> str:
    """Return the key from the environment variable that the setting names; raise ``NotConfigured``."""
    key = os.environ.get(variable, "").strip() if variable else ""
    if not key:
        raise NotConfigured(engine, f"{setting} to the name of an environment variable that holds the key ({variable})")
    return key


def check_query(query: str, limit: int, most: int = MOST_RESULTS) -> tuple[str, int]:
    """Return query and limit within bounds; raise ``InvalidField``."""
    text = " ".join(query.split())
    if not text:
        raise InvalidField("query", "is empty")
    if len(text) > MOST_QUERY:
        raise InvalidField("query", f"has {len(text):,} characters, over the limit of {MOST_QUERY:,}")
    if not 1 <= limit <= MOST_RESULTS:
        raise InvalidField("limit", f"must be 1 to {MOST_RESULTS}")
    return text, min(limit, most)


def read_rows(answer: Any, culprit: str, *path: str) -> list[Mapping[str, Any]]:
    """Return the list of objects under ``path``, empty when a part is absent.

    Raises ``MalformedAnswer`` if it is no list.
    """
    for name in path:
        if not isinstance(answer, dict):
            raise MalformedAnswer(culprit, f"{name!r} is expected in an object, not in {type(answer).__name__}")
        answer = answer.get(name)
        if answer is None:
            return []
    if not isinstance(answer, list):
        raise MalformedAnswer(culprit, f"{'.'.join(path)} is {type(answer).__name__}, not a list")
    return [row for row in answer if isinstance(row, dict)]


def make_results(
    found: Iterable[tuple[Any, Any, Any, Any]], engine: str, limit: int, published: TimeRange | None
) -> list[WebResult]:
    """Convert rows of url, title, summary and time to results: unique http(s) URLs within the time range."""
    kept: dict[str, WebResult] = {}
    for url, title, summary, when in found:
        # Other schemes could not be fetched, and the page would show them as links.
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or url in kept:
            continue
        result = WebResult(url, strip_markup(title) or url, strip_markup(summary), parse_time(when), engine)
        if published is None or published.allows(result.published):
            kept[url] = result
        if len(kept) == limit:
            break
    return list(kept.values())


def strip_markup(text: Any) -> str:
    """Return one line without markup and entities; "" for anything but text."""
    return " ".join(html.unescape(MARKUP.sub("", text)).split()) if isinstance(text, str) else ""


def parse_time(value: Any, now: datetime | None = None) -> datetime | None:
    """Parse a time as engines write it: ISO, RFC 2822, ``May 20, 2024``, ``3 days ago``; None for anything else."""
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip()
    if ago := AGO.search(text):
        return (now or datetime.now(UTC)) - timedelta(seconds=int(ago[1]) * SECONDS[ago[2].lower()])
    for read in (datetime.fromisoformat, parsedate_to_datetime, *map(make_reader, SPELLINGS)):
        try:
            found = read(text)
        except (ValueError, TypeError):
            continue
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None


def make_reader(form: str) -> Callable[[str], datetime]:
    """Return a parser of one format."""
    return lambda text: datetime.strptime(text, form)
