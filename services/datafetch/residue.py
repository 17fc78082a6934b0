"""Detection of meaningful unmatched words, without stop words and filler phrases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from services.datafetch.semantic.text import CJK

# Capitalised words that look like a name; used only to report unknown names, never to guess.
NAME_LIKE = re.compile(r"\b(?:[A-Z][a-z]+(?:\s+[A-Z][a-z]+)*|[A-Z]{2,5})\b")
# Words that begin a sentence, or that denote a method, a unit or a time rather than an entity.
COMMON = frozenset(
    """A An And Annual At Average Between Both By CAGR CEO Calculate Chart Compare Compared Compute Daily
    Describe Did Do Does Draw During Explain Find For From GDP Get Give Global Has Have Hello Hi How I
    If In Is It January February March April May June July August September October November December
    Let List Maximum Minimum Monthly Name Of On Or Over Please Plot Price Q1 Q2 Q3 Q4 Quarterly
    Rank Return Share Show Since Stock Suppose Table Tell Thanks The Their Then They This To
    Total US USA Until Versus Volatility Was Were What When Where Which While Who Why Will With Would
    Year Yearly ETF CPI PCE YoY YTD QoQ TTM Sell Buy Great Financial Crisis Recession Covid Dollar Euro Federal
    Convert Express Report Return Returns Using Use Can Could Also Highest Lowest Top Largest Smallest Latest
    SA NSA SAAR UTC Month Quarter Weekly Change Net Compound Annualised Annualized Max Min Mean Sum Just Trend Closing Close Closes
    Day Days Week Saturday Sunday Monday Tuesday Wednesday Thursday Friday Period Past Last Next Current Cumulative
    During Over Ten Two Three Five Value Level Peak Worst Best Most Recent Sep Aug Oct Nov Dec Jan Feb Mar Apr Jun Jul""".split()  # noqa: SIM905 - a list of words is easier to read so
)
PHRASES = """
请问 请 问 请提供 提供 请告诉 告诉我 我想知道 想知道 我想了解 想了解 了解 我需要 我要 能否 可否 是否 能不能 可以 麻烦 帮我 帮忙 查一下 查询 查查 查 计算 计算出 算一下 算 求 给出 给我 列出 列示 写出 说明 说出
一下 分别 各自 具体 具体数值 具体数据 详细 详细数据 详细信息 数据 数值 数额 金额 情况 信息 数字 值 额 规模 水平 大小 总额 总量 数量 总数 人数 比例 比率
是多少 是什么 是哪里 是谁 是几 为多少 为什么 有多少 有几 多少 什么 哪里 哪儿 哪个 哪些 哪位 谁 几个 几 是 为 有 在 的 了 和 与 及 以及 还有 并 并且 或 或者 而 其 该 这 那 这家 该公司 公司 企业 上市公司 集团 股份 他们 它 它们
年报 年度报告 年度 报告 报告中 报告期 财报 财务报告 财务报表 财务数据 财务 报表 中 里 内 时 期间 当年 当期 本期 同期 末 底 期末 年末 截至 截止 根据 依据 按照 按 基于 从 到 至 对比 相比 比较 相较 比 较 与上年 变化 变动 增减 是否相同 相同 不同 一样 一致 有无 有没有 改变 变更
保留 保留两位小数 保留2位小数 请保留 两位小数 2位小数 小数 小数点 小数点后 小数点后两位 小数点后2位 位小数 两位 需要 后两位 并保留 且保留 四舍五入 结果 答案 回答 精确 至 单位 元 万元 亿元 人 名 位 个 百分比 百分之 单位是 单位为 使用
下 情况下 的话 如果 对于 关于 有关 相关 涉及 方面 提及 披露 显示 记载 公布 发布 公告 所 被 将 把 让 使 能 会 要 应 就 都 也 还 又 再 吗 呢 吧 啊 呀 嘛 谢谢 谢谢你 谢谢啊 您好 你好 好 多大 多高 怎么样 如何 怎样 怎么 走势 图 表 表格 画 展示 显示 分析 看看 看 说 讲 介绍 期 历史 最近 目前 现在 今天
当时 总共 一共 共 共有 合计 全部 所有 整个 整体 大约 大概 约 左右 达到 达 实现 取得 录得 获得 拥有 存在 属于 名称 数 我 你 您 我们 你们 咱 想 知道 知晓 得知 获取 获悉 得到 找 找到 找出 准确 确切 精准 准确的 具体是 地 得 着 过 上 以 于 之 间 对 由 向 给 用 跟 同 等 某 各 每 另外 此外 同时 其中 那么 那 么 嗯 哎 请教 年 月 日 号 季度 季 全年 一年 财年 份 两 三 二 一 2 第 开始 起 以来 至今 的时候 时候 之间 还是 这个 那个 这些 这一 一 点 后 前 小 帮 帮查 查找 检索 资料 内容 部分 项 项目 指标 名义 水准 现 呈现 表示 计 为单位 折合 换算 汇总 统计 呢吗 共计 多 少 各是 各为 都是 均 平均 最 大 高 低 最大 最高 最低 最小 多少钱 钱 存量 (年化) (季调) (年度) (季末) 季调 增加 减少 上升 下降 上涨 下跌 增长 了 日 当日 当天 收 收在 收盘时 收盘 哪天 哪只 哪家 哪支 哪一只 哪一家 哪个 美股 美国市场 美股市场 股票 一股 每股 每桶 每盎司 盎司 桶 一桶 合 折 兑换 换 能换 可以换 可换 可以兑换 能兑换 等于 相当于 值 值多少 平均值 请帮忙 列一下 列出来 拉一下 看一下 对比一下 比较一下 那天 那日 那会儿 收于 报 报多少 走高 走低 上行 下行 回升 回落 读数 季调后 未季调 经季调 季节调整 每个 每 个 交易日 逐日 每日 每天 从高点到低点 最多 日度 月度 年度值 月度数据 差 差多少 倒挂 倒挂多少 高多少 间 之间 百分之几 百分之多少 几个 百分点 个百分点 基点 个基点 点 几 哪一天 出现在 用 以 用于 不 波动 变化幅度 幅度 累计 全部 整年 分年 各年 对应 的话 那天 何时 比重 比例 季 月 周 年 累计 单 单季 单季度
"""
WORDS = sorted(set(PHRASES.split()), key=len, reverse=True)
FILLER = re.compile("|".join(map(re.escape, WORDS)))
RUN = re.compile(r"[\u3400-\u9fffA-Za-z0-9&·()]*[\u3400-\u9fff]+[\u3400-\u9fffA-Za-z0-9&·()]*")
ECONOMIES = re.compile(
    r"\b(?:euro[\s-]?(?:area|zone)|europe(?:an union)?|germany|german|france|french|italy|spain|uk|u\.k\.|united kingdom|britain|british|japan"
    r"|japanese|china|chinese|india|canada|canadian|brazil|mexico|korea|russia|switzerland|australia)(?:'s)?\b"
    r"|欧元区|欧盟|欧洲|德国|法国|意大利|西班牙|英国|日本|中国|印度|加拿大|巴西|墨西哥|韩国|俄罗斯|瑞士|澳大利亚",
    re.I,
)
STOP_WORDS = frozenset(
    """a an the and or of in on at to for from by with as is are was were be been do does did has have had it its this that
    these those what which who when where why how many much me my i you we us show give tell list find get please compare
    compared versus vs between during over since until through into per each every all any some daily weekly monthly
    quarterly annual annually yearly year years month months week weeks day days quarter quarters period data figure
    figures number numbers value values level levels series table chart plot draw graph history historical latest last
    current currently now recent today yesterday first second third fourth half end start beginning close closes closing
    price prices share shares stock stocks index rate rates return returns performance total average mean maximum minimum
    highest lowest high low change changes growth percent percentage points basis point unit units terms not only just one
    two three four five six seven eight nine ten ago past next previous prior before after against than more less up down
    rise fall rose fell gain gains loss losses drawdown volatility trend price's if so such then there their they can could
    would should will about explain describe summarize calculate compute using use based on moving ratio minus plus
    saturday sunday monday tuesday wednesday thursday friday hello hi thanks thank good morning evening divided stand newest reading end cost costs euro euros buy bought ounce ounces barrel averages averaged lost just give ecb reference
    your our his her far go goes gone went come came coming see seen look looks looking pull fetch retrieve please kindly need needs want wants
    know known like check quote quotes quoted report reports reported reading readings print prints printed release released published publish
    did done doing does hold held holds work works worked working sell sold trade trades traded trading finish finished settle settled settlement
    open opened opening worth paid pay pays make made makes put set sets stood sit sits around about roughly approximately exactly precisely
    still yet already again ever never always often usually only really very much quite too also even both either neither other others another
    same different similar higher lower greater smaller bigger larger better worse wide wider narrow deep deeper steep far near
    month's year's quarter's week's day's end's begin begins began starting ended ending finish across within along among below above under
    off out into onto upon via without versus relative compared comparing comparison compare side beside together respectively separately
    combined complete full whole entire overall single double full-year calendar trading session sessions date dates dated time times moment
    point-in-time per-share each-year adjusted unadjusted seasonally nominal actual real-time official headline monthly-average ask asking asked
    answer question available range size count counts tally print prints calculate calculated compute computed work figure out express expressed convert converted conversion denominate denominated
    percent percentage pct bps pp cent cents dollar dollars yuan yen pounds sterling currency currencies exchange shares unit units thousand
    thousands million millions billion billions trillion trillions hundred many few several couple some any no none nothing something
    may might must shall let's im i'm i'd you're it's that's what's where's who's whose whom there's here there thereby hence thus therefore
    because since although though while whereas whether unless except including include includes included excluding plus minus times
    rise rises rising risen fall falls falling fallen drop drops dropped dropping climb climbs climbed climbing gain gaining lose loses losing
    increase increases increased increasing decrease decreased decline declines declined declining jump jumped surge surged plunge plunged
    slump slumped tumble tumbled shed add added adding grow grows grew grown growing shrink shrank shrunk move moved moves moving swing
    advance advanced slide slid soar soared rally rallied perform performed performing fare fared appreciate appreciated depreciate widen widened
    narrow narrowed exceed exceeded exceeds outperform beat behave peak peaked bottom bottomed top topped reach reached hit record touched touch
    week-end month-end quarter-end year-end end-of-month end-of-quarter end-of-year end-of-week day-by-day month-by-month ups downs highs lows
    goods merchandise cumulative cumulatively altogether sum summed apart typical normal usual world us u.s american america""".split()  # noqa: SIM905
)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
COMPANY_TAIL = re.compile(r"股份|集团|有限|公司|控股")
COMPANY_END = re.compile(
    r"(?:公司|集团|股份|银行|证券|科技|控股|实业|药业|电子|能源|保险|汽车|地产|食品|材料|机械|制药|生物)$"
)


MULTIPLE = re.compile(r"\b(?:[A-Z]{1,3}/[A-Z]{1,6}|p/[ebs])\b")
"""Valuation multiples: P/E, EV/EBITDA."""
GLUE = "比对和与在从由给用各"


def unknown_names(rest: str) -> list[str]:
    """Return Latin words of a blanked question that look like names, and multiples such as "P/E"."""
    unknown: list[str] = [match.group() for match in MULTIPLE.finditer(rest)]
    rest = MULTIPLE.sub(lambda match: "\0" * len(match[0]), rest)
    for match in NAME_LIKE.finditer(rest):
        hyphened = (
            rest[match.end() : match.end() + 2] in ("-o", "-b", "-e") or rest[match.start() - 1 : match.start()] == "-"
        )
        words = " ".join(
            word for word in match.group().split() if word not in COMMON and word.lower() not in STOP_WORDS
        )
        if hyphened and len(words) < 4:
            continue
        if words and words not in unknown:
            unknown.append(words)
    return unknown


def latin_leftovers(rest: str) -> list[str]:
    """Return runs of Latin words of a blanked question, split at stop words."""
    runs: list[list[str]] = [[]]
    last = 0
    for match in WORD.finditer(rest):
        word = match.group().lower().removesuffix("'s")
        if word in STOP_WORDS or match.group() in COMMON or len(word) < 2:
            runs.append([])
        else:
            if rest[last : match.start()].strip():
                runs.append([])
            runs[-1].append(match.group())
        last = match.end()
    return [" ".join(run) for run in runs if run]


def chinese_leftovers(rest: str) -> Iterator[tuple[str, int, int]]:
    """Yield runs of Chinese words of a blanked question with their start and end, trimmed of filler phrases."""
    for run in RUN.finditer(rest):
        start, end = trimmed(rest, run.start(), run.end())
        words = rest[start:end]
        if len(words) == 2 and start > run.start() and rest[start - 1] in GLUE and CJK.match(rest[start]):
            # The first character of 比亚迪 is a word elsewhere and was trimmed.
            start -= 1
            words = rest[start:end]
        if len(words) >= 2 and FILLER.sub("", words):
            yield words, start, end


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the filler phrases at its ends."""
    changed = True
    while changed and start < end:
        changed = False
        for word in WORDS:
            if text.startswith(word, start, end):
                start, changed = start + len(word), True
                break
        for word in WORDS:
            if start < end and text.endswith(word, start, end):
                end, changed = end - len(word), True
                break
    return start, end


def is_company(words: str, rest: str, end: int) -> bool:
    """Return whether unmatched words end, or go on, like a company name: 公司, 集团, 银行."""
    tail = rest[end : end + 2]
    return bool(COMPANY_END.search(words)) or tail in ("公司", "集团", "股份", "企业")
