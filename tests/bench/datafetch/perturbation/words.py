"""Other words for the same: names, slips of the pen, colloquial indicators, units and phrases around a question."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from tests.bench.datafetch.perturbation.dates import join_parts

CJK = re.compile(r"[\u4e00-\u9fff]")
# Characters that sound or look like another, common in names of companies.
LIKE = dict(zip("微软苹果英伟达特斯拉标普纳克可乐百事宝洁强生辉瑞科技股份电子新材料能源药业银行集团信息", "薇阮平裹鹰韦答忒思啦镖谱那刻口勒白市保杰墙声灰锐棵枝骨分店仔心才科能原要叶引航级团讯系", strict=True))  # fmt: skip
FIT: Mapping[str, tuple[str, ...]] = {
    "closing price": ("close", "price at the close"), "share price": ("stock price", "price per share"), "unemployment rate": ("jobless rate",),
    "annualised volatility": ("annualized volatility",), "maximum drawdown": ("max drawdown",), "10-year Treasury yield": ("ten-year yield",),
    "fed funds rate": ("federal funds rate",), "inflation": ("CPI inflation",), "nominal GDP": ("GDP in current dollars",),
    "收盘价": ("收盘", "收市价"), "股价": ("股票价格",), "涨幅": ("涨了多少",), "最大回撤": ("最大跌幅回撤",), "年化波动率": ("波动率（年化）",), "失业率": ("失业比率",),
    "同比增速": ("同比增长率",), "收益率": ("回报率",), "十年期美债收益率": ("10年期美债收益率",), "汇率": ("兑换率",),
    "营业收入": ("营收", "销售收入"), "净利润": ("净利", "纯利润"), "法定代表人": ("法人代表",), "资产负债比率": ("资产负债率",), "研发费用": ("研发支出",),
    "职工总人数": ("员工总数",), "电子信箱": ("电子邮箱",), "公司网址": ("官网网址",), "毛利率": ("销售毛利率",), "营业成本": ("销售成本",),
}  # fmt: skip
HELD: Mapping[str, tuple[str, ...]] = {
    "closing price": ("last price of the day", "closing quote"), "share price": ("price of the stock",), "unemployment rate": ("rate of unemployment",),
    "annualised volatility": ("yearly volatility",), "maximum drawdown": ("worst drawdown",), "10-year Treasury yield": ("yield on the 10-year Treasury",),
    "fed funds rate": ("Fed's policy rate",), "inflation": ("consumer price inflation",), "nominal GDP": ("GDP at current prices",),
    "收盘价": ("收盘时的价格", "收盘报价"), "股价": ("每股价格",), "涨幅": ("上涨幅度", "升幅"), "最大回撤": ("最大的回撤幅度",), "年化波动率": ("年化的波动率",), "失业率": ("失业人口比例",),
    "同比增速": ("同比涨幅",), "收益率": ("收益水平",), "十年期美债收益率": ("美国十年国债利率",), "汇率": ("牌价",),
    "营业收入": ("营业额", "营业总收入"), "净利润": ("税后利润", "净赚"), "法定代表人": ("企业法人",), "资产负债比率": ("负债率",), "研发费用": ("研发花的钱", "研发开支"),
    "职工总人数": ("全部职工数", "在职人数"), "电子信箱": ("邮件地址",), "公司网址": ("网站地址",), "毛利率": ("毛利润率",), "营业成本": ("经营成本",),
}  # fmt: skip
UNITS = {
    ("CNY", "zh"): (("万元", 1e4), ("亿元", 1e8), ("百万元", 1e6), ("千元", 1e3)),
    ("USD", "zh"): (("亿美元", 1e8), ("万亿美元", 1e12), ("百万美元", 1e6)),
    ("USD", "en"): (("millions of dollars", 1e6), ("USD trillion", 1e12), ("billion US dollars", 1e9)),
}  # fmt: skip
PHRASES = {
    "zh": (("请问，", ""), ("帮我查一下", ""), ("麻烦看看", "，谢谢"), ("", "，急"), ("想了解一下", ""), ("", "？？")),
    "en": (("Please tell me: ", ""), ("Could you look up ", "?"), ("hi, ", " thanks"), ("I need this: ", ""), ("", " please")),
}  # fmt: skip
PUNCTUATION = str.maketrans({"？": "?", "，": ",", "。": ".", "（": "(", "）": ")"})


def swap_name(text: str, old: str, new: str) -> str:
    """Replace the first occurrence of a name; Latin names only as whole words. Codes never run into a year."""
    edge = ("", "") if CJK.search(old) else (r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])")
    match = re.search(edge[0] + re.escape(old) + edge[1], text)
    if match is None:
        return text
    return join_parts(text[: match.start()], new, text[match.end() :])


def find_name(text: str, names: tuple[str, ...]) -> str:
    """Return the longest of the names that stands in the text; "" for none."""
    return next((n for n in sorted(names, key=len, reverse=True) if n and swap_name(text, n, "\0") != text), "")


def replace_name(text: str, names: tuple[str, ...], lang: str, rng: random.Random) -> str:
    """Put another name for the thing: in an English text never a Chinese one."""
    now = find_name(text, names)
    ways = [name for name in names if name != now and (lang == "zh" or not CJK.search(name))]
    return swap_name(text, now, rng.choice(ways)) if now and ways else text


def misspelt(text: str, names: tuple[str, ...], rng: random.Random) -> str:
    """One slip in the name: a character lost, doubled, exchanged with its neighbour, or written as one like it."""
    now = find_name(text, names)
    if len(now) < (4 if CJK.search(now) else 6) or now.isupper():
        return text
    slips = sorted({slip for slip in slips_of(now) if slip.casefold() not in {name.casefold() for name in names}})
    return swap_name(text, now, rng.choice(slips)) if slips else text


def slips_of(name: str) -> list[str]:
    """Every single slip behind the first character."""
    found = []
    for i in range(1, len(name) - 1):
        if not name[i].isalpha():
            continue
        found.append(name[: i + 1] + name[i:])
        # A short Chinese name without one of its characters can be anybody's.
        if len(name) >= 6:
            found.append(name[:i] + name[i + 1 :])
        if name[i] != name[i + 1] and name[i + 1].isalpha():
            found.append(name[:i] + name[i + 1] + name[i] + name[i + 2 :])
        if name[i] in LIKE:
            found.append(name[:i] + LIKE[name[i]] + name[i + 1 :])
    return found


def colloquial(text: str, half: Mapping[str, tuple[str, ...]], rng: random.Random) -> str:
    """The longest known indicator as people say it; not where its name goes on, as in 营业成本率 and 净利润增长率."""
    now = find_name(text, tuple(half))
    longer = rf"(?:breakeven |CPI |债){re.escape(now)}|{re.escape(now)}(?:率|比|增长|总额|与|占| expectation)"
    if not now or re.search(longer, text):
        return text
    return swap_name(text, now, rng.choice(half[now]))


def in_unit(text: str, money: str, lang: str, rng: random.Random) -> tuple[str, str, float] | None:
    """The amount asked for in another unit; None where there is no amount or a unit is asked for already."""
    ways = UNITS.get((money, lang))
    if ways is None or re.search(r"[万亿]美?元|trillion|billion|million", text):
        return None
    word, scale = rng.choice(ways)
    if lang == "en":
        return f"{text.rstrip('?. ')}, in {word}?", word, scale
    changed = re.sub(r"多少元|几元", f"多少{word}", text)
    changed = changed if changed != text else re.sub(r"单位([是为]?)元", rf"单位\g<1>{word}", text)
    return (changed if changed != text else f"{text.rstrip('?？。 ')}（单位：{word}）"), word, scale


def add_phrases(text: str, lang: str, rng: random.Random) -> str:
    """Add words and signs around the question that say nothing."""
    head, tail = rng.choice(PHRASES[lang])
    body = text.rstrip("?？。. ") if tail else text
    if head and lang == "en" and body[:2].istitle() and body.split()[0] in ("What", "How", "At", "By"):
        body = body[0].lower() + body[1:]
    return f"{head}{body}{tail}".translate(PUNCTUATION if rng.random() < 0.5 else {})
