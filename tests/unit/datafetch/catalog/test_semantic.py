"""The semantic layer: codes, names, files that break the schema, formulas, units."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.core.errors import InvalidField
from fathom.services.datafetch.catalog.codes import canonicalise, list_spellings
from fathom.services.datafetch.catalog.composing import iter_composed_names
from fathom.services.datafetch.catalog.layer import LIBRARY, Layer, load
from fathom.services.datafetch.catalog.matching import Matcher
from fathom.services.datafetch.catalog.names import Names
from fathom.services.datafetch.catalog.naming import MAX_NAMED_CHARS, find_catalog_ids
from fathom.services.datafetch.catalog.pinyin import romanise
from fathom.services.datafetch.catalog.resolving import Resolver
from fathom.services.datafetch.catalog.schema import EntitySpec, IndicatorSpec
from fathom.services.datafetch.parser.lexicon import load_known_words
from fathom.services.datafetch.parser.operators import find_unit
from fathom.services.datafetch.query import formulas
from fathom.services.datafetch.query.units import Unit, find_conversion, parse_unit


@pytest.mark.parametrize("code", ["600519", "600519.SH", "SH600519", "sh.600519", "600519.SS", "600519.XSHG"])
def test_a_code_has_one_form_and_all_spellings(code: str) -> None:
    assert canonicalise(code, "CN") == "600519.SH"
    assert code.upper() in [form.upper() for form in list_spellings("600519.SH", "CN")]


def test_other_markets_and_odd_codes() -> None:
    assert [canonicalise(code, "CN") for code in ("000001", "300750", "830799", "900901", "HSI")] == [
        "000001.SZ", "300750.SZ", "830799.BJ", "900901.SH", "HSI"]  # fmt: skip
    assert {"0700.HK", "00700.HK", "700.HK", "HK00700"} <= set(list_spellings("0700.HK", "HK"))
    assert {"AAPL.US", "NASDAQ:AAPL", "$AAPL"} <= set(list_spellings("AAPL", "US"))


def layer_of(*entities: EntitySpec) -> Layer:
    return Layer(entities={spec.id: spec for spec in entities}).index_names()


MAOTAI = EntitySpec(
    id="600519.SH", name="贵州茅台", name_zh="贵州茅台酒股份有限公司", kind="stock", market="CN", aliases=["贵州茅台"]
)
GREE = EntitySpec(
    id="000651.SZ", name="格力电器", name_zh="珠海格力电器股份有限公司", kind="stock", market="CN", aliases=["格力电器"]
)
TWIN = EntitySpec(id="1.X", name="平安集团", kind="stock")
OTHER = EntitySpec(id="2.X", name="平安集团", kind="stock")


@pytest.mark.parametrize(
    ("mention", "how"),
    # The last two have a slip in the legal form, and where the name meets it.
    [("贵州茅台", "exact"), ("600519", "exact"), ("sh600519", "exact"), ("贵州茅台酒", "short"), ("guizhoumaotai", "sound"),
     ("GZMT", "sound"), ("贵洲茅台", "sound"), ("贵州毛台酒股份有限公司", "sound"), ("贵州茅台酒股有限公司", "typo"),
     ("贵州茅台酒股份有公限司", "typo"), ("贵州茅台股酒份有限公司", "typo")],
)  # fmt: skip
def test_a_company_is_found_by_every_usual_name(mention: str, how: str) -> None:
    found = Resolver(layer_of(MAOTAI, GREE), load_known_words()).resolve(mention)
    assert (found[0].ids[0], found[0].how) == ("600519.SH", how)


@pytest.mark.parametrize("mention", ["贵州银行", "茅山旅游股份有限公司", "特斯拉", "XYZ"])
def test_another_company_is_not_taken_for_a_known_one(mention: str) -> None:
    assert all(item.how == "near" for item in Resolver(layer_of(MAOTAI, GREE), load_known_words()).resolve(mention))


def test_a_slip_in_the_legal_form_finds_no_other_company() -> None:
    resolver = Resolver(layer_of(MAOTAI, GREE), load_known_words())
    assert all(item.how == "near" for item in resolver.resolve("贵州山泉酒股份有公限司"))


def test_a_ratio_is_named_by_every_name_of_its_parts() -> None:
    layer = load([(LIBRARY, LIBRARY)]).index_names()
    for text, ident in (
        ("电子城2019年的毛利润率是多少", "gross_margin"),
        ("企业研发经费与营收比值", "rd_to_revenue"),
        ("R&D expense divided by net sales", "rd_to_revenue"),
        # What has a name of its own keeps it.
        ("毛利润", "gross_profit"),
    ):
        assert [found.id for found in layer.indicator_names.find(text)] == [ident], text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("非流动性资产合计", [("noncurrent_assets", "非流动性资产合计")]),
        ("营业性利润增长率", [("operating_profit_growth", "营业性利润增长率")]),
        ("管理方面的费用率", [("admin_expense_ratio", "管理方面的费用率")]),
        ("销售方面的费用的增长率", [("selling_expense_growth", "销售方面的费用的增长率")]),
        # A name that has the suffix itself, and one that begins behind it.
        ("经营性现金流", [("cfo", "经营性现金流")]),
        ("季节性营业收入", [("operating_revenue", "营业收入")]),
        # Other words between the parts make another name.
        ("管理职工费用率", []),
    ],
)
def test_what_joins_the_words_of_a_name_may_stand_in_it(text: str, found: list[tuple[str, str]]) -> None:
    layer = load([(LIBRARY, LIBRARY)]).index_names()
    assert [(item.id, text[item.start : item.end]) for item in layer.find_indicators(text)] == found


def test_a_part_of_a_word_is_no_part_of_a_name() -> None:
    sales = IndicatorSpec(id="revenue", name="sale", synonyms=["turnover"])
    price = IndicatorSpec(id="share", name="wholesale share", formula="100 * revenue / 2")
    assert list(iter_composed_names([sales, price])) == []


def test_an_ambiguous_name_brings_all_its_candidates() -> None:
    found = Resolver(layer_of(TWIN, OTHER), load_known_words()).resolve("平安集团")
    assert [item.ids[0] for item in found] == ["1.X", "2.X"]
    assert Resolver(layer_of(TWIN, OTHER), load_known_words()).exact("平安集团的利润")[0].ids[1:]


def test_names_stand_between_word_boundaries_and_codes_in_upper_case() -> None:
    names = Names([("HD", "HD"), ("Home Depot", "HD"), ("GE", "GE"), ("Gold", "GOLD"), ("GOLD", "GOLD")])
    assert [m.id for m in names.find("the hd of GE, homedepot and Home Depot")] == ["GE", "HD"]
    assert [m.id for m in names.find("gold")] == ["GOLD"]
    assert names.find("") == []
    assert names.find_nearest("Home Depo") == ["Home Depot"]


def test_what_is_spelt_half_alike_is_not_near() -> None:
    names = Names([("USA", "US"), ("United States", "US"), ("Apple", "AAPL")])
    assert names.find_nearest("Tesla") == []
    assert names.find_nearest("Aple") == ["Apple"]


def test_pinyin_is_for_chinese_names_only() -> None:
    assert romanise("贵州茅台") == ["guizhoumaotai", "gzmt"]
    assert romanise("Apple") == []


BROKEN = {
    "no version": "indicators: []",
    "another version": "version: 9",
    "unknown key": "version: 1\nindicators:\n  - {id: a, name: a, colour: red}",
    "no identifier": "version: 1\nindicators:\n  - {id: 'a b', name: a}",
    "a cumulative state": "version: 1\nindicators:\n  - {id: a, name: a, cumulative: true}",
    "a wide table without columns": "version: 1\ntables:\n  - {id: a, path: a.csv}",
    "no YAML": "version: [1",
    "twice": "version: 1\nindicators:\n  - {id: a, name: a}\n  - {id: a, name: b}",
    "synonyms of nothing": "version: 1\nsynonyms:\n  - {id: nope, synonyms: [x]}",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_breaks_the_schema_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(BROKEN[name], encoding="utf-8")
    with pytest.raises(InvalidField, match=r"mine\.yaml"):
        load([(tmp_path, tmp_path)])


def test_the_library_is_sound_and_its_formulas_end_at_stored_indicators() -> None:
    layer = load([(LIBRARY, LIBRARY)])
    for spec in layer.indicators.values():
        if spec.formula:
            assert all(
                not layer.indicators[leaf].formula
                for leaf in formulas.list_leaves(formulas.expand(spec.id, layer.indicators))
            )
    types = {
        ident: formulas.classify_metric(layer.indicators[ident])
        for ident in ("net_profit", "gross_margin", "fcf", "net_profit_growth")
    }
    assert types == {"net_profit": "simple", "gross_margin": "ratio", "fcf": "derived", "net_profit_growth": "offset"}


@pytest.mark.parametrize(
    "text", ["a +", "__import__('os')", "a ** 2", "a if b else c", "f(a)", "prev(a, b)", "a.b", "'x'", "lambda: 1", "a < b", "(" * 80 + "a" + ")" * 80 + "+", "prev(a, 0)"]
)  # fmt: skip
def test_a_formula_has_a_closed_language(text: str) -> None:
    with pytest.raises(InvalidField):
        formulas.parse(text, "mine")


def test_formulas_that_go_in_a_circle_are_refused() -> None:
    specs = {i: IndicatorSpec(id=i, name=i, formula=f) for i, f in (("a", "b + 1"), ("b", "a * 2"))}
    with pytest.raises(InvalidField, match="circle"):
        formulas.expand("a", specs)


@pytest.mark.parametrize(
    ("text", "unit"),
    [("亿元", Unit(1e8)), ("万元", Unit(1e4)), ("百万美元", Unit(1e6, "USD")), ("million USD", Unit(1e6, "USD")), ("%", Unit(fraction=100.0)),
     ("bp", Unit(fraction=10_000.0)), ("基点", Unit(fraction=10_000.0)), ("billion yuan", Unit(1e9, "CNY")), ("港币", Unit(1.0, "HKD")), ("公里", None), ("", None)],
)  # fmt: skip
def test_units_are_read(text: str, unit: Unit | None) -> None:
    assert parse_unit(text) == unit


@pytest.mark.parametrize(
    ("text", "unit"),
    [("营业收入是多少亿元", "亿元"), ("以万元为单位", "万元"), ("单位：百万元", "百万元"), ("revenue in million USD", "million USD"), ("折合美元", "美元"), ("营业收入", None)],
)  # fmt: skip
def test_the_unit_that_an_answer_is_asked_in(text: str, unit: str | None) -> None:
    found = find_unit(text)
    assert (found[0] if found else None) == unit


def test_conversions_are_explicit_and_refuse_what_has_no_way() -> None:
    revenue = IndicatorSpec(id="r", name="revenue", unit="元")
    rate = IndicatorSpec(id="q", name="margin", unit="%")
    count = IndicatorSpec(id="n", name="staff", unit="人")
    assert find_conversion(revenue, "亿元", "").factor == pytest.approx(1e-8)
    assert find_conversion(rate, "bp", "").factor == pytest.approx(100.0)
    across = find_conversion(revenue, "百万美元", "")
    assert (across.source, across.target) == ("CNY", "USD")
    assert across.factor == pytest.approx(1e-6)
    assert "ECB" in across.format_formula("r")
    for spec, unit in ((rate, "亿元"), (count, "美元"), (revenue, "%"), (revenue, "parsec")):
        with pytest.raises(InvalidField, match="unit"):
            find_conversion(spec, unit, "")


def test_matching_brings_scores_surfaces_and_runners_up() -> None:
    layer = load([(LIBRARY, LIBRARY)]).index_names()
    found = Matcher(layer.indicators.values()).match("营收增速")
    assert (found[0].id, found[0].score) == ("operating_revenue_growth", 1.0)
    near = Matcher(layer.indicators.values()).match("growth in revenue of the firm")
    assert near[0].score < 1
    assert "operating_revenue_growth" in [item.id for item in near[:5]]
    assert all(item.score < 0.3 for item in Matcher(layer.indicators.values()).match("天气"))


def test_a_text_names_ids_in_any_spelling_and_language() -> None:
    layer = Layer(
        entities={"KO": EntitySpec(id="KO", name="Coca-Cola", name_zh="可口可乐", kind="stock")},
        indicators={"unrate": IndicatorSpec(id="unrate", name="Unemployment rate", name_zh="失业率", unit="percent")},
    ).index_names()
    for text in ("Coca-Cola, and Coca-Cola beside the unemployment rate", "失业率与可口可乐"):
        assert find_catalog_ids(layer, text) == ["KO", "unrate"]
    assert find_catalog_ids(layer, "nothing of it") == []
    assert find_catalog_ids(layer, f"{'x ' * MAX_NAMED_CHARS}Coca-Cola") == [], "only the beginning is read"
