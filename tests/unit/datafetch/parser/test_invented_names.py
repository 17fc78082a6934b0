"""A company that is not there is never taken for another one; a slip in a name that is there still finds it."""

from __future__ import annotations

import random
import re

import pytest
from rapidfuzz.distance import OSA

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.resolving import Resolver
from fathom.services.datafetch.catalog.schema import EntitySpec
from fathom.services.datafetch.catalog.text import CJK
from fathom.services.datafetch.parser.lexicon import find_words, load_known_words
from fathom.services.datafetch.parser.mention import Mention, MentionKind, select
from fathom.services.planner.coverage.wording import SPELT
from tests.beside import beside

ANNUAL = beside("finglm_cn_annual") / "companies.parquet"
SEED, INVENTED, SAMPLE = 20_261_122, 400, 200
REAL = [
    ("300175", "朗源股份有限公司", "朗源股份"),
    ("300617", "江苏安靠智能输电工程科技股份有限公司", "安靠智电"),
    ("002099", "浙江海翔药业股份有限公司", "海翔药业"),
    ("002315", "焦点科技股份有限公司", "焦点科技"),
    ("002594", "比亚迪股份有限公司", "比亚迪"),
    ("000858", "宜宾五粮液股份有限公司", "五粮液"),
    ("600519", "贵州茅台酒股份有限公司", "贵州茅台"),
    ("601857", "中国石油天然气股份有限公司", "中国石油"),
    ("000651", "珠海格力电器股份有限公司", "格力电器"),
    ("601318", "中国平安保险(集团)股份有限公司", "中国平安"),
]
US = [
    ("MSFT", "Microsoft", "Microsoft Corporation"),
    ("UNH", "UnitedHealth Group", "UnitedHealth Group Incorporated"),
    ("SIE", "Siemens", "Siemens AG"),
    ("SHEL", "Shell", "Shell PLC"),
    ("DAL", "Delta Air Lines", "Delta Air Lines, Inc."),
]
FORMS = ["股份有限公司", "有限责任公司", "集团股份有限公司", "有限公司", "控股股份有限公司"]
TRADES = "能源 科技 药业 电子 实业 食品 材料 机械 生物 地产 汽车 环保".split()  # noqa: SIM905
STEMS = [
    "国家",
    "东方",
    "远山",
    "星河",
    "华盛",
    "瑞丰",
    "恒泰",
    "云帆",
    "锦绣",
    "天启",
    "博源",
    "海朗",
    "宏图",
    "金源",
    "新朗",
    "北辰",
    "嘉禾",
    "长虹桥",
    "万象城",
    "青松",
]
LEGAL = re.compile(r"(?:集团|控股|股份|有限|责任|公司|\(|\))+$")


def resolver(companies: list[tuple[str, str, str]], market: str = "CN") -> Resolver:
    specs = {
        ident: EntitySpec(id=ident, name=name, kind="stock", aliases=[short], market=market)
        for ident, name, short in companies
    }
    return Resolver(Layer(entities=specs).index_names(), load_known_words())


def companies_of_the_annual_reports() -> list[tuple[str, str, str]]:
    import pandas as pd

    frame = pd.read_parquet(ANNUAL).drop_duplicates("stock_code", keep="last")
    columns = ["stock_code", "company_full_name", "company_short_name"]
    return list(frame[columns].itertuples(index=False, name=None))


def invent_names(companies: list[tuple[str, str, str]]) -> list[str]:
    """Invent names that are none of the companies', nor one character away from one: that would be a slip of the pen."""
    chance = random.Random(SEED)
    real = {LEGAL.sub("", name) for _, *names in companies for name in names}
    found: list[str] = []
    while len(found) < INVENTED:
        core = chance.choice(STEMS) + chance.choice(["", *STEMS]) + chance.choice(TRADES)
        if core not in real and all(OSA.distance(core, other, score_cutoff=1) > 1 for other in real):
            found.append(core + chance.choice(FORMS))
    return found


def find_similar(reader: Resolver, text: str) -> list[tuple[str, ...]]:
    """Return who is found by likeness; a known name inside a longer one is for the reader of the whole question."""
    return [item.ids for item in reader.approximate(text)]


@pytest.mark.parametrize("source", ["fixture", "annual reports"])
def test_an_invented_company_is_nobody(source: str) -> None:
    if source == "annual reports" and not ANNUAL.is_file():
        pytest.skip(f"{ANNUAL} is not here")
    companies = REAL if source == "fixture" else companies_of_the_annual_reports()
    reader = resolver(companies)
    wrong = {}
    for name in invent_names(companies):
        found = find_similar(reader, f"{name}2019年的净利润是多少")
        if found:
            wrong[name] = found
    assert wrong == {}


@pytest.mark.parametrize("stem", ["国家", "北方", "上海东方", "广东", "新"])
def test_a_legal_form_is_no_part_of_a_likeness(stem: str) -> None:
    reader = resolver(REAL)
    for form in FORMS:
        assert find_similar(reader, f"{stem}能源{form}2019年净利润") == []


def test_a_beginning_of_another_company_is_no_slip_of_the_pen() -> None:
    known = [("600617", "山西省国新能源股份有限公司", "国新能源")]
    other = ("000966", "国家能源集团长源电力股份有限公司", "长源电力")
    for form in ("", *FORMS):
        assert find_similar(resolver([*known, other]), f"国家能源{form}2019年净利润") == []
    assert find_similar(resolver([*known, other]), "国辛能源2019年净利润") == [("600617",)]


