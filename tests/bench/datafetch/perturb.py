"""Other ways to ask the same: date spellings, units, short names, slips of the pen, relative periods, colloquial words.

Every change keeps what must be found. Colloquial words come in two lists: the library's synonyms may be fitted on the
first, the second is for reporting.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from tests.bench.datafetch.finglm import Case, case_of

NUMERALS = str.maketrans("0123456789", "〇一二三四五六七八九")
WIDE = str.maketrans("0123456789()", "０１２３４５６７８９（）")
SUFFIX = re.compile(r"(?:集团)?股份有限公司$|有限公司$")
# Homophones of common characters in company names.
SOUNDS = {"科": "棵", "技": "计", "股": "古", "份": "分", "电": "店", "华": "画", "东": "冬", "新": "心", "生": "声", "材": "才", "药": "要", "集": "级",
          "团": "抟", "国": "果", "海": "嗨", "江": "将", "信": "芯", "光": "广", "金": "今", "力": "利", "达": "答", "安": "氨", "城": "诚", "银": "吟", "能": "耐"}  # fmt: skip
COLLOQUIAL_A = {
    "营业收入": ["营收", "销售收入", "收入"], "净利润": ["净利", "纯利润"], "研发费用": ["研发投入", "研发支出"], "职工总人数": ["员工总数", "员工人数"],
    "职工总数": ["员工总数", "员工数量"], "研发人员数": ["研发人数", "研发人员数量"], "资产总额": ["总资产"], "资产总计": ["总资产"], "负债合计": ["总负债"],
    "电子信箱": ["邮箱", "电子邮箱"], "公司网址": ["官网", "公司网站"], "法定代表人": ["法人代表", "法人"], "营业成本": ["销售成本", "主营业务成本"],
    "利润总额": ["税前利润"], "销售费用": ["营销费用"], "管理费用": ["行政费用"], "流动资产": ["流动资产总额"], "所得税费用": ["所得税"], "毛利率": ["销售毛利率"],
    "资产负债比率": ["资产负债率", "负债率"], "净利润率": ["净利率"], "办公地址": ["办公地点"], "营业利润": ["经营利润"], "三费比重": ["三费占比"],
    "研发费用增长率": ["研发投入增速"], "营业收入增长率": ["营收增速", "营收同比增长率"], "净利润增长率": ["净利增速", "净利润同比增速"],
}  # fmt: skip
COLLOQUIAL_B = {
    "营业收入": ["营业收入总共", "营业额", "销售额"], "净利润": ["税后净利润", "税后利润"], "研发费用": ["研发花费", "研究开发费用"], "职工总人数": ["雇员总数", "在职员工数"],
    "职工总数": ["雇员人数", "职工人数"], "研发人员数": ["研发人员总数", "研发员工数"], "资产总额": ["资产总规模", "资产规模"], "资产总计": ["总资产额"], "负债合计": ["负债总额"],
    "电子信箱": ["邮箱地址", "电子邮件地址"], "公司网址": ["官方网站", "互联网网址"], "法定代表人": ["企业法人", "法定代表"], "营业成本": ["营业成本支出", "主营成本"],
    "利润总额": ["税前总利润", "利润合计"], "销售费用": ["销售开支", "销售方面的费用"], "管理费用": ["管理开支", "管理方面的费用"], "流动资产": ["流动性资产"], "所得税费用": ["企业所得税费用"],
    "毛利率": ["毛利润率", "综合毛利率"], "资产负债比率": ["负债比率", "负债占资产比率"], "净利润率": ["销售净利率", "净利润占营收比率"], "办公地址": ["办公场所", "办公所在地"],
    "营业利润": ["营业性利润"], "三费比重": ["三费占营收比重", "三项费用比重"], "研发费用增长率": ["研发费用增速", "研发费用同比增幅"], "营业收入增长率": ["营业收入增速", "营收增幅"],
    "净利润增长率": ["净利润增幅", "净利同比增长率"],
}  # fmt: skip
OPENERS = ["请问", "麻烦查一下", "帮我看看", "想了解一下", "我想知道", "能告诉我", ""]
ENDS = ["?", "？", "，谢谢", "呢？", ""]


@dataclass(frozen=True)
class Change:
    """A way to ask otherwise; None where it does not apply."""

    name: str
    apply: Callable[[dict[str, Any], Case, random.Random, dict[str, list[str]]], Case | None]


def dates(row: dict[str, Any], case: Case, rng: random.Random, words: dict[str, list[str]]) -> Case | None:
    """The year otherwise spelt."""

    def spelt(match: re.Match[str]) -> str:
        year = match[1]
        return rng.choice(
            [
                f"{year[2:]}年",
                f"{year.translate(NUMERALS)}年",
                f"{year}年度",
                f"{year} 年",
                f"{year.translate(WIDE)}年",
                f"FY{year} ",
                f"{year}/12/31 ",
            ]
        )

    text = re.sub(r"(20\d{2})年(?!报|度)", spelt, case.question)
    return replace(case, question=text) if text != case.question else None


def relative(row: dict[str, Any], case: Case, rng: random.Random, words: dict[str, list[str]]) -> Case | None:
    """The year told from the present."""
    years = re.findall(r"20\d{2}年", case.question)
    if (
        len(years) != 1
        or len(re.findall(r"20\d{2}", case.question)) != 1
        or re.search(r"20\d{2}年(?:报|度)", case.question)
    ):
        return None
    year = int(row["year"])
    word, gap = rng.choice([("去年", 1), ("前年", 2), ("上一年", 1), ("上年度", 1)])
    text = case.question.replace(years[0], word)
    return replace(case, question=text, as_of=date(year + gap, 12, 31))


def units(row: dict[str, Any], case: Case, rng: random.Random, words: dict[str, list[str]]) -> Case | None:
    """The amount in another unit."""
    if (
        case.derived
        or not re.search("多少元|几元|单位", case.question)
        or row["type"] != "1"
        or "每股" in case.question
    ):
        return None
    if not all(re.fullmatch(r"-?[\d.]+元?", value) for _, value in case.cells):
        return None
    word, scale = rng.choice([("万元", 1e4), ("亿元", 1e8), ("百万元", 1e6), ("千元", 1e3)])
    text = re.sub(r"多少元|几元", f"多少{word}", case.question)
    text = text if text != case.question else re.sub(r"单位[是为]?元", f"单位为{word}", text)
    text = text if text != case.question else case.question.rstrip("?？。") + f"（以{word}为单位）？"
    return replace(case, question=text, scale=scale)


def names(row: dict[str, Any], case: Case, rng: random.Random, words: dict[str, list[str]]) -> Case | None:
    """The company by its short name, its code, or without what every company is called."""
    said = next((name for name in (row["company"], row["short"]) if name and name in case.question), None)
    if said is None:
        return None
    code = row["code"]
    market = "SH" if code[0] in "69" else "SZ"
    forms = [row["short"], f"{code}", f"{code}.{market}", f"{market}{code}", f"{market.lower()}.{code}"]
    core = SUFFIX.sub("", said)
    if core != said and len(core) >= 4:
        forms.append(core)
    form = rng.choice([form for form in forms if form != said])
    # A code needs a blank where a year follows it, for a person as well.
    text = re.sub(rf"(?<=[0-9A-Za-z]){re.escape(said)}", f" {form}", case.question)
    return replace(
        case, question=re.sub(rf"{re.escape(said)}(?=[0-9A-Za-z０-９])", f"{form} ", text).replace(said, form)
    )


def typos(row: dict[str, Any], case: Case, rng: random.Random, words: dict[str, list[str]]) -> Case | None:
    """One slip in the company's full name: a character lost, doubled, swapped, or written by its sound."""
    name = row["company"]
    if not name or name not in case.question or len(name) < 6:
        return None
    chars = list(name)
    spot = rng.randrange(1, len(chars) - 1)
    kind = rng.choice(["lost", "twice", "swapped", "sound"])
    sounding = [i for i, char in enumerate(chars) if char in SOUNDS]
    if kind == "sound" and sounding:
        spot = rng.choice(sounding)
        chars[spot] = SOUNDS[chars[spot]]
    elif kind == "swapped" and chars[spot] != chars[spot + 1]:
        chars[spot], chars[spot + 1] = chars[spot + 1], chars[spot]
    elif kind == "twice":
        chars.insert(spot, chars[spot])
    else:
        chars.pop(spot)
    return replace(case, question=case.question.replace(name, "".join(chars)))


