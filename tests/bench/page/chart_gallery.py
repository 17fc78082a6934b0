"""Draw one chart of each kind, and the cases in which charts go wrong, and photograph each as the page shows it.

``python -m tests.bench chart_gallery build/charts/`` writes a PNG per chart in the light theme for a person to look at.
Cells of a real session of the sandbox draw them from the bundled tables with ``finance.chart``; the page in headless
Chromium renders them with its own component. Needs the bundled data (``make data``) and Chromium.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from playwright.async_api import async_playwright, expect

from fathom.services.sandbox.supervisor.events import Display, Event, Outcome
from fathom.services.sandbox.supervisor.session import Session
from tests.bench.sandbox import engine
from tests.e2e.pages import ARGUMENTS, CHROMIUM, ask, open_page
from tests.e2e.replay import serve_script
from tests.e2e.script import Script
from tests.integration.sandbox.conftest import sheet

TABLES = Path(".fathom/data/tables")
PLOTLY = "application/vnd.plotly.v1+json"
WIDTH = 1120
RENDER_MS = 60_000


@dataclass(frozen=True)
class Picture:
    """One chart: the file's name, the series it is drawn from as "entity.indicator", and the cell."""

    name: str
    series: Sequence[str]
    cell: str
    start: str = "2015"
    end: str = "2020"


SHARES = ("AAPL.close_adj", "MSFT.close_adj")
TEN = tuple(f"{name}.close_adj" for name in ("AAPL", "MSFT", "AMD", "KO", "PEP", "PG", "PFE", "MRK", "JNJ", "XOM"))
RATES = ("US.fedfunds", "US.gs10")
PICTURES = (
    Picture("levels", SHARES, "finance.chart(sheet)"),
    Picture("levels-rates", RATES, "finance.chart(sheet)", "2000"),
    Picture("levels-three-units", ("AAPL.close_adj", "SP500.close_adj", "US.unrate"), "finance.chart(sheet)"),
    Picture("levels-wide-range", ("AAPL.close_adj",), "finance.chart(sheet)", "1990", "2022"),
    Picture("levels-log", ("AAPL.close_adj",), "finance.chart(sheet, log=True)", "1990", "2022"),
    Picture("levels-sparse", ("US.acoilbrenteu", "US.acoilwtico"), "finance.chart(sheet)", "2010", "2021"),
    Picture("levels-large", ("US.a576rc1",), "finance.chart(sheet.set_index('date') * 1e6)", "2000"),
    Picture("levels-long-names", ("US.a041rc1", "US.a063rc1"), "finance.chart(sheet.rename(columns={'US.a041rc1': \"Proprietors' income with inventory valuation and capital consumption adjustments: Nonfarm\", 'US.a063rc1': 'Personal current transfer receipts: Government social benefits to persons'}))", "2000"),
    Picture("rebased", SHARES, "finance.chart(sheet, 'rebased')"),
    Picture("rebased-ten", TEN, "finance.chart(sheet, 'rebased')"),
    Picture("drawdown", SHARES, "finance.chart(sheet, 'drawdown')"),
    Picture("drawdown-zh", SHARES, "finance.chart(sheet, 'drawdown', language='zh')"),
    Picture("volatility", SHARES, "finance.chart(sheet, 'volatility')"),
    Picture("rolling-correlation", SHARES, "finance.chart(sheet, 'rolling correlation')"),
    Picture("rolling-correlation-zh", SHARES, "finance.chart(sheet, 'rolling correlation', language='zh')"),
    Picture("correlation", TEN[:6], "finance.chart(sheet, 'correlation')"),
    Picture("correlation-zh", TEN[:3], "finance.chart(sheet, 'correlation', language='zh')"),
    Picture("spread-negative", ("US.gs10", "US.fedfunds"), "finance.chart(sheet, 'spread')", "1990"),
    Picture("bars", SHARES, "finance.chart(sheet, 'bars')"),
    Picture("bars-monthly", SHARES[:1], "finance.chart(sheet, 'bars', every='month')"),
    Picture("bars-one", SHARES[:1], "finance.chart(sheet, 'bars')", "2020"),
    Picture("histogram", SHARES, "finance.chart(sheet, 'histogram')"),
    Picture("histogram-rates", RATES[:1], "finance.chart(sheet, 'histogram')", "1990"),
    Picture("scatter", SHARES, "finance.chart(sheet, 'scatter')"),
    Picture("scatter-zh", SHARES, "finance.chart(sheet, 'scatter', language='zh')"),
    Picture("express-bars", SHARES, "import plotly.express as px\npx.bar(finance.period_returns(sheet, 'year') * 100, barmode='group', title='A bar chart that a model drew')"),
    Picture("express-pie", SHARES, "import plotly.express as px\npx.pie(names=['data centre', 'gaming', '专业可视化'], values=[60, 30, 10], title='A pie chart that a model drew')"),
    Picture("no-data", SHARES, "import plotly.graph_objects as go\ngo.Figure(go.Scatter(x=[], y=[], name='nothing')).update_layout(title='A chart without data')"),
)  # fmt: skip


