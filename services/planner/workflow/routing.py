"""Rule-based routing of a question to a scene and a mode by cue words, without a model."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum


class Scene(StrEnum):
    """Kind of request."""

    QUESTION_ANSWERING = "question_answering"
    DATA_QUERY = "data_query"
    TABLE_QUERY = "table_query"
    CUSTOMER_SERVICE = "customer_service"


class Mode(StrEnum):
    """Amount of work: direct answer, fixed pipeline, or agent."""

    DIRECT = "direct"
    WORKFLOW = "workflow"
    RESEARCH = "research"


@dataclass(frozen=True)
class Route:
    """Routing decision.

    ``confidence`` is 0 to 1; ``reason`` is the deciding cue, quoted from the question if possible.
    """

    scene: Scene
    mode: Mode
    confidence: float
    reason: str


def cues(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


SERVICE = cues(
    r"\b(?:my (?:account|password|subscription|invoice|licen[cs]e|permissions?|order|refund|profile)|log ?in|sign ?in"
    r"|log(?:ged)? out|reset .{0,20}password|invoice|refunds?|renew\w*|subscri\w+|trial|human agent"
    r"|customer (?:service|support)"
    r"|support (?:team|staff)|contact (?:you|support|someone)|speak to (?:a|someone)|complain\w*"
    r"|install\w*|crash(?:es|ed)"
    r"|error message|does not (?:load|open|work)|cannot (?:open|export|download|log)|terminal (?:is|keeps|does)"
    r"|upgrade my|cancel my|permissions?)\b"
    r"|账号|账户登录|密码|登录|登陆|登不|权限|开通|续费|发票|退款|客服|人工|试用|合同到期|安装|报错"
    r"|闪退|打不开|下载不了"
    r"|导不出|投诉|怎么联系|联系谁|联系你们|注销|绑定|验证码|套餐|卡顿"
)
TABLE = cues(
    r"\b(?:list (?:of|all|the)|table (?:of|with|showing)|show me all|all (?:stocks|companies|funds|bonds|banks)"
    r"|constituents|components of|members of the|screen(?:er|ing)?|top \d+|top (?:five|ten|twenty)|ranking of"
    r"|full (?:table|list|series)|which (?:stocks|companies|funds|bonds) (?:have|are|pay|trade)"
    r"|breakdown table|export)\b"
    r"|列表|名单|成分股|表格|明细|一览|排行|排名前|前十|前二十|前\d+|筛选|清单|列出|有哪些(?:股票|公司"
    r"|基金|债券|银行)|哪些(?:股票|公司|基金|债券)|整张表|全部(?:股票|公司|基金|债券)|持仓表|对照表"
)
MEASURE = cues(
    r"\b(?:price|close[ds]?|closing|open(?:ing)? price|rate|yield|gdp|cpi|ppi|inflation|unemployment|payrolls?|volume"
    r"|index level|exchange rate|market cap|pe|p/e|eps|roe|revenue|net profit|net income|dividend"
    r"|margin|worth|trading at"
    r"|value of|level of|how (?:much|many|high|low))\b"
    r"|股价|收盘|开盘|价格|利率|汇率|收益率|失业率|通胀|点位|成交量|成交额|市值|市盈率|市净率|每股收益"
    r"|净资产收益率|营收|收入"
    r"|净利润|毛利率|分红|股息|多少|余额|货币供应|国内生产总值"
)
MOMENT = cues(
    r"(?<!\d)(?:19|20)\d\d|\b(?:latest|current(?:ly)?|now|today|yesterday|last (?:month|week|quarter"
    r"|year)|most recent)\b"
    r"|最新|目前|现在|今天|昨天|上个?(?:月|周|季度|年)|去年|今年|当前"
)
CHAT = cues(
    r"^\W*(?:hi|hello|hey|thanks?|thank you|good (?:morning|evening|day)|bye)\b[^?]{0,20}\W*$|who are you"
    r"|what can you do|\bweather\b|\bjoke\b|^\W*(?:你好|您好|谢谢|再见)\W*$|你是谁|你能做什么|天气|讲个笑话"
)
DEFINITION = cues(
    r"^\W*(?:what (?:is|are|does)|define|explain|how (?:is|are)) .{0,80}(?:mean|defined|calculated"
    r"|computed|measured)?\??$"
    r"|什么是|是什么(?:意思)?|含义|定义|怎么计算|如何计算|解释一下"
)
TERM = cues(r"^\W*(?:什么是|what is (?:a |an |the )?[\w\s-]{1,40}\?*$)|是什么意思[?？]?$|\bwhat does .{1,40} mean\b")
MAX_TERM_CHARS = 60
# What is asked next depends on what was found, or must be computed.
STEPS = cues(
    r"\b(?:back-?test\w*|strateg(?:y|ies)|moving averages?|simulat\w+|regress\w*|correlat\w+|comput\w+|calculat\w+"
    r"|optimi[sz]\w+|portfolio|rebalanc\w+|sharpe|beta|volatility|draw-?downs?|if (?:i|one"
    r"|you) (?:had )?(?:bought|invested)"
    r"|then|of (?:those|these|them|that)|in (?:that|the same) (?:year|month|quarter|period)|the (?:year"
    r"|month|day|quarter)s? (?:in which|when|with)"
    r"|days? with|whichever|after which|pattern|how many (?:days|months|years|times)|annuali[sz]ed|percentile)\b"
    r"|回测|策略|均线|模拟|回归|相关(?:性|系数)|计算|优化|组合|夏普|贝塔|波动率|回撤|如果.{0,12}(?:买入"
    r"|投资)|然后|其中|再(?:查|看|找|算)"
    r"|那一?(?:年|月|天|季度)|当年|同期|最[高低大小].{0,6}(?:年|月|天|日)|规律|多少(?:天|个月|年|次)|年化|分位"
)
# Coverage of a topic, which can be planned at once.
BROAD = cues(
    r"\b(?:how (?:profitable|healthy|risky|strong|attractive|expensive)|profitabilit\w*|analy[sz]\w*"
    r"|assess\w*|evaluat\w*"
    r"|overview|outlook|prospects?|fundamentals?|deep dive|report on|review of|strengths?|weakness\w*|risks?|drivers?"
    r"|competiti\w+|compar\w+|versus|vs|pros and cons|investment case|business model|landscape|trends?"
    r"|summar\w+|impact of"
    r"|effects? of|why (?:did|has|have|is|are|was|were)|reasons?|implications?)\b"
    r"|盈利能力|偿债能力|成长性|基本面|分析|评估|评价|综述|概况|全面|深度|前景|展望|风险|驱动|竞争|对比"
    r"|比较|优劣|投资价值|商业模式"
    r"|格局|趋势|总结|影响|为什么|为何|原因|怎么样|怎么看|如何看待|情况如何"
)


def route(question: str) -> Route:
    """Return scene and mode of a question; deterministic."""
    text = unicodedata.normalize("NFKC", question)
    scene, confidence, reason = scene_of(text)
    mode, why = mode_of(text, scene)
    return Route(scene, mode, confidence, reason if mode is Mode.DIRECT and reason else why)


def scene_of(text: str) -> tuple[Scene, float, str]:
    """Return the scene, its confidence and the cue."""
    deep = BROAD.search(text) or STEPS.search(text)
    service = SERVICE.search(text)
    if service:
        return Scene.CUSTOMER_SERVICE, 0.7 if deep else 0.9, service.group()
    table = TABLE.search(text)
    if table and not deep:
        return Scene.TABLE_QUERY, 0.9, table.group()
    measure, moment = MEASURE.search(text), MOMENT.search(text)
    if measure and not deep and not DEFINITION.fullmatch(text.strip()):
        return Scene.DATA_QUERY, 0.9 if moment else 0.7, measure.group()
    if measure and moment and not deep:
        return Scene.DATA_QUERY, 0.8, measure.group()
    return Scene.QUESTION_ANSWERING, 0.9 if deep else 0.6, ""


def mode_of(text: str, scene: Scene) -> tuple[Mode, str]:
    """Return the mode and the cue; dependent steps take precedence over breadth."""
    chat = CHAT.search(text)
    if chat:
        return Mode.DIRECT, chat.group().strip()
    if scene is not Scene.QUESTION_ANSWERING:
        return Mode.DIRECT, "a look-up" if scene is not Scene.CUSTOMER_SERVICE else "customer service"
    if TERM.search(text) and len(text) <= MAX_TERM_CHARS:
        return Mode.DIRECT, "a definition"
    steps, broad = STEPS.search(text), BROAD.search(text)
    if steps:
        return Mode.RESEARCH, steps.group()
    if broad:
        return Mode.WORKFLOW, broad.group()
    definition = DEFINITION.search(text)
    if definition:
        return Mode.DIRECT, "a definition"
    return Mode.RESEARCH, "no cue of a simple question"
