"""Cue words for operators: statistics, newest value, output frequency, growth and combinations."""

from __future__ import annotations

import re

from fathom.services.datafetch.query.model import Combination, Frequency, Statistic

# Words for the whole series, which no single number answers: "plot", "time series", 走势.
SERIES = re.compile(
    r"走势|曲线|画|图表|作图|\b(?:chart|plot|draw|trend|time series|day by day|month by month)\b", re.I | re.A
)
# "Performance" alone asks for no statistic; "performance in %" does.
BROAD = re.compile(r"表现|\bperformances?\b(?!.*(?:%|percent))", re.I | re.A)
# Verbs of moves in Chinese, used inside the patterns below; longer ones first, since alternatives match in order.
UP = "上升|上涨|增加|增长|升高|提高|上行|走高|走强|回升|抬升|攀升|扩大|走阔|反弹|飙升|升值|涨|升|上|增|加"
DOWN = "下降|下跌|减少|降低|下行|走低|走弱|回落|下滑|收窄|缩小|缩窄|跌|降|下|减|蒸发|缩水|贬值|回撤|变动|变化|波动"
# English verbs of moves in all forms; the suffix group inflects the regular ones.
MOVED = (
    r"(?:rise|rose|risen|fall|fell|fallen|drop|climb|gain|lose|lost|increase|decrease|decline|jump|surge|plunge|slump|tumble|shed|add"
    r"|grow|grew|grown|shrink|shrank|shrunk|move|change|advance|slide|slid|soar|appreciate|depreciate|rally|rallied|return|widen|narrow"
    r"|go up|went up|go down|went down|come down|came down|put on|give up|gave up|swing|swung|expand|contract|rebound|recover)(?:p?ed|d|s|es|ing)?"
)
# Units of an absolute change: "points", "basis points", "jobs", "million".
COUNTED = r"(?:percentage[\s-]points?|basis[\s-]points?|pct pts?|points?|pps?|bps?|jobs|people|persons|workers|units|dollars|(?:thousand|million|billion)s?)"
# Order decides twice: a phrase that matched is removed before the next pattern (年化收益率 must not count as 收益率),
# and the statistics of a query keep this order.
STATISTICS: list[tuple[re.Pattern[str], Statistic]] = [
    (re.compile(pattern, re.I | re.A), statistic)
    for pattern, statistic in [
        # "maximum drawdown", 最大回撤, "worst decline from", 从最高点到最低点.
        (r"最大回撤|最大跌幅|回撤|从(?:最)?高点?(?:位)?(?:跌)?[到至](?:最)?低点?(?:位)?(?:的)?(?:最多|最大)?|max(?:imum)?\.?\s+drawdowns?|drawdowns?|peak[\s-]to[\s-]trough"
         r"|\b(?:worst|deepest|biggest|largest) (?:decline|drop|loss|fall) from", Statistic.DRAWDOWN),
        # "volatility", 年化波动率, "annualized standard deviation".
        (r"年化波动率|年化波动|波动率|波动性|波动(?:有)?(?:多大|多少|如何|多高)|\bvolatility\b|\bvolatile\b|\b(?:annuali[sz]ed )?vol\b|\bannuali[sz]ed standard deviation\b", Statistic.VOLATILITY),
        # "CAGR", 年化收益率, 复合增长率, "compound annual", "annualized returns".
        (r"年化(?:收益率?|回报率?|涨幅|增速|增长率?)|年?(?:均)?复合(?:年均?)?(?:增长率|增速|收益率|回报率|涨幅|增长)|复合年化(?:收益率|回报率|增长率|增速|涨幅)?|年均复合|年均(?:涨幅|收益率|回报率|增速|增长率)"
         r"|\bcagr\b|compound(?:ed)? annual|annual(?:i[sz]ed)? (?:compound(?:ed)? )?(?:return|growth) ?(?:rate)?\b(?=.*\b(?:from|between|over|since|past)\b)"
         r"|\bannual(?:i[sz]ed)? compound\w*(?: (?:return|growth)(?: rate)?)?|annuali[sz]ed (?:returns?|gains?)|annual rate\b.*\bcompound\w*|\bcompound\w*\b.*\bper (?:year|annum)|(?:return|gain)s? per (?:year|annum)", Statistic.CAGR),
        # "average", 日均, 平均值; 月均汇率 is an indicator of its own.
        (r"均值|日均|月均(?!汇率)|平均值?|均价|\b(?:average|averaged|mean)\b", Statistic.MEAN),
        # "highest", 峰值, "peaked"; "maximum drawdown" has been removed above.
        (r"最高|最大值|峰值|高点|顶点|见顶|\b(?:highest|maximum|peak|peaked|all-time high|record high|topped out)\b(?!\s+drawdown)|\bhighs\b|\bhigh\b\s*[?.]?$|\bhigh\b(?= (?:of|in|for|close))", Statistic.MAX),
        # "lowest", 谷底, "bottomed".
        (r"最低|最小值|谷底|低点|见底|\b(?:lowest|minimum|trough|troughed|bottom|bottomed)\b(?!\s+volatility)|\blows\b|\blow\b\s*[?.]?$|\blow\b(?= (?:of|in|for|close))", Statistic.MIN),
        # An absolute change, by its unit: 上升了多少个百分点, "how many jobs were added", "change of 25 basis points".
        (rf"(?:{UP}|{DOWN})了?(?:大?约|共计?)?(?:多少|几)(?:个?百分点|个?基点|个?bps?|点|亿|万|千|人|套|元|美元)|净?新增"
         rf"|\b(?:how many|by how many|what)\s+(?:more |fewer )?{COUNTED}\b.*\b{MOVED}\b|\b{MOVED}\b.*\bby how many {COUNTED}\b"
         rf"|\b(?:changes?|moves?|increase|decrease|rise|fall|drop|decline|gain) (?:of|in|for)\b.*\b(?:percentage points?|basis points|points|bps?)\b"
         r"|net change|change from the month before|basis points during", Statistic.CHANGE),
        # A relative change: 涨幅, "how much did it rise", "total return", "percentage change". 收益率曲线 is a curve,
        # 涨跌停 a trading limit.
        (rf"涨了|跌了|回报|涨幅|跌幅|涨跌(?!停)|(?:升值|贬值)(?:了)?(?:幅度|多少|几|百分之)|[高低](?:出|了)?百分之[几多]|收益率(?!曲线)|回报率|累计收益|收益(?!率|曲线|债|公告)|累计[涨跌]|(?:{UP}|{DOWN})了?(?:大?约)?(?:多少|几个点|几成|百分之)"
         rf"|\b(?:total |cumulative |price )?returns?\b|price (?:gains?|appreciation|change)\b|\bhow (?:much|far)\b.*\b{MOVED}\b|\b{MOVED}\b.*\bby how much\b"
         rf"|\b(?:what|how many|by what|by how many) per ?cent(?:age)?\b.*\b{MOVED}\b|\bhow (?:did|has|have|well did)\b.*\b(?:do|done|fare|fared|perform|performed)\b"
         r"|(?:price )?change in per ?cent|% (?:change|gain|loss|move)|percent(?:age)? (?:change|gain|loss|move|increase|decrease|rise|decline)|% (?:increase|decrease|rise|decline|growth)|\bhow (?:much|far) (?:higher|lower)\b|\bdaily (?:change|move)\b|how many percent did|\bperformance\b|\b(?:gained|lost)\b", Statistic.RETURN),
        # "total", 合计, "cumulative": last, since many phrases above hold these words as adjectives.
        (r"合计|总额|总和|总计|总共|一共|累计|加总|加起来|总值|全年一共|\bsum(?:med)?\b|\btotal(?:l?ed|ing)?\b|\badd(?:ed)? up\b|\baltogether\b|\bcumulative(?:ly)?\b", Statistic.SUM),
    ]
]  # fmt: skip
# Words that ask for a relative change, even of a rate.
EXPLICIT = re.compile(r"回报|涨幅|跌幅|收益(?!率)|\breturns?\b|\bperformance\b", re.I | re.A)
# Words that ask for one figure per name or period instead of one over all: "respectively", 分别, 逐年.
SEVERALLY = re.compile(
    r"分别|各自|各是|各为|每年|逐年|\beach\b|\brespectively\b|\bindividually\b|\bseparately\b", re.I | re.A
)
# "not seasonally adjusted", "NSA", 未季调.
UNADJUSTED = re.compile(
    r"未(?:经)?季(?:节)?调|非季调|不(?:经)?季(?:节)?调|未经季节调整|\bNSA\b|\bnot seasonally adjusted\b|\bunadjusted\b|\bwithout seasonal adjustment\b",
    re.I | re.A,
)
POINTS = re.compile(r"百分点|基点|\b(?:percentage points?|basis points?|bps?|pps?)\b", re.I | re.A)
# The newest value: "latest", "most recent", "last close", 最新; 最近的3个月 is a period.
LATEST = re.compile(
    r"最新|上一个?交易日|目前|当前|现在|眼下|当下|如今|最近一期|最近一次|最近的(?!\d)"
    r"|\b(?:latest|newest|current(?:ly)?|most recent|now|right now|today'?s?|last (?:close|price|value|reading|print|closing price)|as far as)\b",
    re.I | re.A,
)
# The finer first: "weekly" beside "month-end" asks for weeks.
DENSITIES: list[tuple[re.Pattern[str], Frequency]] = [
    (re.compile(pattern, re.I | re.A), density)
    for pattern, density in [
        # "weekly", 每周.
        (r"每周|各周|周度|逐周|按周|周线|\bweekly\b|\bweek[\s-]end\b|each week|every week", Frequency.WEEKLY),
        # "month-end", "each month", 月度.
        (r"各?月末|每月末?|各月|逐月|按月|月度|月线|\bmonth[\s-]end\b|\bmonthly\b|end of each month|each month|every month|end[\s-]of[\s-]month|\bby month\b|month[\s-]ends\b|每个月", Frequency.MONTHLY),
        # "quarterly", "end of each quarter", 季度末.
        (r"各?季末|每季度?末?|各季度?|逐季|按季度?|季度末|季度数据|\bquarter[\s-]end\b|\bquarterly\b|end of each quarter|each quarter|every quarter|end[\s-]of[\s-]quarter|\bby quarter\b|quarter[\s-]ends\b|每个季度", Frequency.QUARTERLY),
        # "year-end", "every year", 历年.
        (r"每年年?末?|各年|逐年|按年|历年|年度收盘|\byear[\s-]end\b|\bannual(?:ly)? year[\s-]end|end of each year|each year|every year|\byearly\b|\bby year\b|year[\s-]ends\b|end[\s-]of[\s-]year\b|每一年", Frequency.ANNUAL),
    ]
]  # fmt: skip
# A difference of two series: 利差, "the spread", "exceeded", "inverted".
SPREAD = re.compile(
    r"利差|息差|差额|差值|差距|差多少|之差|相差|倒挂|减去?|高出|高多少|高了多少|\bminus\b|\bless\b|\bspreads?\b|\bgap\b|\bdifference between\b|\bexceed(?:ed|s)?\b|\binver(?:ted|sion)\b",
    re.I | re.A,
)
# A quotient of two series: "ratio", 金油比, "as a share of".
RATIO = re.compile(
    r"比值|之比|比率|金油比|占.*(?:比例|比重)|除以|\bratio\b|\bdivided by\b|\bas a (?:share|percentage) of\b|\bshare of\b",
    re.I | re.A,
)
# Words that join two currencies in a rate: "USD to JPY", 美元兑日元, "worth".
PER = re.compile(
    r"(?:汇率|兑|对|换|等于|值|折|合|=|\bto\b|\bfor\b|\bper\b|\bagainst\b|\brate\b|/|\bin\b|\bworth\b|\bbuys?\b|\bgets?\b|\bequals?\b)",
    re.I | re.A,
)