def test_a_whole_name_with_another_character_in_somebodys_short_one_is_nobody() -> None:
    reader = resolver([("300178", "腾邦国际商业服务集团股份有限公司", "腾邦国际")])
    for form in ("控股集团", *FORMS):
        assert find_similar(reader, f"腾跃国际{form}2020年净利润") == []
    for name in ("腾帮国际", "腾那国际", "腾邦国际商业服努集团股份有限公司"):
        assert find_similar(reader, f"{name}2020年净利润") == [("300178",)]


@pytest.mark.parametrize(
    ("text", "ident"),
    [
        ("焦点科枝2019年的净利润", "002315"),
        ("焦点科枝股份有限公司2019年的净利润", "002315"),
        ("请问海翔药叶2019年的净利润", "002099"),
        ("郎源股份2019年的净利润", "300175"),
        ("中国石由天然气股份有限公司的营业收入", "601857"),
        ("浙江海翔药业有限公司2019年的净利润", "002099"),
    ],
)
def test_a_slip_in_the_core_of_a_name_still_finds_it(text: str, ident: str) -> None:
    assert find_similar(resolver(REAL), text) == [(ident,)]


@pytest.mark.parametrize(
    ("text", "ident", "words"),
    [
        # Within the legal form, lost at the end of it, and before the short name.
        ("焦点科技股份有公限司2019年净利润", "002315", "焦点科技股份有公限司"),
        ("焦点科技股份有限司公净利润", "002315", "焦点科技股份有限司公"),
        ("焦点科技股份有限公净利润", "002315", "焦点科技股份有限公"),
        ("浙江海翔药业股份份有限公司净利润", "002099", "浙江海翔药业股份份有限公司"),
        ("珠海格力电气器股份有限公司净利润", "", ""),
        # The whole name without its legal form, of which the short name is a part.
        ("珠海格力电器净利润", "000651", "珠海格力电器"),
        ("焦点科技股份有限公司净利润", "002315", "焦点科技股份有限公司"),
        ("焦点科技净利润", "002315", "焦点科技"),
        # Words of another name, and of another company, stay apart.
        ("焦点科技园股份有限公司净利润", "002315", "焦点科技"),
        ("焦点科技古份有限公司净利润", "002315", "焦点科技古份有限公司"),
        ("焦点科技实业控股有限公司净利润", "002315", "焦点科技"),
    ],
)
def test_a_short_name_is_as_long_as_the_name_that_is_written_around_it(text: str, ident: str, words: str) -> None:
    found = [(item.id, text[item.start : item.end]) for item in resolver(REAL).exact(text)]
    assert found == ([(ident, words)] if ident else [])


def test_a_name_without_its_legal_form_takes_no_words_of_another_name() -> None:
    gas = EntitySpec(id="NG", name="天然气", kind="commodity")
    oil = EntitySpec(id="601857", name="中国石油天然气股份有限公司", kind="stock", aliases=["中国石油"])
    reader = Resolver(Layer(entities={spec.id: spec for spec in (gas, oil)}).index_names(), load_known_words())
    assert [item.id for item in reader.exact("中国石油天然气价格")] == ["601857", "NG"]


@pytest.mark.parametrize("name", ["Siemans AG", "Siemens Inc", "Microsft", "Microsft Corp", "UnitedHealht Group Ltd"])
def test_a_slip_in_an_english_name_finds_it_whatever_its_legal_form(name: str) -> None:
    [ids] = find_similar(resolver(US, "US"), f"What did {name} earn in 2019?")
    assert ids[0] in ("SIE", "MSFT", "UNH")


@pytest.mark.parametrize(
    "name",
    [
        "Data Air Lines Group",
        "Simons AG",
        "Nordic Siemans Wind Power Inc",
        "United Group",
        "Health Corp",
    ],
)
def test_an_invented_english_company_is_nobody(name: str) -> None:
    assert find_similar(resolver(US, "US"), f"What did {name} earn in 2019?") == []


@pytest.mark.parametrize("source", ["fixture", "annual reports"])
def test_a_company_with_another_character_in_its_name_is_never_taken_for_it_without_a_word(source: str) -> None:
    """The reading says less than full confidence, which "Read as" shows, or leaves words of the name unread."""
    if source == "annual reports" and not ANNUAL.is_file():
        pytest.skip(f"{ANNUAL} is not here")
    companies, chance = REAL if source == "fixture" else companies_of_the_annual_reports(), random.Random(SEED)
    reader, silent, asked = resolver(companies), [], 0
    for _, full, _ in chance.sample(companies, min(SAMPLE, len(companies))):
        core = LEGAL.sub("", full)
        at = chance.choice([at for at, char in enumerate(core) if CJK.match(char)])
        name = core[:at] + chr(chance.randrange(0x4E00, 0x9FA5)) + core[at + 1 :] + full[len(core) :]
        text = f"{name}2019年的净利润是多少"
        found = reader.exact(text) or reader.approximate(text)
        read = [Mention(MentionKind.ENTITY, item.start, item.end, item.id, item.confidence) for item in found]
        unread = [item for item in select(find_words(text, read), MentionKind.UNKNOWN) if item.start < len(name)]
        asked += 1
        if any(item.confidence >= SPELT for item in read) and not unread:
            silent.append((full, name))
    assert len(silent) <= 0.005 * asked, silent
