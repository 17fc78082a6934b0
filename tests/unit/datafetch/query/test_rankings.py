"""Rankings say whom they leave out, and are refused where that is most of those who are ranked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio
import yaml

from fathom.services.datafetch.catalog.schema import EntitySpec
from fathom.services.datafetch.config import Config, SemanticFolder
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Query, Statistic
from fathom.services.datafetch.query.planner import Planner

pytestmark = pytest.mark.asyncio(loop_scope="module")
STRANGERS = 300


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tables_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """An engine that has companies without prices beside the bundled ones."""
    root = tmp_path_factory.mktemp("reports")
    names = [f"Q{number:03d}" for number in range(STRANGERS)]
    # The first one's figure is NaN, which sources write for a missing value.
    sales = ["nan", *map(str, range(1, STRANGERS))]
    rows = (f"{name},2021,{figure}\n" for name, figure in zip(names, sales, strict=True))
    (root / "sales.csv").write_text("code,year,sales\n" + "".join(rows))
    content = {
        "version": 1,
        "entities": [{"id": name, "name": f"Quarry {name}", "kind": "stock"} for name in names],
        "indicators": [
            {"id": "quarry_sales", "name": "quarry sales", "unit": "t", "frequency": "annual", "kinds": ["stock"]}
        ],
        "tables": [
            {
                "id": "quarries", "path": "sales.csv", "entity": "code", "period": "year", "period_kind": "year",
                "frequency": "annual", "source": "quarries", "vendor": "me", "columns": {"sales": "quarry_sales"},
            }
        ],
    }  # fmt: skip
    (root / "quarries.yaml").write_text(yaml.safe_dump(content))
    made = Engine(
        Config(data_dir=tables_dir, embedding="off", semantic=[SemanticFolder(folder=root)]),
        today=lambda: date(2026, 11, 29),
    )
    await made.start()
    yield made
    await made.close()


def rank_returns(year: int, *, is_low: bool = False) -> Query:
    """Return the query for the stock with the highest return of a year, or with the lowest."""
    ends = date(year, 1, 1), date(year, 12, 31)
    ranked = Query((), ("close_adj",), *ends, kind="stock", order="close_adj", limit=1, statistics=(Statistic.RETURN,))
    return replace(ranked, descending=not is_low)


async def test_companies_without_prices_are_one_missing_item(engine: Engine) -> None:
    result = await engine.run(rank_returns(2022), None)
    (sheet,) = result.sheets
    assert [column.entity for column in sheet.columns if column.indicator] == ["XOM"]
    (item,) = result.missing
    assert (item.subject, item.reason) == ("stocks", "NO_MATCH")
    assert item.detail.startswith(f"{STRANGERS} of {STRANGERS + 21} stocks are not ranked")
    assert len(item.nearest) <= 5


class CountingEntity(EntitySpec):
    """An entity that counts how often the id of any is read."""

    reads: ClassVar[list[str]] = []

    def __getattribute__(self, name: str) -> Any:
        if name == "id":
            CountingEntity.reads.append(name)
        return super().__getattribute__(name)


async def test_planning_a_ranking_looks_at_each_company_a_few_times_however_many_there_are(engine: Engine) -> None:
    """It compared each company that has no figure with all others: seconds for some thousands."""
    specs: dict[str, EntitySpec] = {
        ident: CountingEntity(**spec.model_dump()) for ident, spec in engine.layer.entities.items()
    }
    planner = Planner(replace(engine.layer, entities=specs), engine.warehouse)
    CountingEntity.reads.clear()
    planner.plan(rank_returns(2022))
    assert STRANGERS < len(CountingEntity.reads) < 30 * len(specs)


async def test_a_ranking_of_a_year_that_most_data_do_not_reach_is_refused(engine: Engine) -> None:
    result = await engine.run(rank_returns(2025), None)
    assert result.sheets == ()
    item = next(item for item in result.missing if item.reason == "NO_DATA_IN_PERIOD")
    assert item.detail.startswith("adjusted close of 20 of 21 stocks (Apple, ")
    assert "has values from 1990-01-02 to 2022-12-28 only" in item.detail
    assert item.nearest == ("2022-12-28",)


async def test_who_has_no_value_yet_is_named_beside_the_ranking(engine: Engine) -> None:
    result = await engine.run(rank_returns(1995, is_low=True), None)
    assert [column.entity for column in result.sheets[0].columns if column.indicator] == ["BBY"]
    (item,) = [item for item in result.missing if item.reason == "NO_DATA_IN_PERIOD"]
    assert "of 1 of 21 stocks (NVIDIA)" in item.detail


async def test_nan_is_a_missing_value_and_leads_no_ranking(engine: Engine) -> None:
    ends = date(2021, 1, 1), date(2021, 12, 31)
    sales = Query((), ("quarry_sales",), *ends, kind="stock", order="quarry_sales", descending=True, limit=1)
    result = await engine.run(sales, None)
    (sheet,) = result.sheets
    assert "Q299" in sheet.digest
    assert "Q000" not in sheet.digest
