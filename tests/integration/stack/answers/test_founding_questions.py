"""The founding document's example questions, asked as they stand there: answered rightly, or the first sentence says
exactly what is missing. Never with a different quantity.

Asked of the reference policy, so nothing here depends on its words; and once of a scripted model that computes, which
shows that an uploaded table is all that the strategy question needs.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.core.errors import InvalidField, NotFound
from fathom.services.local import Endpoints
from tests.integration.stack.answers.test_analyses import CALL_SWEEP, SWEEP, fill_line, sweep_answer
from tests.integration.stack.answers.test_analyses import reference as sweep_reference
from tests.integration.stack.scripted_model import Line, ScriptedModel

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]

HIGHEST = "苹果公司股价最高的三天有规律吗？"
GROWTH = "苹果公司近5年的成长曲线是什么样的，用折线图展示公司盈利能力，股票价格变化趋势"
STRATEGY = (
    "根据过去三个月的市场表现，如果把恒生互联网科技三巨头公司进行投资组合的买入/卖出决策主要由双重移动平均线策略决定，"
    "那么该策略的最佳实施将产生多少回报率？"
)
RIVALS = "苹果公司和其竞争对手相比，毛利率表现如何？"
GIANTS = ("腾讯", "阿里巴巴", "美团")
LAST_DAY, JUDGED_AFTER = "2024-06-28", "2024-03-28"


@dataclass(frozen=True)
class Answered:
    """A run's answer with what was drawn and what it began with."""

    answer: trajectory.Answer
    started: pb.RunStarted
    material: Sequence[trajectory.Material]

    @property
    def opening(self) -> str:
        """The first sentence, where a reader learns what is missing."""
        return re.split(r"(?<=[。！？])|(?<=[.!?])\s|\n\n", self.answer.markdown.strip(), maxsplit=1)[0]

    @property
    def body(self) -> str:
        """The text without its first sentence, citations and references: what the answer claims."""
        rest = self.answer.markdown.strip().removeprefix(self.opening)
        return re.sub(r"\[\d+\]|\{\{.*?\}\}", "", rest)

    def opens_with(self, *words: str) -> bool:
        """Return whether the first sentence names the thing, by one of its words."""
        return any(word.casefold() in self.opening.casefold() for word in words)

    def claim(self, *words: str) -> list[str]:
        """Return the sentences behind the first that put a percentage to the thing."""
        sentences = [one for one in re.split(r"[。；\n]", self.body) if any(word in one for word in words)]
        return [sentence for sentence in sentences if find_percentages(sentence)]


async def ask(stack: Stack, question: str, model: str = "", table_ids: Sequence[str] = ()) -> Answered:
    """Ask the agent and wait for the end of the run."""
    _, clients = stack
    request = pb.RunRequest(question=question, model=model, table_ids=table_ids)
    request.protocol = trajectory.PROTOCOL_RESEARCH
    events = [event async for event in run(clients, request)]
    started = next(event.started for event in events if event.HasField("started"))
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    return Answered(finished.answer, started, [*started.given, *finished.material])


def find_percentages(text: str) -> list[str]:
    return re.findall(r"-?\d+(?:\.\d+)?\s*(?:%|％)", text)


def read_closes(tables_dir: Path) -> pd.Series:
    rows = pd.read_parquet(tables_dir / "observations.parquet")
    rows = rows[(rows["entity"] == "AAPL") & (rows["indicator"] == "close_adj")]
    return rows.assign(date=pd.to_datetime(rows["date"])).set_index("date")["value"].sort_index()


def make_prices() -> pd.DataFrame:
    """Make daily prices of the three giants: a seeded random walk, which tests a table's way and no market."""
    generator = np.random.default_rng(3)
    days = pd.bdate_range("2023-12-01", LAST_DAY)
    steps = generator.normal(0.0005, 0.02, size=(len(days), len(GIANTS)))
    return pd.DataFrame(100 * np.exp(steps.cumsum(axis=0)), columns=list(GIANTS)).round(4).assign(date=days)


async def upload_prices(stack: Stack) -> str:
    """Upload the prices as a reader does, as a CSV over HTTP, and return the table's id."""
    endpoints, _ = stack
    content = make_prices().to_csv(index=False).encode()
    async with httpx.AsyncClient(base_url=endpoints.gateway) as client:
        answer = await client.post("/v1/tables", params={"name": "恒生科技.csv"}, content=content)
    assert answer.status_code == 200, answer.text
    assert answer.json()["issues"] == []
    return str(answer.json()["sheet"]["id"])