def colloquial(row: dict[str, Any], case: Case, rng: random.Random, words: dict[str, list[str]]) -> Case | None:
    """The indicator as people say it."""
    for name in sorted(words, key=len, reverse=True):
        if name in case.question:
            return replace(case, question=case.question.replace(name, rng.choice(words[name])))
    return None


def phrasing(row: dict[str, Any], case: Case, rng: random.Random, words: dict[str, list[str]]) -> Case | None:
    """Other words around the same; blanks and full-width signs."""
    body = re.sub(r"^(?:请问|请提供|提供|我想知道|请告诉我)[,，]?", "", case.question).rstrip("?？。")
    return replace(
        case, question=f"{rng.choice(OPENERS)}{body}{rng.choice(ENDS)}".replace("的", rng.choice(["的", "的 "]))
    )


CHANGES = [Change(f.__name__, f) for f in (dates, relative, units, names, typos, colloquial, phrasing)]


def perturb_rows(rows: list[dict[str, Any]], words: dict[str, list[str]], seed: int) -> list[Case]:
    """Return each question with one change, the kinds in turn, and every third with a second one."""
    rng = random.Random(seed)
    cases = []
    for number, row in enumerate(rows):
        order = CHANGES[number % len(CHANGES) :] + CHANGES[: number % len(CHANGES)]
        case = case_of(row)
        done: list[str] = []
        for change in order:
            changed = change.apply(row, case, rng, words)
            if changed is not None and not (change.name in ("names", "typos") and {"names", "typos"} & set(done)):
                case, done = changed, [*done, change.name]
            if len(done) > number % 3 // 2:
                break
        cases.append(replace(case, change="+".join(done)))
    return cases