# Right behind an indicator: CPI增速, "GDP growth rate", "core inflation"; 增长额 is an amount and no rate.
GROWTH = re.compile(
    r"的?(?:年|同比)?(?:增长率|增速|增幅|增长幅度|增长(?!额)|变动率|变化率|涨幅)(?:是?多少)?|\s+(?:yoy|year[\s-]over[\s-]year|annual)?\s*(?:growth|inflation)(?:\s+rate)?\b|的?通胀率?",
    re.I | re.A,
)
# The base of a comparison: 较上月, 比去年同期, 与上年同期. 与去年同期相比 is a phrase of ``TRANSFORMS``.
AGAINST = re.compile(
    r"(?:较|比)(?:上一?个?月|上一?个?季度?|上年同期|上年|去年同期|去年同月|前一?个?月|前一个?季度?|一年前)(?:同期)?(?!相比)"
    r"|(?:与|跟)(?:上年同期|去年同期|去年同月)(?!相比)",
    re.I | re.A,
)
# The length of a moving window is no period: "50-day moving average", 200日均线.
WINDOW = re.compile(
    r"\d{1,3}[\s-]?(?:days?|weeks?|months?|years?|个?交易日|[日天周年]|个?月)(?=[\s-]*(?:simple |exponential |trailing )?(?:moving|rolling|SMA|EMA|均线|移动|滚动))",
    re.I | re.A,
)
# Superlatives of a statistic: the statistic is kept and the superlative dropped, as "highest" would be a maximum.
RANKED = [
    re.compile(
        # 涨幅最大, 波动率更低.
        r"(涨幅|跌幅|涨跌幅|回报率?|收益率?|波动率|波动性|波动|增速)(?:是)?(?:最|更)(?:高|低|大|小|多|少|好|差|强|弱|快|慢)"
    ),
    re.compile(
        # "highest return", "lower annual volatility"; "biggest decline from" a peak is a drawdown.
        r"\b(?:highest|lowest|best|worst|largest|biggest|smallest|greatest|higher|lower|bigger|smaller|larger)\s+"
        r"((?:\w+\s+){0,2}?(?:returns?|gains?|volatility|drawdowns?|cagr|loss(?:es)?|performance|declines?|drops?))\b(?! from)",
        re.I | re.A,
    ),
]
# A comparison of entities by what they gained: "which performed better", 谁涨得多, 跑赢.
RIVALS = re.compile(
    r"(?:谁|哪[个只家支种]|哪一[个只家]).{0,16}?(?:涨|跌|表现|赚|亏|跑赢)|跑赢|\b(?:did|do|does|fared?|performed?|perform) (?:better|worse|best|worst)\b"
    r"|\boutperform(?:ed|s)?\b|\bbeat\b|\b(?:better|best|worse|worst)[\s-]perform",
    re.I | re.A,
)
# A change of a rate in points: 高了多少, "how much higher"; with "%" or 百分之 it is relative.
HIGHER = re.compile(
    r"[高低升降](?:了|出)?多少(?!%|百分之)|(?:上升|下降|变化|变动|升高|降低)(?:了)?(?:多少)?(?!率|百分之)|\b(?:higher|lower|changes?|rise|risen|rose|fall|fell|up|down)\b(?!.*(?:%|per ?cent(?!age p)))",
    re.I | re.A,
)
# Words for a change without a unit or an amount.
# "change in the unemployment rate", "jobs added", "increases in", 变化多少.
CHANGED = re.compile(
    r"\bchanges? (?:in|of|for|on) (?!per ?cent)|\bchange[?.]?$|\bjob (?:gains?|losses|growth|creation)\b|\bjobs (?:added|lost|created|shed)\b|\b(?:gains?|increases?|rises?|drops?|declines?|falls?|loss(?:es)?) in\b|(?:变化|变动)(?:值|量|额|幅度|了?多少)?\s*(?:是|为)?(?:多少)?[?？]?$",
    re.I | re.A,
)
# Words that ask what one day brought, not where it ended: 当天涨跌幅, "gain", "fell".
OF_DAY = re.compile(
    r"涨跌?幅|跌幅|涨了|跌了|涨跌|当[天日]|单日|收益率|回报|\bchange|\bmove|\breturn|\b(?:gain|lose|lost|fall|fell|rise|rose|drop)",
    re.I | re.A,
)
INFLATION = re.compile(r"(?:\binflation(?: rate)?|通胀率?|通货膨胀率?)$", re.I | re.A)
# "annual change", 年度变化率: read as year over year, except for prices, where it is a return per year.
ANNUAL_CHANGE = re.compile(r"\bannual (?:changes?|increases?|rises?)\b(?! rate)|年度?(?:变化|变动)率", re.I | re.A)
SURGED = re.compile(r"\s*增长(?:了|百分之)")
QUARTERS = re.compile(r"季|\bquarter|\bq[1-4]\b|每|各", re.I | re.A)
# "on the last trading day of", 最后一个交易日.
LAST_DAY = re.compile(
    r"(?:的)?最后一个?(?:交易日|工作日|天)(?:的)?|\b(?:on )?(?:the )?(?:last|final) (?:trading |business )?(?:day|session) (?:of|in)\b",
    re.I | re.A,
)
# "the first session of", 第一个交易日.
FIRST_DAY = re.compile(
    r"(?:的)?(?:第一个?|首个?)(?:交易日|工作日|天)(?:的)?|\b(?:on )?(?:the )?first (?:trading |business )?(?:day|session) (?:of|in)\b",
    re.I | re.A,
)
# Words between two points in time that are compared: 比, "than", "against", "from".
COMPARED = re.compile(r"比|较|相对|\b(?:than|versus|vs\.?|compared|against|relative|over|from)\b", re.I | re.A)
# Words that ask for a value per period, so that "end of" must not reduce the answer to one: 每月末, "every".
EACH = re.compile(r"每|各|\d个[月季]度?的?[月季]度?末|逐|按|\beach\b|\bevery\b", re.I | re.A)
# Annual figures are asked for: 全年, "full-year", "annual".
ANNUAL = re.compile(r"年度数据|年度值|全年|\bfull[\s-]year\b|\bwhole year\b|\bannual\b|\byearly\b", re.I | re.A)


