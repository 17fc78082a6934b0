"""The catalogue's RPC: pages of the search as messages, and the overview."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import cast

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.core.paging import read_token, write_token
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.schema import Frequency
from fathom.services.datafetch.discovery.availability import ORDER, Availability, KindOverview, Row
from fathom.services.datafetch.discovery.search import CatalogSearch, check_kind
from fathom.services.datafetch.warehouse.database import Warehouse

DEFAULT_ROWS, MAX_ROWS = 10, 50
# Ids that stand for the rest of a long row, and for a kind in the overview.
SHOWN_ENTITIES, SHOWN_SAMPLES = 30, 8
# Below this score even the best row may be another quantity; the overview then shows what there is at all.
SURE = 0.5


async def search_catalog(
    search: CatalogSearch, layer: Layer, warehouse: Warehouse, request: pb.SearchCatalogRequest, as_of: date | None
) -> pb.SearchCatalogResponse:
    """Return a page of the series that fit a query, or of all of a kind; the overview when nothing fits well.

    The overview comes also without a query.

    Raises ``InvalidField`` for the query, the kind, the size of the page and the token.
    """
    if not 0 <= request.page_size <= MAX_ROWS:
        raise InvalidField("page_size", f"must be 0 to {MAX_ROWS}")
    available = Availability(layer, warehouse, as_of)
    check_kind(request.kind, available)
    response = pb.SearchCatalogResponse()
    if request.query.strip():
        found = await search.search(request.query, request.kind, available)
        response.unmatched.extend(found.unmatched)
        add_page(response, found.rows, layer, request)
    elif request.kind:
        add_page(response, search.list_kind(request.kind, available), layer, request)
    if not request.query.strip() or not response.series or response.series[0].score < SURE:
        kinds = available.describe_kinds()
        shown = {kind: what for kind, what in kinds.items() if request.kind in ("", kind)}
        response.kinds.extend(kind_to_proto(kind, what, layer) for kind, what in shown.items())
    return response


def add_page(
    response: pb.SearchCatalogResponse, rows: Sequence[Row], layer: Layer, request: pb.SearchCatalogRequest
) -> None:
    """Add the page that the request asks for to the response."""
    size, start = request.page_size or DEFAULT_ROWS, 0
    # With its query and kind: a token of another search would skip rows that nobody has seen.
    listed = f"catalogue:{request.kind}:{request.query}"
    if request.page_token:
        start = int(read_token(request.page_token, listed, (int,))[0])
    page = rows[start : start + size]
    response.series.extend(row_to_proto(row, layer) for row in page)
    response.total = len(rows)
    if start + len(page) < len(rows):
        response.next_page_token = write_token(listed, start + len(page))


def row_to_proto(row: Row, layer: Layer) -> pb.CatalogSeries:
    spec, span = row.indicator, row.span
    entity = layer.entities.get(row.entities[0]) if len(row.entities) == 1 else None
    return pb.CatalogSeries(
        entities=row.entities[:SHOWN_ENTITIES],
        entity_count=len(row.entities),
        kind=row.kind,
        entity_name=entity.name if entity else "",
        entity_name_zh=entity.name_zh if entity else "",
        indicator=spec.id,
        name=spec.name,
        name_zh=spec.name_zh,
        unit=span.unit,
        frequency=name_frequency(span.frequency),
        first_date=span.first.isoformat(),
        last_date=span.last.isoformat(),
        source=span.source,
        basis=span.basis,
        formula=spec.formula,
        aggregate="" if spec.text else spec.aggregate,
        score=row.score,
    )


def kind_to_proto(kind: str, what: KindOverview, layer: Layer) -> pb.CatalogKind:
    entities = sorted(what.entities)
    # Those with most names are those that are asked for most.
    indicators = sorted(what.indicators, key=lambda ident: (-len(layer.indicators[ident].synonyms), ident))
    return pb.CatalogKind(
        kind=kind,
        entity_count=len(entities),
        entities=entities[:SHOWN_SAMPLES],
        indicator_count=len(indicators),
        indicators=indicators[:SHOWN_SAMPLES],
        frequencies=[name_frequency(item) for item in sorted(what.frequencies, key=ORDER.index)],
        first_date=what.first.isoformat(),
        last_date=max(what.lasts).isoformat(),
        usual_last_date=what.usual_last.isoformat() if what.usual_last else "",
        earliest_last_date=min(what.lasts).isoformat(),
        bases=sorted(what.bases),
    )


def name_frequency(frequency: Frequency) -> pb.Frequency:
    """Return the contract's value of a frequency."""
    # The stubs give enum values as plain ints.
    return cast(
        pb.Frequency, pb.Frequency.Value(f"FREQUENCY_{frequency.name}" if frequency else "FREQUENCY_UNSPECIFIED")
    )