FAKE = ["星海云图科技股份有限公司", "北方蓝鲸能源股份有限公司", "华岭深空材料有限公司", "金穗数联", "苏南鼎曜生物医药股份有限公司", "云溪智造", "江北瀚霖电子股份有限公司",
        "腾跃国际控股集团", "九渊半导体", "西陵新程汽车股份有限公司", "阿里巴巴", "特斯拉", "蓝标航空工业股份有限公司", "中泰皓月食品股份有限公司", "凤台重器"]  # fmt: skip
UNKNOWN_A = ["客户满意度", "专利数量", "门店数量", "海外营业收入", "前五大客户销售占比", "市盈率", "碳排放量", "董事会会议次数", "独立董事人数", "存货周转天数",
             "预收账款", "商誉", "短期借款", "股东户数", "分红金额"]  # fmt: skip
UNKNOWN_B = ["品牌知名度", "发明专利授权数", "直营店数量", "境外主营业务收入", "前五名供应商采购占比", "市净率", "用电量", "股东大会召开次数", "女性高管人数", "应收账款周转天数",
             "合同负债", "无形资产", "长期借款", "机构持股比例", "每股股利", "回购金额", "产能利用率", "核心技术人员薪酬"]  # fmt: skip
ELSEWHERE = ["今天天气怎么样？", "帮我写一首关于春天的诗", "你是谁？", "怎样煮好一碗面？", "推荐三部电影"]


def unanswerable(rows: list[dict[str, Any]], words: list[str], seed: int, count: int = 400) -> list[Case]:
    """Questions that these tables cannot answer: another company, year or indicator, or no question of finance."""
    rng = random.Random(seed)
    cases: list[Case] = []
    for number in range(count):
        row = rng.choice(rows)
        text, kind = row["question"], number % 4
        said = next((name for name in (row["company"], row["short"]) if name and name in text), None)
        if kind == 0 and said:
            cases.append(Case(text.replace(said, rng.choice(FAKE)), "", (), change="company"))
        elif kind == 1 and len(re.findall(r"20\d{2}", text)) == 1:
            cases.append(
                Case(
                    re.sub(r"20\d{2}", rng.choice(["2012", "2015", "2016", "2024", "2030"]), text),
                    "",
                    (),
                    change="year",
                )
            )
        elif kind == 2 and said:
            ask = rng.choice(["是多少？", "是多少?请保留两位小数", "具体是多少", ""])
            cases.append(Case(f"{said}{row['year']}年的{rng.choice(words)}{ask}", "", (), change="indicator"))
        elif number % 20 == 3:
            cases.append(Case(rng.choice(ELSEWHERE), "", (), change="elsewhere"))
    return cases
