"""The tools of the data layer: what a model can ask, what it is told, and how its mistakes come back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from fathom.api.common.v1.common_pb2 import MissingItem
from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.model.episode import MaterialKind, ToolResult, ToolStatus
from fathom.services.planner.tools.data import Data
from fathom.services.planner.tools.data.catalogue import DataCatalogue
from fathom.services.planner.tools.data.sql import Sql
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.session import Session

TOTAL = "total return: adjusted for dividends and splits"


@dataclass
class Datafetch:
    """A datafetch that records requests and answers with prepared replies or errors."""

    replies: list[Any]
    requests: list[Any] = field(default_factory=list)

    async def _answer(self, request: Any, timeout_s: float) -> Any:
        # A copy: the tool may go on writing into its message.
        self.requests.append(type(request).FromString(request.SerializeToString()))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    query = run_sql = search_catalog = _answer

    async def read_question(self, request: pb.ReadQuestionRequest, timeout_s: float) -> pb.ReadQuestionResponse:
        """Read the first word as an entity, the second as a frequency."""
        name, _, dense = request.question.partition(" ")
        words = (("MENTION_KIND_ENTITY", name, "AAPL"), ("MENTION_KIND_FREQUENCY", dense, dense))
        return pb.ReadQuestionResponse(
            mentions=[pb.Mention(kind=kind, text=text, value=value) for kind, text, value in words]  # type: ignore[arg-type]
        )


@dataclass
class OnlyDatafetch:
    datafetch: Datafetch


def make_sheet(ident: str, **column: Any) -> pb.Sheet:
    columns = [pb.Column(name="date"), pb.Column(**{"name": "AAPL.close_adj", "unit": "USD", **column})]
    return pb.Sheet(id=ident, title=f"Apple {ident}", columns=columns, rows=3, digest=f"{ident}: 3 rows")


class Bench:
    """The three tools over one session."""

    def __init__(self, *replies: Any) -> None:
        self.datafetch = Datafetch(list(replies))
        clients = cast(Clients, OnlyDatafetch(self.datafetch))
        self.session = Session(clients, "run_1", 1.0)
        tools = [
            Data(clients, self.session, None, 1.0),
            Sql(clients, self.session, 1.0),
            DataCatalogue(clients, None, 1.0, self.session),
        ]
        self.registry = Registry(tools)  # type: ignore[arg-type]

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        return await self.registry.call("id", ToolCall("c", name, json.dumps({"intent": "look", **arguments})))


def head(result: ToolResult) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(result.content.split("\n", 1)[0])
    return found


async def test_the_program_of_the_runs_question_is_read_from_the_texts_that_it_was_made_of() -> None:
    bench = Bench(*[pb.QueryResponse()] * 2)
    asked: list[tuple[list[str], bool]] = []

    async def read_question(request: pb.ReadQuestionRequest, timeout_s: float) -> pb.ReadQuestionResponse:
        asked.append(([*request.earlier, request.question], request.with_program))
        return pb.ReadQuestionResponse()

    bench.datafetch.read_question = read_question  # type: ignore[method-assign]
    texts, whole = ["AAPL's return in 2020?", "volatility in 2019?"], "What was the volatility of AAPL in 2019?"
    clients = cast(Clients, OnlyDatafetch(bench.datafetch))
    data = Data(clients, bench.session, None, 1.0, turns=texts, whole=whole)
    await data("call", {"question": whole})
    assert (texts, True) in asked
    await data("call", {"question": "gold in 2011"})
    assert (["gold in 2011"], True) in asked


@pytest.mark.parametrize(
    ("behind_turns", "expected"),
    [(["AAPL"], ["MSFT"]), (["MSFT"], ["MSFT"]), (["MSFT", "US"], ["MSFT", "US"])],
    ids=["about an older name", "about the name", "beside the name"],
)
async def test_a_program_that_takes_an_older_name_is_read_from_the_whole_question(
    behind_turns: list[str], expected: list[str]
) -> None:
    bench = Bench(pb.QueryResponse())

    async def read_question(request: pb.ReadQuestionRequest, timeout_s: float) -> pb.ReadQuestionResponse:
        names = behind_turns if request.earlier else ["MSFT"]
        program = pb.Program(kind="calculation", series=[pb.ProgramSeries(name="s1", entity=name) for name in names])
        mention = pb.Mention(kind=pb.MENTION_KIND_ENTITY, text="Microsoft", value="MSFT")
        return pb.ReadQuestionResponse(mentions=[mention], program=program if request.with_program else None)

    bench.datafetch.read_question = read_question  # type: ignore[method-assign]
    texts, whole = ["AAPL's lowest close in 2017?", "And Microsoft?", "In 2019?"], "In 2019 (Microsoft, lowest close)?"
    clients = cast(Clients, OnlyDatafetch(bench.datafetch))
    bench.registry = Registry([Data(clients, bench.session, None, 1.0, turns=texts, whole=whole)])
    program = head(await bench.call("data", question=whole))["program"]
    assert [one["entity"] for one in program["series"]] == expected


async def test_a_question_without_turns_is_translated_once_whatever_its_program_names() -> None:
    bench = Bench(pb.QueryResponse())
    asked: list[pb.ReadQuestionRequest] = []

    async def read_question(request: pb.ReadQuestionRequest, timeout_s: float) -> pb.ReadQuestionResponse:
        asked.append(request)
        program = pb.Program(kind="calculation", series=[pb.ProgramSeries(name="s1", entity="AAPL")])
        mention = pb.Mention(kind=pb.MENTION_KIND_ENTITY, text="Microsoft", value="MSFT")
        return pb.ReadQuestionResponse(mentions=[mention], program=program if request.with_program else None)

    bench.datafetch.read_question = read_question  # type: ignore[method-assign]
    result = await bench.call("data", question="Microsoft in 2019?")
    assert [one["entity"] for one in head(result)["program"]["series"]] == ["AAPL"]
    assert len([one for one in asked if one.with_program]) == 1


async def test_a_table_that_the_data_service_held_is_recorded_as_cached() -> None:
    bench = Bench(*[pb.QueryResponse(sheets=[make_sheet(f"s{n}")], is_cached=n == 2) for n in (1, 2)])
    found = [await bench.call("data", entities=["AAPL"], indicators=["close_adj"]) for _ in range(2)]
    assert [result.is_cached for result in found] == [False, True]


async def test_a_program_beside_a_question_is_resolved_as_it_stands() -> None:
    bench = Bench(pb.QueryResponse())
    asked: list[pb.ReadQuestionRequest] = []

    async def read_question(request: pb.ReadQuestionRequest, timeout_s: float) -> pb.ReadQuestionResponse:
        asked.append(request)
        return pb.ReadQuestionResponse(program=pb.Program(kind="calculation", steps=["f.last(s1)"]))

    bench.datafetch.read_question = read_question  # type: ignore[method-assign]
    result = await bench.call("data", question="gold in 2011", program='last(series("gold"))')
    assert head(result)["program"]["steps"] == ["f.last(s1)"]
    assert [one.program for one in asked if one.with_program] == ['last(series("gold"))']


async def test_every_field_of_a_typed_query_reaches_the_data() -> None:
    bench = Bench(pb.QueryResponse(sheets=[make_sheet("t1")]))
    await bench.call(
        "data", entity_kind="stock", indicators=["close_adj"], start_date="2020-01-01", end_date="2020-12-31",
        frequency="monthly", include_previous=True, transform="mom", order_by="close_adj", descending=True, limit=5,
        filters=[{"indicator": "close_adj", "operator": ">", "value": 10}], unit="bp", currency="EUR", vintage="first",
    )  # fmt: skip
    typed = bench.datafetch.requests[0].typed
    assert typed == pb.TypedQuery(
        entity_kind="stock", indicators=["close_adj"], start_date="2020-01-01", end_date="2020-12-31",
        frequency=pb.FREQUENCY_MONTHLY, include_previous=True, transform=pb.TRANSFORM_MOM, order_by="close_adj",
        descending=True, limit=5, filters=[pb.ValueFilter(indicator="close_adj", operator=">", value=10)], unit="bp",
        currency="EUR", vintage="first",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"entities": ["AAPL"], "frequency": "hourly"}, "data.frequency"),
        ({"entities": ["AAPL"], "start_date": "01/02/2020"}, "data.start_date"),
        (
            {"entities": ["AAPL"], "filters": [{"indicator": "x", "operator": "~", "value": 1}]},
            "data.filters.0.operator",
        ),
        ({"entities": ["AAPL"], "colour": "red"}, "data"),
        # A question is read as a whole: a field beside it would be dropped without a word.
        ({"question": "Apple in 2020", "frequency": "monthly"}, "data.frequency"),
        # Dates alone ask for everything.
        ({"start_date": "2020-01-01"}, "data.entities"),
    ],
)
async def test_an_argument_that_would_be_lost_or_misread_is_named(arguments: dict[str, Any], named: str) -> None:
    result = await Bench().call("data", **arguments)
    assert result.status is ToolStatus.INVALID
    assert head(result)["error"].startswith(named)


async def test_an_error_of_the_data_names_the_argument_of_the_tool() -> None:
    result = await Bench(InvalidField("typed.unit", "'barrels' is no unit")).call(
        "data", entities=["AAPL"], unit="barrels"
    )
    assert head(result)["error"] == "data.unit: 'barrels' is no unit"


async def test_a_sheet_says_once_what_all_its_columns_stand_for() -> None:
    result = await Bench(
        pb.QueryResponse(sheets=[make_sheet("t1", basis=TOTAL, resampling="last value of each month")])
    ).call("data", entities=["AAPL"])
    sheet = head(result)["sheets"][0]
    assert (sheet["variable"], sheet["basis"], sheet["resampling"]) == ("sheet_1", TOTAL, "last value of each month")
    assert all("basis" not in column for column in sheet["columns"])


async def test_a_question_says_how_it_was_read() -> None:
    read = pb.TypedQuery(
        entities=["AAPL"], indicators=["close_adj"], start_date="2020-01-01", frequency=pb.FREQUENCY_WEEKLY
    )
    result = await Bench(pb.QueryResponse(sheets=[make_sheet("t1")], understood=read)).call(
        "data", question="Apple weekly"
    )
    assert head(result)["read_as"] == {
        "entities": ["AAPL"], "indicators": ["close_adj"], "start_date": "2020-01-01", "frequency": "weekly",
    }  # fmt: skip
    assert head(result)["words"] == [["entity", "Apple", "AAPL"], ["frequency", "weekly", "weekly"]]


async def test_what_is_unknown_comes_back_with_the_nearest_names() -> None:
    item = MissingItem(subject="Aple", reason="MISSING_REASON_UNKNOWN_ENTITY", nearest=["Apple"])  # type: ignore[arg-type]
    result = await Bench(pb.QueryResponse(missing=[item])).call("data", entities=["Aple"], indicators=["close_adj"])
    assert (result.status, head(result)["missing"][0]["nearest"]) == (ToolStatus.EMPTY, ["Apple"])


async def test_sql_reads_sheets_by_their_variables_and_its_result_is_one() -> None:
    bench = Bench(pb.QueryResponse(sheets=[make_sheet("t1")]), pb.RunSqlResponse(sheet=make_sheet("t2")))
    await bench.call("data", entities=["AAPL"])
    result = await bench.call("sql", query='SELECT max("AAPL.close_adj") FROM Sheet_1')
    request = bench.datafetch.requests[1]
    assert dict(request.tables) == {"sheet_1": "t1"}
    assert list(request.columns["sheet_1"].columns) == list(make_sheet("t1").columns)
    assert head(result)["sheets"][0]["variable"] == "sheet_2"
    assert [(item.kind, item.variable) for item in result.material] == [(MaterialKind.SHEET, "sheet_2")]


@pytest.mark.parametrize("query", ["SELECT * FROM sheet_7", "SELECT 1"])
async def test_sql_over_a_sheet_that_is_not_there_names_those_that_are(query: str) -> None:
    bench = Bench(pb.QueryResponse(sheets=[make_sheet("t1")]))
    assert "call `data` first" in head(await bench.call("sql", query=query))["error"]
    await bench.call("data", entities=["AAPL"])
    assert "sheet_1 has date, AAPL.close_adj" in head(await bench.call("sql", query=query))["error"]


async def test_an_error_of_sql_names_the_argument_and_keeps_the_lesson() -> None:
    bench = Bench(pb.QueryResponse(sheets=[make_sheet("t1")]), InvalidField("sql", "no column x (sheet_1 has date)"))
    await bench.call("data", entities=["AAPL"])
    assert head(await bench.call("sql", query="SELECT x FROM sheet_1"))["error"] == (
        "sql.query: no column x (sheet_1 has date)"
    )


def make_series(**fields: Any) -> pb.CatalogSeries:
    return pb.CatalogSeries(**{
        "entities": ["AAPL"], "entity_count": 1, "entity_name": "Apple", "entity_name_zh": "苹果", "indicator": "close_adj",
        "name": "adjusted close", "name_zh": "复权收盘价", "unit": "USD", "frequency": pb.FREQUENCY_DAILY,
        "first_date": "1990-01-02", "last_date": "2022-12-28", "source": "skfolio", "basis": TOTAL, **fields,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("query", "page", "named"),
    [("", 1, ["sheet_1", "sheet_2"]), ("sales of the branches", 1, ["sheet_2"]), ("weather", 1, []), ("", 2, [])],
)
async def test_the_catalogue_lists_the_tables_that_a_conversation_has(query: str, page: int, named: list[str]) -> None:
    pages = [pb.SearchCatalogResponse(series=[make_series()], total=11, next_page_token="t")] * page
    bench = Bench(*pages)
    # A table of the user's: the catalogue of the data layer cannot know it.
    upload = pb.Column(name="sales", unit="EUR"), pb.Column(name="branch")
    bench.session.put(make_sheet("t1"))
    bench.session.put(pb.Sheet(id="t2", title="Upload", columns=upload, rows=7))
    shown = head(await bench.call("catalogue", query=query, page=page)).get("tables", [])
    assert [table["name"] for table in shown] == named
    if named:
        expected = {"name": "sheet_2", "title": "Upload", "rows": 7, "columns": ["sales (EUR)", "branch"]}
        assert shown[-1] == expected


async def test_the_catalogue_gives_a_line_per_series_that_an_answer_can_cite() -> None:
    page = pb.SearchCatalogResponse(series=[make_series()], total=1, unmatched=["weekly"], snapshot="abc")
    result = await Bench(page).call("catalogue", query="Apple weekly")
    assert head(result) == {
        "tool": "catalogue", "status": "ok", "material": 1, "rows": 1, "page": 1, "pages": 1, "unmatched": ["weekly"],
    }  # fmt: skip
    line = f"AAPL | close_adj | Apple: adjusted close (苹果 复权收盘价) | USD | daily | 1990-01-02..2022-12-28 | skfolio | {TOTAL}"
    assert line in result.content
    assert [item.kind for item in result.material] == [MaterialKind.PASSAGE]


async def test_the_catalogue_shortens_what_many_entities_share() -> None:
    page = pb.SearchCatalogResponse(
        series=[
            make_series(entities=[f"E{n}" for n in range(30)], entity_count=4366, entity_name="", entity_name_zh="")
        ],
        total=1,
    )
    assert (
        "E0, E1, E2, E3, E4, E5, E6, E7, … (4366) | close_adj"
        in (await Bench(page).call("catalogue", query="price")).content
    )


async def test_the_overview_lists_kinds_and_outside_sources() -> None:
    kind = pb.CatalogKind(
        kind="stock", entity_count=2, entities=["AAPL", "MSFT"], indicator_count=1, indicators=["close_adj"],
        frequencies=[pb.FREQUENCY_DAILY], first_date="1990-01-02", last_date="2022-12-28", bases=[TOTAL],
    )  # fmt: skip
    content = (await Bench(pb.SearchCatalogResponse(kinds=[kind], vendors=["fred"])).call("catalogue")).content
    assert f"stock: entities AAPL, MSFT; indicators close_adj; daily; 1990-01-02..2022-12-28; {TOTAL}" in content
    assert "outside sources asked for what is not listed: fred" in content


async def test_pages_follow_the_tokens_and_the_one_behind_the_last_is_refused() -> None:
    first = pb.SearchCatalogResponse(series=[make_series()], total=11, next_page_token="more")
    second = pb.SearchCatalogResponse(series=[make_series(indicator="other")], total=11)
    # Two replies per call: tokens are followed from the first page, since a call of the model brings none along.
    bench = Bench(first, second, first, second)
    assert "AAPL | other" in (await bench.call("catalogue", query="x", page=2)).content
    assert bench.datafetch.requests[1].page_token == "more"
    assert head(await bench.call("catalogue", query="x", page=3))["error"] == "catalogue.page: the last page is 2"


async def test_an_unknown_kind_is_named_as_the_tools_argument() -> None:
    result = await Bench(InvalidField("kind", "no entity is a 'bond'; kinds: stock")).call("catalogue", kind="bond")
    assert head(result)["error"] == "catalogue.kind: no entity is a 'bond'; kinds: stock"


async def test_vendors_that_the_question_leaves_out_go_with_each_query() -> None:
    bench = Bench(*[pb.QueryResponse()] * 2)
    clients = cast(Clients, OnlyDatafetch(bench.datafetch))
    data = Data(clients, bench.session, None, 1.0, vendors_off=("fred",))
    await data("call", {"entities": ["AAPL"], "indicators": ["close"]})
    await data("call", {"question": "AAPL's return in 2020?"})
    asked = [request for request in bench.datafetch.requests if isinstance(request, pb.QueryRequest)]
    assert [list(request.vendors_off) for request in asked] == [["fred"], ["fred"]]
