"""Programs of questions as the service gives them: loading of the reader, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.domain.encoders.choose import Encoders
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.convert import program_to_proto
from fathom.services.datafetch.discovery.query_vectors import QueryVectors
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.programs.conversation import ALL_PIECES, MOST_TURNS, cut_turns
from fathom.services.datafetch.programs.loading import ProgramLoader
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.resolve import Assumption, Gap, GapReason, NamedSeries
from fathom.services.datafetch.server import check_earlier

from .tiny import TinyEncoder

READING = ProgramReading(
    'ret(within(series("gold", GOLD), "2010"))',
    "calculation",
    0.9,
    0.8,
    ("f.ret(s1)",),
    (NamedSeries("s1", "GOLD", "close_adj", "gold"),),
    (Gap("2010", GapReason.PERIOD, "why"),),
    ("gold", "2010"),
    (Assumption("my fund", ("a",)),),
)


@pytest_asyncio.fixture(loop_scope="module")
async def loader(engine: Engine, tmp_path: Path) -> AsyncIterator[ProgramLoader]:
    """A loader whose weights file is no such thing."""
    (tmp_path / "w.safetensors").write_bytes(b"nothing")
    encoder, encoders = TinyEncoder(), Encoders(tmp_path)
    encoders.add(encoder)
    config = Config(embedding="on", models_dir=tmp_path)
    queries = QueryVectors(encoder)
    made = ProgramLoader(config, encoders, engine.layer, engine.warehouse, queries, tmp_path / "w.safetensors")
    yield made
    await made.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_corrupt_weights_leave_the_service_without_programs(
    loader: ProgramLoader, caplog: pytest.LogCaptureFixture
) -> None:
    assert await loader.get(60) is None
    assert loader.is_done
    assert "w.safetensors" in caplog.text


@pytest.mark.asyncio(loop_scope="module")
async def test_the_encoder_loads_before_the_first_question(tables_dir: Path, tmp_path: Path) -> None:
    engine = Engine(Config(data_dir=tables_dir, models_dir=tmp_path, embedding="on"))
    encoder = TinyEncoder()
    engine.encoders.add(encoder)
    await engine.start()
    assert encoder.calls == 0
    await engine.warm_up()
    # Closing waits for what is being loaded.
    await engine.close()
    assert encoder.calls > 0


@pytest.mark.asyncio(loop_scope="module")
async def test_without_an_encoder_there_is_no_program(engine: Engine) -> None:
    assert await engine.read_program(["How high was gold in 2010?"], None) is None


@pytest.mark.asyncio(loop_scope="module")
async def test_a_question_without_words_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidField, match="question"):
        await engine.read_program(["And gold?", " "], date(2020, 1, 1))


@pytest.mark.parametrize(
    ("earlier", "field"),
    [(["a"] * 4, "earlier"), (["a", " "], r"earlier\[1\]"), (["a" * 2_001], r"earlier\[0\]")],
)
def test_earlier_questions_are_few_and_short(earlier: list[str], field: str) -> None:
    with pytest.raises(InvalidField, match=field):
        check_earlier(earlier)


def test_three_earlier_questions_are_taken() -> None:
    assert check_earlier(["a", "b", "c" * 2_000])[0] == "a"


def test_every_field_of_a_program_reaches_the_caller() -> None:
    message = program_to_proto(READING, unused=[Gap("gilt", GapReason.UNREAD, "no step uses it")])
    assert {field.name for field, _ in message.ListFields()} == set(pb.Program.DESCRIPTOR.fields_by_name)
    assert message.series[0] == pb.ProgramSeries(name="s1", entity="GOLD", indicator="close_adj", words="gold")
    assert message.missing[0] == pb.ProgramGap(words="2010", reason="PERIOD", detail="why")


def test_the_last_question_is_marked_and_its_words_are_found() -> None:
    cut = cut_turns(["How was gold?", "and (the S&P) in 2012?"], TinyEncoder())
    first = next(at for at, place in enumerate(cut.places) if place.turn == 1)
    assert cut.segments[first - 1] == 0
    assert set(cut.segments[first:]) == {1}
    # The bracket stands around the name and is no part of it.
    assert cut.find_words(first + 1, first + 6) == "the S&P"


def test_the_oldest_questions_are_left_out_where_all_are_too_long() -> None:
    cut = cut_turns(["old " * 290, "older " * 290, "How was gold?"], TinyEncoder())
    assert len(cut.ids) <= ALL_PIECES
    assert cut.texts[-1] == "How was gold?"
    assert len(cut.texts) == 2
    assert len(cut_turns(["a"] * 9, TinyEncoder()).texts) == MOST_TURNS