async def run(folder: str = "build/charts/") -> None:
    """Draw all charts, write their pictures and print which cells failed."""
    target = Path(folder)
    await asyncio.to_thread(target.mkdir, parents=True, exist_ok=True)
    drawn: dict[str, dict[str, Any]] = {}
    async with engine(spares=0) as walled:
        session = await walled.create()
        for picture in PICTURES:
            figure = await draw(session, picture)
            drawn.update({picture.name: figure} if figure else {})
    await photograph(drawn, target)
    print(f"{len(drawn)} of {len(PICTURES)} charts in {target}")


def read_sheet(picture: Picture) -> tuple[pd.DataFrame, dict[str, dict[str, str]]]:
    """Return the bundled series of a picture as datafetch's sheets have them, with their units and indicators."""
    observations = pd.read_parquet(TABLES / "observations.parquet")
    facts = pd.read_parquet(TABLES / "series.parquet").set_index(["entity", "indicator"])
    observations["date"] = pd.to_datetime(observations["date"])
    columns, units = {}, {}
    for name in picture.series:
        entity, _, indicator = name.partition(".")
        rows = observations[(observations["entity"] == entity) & (observations["indicator"] == indicator)]
        columns[name] = rows.set_index("date")["value"].sort_index()[picture.start : picture.end]
        units[name] = str(facts.loc[(entity, indicator), "unit"])
    indicators = {name: name.partition(".")[2] for name in picture.series}
    return pd.DataFrame(columns).reset_index(), {"units": units, "indicators": indicators}


async def draw(session: Session, picture: Picture) -> dict[str, Any] | None:
    """Return the figure that the picture's cell draws; None, with a line on the terminal, when it draws none."""
    frame, facts = read_sheet(picture)
    await session.inject("sheet", sheet(frame), facts=facts)
    events: list[Event] = [event async for event in session.execute("", f"import finance\n{picture.cell}", 0)]
    figures = [json.loads(event.data) for event in events if isinstance(event, Display) and event.media_type == PLOTLY]
    outcome = events[-1]
    if not figures and isinstance(outcome, Outcome):
        print(f"{picture.name}: {outcome.error_name} {outcome.error_value}")
    return figures[0] if figures else None


async def photograph(drawn: dict[str, dict[str, Any]], target: Path) -> None:
    """Write a picture of each figure as the page shows it."""
    text = "\n\n".join(f"{{{{figure:fig_{number}}}}}" for number in range(1, len(drawn) + 1))
    script = Script(answer=text, days=3, figures=list(drawn.values()), code="finance.chart(sheet_1)")
    async with serve_script(script) as house, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = (await open_page(browser, f"{house.url}/?embed=1", width=WIDTH, height=900)).page
        await ask(page)
        figures = page.locator(".answer .plotly-figure")
        await expect(figures).to_have_count(len(drawn), timeout=RENDER_MS)
        for name, place in zip(drawn, await figures.all(), strict=True):
            await expect(place.locator(".main-svg, .chip").first).to_be_visible(timeout=RENDER_MS)
            await place.scroll_into_view_if_needed()
            await place.screenshot(path=target / f"{name}.png")
        await browser.close()
