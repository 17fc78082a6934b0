"""Data from vendors beyond prices: company statements, newer macro values, other economies.

A company's figures come from EDGAR when the tables lack the indicator, a macro series from FRED when the bundled one
ends before the period, another economy's figures from the World Bank. Each is a separate sheet with its vendor;
failures stay in ``missing`` with the vendor's reason. Transforms and statistics are not computed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

from fathom.core.errors import FathomError, InvalidField
from fathom.services.datafetch.query.model import Combination, Missing, Query, Result, Sheet, Transform
from fathom.services.datafetch.sources import DataRequest, Kind, VendorOff, Vendors, Vintage, normalise
from fathom.services.datafetch.sources.sheet import to_missing, to_sheet
from fathom.services.datafetch.sources.vocabulary import Vocabulary

ASKED_IN_VAIN = ("UNKNOWN_INDICATOR", "NO_MATCH")
# A question that names dozens of companies must not use up the vendors' rates.
MOST_CALLS = 8


@dataclass(frozen=True)
class Wanted:
    """One vendor call: its request, and the missing items that an answer resolves."""

    request: DataRequest
    answers: tuple[Missing, ...]


class FactsFiller:
    """The filler of gaps in results with statements and macro series."""

    def __init__(self, listed: Callable[[str], bool]) -> None:
        """Store ``listed``, which returns whether an entity id is a company on a US exchange."""
        self._listed = listed

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary.read()

    async def fill(self, vendors: Vendors, result: Result, as_of: date | None, deadline: float | None) -> Result:
        """Return the result with the vendors' data added; ``deadline`` is in seconds of the monotonic clock."""
        # Vendors' rows are shown as they come; growth or conversions of them are not computed here.
        if not result.missing or not is_as_reported(result.understood):
            return result
        wanted = [
            *self._request_statements(result),
            *self._request_newer_values(result, as_of),
            *self._request_economies(result, as_of),
        ]
        found = await asyncio.gather(*(self._fetch_one(vendors, item, as_of, deadline) for item in wanted[:MOST_CALLS]))
        done = [(item, answer) for item, answer in zip(wanted, found, strict=False) if answer is not None]
        sheets = [answer for _, answer in done if isinstance(answer, Sheet)]
        taken = {gap for item, answer in done if isinstance(answer, Sheet) for gap in item.answers}
        failed = [answer for _, answer in done if isinstance(answer, Missing)]
        kept = [
            item
            for item in result.missing
            if item not in taken and not (sheets and item.subject in list_subjects(taken))
        ]
        return replace(result, sheets=(*result.sheets, *sheets), missing=tuple(dict.fromkeys((*kept, *failed))))

    async def _fetch_one(
        self, vendors: Vendors, wanted: Wanted, as_of: date | None, deadline: float | None
    ) -> Sheet | Missing | None:
        """Fetch one request; None when no vendor of its kind is enabled."""
        try:
            answer = await vendors.fetch(wanted.request, as_of, deadline)
        except VendorOff:
            return None
        except FathomError as error:
            return to_missing(wanted.request, error, as_of)
        return await asyncio.to_thread(to_sheet, answer.fetched)

    def _request_statements(self, result: Result) -> list[Wanted]:
        """Return requests for statement figures of companies that the tables lack."""
        query = result.understood
        gaps = [item for item in result.missing if item.reason in ASKED_IN_VAIN]
        companies = [name for name in query.entities if self._listed(name)]
        companies += [
            item.subject for item in result.missing if item.reason == "UNKNOWN_ENTITY" and is_code(item.subject)
        ]
        found = []
        for company in dict.fromkeys(companies):
            for words, answers in list_phrases(query, gaps):
                fields = self._vocabulary.find_fields(words)
                if fields:
                    request = DataRequest(Kind.STATEMENTS, company, fields, query.start, query.end)
                    unknown = tuple(item for item in result.missing if item.subject == company)
                    found.append(Wanted(request, (*answers, *unknown)))
        # Two missing items may lead to one request.
        return list({(item.request.symbol, item.request.fields): item for item in found}.values())

    def _request_newer_values(self, result: Result, as_of: date | None) -> list[Wanted]:
        """Return requests for macro series whose bundled values do not reach the period; their ids are FRED's."""
        gaps = [item for item in result.missing if item.reason == "NO_DATA_IN_PERIOD" and item.subject == "US"]
        query = result.understood
        return [
            Wanted(DataRequest(Kind.SERIES, item.aspect.upper(), (), query.start, query.end), (item,))
            for item in gaps
            # Ids with other characters are formulas of the catalog, which FRED does not know.
            if item.aspect.isalnum()
        ]

    def _request_economies(self, result: Result, as_of: date | None) -> list[Wanted]:
        """Return requests for indicators of economies that the tables lack."""
        query = result.understood
        words = [*query.indicators, *(word for match in result.matches for word in (match.surface, match.id))]
        words += [item.aspect for item in result.missing if item.reason in ASKED_IN_VAIN]
        series = self._vocabulary.find_series(words)
        found = []
        for item in result.missing:
            country = self._vocabulary.find_country(item.subject) if item.reason == "UNKNOWN_ENTITY" else ""
            if country and series:
                # The World Bank has no vintages, so strict requests as of an earlier day fail.
                request = DataRequest(
                    Kind.SERIES, series, (), query.start, query.end, entity=country, vintage=Vintage.STRICT
                )
                answers = tuple(gap for gap in result.missing if gap is item or gap.reason == "NO_MATCH")
                found.append(Wanted(request, answers))
        return found


def list_phrases(query: Query, gaps: Sequence[Missing]) -> list[tuple[tuple[str, ...], tuple[Missing, ...]]]:
    """Return the words of each unanswered request, with the missing items that report it."""
    found = [((item.aspect, item.subject), (item,)) for item in gaps]
    known = {word for words, _ in found for word in words}
    return [*found, *(((name,), ()) for name in query.indicators if name not in known)]


def list_subjects(gaps: set[Missing]) -> set[str]:
    return {gap.subject for gap in gaps}


def is_as_reported(query: Query) -> bool:
    """Return whether figures as reported answer the query."""
    nothing = query.transform == Transform.NONE and query.combination == Combination.NONE
    return nothing and not (query.filters or query.statistics or query.order or query.unit or query.currency)


def is_code(name: str) -> bool:
    """Return whether an unknown name looks like a US ticker: up to five capital letters."""
    try:
        # Five capital letters are the longest ticker of a US exchange.
        return name.isascii() and name.isupper() and normalise(name) is not None and len(name) <= 5
    except InvalidField:
        return False
