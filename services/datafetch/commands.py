"""``fathom data``: searches the catalogue, fetches statements, lists and validates analysis frameworks."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fathom.cli.options import HOME, Home

if TYPE_CHECKING:
    from fathom.services.datafetch.catalog.frameworks import Framework
    from fathom.services.datafetch.filling.fetching import Wanted
    from fathom.services.datafetch.sources import ConnectorsConfig

frameworks = typer.Typer(help="Check and list the analysis frameworks.", no_args_is_help=True)


@frameworks.command("validate")
def validate_frameworks(
    paths: Annotated[list[Path], typer.Argument(help="Framework files, or folders of them.")],
    home: Home = HOME,
) -> None:
    """Check framework files; name every problem by file, place in the tree and field."""
    # The exit status is a byte: 256 invalid files would otherwise be a success.
    raise typer.Exit(min(validate(paths, home / "data" / "tables"), 1))


@frameworks.command("list")
def list_frameworks(
    extra: Annotated[Optional[Path], typer.Option(help="Folder with further frameworks.")] = None,  # noqa: UP045
) -> None:
    """List the frameworks with the size of their trees."""
    show(extra)


def search_catalogue(
    query: Annotated[str, typer.Argument(help="Names, codes or a description; without any, an overview.")] = "",
    kind: Annotated[str, typer.Option(help="Only entities of this kind, such as stock.")] = "",
    rows: Annotated[int, typer.Option(help="At most this many rows, up to 50.")] = 10,
    home: Home = HOME,
) -> None:
    """Search the series of the built tables: ids, units, frequencies, dates and sources."""
    import asyncio

    for line in asyncio.run(list_catalogue(query, kind, rows, home)):
        print(line)


def list_sources() -> None:
    """List the vendors of live data that can be enabled, and how far the connector to each was tried."""
    from fathom.services.datafetch.sources.records import has_connectors, load_records

    for record in load_records().values():
        print(f"{record.name:<20} {record.describe()}")
    if not has_connectors():
        print("Not installed here: pip install services/datafetch/sources/connectors of Fathom's sources.")


def fetch_statements(
    companies: Annotated[list[str], typer.Argument(help="Companies by ticker or CIK: AAPL CIK0000789019.")],
    years: Annotated[str, typer.Option(help="Year or span in which fiscal years end: 2023, 2015-2023.")],
    statement: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="income, balance or cash, each with an option of its own; all by default."),
    ] = None,
    agent: Annotated[str, typer.Option(help="Name and e-mail address, as the SEC wants of whoever asks it.")] = "",
    max_age_days: Annotated[float, typer.Option(help="Do not ask again for what came within these days.", min=0)] = 7.0,
    config: Annotated[Optional[Path], typer.Option(help="Settings file, for datafetch.connectors.")] = None,  # noqa: UP045
    home: Home = HOME,
) -> None:
    """Fetch companies' annual statements from SEC EDGAR into tables of datafetch, which reads them when it starts.

    What came within the last days is not asked for again: an interrupted command goes on with what it lacks.
    """
    import asyncio

    from fathom.core.config import load
    from fathom.core.errors import FathomError
    from fathom.services.datafetch.config import Config
    from fathom.services.datafetch.filling.fetching import STATEMENTS, Wanted, parse_years

    try:
        wanted = Wanted(tuple(companies), tuple(statement or STATEMENTS), *parse_years(years))
        settings = load(Config, "datafetch", file=config).connectors
        named = {"edgar_agent": agent} if agent else {}
        failed = asyncio.run(
            fill(wanted, settings.model_copy(update={"enabled": ("edgar",), **named}), max_age_days, home)
        )
    except FathomError as error:
        print(error.message or error.reason, file=sys.stderr)
        raise typer.Exit(2) from error
    raise typer.Exit(min(failed, 1))


async def fill(wanted: Wanted, connectors: ConnectorsConfig, max_age_days: float, home: Path) -> int:
    """Fetch statements, print a line per company and write the tables; return how many companies failed.

    Raises ``ConnectorsMissing``, ``VendorOff`` without the agent, and ``CorruptData``.
    """
    import asyncio

    from fathom.services.datafetch.catalog.layer import LIBRARY, load
    from fathom.services.datafetch.filling.fetching import StatementFetcher, describe_outcome
    from fathom.services.datafetch.filling.store import FetchedTables
    from fathom.services.datafetch.sources import connect

    tables = FetchedTables(home / "data" / "fetched")
    vendors = connect(connectors)
    failed = 0
    try:
        async for outcome in StatementFetcher(vendors, tables, max_age_days).fetch(wanted):
            print(describe_outcome(outcome, wanted.statements), file=sys.stderr if outcome.failure else sys.stdout)
            failed += bool(outcome.failure)
    finally:
        await vendors.aclose()
        # Also after an interruption: what is stored is served.
        layer = await asyncio.to_thread(load, [(LIBRARY, home / "data" / "tables")])
        figures = await asyncio.to_thread(tables.write_tables, layer.entities.keys())
    print(f"{home / 'data' / 'fetched'}: {figures} figures; a running datafetch reads them when it starts again")
    return failed


async def list_catalogue(query: str, kind: str, rows: int, home: Path) -> list[str]:
    """Return the lines of a search; raises ``InvalidField`` for kind and rows, and ``CorruptData`` without tables."""
    from fathom.api.datafetch.v1 import datafetch_pb2 as pb
    from fathom.services.datafetch.config import Config
    from fathom.services.datafetch.discovery.rpc import search_catalog
    from fathom.services.datafetch.engine import Engine

    engine = Engine(Config(data_dir=home / "data" / "tables", models_dir=home / "models"))
    try:
        await engine.start()
        request = pb.SearchCatalogRequest(query=query, kind=kind, page_size=rows)
        page = await search_catalog(engine.catalog, engine.layer, engine.warehouse, request, None)
    finally:
        await engine.close()
    lines = []
    for row in page.series:
        more = f" and {row.entity_count - len(row.entities)} more" if row.entity_count > len(row.entities) else ""
        density = pb.Frequency.Name(row.frequency).removeprefix("FREQUENCY_").lower()
        facts = [row.name, row.unit, density, f"{row.first_date} to {row.last_date}", row.source, row.basis]
        lines.append(f"{','.join(row.entities)}{more}\t{row.indicator}\t{' | '.join(filter(None, facts))}")
    if page.total > len(page.series):
        lines.append(f"{page.total - len(page.series)} more rows fit")
    if page.unmatched and query:
        lines.append(f"in no name of these rows: {', '.join(page.unmatched)}")
    lines += [
        f"{what.kind}: {what.entity_count} entities ({', '.join(what.entities)}), {what.indicator_count} indicators"
        f" ({', '.join(what.indicators)}), {what.first_date} to {what.last_date}"
        for what in page.kinds
    ]
    return lines


def validate(paths: Sequence[Path], tables: Path) -> int:
    """Validate framework files or folders of them; print one line per problem and return the number of invalid files.

    Indicator ids are checked too if the tables are built; otherwise a message says that they are not.
    """
    from fathom.services.datafetch.catalog.frameworks import (
        BUNDLED,
        InvalidFramework,
        find_unknown_ids,
        load_frameworks,
        read_framework,
    )

    files = [file for path in paths for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])]
    if not files:
        print(f"no *.yaml files in {', '.join(map(str, paths))}", file=sys.stderr)
        return 1
    # Without tables the files are still checked against the schema, as when a framework is written before the data are
    # built.
    known = stored_indicators(tables)
    if not known:
        print(f"indicator ids are not checked: cannot read the tables in {tables}", file=sys.stderr)
    bundled, wrong = load_frameworks(BUNDLED).topics, 0
    for file in files:
        try:
            framework = read_framework(file)
        except InvalidFramework as error:
            print(error.message, file=sys.stderr)
            wrong += 1
            continue
        problems = [
            f"{' / '.join(path)}: ids: {ident!r} {message}"
            for path, ident, message in find_unknown_ids(framework, known)
        ]
        # The service refuses a second file for a topic, so the author learns it here.
        if framework.topic in bundled and file.resolve().parent != BUNDLED:
            problems.append(f"topic: {framework.topic!r} is one of the package's own topics")
        for problem in problems:
            print(f"{file}: {problem}", file=sys.stderr)
        wrong += bool(problems)
        if not problems:
            print(f"{file}: {summary(framework)}")
    return wrong


def show(extra: Path | None) -> None:
    """Print one line per framework."""
    from fathom.services.datafetch.catalog.frameworks import BUNDLED, load_frameworks

    library = load_frameworks(*([BUNDLED] if extra is None else [BUNDLED, extra]))
    for framework in library.topics.values():
        print(f"{framework.topic:<18}{framework.zh:<8}\t{summary(framework)}")


def summary(framework: Framework) -> str:
    """Describe the contents of a framework in one line."""
    from fathom.services.datafetch.catalog.frameworks.model import LEVELS, walk

    places = list(walk(framework.nodes, LEVELS))
    levels = Counter(place.level for place in places)
    tools = Counter(place.node.tool for place in places if place.level == LEVELS)
    with_ids = sum(bool(place.node.ids) for place in places if place.level == LEVELS)
    found = ", ".join(f"{n} by {tool}" for tool, n in sorted(tools.items()))
    return f"{levels[1]} dimensions, {levels[2]} aspects, {levels[3]} indicators ({found}; {with_ids} with ids)"


def stored_indicators(tables: Path) -> frozenset[str]:
    """Return the ids of the built tables; empty without tables, or without duckdb to read them."""
    if not (tables / "series.parquet").is_file():
        return frozenset()
    try:
        import duckdb
    except ImportError:
        return frozenset()
    sql = "select distinct indicator from read_parquet(?)"
    rows = duckdb.connect(":memory:").execute(sql, [str(tables / "series.parquet")]).fetchall()
    return frozenset(ident for (ident,) in rows)
