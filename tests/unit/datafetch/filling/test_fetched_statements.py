"""`fathom data fetch` fills companies' statements into tables that datafetch answers from, with source and vintages."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import CorruptData, InvalidField
from fathom.domain import frames
from fathom.services.datafetch.catalog.layer import LIBRARY, load
from fathom.services.datafetch.commands import fill
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.filling.annual import Figure, choose_annual
from fathom.services.datafetch.filling.fetching import (
    STATEMENTS,
    Outcome,
    StatementFetcher,
    Wanted,
    name_entity,
    parse_years,
)
from fathom.services.datafetch.filling.store import Company, FetchedTables
from fathom.services.datafetch.query.model import Query
from fathom.services.datafetch.sources import ConnectorsConfig, connect
from fathom.services.datafetch.sources.vocabulary import Concept, Vocabulary
from tests.servers import Servers
from tests.unit.datafetch.sources.connectors.test_recorded_exchanges import read_recording, serve_recording

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
WANTED = Wanted(("AAPL", "ZZZZ", "CIK320193"), STATEMENTS, 2022, 2023)


async def serve_edgar(serve: Servers) -> tuple[ConnectorsConfig, list[Any]]:
    """Serve the recorded answers, with the list of tickers, which the recorded client does not ask for."""
    recording = read_recording("edgar")
    recording["answers"]["/files/company_tickers.json"] = json.dumps(
        {"0": {"cik_str": 320193, "ticker": "AAPL", "title": "Apple Inc."}}
    )
    url, asked = await serve_recording(serve, recording)
    agent = "Test test@example.org"
    config = ConnectorsConfig(enabled=("edgar",), edgar_url=url, edgar_files_url=url, edgar_agent=agent, per_second=1e6)
    return config, asked


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def test_fetched_statements_are_answered_from_with_unit_source_and_publication(
    serve: Servers, tmp_path: Path, tables_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, _ = await serve_edgar(serve)
    assert await fill(WANTED, config, 7, tmp_path) == 1
    said = capsys.readouterr()
    assert "AAPL: 8 annual figures of income, balance, cash; not reported: operating_profit" in said.out
    # What failed is named, and the company after it is fetched.
    assert said.err.startswith("ZZZZ: failed: ")
    assert "CIK320193: 8 annual figures" in said.out
    engine = Engine(Config(data_dir=tables_dir, fetched_dir=tmp_path / "data" / "fetched", embedding="off"))
    await engine.start()
    try:
        assert engine.layer.failures == []
        query = Query(
            entities=("AAPL",),
            indicators=("operating_revenue", "total_assets", "eps_diluted"),
            start=date(2022, 1, 1),
            end=date(2023, 12, 31),
        )
        result = await engine.run(query, None)
        assert result.missing == ()
        (sheet,) = result.sheets
        values = frames.from_arrow(sheet.arrow)
        assert [list(values[one.name]) for one in sheet.columns[1:]] == [
            [394_328e6, 383_285e6], [352_755e6, 352_583e6], [6.11, 6.13],
        ]  # fmt: skip
        assert [one.unit for one in sheet.columns[1:]] == ["USD", "USD", "USD per share"]
        assert all(
            one.vendor == "edgar" and "CIK0000320193.json, retrieved 20" in one.source for one in sheet.columns[1:]
        )
        # Not before it was filed: the year 2023 on 3 November 2023.
        early = await engine.run(query, date(2023, 11, 2))
        assert len(frames.from_arrow(early.sheets[0].arrow)) == 1
        # The bundled names of a known company stay, one of the vendor's is new.
        assert engine.layer.entities["AAPL"].name_zh
        assert engine.layer.entities["CIK0000320193"].name == "Apple Inc."
    finally:
        await engine.close()


async def test_a_second_command_asks_for_what_is_lacking_alone_and_changes_nothing(
    serve: Servers, tmp_path: Path
) -> None:
    config, asked = await serve_edgar(serve)
    now = [NOW]
    tables = FetchedTables(tmp_path)

    async def fetch(*companies: str, years: tuple[int, int] = (2022, 2023)) -> list[Outcome]:
        # Of its own each time, as a command has it: nothing is in a cache.
        vendors = serve.close_after(connect(config))
        fetcher = StatementFetcher(vendors, tables, 7, lambda: now[0])
        return [one async for one in fetcher.fetch(Wanted(companies, STATEMENTS, *years))]

    await fetch("AAPL")
    tables.write_tables(())
    before, calls = read_files(tmp_path), len(asked)
    assert [one.is_known for one in await fetch("AAPL", "CIK320193")] == [True, False]
    (tmp_path / "companies" / "CIK0000320193.json").unlink()
    assert len(asked) == calls + 1
    tables.write_tables(())
    assert read_files(tmp_path) == before
    # Other years, or days later, are asked for anew; the figures are the same.
    assert [one.is_known for one in await fetch("AAPL", years=(2021, 2023))] == [False]
    now[0] += timedelta(days=8)
    assert [one.is_known for one in await fetch("AAPL")] == [False]
    kept = tables.load("AAPL")
    assert kept is not None
    assert (len(kept.figures), kept.retrieved, kept.covers(["cash"], 2021, 2023)) == (8, now[0], True)
    (tmp_path / "companies" / "AAPL.json").write_text('{"id": 1}')
    (outcome,) = await fetch("AAPL")
    assert "AAPL.json" in outcome.failure
    with pytest.raises(CorruptData, match="delete it and fetch the company again"):
        tables.write_tables(())


async def test_each_series_has_the_vendor_that_has_filled_it(tmp_path: Path, tables_dir: Path) -> None:
    tables = FetchedTables(tmp_path)
    for ident, vendor in (("AAPL", "edgar"), ("MSFT", "elsewhere")):
        figure = Figure("total_assets", date(2022, 9, 24), 3.0, "USD", date(2022, 11, 3), "Assets", "10-K", ident)
        tables.save(Company(ident, ident, vendor, f"{vendor} {ident}", NOW, (("balance", 2022, 2022),), (figure,)))
    assert tables.write_tables(("AAPL", "MSFT")) == 2
    engine = Engine(Config(data_dir=tables_dir, fetched_dir=tmp_path, embedding="off"))
    await engine.start()
    try:
        found = await engine.run(Query(entities=("AAPL", "MSFT"), indicators=("total_assets",)), None)
        columns = [one for sheet in found.sheets for one in sheet.columns[1:]]
        assert {one.entity: one.vendor for one in columns} == {"AAPL": "edgar", "MSFT": "elsewhere"}
    finally:
        await engine.close()


def test_annual_figures_keep_their_vintages_and_take_the_first_concept_that_a_year_has() -> None:
    def row(concept: str, year: int, value: float, filed: str, form: str = "10-K", days: int = 364) -> dict[str, Any]:
        end = date(year, 9, 24)
        return {
            "concept": concept, "unit": "USD", "start": end - timedelta(days=days), "end": end, "value": value,
            "filed": date.fromisoformat(filed), "form": form, "accession": f"{value}",
        }  # fmt: skip

    rows = [
        row("Sales", 2018, 265_595, "2018-11-05"),
        row("Sales", 2018, 265_595, "2019-10-31"),
        row("Sales", 2018, 265_809, "2020-10-30"),
        row("Sales", 2019, 260_174, "2019-10-31"),
        row("Revenues", 2019, 260_000, "2019-10-31"),
        row("Sales", 2019, 1, "2019-10-31", form="10-Q"),
        row("Sales", 2019, 2, "2019-10-31", days=91),
    ]
    concept = Concept(id="operating_revenue", statement="income", fields=["Revenues", "Sales"], names=["sales"])
    found = [(one.day.year, one.value, str(one.published), one.concept) for one in choose_annual(rows, [concept])]
    assert found == [
        (2018, 265_595, "2018-11-05", "Sales"),
        (2018, 265_809, "2020-10-30", "Sales"),
        (2019, 260_000, "2019-10-31", "Revenues"),
    ]


def test_ids_under_which_figures_are_stored_are_the_librarys_or_new_ones(tables_dir: Path) -> None:
    known = load([(LIBRARY, tables_dir)]).indicators
    ids = [one.id for one in Vocabulary.read().items]
    assert len(ids) == len(set(ids))
    assert [ident for ident in ids if ident not in known] == [
        "long_term_debt",
        "dividends_per_share",
        "shares_outstanding",
        "inventory",
    ]


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("statement", lambda: Wanted(("AAPL",), ("profit",), 2022, 2023)),
        ("years", lambda: Wanted(("AAPL",), ("cash",), 2023, 2022)),
        ("years", lambda: parse_years("last year")),
        ("companies", lambda: Wanted((), ("cash",), 2022, 2023)),
        ("symbol", lambda: name_entity("Apple Inc., Cupertino")),
    ],
)
def test_what_cannot_be_fetched_is_refused_by_field(field: str, make: Any) -> None:
    with pytest.raises(InvalidField) as caught:
        make()
    assert caught.value.field == field