def spoken(text: str) -> list[tuple[int, int]]:
    """Return the spans of all operator cues, which name an operation rather than an indicator."""
    patterns = [AGAINST, LATEST, SPREAD, RIVALS, *(pattern for pattern, _ in (*STATISTICS, *DENSITIES))]
    return [match.span() for pattern in patterns for match in pattern.finditer(text) if match.group()]


def statistics(text: str) -> tuple[Statistic, ...]:
    """Return the statistics that a text asks for; none when it asks for a chart or for performance in general."""
    # A comparison still names a winner by one figure each, even when it says "performance".
    if not RIVALS.search(text) and (SERIES.search(text) or BROAD.search(text)):
        return ()
    found: list[Statistic] = []
    rest = text
    for words in RANKED:
        rest = words.sub(r"\1", rest)
    for pattern, statistic in STATISTICS:
        if pattern.search(rest):
            found.append(statistic)
            # A blank, so that the words around do not join to a new phrase.
            rest = pattern.sub(" ", rest)
    if RIVALS.search(text) and not found:
        found.append(Statistic.RETURN)
    # "By how many points did it rise" holds the words of both; the unit is more specific.
    if Statistic.RETURN in found and Statistic.CHANGE in found:
        found.remove(Statistic.RETURN)
    return tuple(found)


def counted(text: str) -> bool:
    """Return whether a text asks for a change in absolute units ("by how many points")."""
    return next(pattern for pattern, item in STATISTICS if item == Statistic.CHANGE).search(text) is not None


def density(text: str) -> Frequency:
    """Return the output frequency that a text asks for, or ``NATIVE``."""
    return next((found for pattern, found in DENSITIES if pattern.search(text)), Frequency.NATIVE)


def combination(text: str) -> Combination:
    """Return ``SPREAD`` or ``RATIO`` when the text asks to combine two series, otherwise ``NONE``."""
    if SPREAD.search(text):
        return Combination.SPREAD
    return Combination.RATIO if RATIO.search(text) else Combination.NONE
