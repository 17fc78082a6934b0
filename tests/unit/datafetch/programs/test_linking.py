"""The series that programs can name, and how like their names are the words of a question."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fathom.services.datafetch.catalog.layer import load
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.programs.catalogue import list_entries
from fathom.services.datafetch.programs.linking import Linker, load_vectors
from fathom.services.datafetch.warehouse.database import Warehouse

from .tiny import ENTRIES, TinyEncoder, make_linker

# Places of the features.
LETTERS, COVERED, INSIDE, MEANING, EXACT, WORDS, TITLE, NEAREST = range(8)
YAML = """
version: 1
entities:
  - {id: ACME, name: Acme, name_zh: 顶点, kind: maker, aliases: [Acme Corp]}
  - {id: US, name: United States, kind: economy}
indicators:
  - {id: sales, name: net sales, name_zh: 销售额, unit: USD, frequency: annual, kinds: [maker], synonyms: [turnover]}
  - {id: staff, name: employees, unit: people, frequency: annual, kinds: [maker], default: true}
  - {id: note, name: remark, frequency: annual, kinds: [maker], text: true}
tables:
  - {id: own, path: own.csv, period: day, columns: {sales: sales, staff: staff, note: note}, frequency: annual}
"""


@pytest.fixture
def own(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "own.yaml").write_text(YAML, encoding="utf-8")
    (tmp_path / "own.csv").write_text("entity,day,sales,staff,note\nACME,2019-12-31,5,7,ok\nACME,2020-12-31,6,8,ok\n")
    return tmp_path, tmp_path


def test_each_bundled_series_is_an_entry_by_its_shortest_id(engine: Engine) -> None:
    entries = list_entries(engine.layer, engine.warehouse)
    assert len({entry.id for entry in entries}) == len(entries)
    ids = {(entry.entity, entry.indicator): entry.id for entry in entries}
    assert ids["VIX", "close_adj"] == "VIX"
    assert ids["US", "cpiaucsl"] == "cpiaucsl"
    assert set(ids) == {
        (entity, indicator)
        for indicator, found in engine.warehouse.stored.items()
        for stored in found
        for entity in stored.members
    }


def test_an_entry_has_the_source_s_title_and_all_names(engine: Engine) -> None:
    by_id = {entry.id: entry for entry in list_entries(engine.layer, engine.warehouse)}
    yields = by_id["aaa"]
    assert yields.title == "Moody's Seasoned Aaa Corporate Bond Yield"
    assert {"Aaa corporate bond yield", yields.name_zh, "aaa"} <= set(yields.names)
    assert yields.text.endswith("(% (NSA), monthly)") or "monthly" in yields.text


def test_a_user_s_series_are_entries_by_entity_and_indicator(own: tuple[Path, Path]) -> None:
    layer = load([own])
    entries = {entry.id: entry for entry in list_entries(layer, Warehouse(layer))}
    assert set(entries) == {"ACME.sales", "ACME.staff"}
    assert {"Acme net sales", "Acme Corp turnover", "顶点销售额"} <= set(entries["ACME.sales"].names)
    # The name alone asks for the default one.
    assert "Acme" in entries["ACME.staff"].names
    assert "Acme" not in entries["ACME.sales"].names


def test_what_a_unit_says_is_known_of_an_entry() -> None:
    euro, rate = (next(one for one in ENTRIES if one.id == ident) for ident in ("USD", "unrate"))
    assert euro.meta[12] == 1
    assert rate.meta[12] == 0
    assert rate.meta[7] == 1
    assert rate.meta.shape == (40,)


@pytest.fixture(scope="module")
def linker() -> Linker:
    return make_linker(TinyEncoder())


def compare(linker: Linker, text: str, ident: str) -> list[float]:
    features = linker.compare(text, TinyEncoder().encode([text], "query")[0])
    assert features.shape == (len(ENTRIES), 8)
    return [float(one) for one in features[[entry.id for entry in ENTRIES].index(ident)]]


def test_the_name_itself_is_as_like_as_can_be(linker: Linker) -> None:
    found = compare(linker, "jobless rate", "unrate")
    assert found[EXACT] == 1
    assert [found[at] for at in (LETTERS, COVERED, INSIDE, WORDS)] == pytest.approx([1, 1, 1, 1], abs=1e-4)
    assert found[MEANING] == pytest.approx(1, abs=1e-4)


def test_case_blanks_and_plurals_do_not_count(linker: Linker) -> None:
    assert compare(linker, "Jobless  Rates", "unrate")[LETTERS] == pytest.approx(1, abs=1e-4)
    assert compare(linker, "s&p500", "SP500")[EXACT] == 1


def test_part_of_a_name_is_covered_and_not_the_other_way_round(linker: Linker) -> None:
    found = compare(linker, "dollar", "USD")
    assert found[COVERED] > found[INSIDE] > 0 or found[WORDS] > 0


def test_other_letters_have_nothing_in_common(linker: Linker) -> None:
    found = compare(linker, "比特币", "GOLD")
    assert [found[at] for at in (LETTERS, COVERED, INSIDE, EXACT, WORDS)] == [0, 0, 0, 0, 0]


def test_vectors_are_computed_once_and_then_read(tmp_path: Path) -> None:
    encoder = TinyEncoder()
    made = load_vectors(ENTRIES, encoder, tmp_path, lambda: False)
    calls = encoder.calls
    read = load_vectors(ENTRIES, encoder, tmp_path, lambda: False)
    assert encoder.calls == calls
    assert np.array_equal(made.titles, read.titles)
    assert np.array_equal(made.names, read.names)
    load_vectors(ENTRIES[:2], encoder, tmp_path, lambda: False)
    assert encoder.calls > calls


def test_a_closing_service_stops_the_computation(tmp_path: Path) -> None:
    with pytest.raises(InterruptedError):
        load_vectors(ENTRIES, TinyEncoder(), tmp_path, lambda: True)