async def test_the_three_highest_days(stack: Stack, tables_dir: Path) -> None:
    """Over all of the data, since the question names no period."""
    found = await ask(stack, HIGHEST)
    best = read_closes(tables_dir).nlargest(3)
    is_right = all(
        str(day)[:10] in found.answer.markdown and f"{value:.2f}" in found.answer.markdown
        for day, value in best.items()
    )
    assert is_right or found.opens_with("三", "规律", "three", "pattern"), found.answer.markdown


async def test_five_years_of_growth_with_profitability_and_price(stack: Stack) -> None:
    """No statements are bundled: profitability is missing, whatever is drawn of the price."""
    found = await ask(stack, GROWTH)
    assert found.opens_with("盈利", "profitab", "利润"), found.answer.markdown
    assert not found.claim("盈利", "利润", "profit")


async def test_the_moving_averages_of_hang_seng_companies_without_their_prices(stack: Stack) -> None:
    found = await ask(stack, STRATEGY)
    assert found.opens_with("恒生", "Hang Seng", "三巨头"), found.answer.markdown
    assert not find_percentages(found.body), found.answer.markdown


async def test_the_moving_averages_with_an_uploaded_table(stack: Stack) -> None:
    """The run begins with the table; the reference policy computes from it or says that it cannot."""
    found = await ask(stack, STRATEGY, table_ids=[await upload_prices(stack)])
    [given] = found.started.given
    assert (given.number, given.variable, given.sheet.title) == (1, "sheet_1", "恒生科技.csv")
    assert [column.name for column in given.sheet.columns] == [*GIANTS, "date"]
    from_table = any("sheet_1" in item.code.code for item in found.material if item.HasField("code"))
    assert from_table or not find_percentages(found.body), found.answer.markdown
    assert from_table or found.opens_with("恒生", "Hang Seng", "三巨头", "移动平均", "回报"), found.answer.markdown


async def test_a_model_that_computes_needs_nothing_but_the_uploaded_table(
    stack: Stack, scripted_door: tuple[ScriptedModel, str]
) -> None:
    """Equal to a calculation of this test's own on the same prices."""
    lines: list[Line] = [
        ("python", {"intent": "Sweep the windows", "code": SWEEP + CALL_SWEEP.format(columns=list(GIANTS))}),
        *[("finish", {"intent": "Answer", "answer": sweep_answer})] * 2,
    ]
    with scripted_door[0].telling({"恒生": [functools.partial(fill_line, line) for line in lines]}):
        found = await ask(stack, STRATEGY, "scripted", [await upload_prices(stack)])
    record = next(item.code for item in found.material if item.HasField("code"))
    assert record.ok, record.traceback
    said = json.loads(record.stdout)
    wanted, hold = sweep_reference(make_prices(), 0.0005, GIANTS, JUDGED_AFTER)
    best = max(wanted, key=lambda pair: wanted[pair])
    assert (tuple(said["pair"]), said["last"]) == (best, LAST_DAY)
    assert said["return"] == pytest.approx(wanted[best], abs=1e-9)
    assert said["hold"] == pytest.approx(hold, abs=1e-9)
    assert f"earned {wanted[best]:.2%}, buy and hold {hold:.2%} [2]" in found.answer.markdown
    assert 2 in found.answer.cited


async def test_the_margins_of_competitors(stack: Stack) -> None:
    """Neither statements nor who competes with whom are bundled."""
    found = await ask(stack, RIVALS)
    assert found.opens_with("毛利", "gross margin", "竞争对手", "competitor"), found.answer.markdown
    assert not found.claim("毛利", "margin")


async def test_tables_that_do_not_exist_or_have_no_use_are_refused_at_once(stack: Stack) -> None:
    _, clients = stack
    with pytest.raises(NotFound, match="sheet"):
        [event async for event in run(clients, pb.RunRequest(question=STRATEGY, table_ids=["t0"]))]
    own = [await upload_prices(stack)]
    workflow = trajectory.PROTOCOL_WORKFLOW
    with pytest.raises(InvalidField, match="table_ids"):
        [event async for event in run(clients, pb.RunRequest(question=STRATEGY, table_ids=own, protocol=workflow))]
