"""Phrases of the reference policy in English and Chinese, with the same keys and facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """Phrases of one language; fields in braces are filled in by name."""

    comma: str
    stop: str
    intent_think: str
    intent_data: str
    intent_data_again: str
    intent_summary: str
    intent_simple: str
    intent_value: str
    intent_figure: str
    intent_insight: str
    intent_search: str
    intent_fetch: str
    intent_finish: str
    decomposition: str
    default_aspect: str
    insight: str
    figure_title: str
    chat: str
    restated: str
    price: str
    growth: str
    risk: str
    no_fall: str
    level: str
    ends: str
    value: str
    no_value: str
    best_return: str
    best_drawdown: str
    best_volatility: str
    highest_level: str
    quoted: str
    background: str
    uncomputed: str
    adjusted: str
    mixed_returns: str
    not_understood: str
    not_answered: str
    missing: str
    missing_item: str
    nearest: str
    nothing: str
    failed: str
    as_of: str
    caveat_price: str
    caveat_level: str
    reasons: Mapping[str, str]


# Citations stand before the full stop: verification assigns one to the sentence that holds it.
ENGLISH = Words(
    comma=", ",
    stop=" ",
    intent_think="Split the question into parts that data can answer.",
    intent_data="Fetch the numbers that the question is about.",
    intent_data_again="Ask again in key words, since the first attempt gave no table.",
    intent_summary="Compute the measures on the tables instead of estimating them.",
    intent_simple="Read at least first and last value, since the fuller calculation failed.",
    intent_value="Read the value from the table.",
    intent_figure="Draw the series so that the reader can see the course.",
    intent_insight="Note what the numbers show before looking for an explanation.",
    intent_search="Look for a document on “{query}”.",
    intent_fetch="Read “{title}” for a sentence that can be cited.",
    intent_finish="Write the answer from what was found.",
    decomposition="Parts: which series over which period; for each: {aspects}; then what sets them apart, and a source that explains the measure.",  # noqa: E501
    default_aspect="start, end, change, extremes",
    insight="The tables allow a comparison of {names}. Their difference needs a definition of the measure: search for {query}.",  # noqa: E501
    figure_title="{names}, {start} to {end}",
    chat="I answer questions about financial and economic data and documents, with sources. This one needs neither, or lies outside of what I have; ask me, for example, to compare companies, rates or prices over a period.",  # noqa: E501
    restated="Examined: {subject}, {start} to {end}{cites}.",
    price="**{label}** went from {first} to {last}{unit} ({change}){cites}.",
    growth="That is {cagr} a year.",
    risk="Annualised volatility was {volatility}; the maximum drawdown was {drawdown}, from the peak on {peak} to the trough on {trough}{cites}.",  # noqa: E501
    no_fall="Annualised volatility was {volatility}; there was no drawdown{cites}.",
    level="**{label}** went from {first} to {last}{unit} (change {change}); lowest {min} on {min_date}, highest {max} on {max_date}, mean {mean}{cites}.",  # noqa: E501
    ends="**{label}** was {first}{unit} on {start} and {last}{unit} on {end}{cites}.",
    value="**{label}** was {value}{unit} on {date}{cites}.",
    no_value="The table of {label} has no value for {moment}{cites}.",
    best_return="The largest return among them is that of {label} ({value}){cites}.",
    best_drawdown="The smallest drawdown is that of {label} ({value}){cites}.",
    best_volatility="The lowest volatility is that of {label} ({value}){cites}.",
    highest_level="The highest value at the end is that of {label} ({value}){cites}.",
    quoted="According to “{title}”: “{text}” {cites}",
    background="Background, from “{title}”: “{text}” {cites}",
    uncomputed="Not computed here: {names}.",
    adjusted="This price is adjusted for later splits and dividends, so it is not the one that was paid on that day.",
    mixed_returns="These are not like for like: the returns of {shares} are total returns from adjusted prices, dividends included, while {indices} is a price index, which leaves dividends out.",  # noqa: E501
    not_understood="Not understood: {phrases}{cites}. What follows was found without regard to it and may not be what you asked for.",  # noqa: E501
    not_answered="Not understood: {phrases}{cites}. Without it the answer would be to another question, so I give no figure.",  # noqa: E501
    missing="Missing: {items}.",
    missing_item="{subject} ({reason})",
    nearest="; nearest known: {names}",
    nothing="I found no data and no document that answers this question, so I give no figure.",
    failed="Some steps failed ({errors}); what they would have given is left out.",
    as_of="Data as of {dates}{cites}.",
    caveat_price="Figures describe the period above by adjusted prices before costs and taxes; they are no forecast and no advice.",  # noqa: E501
    caveat_level="Figures describe the period above and may have been revised since; they are no forecast.",
    reasons={
        "UNKNOWN_ENTITY": "not among the known names",
        "UNKNOWN_INDICATOR": "no such indicator",
        "NO_DATA_IN_PERIOD": "no data in that period",
        "NOT_YET_PUBLISHED": "not yet published then",
        "NO_MATCH": "nothing matches",
        "SOURCE_FAILED": "the source failed",
        "NOT_UNDERSTOOD": "not understood",
    },
)
CHINESE = Words(
    comma="、",
    stop="",
    intent_think="把问题拆成数据可以回答的部分。",
    intent_data="获取问题涉及的数据。",
    intent_data_again="第一次没有得到表格，换成关键词再查一次。",
    intent_summary="用表格计算指标，而不是估计。",
    intent_simple="完整计算失败，至少读出首尾两个值。",
    intent_value="从表格中读出数值。",
    intent_figure="画图，让读者看到走势。",
    intent_insight="先记下数据说明了什么，再找解释。",
    intent_search="查找关于“{query}”的资料。",
    intent_fetch="阅读《{title}》，找到可以引用的句子。",
    intent_finish="根据查到的内容写出回答。",
    decomposition="拆分：对象与区间；每个对象的{aspects}；再比较差异，并找一份解释指标的资料。",
    default_aspect="起点、终点、变化、极值",
    insight="表格可以比较{names}；差异要结合指标的定义来看，因此查找{query}。",
    figure_title="{names}，{start}至{end}",
    chat="我根据数据和资料回答金融与经济问题，并给出来源。这个问题不需要查数据，或者超出了我的范围；例如，可以让我比较几家公司、利率或价格在一段时间内的表现。",
    restated="考察对象：{subject}，{start}至{end}{cites}。",
    price="**{label}**从{first}变为{last}{unit}（{change}）{cites}。",
    growth="折合每年{cagr}。",
    risk="年化波动率为{volatility}；最大回撤为{drawdown}，高点在{peak}，低点在{trough}{cites}。",
    no_fall="年化波动率为{volatility}；期间没有回撤{cites}。",
    level="**{label}**从{first}变为{last}{unit}（变化{change}）；最低{min}（{min_date}），最高{max}（{max_date}），均值{mean}{cites}。",
    ends="**{label}**在{start}为{first}{unit}，在{end}为{last}{unit}{cites}。",
    value="**{label}**在{date}为{value}{unit}{cites}。",
    no_value="{label}的表格中没有{moment}的数值{cites}。",
    best_return="其中收益最高的是{label}（{value}）{cites}。",
    best_drawdown="回撤最小的是{label}（{value}）{cites}。",
    best_volatility="波动率最低的是{label}（{value}）{cites}。",
    highest_level="期末数值最高的是{label}（{value}）{cites}。",
    quoted="《{title}》：“{text}”{cites}",
    background="背景，见《{title}》：“{text}”{cites}",
    uncomputed="这里没有计算：{names}。",
    adjusted="这是复权价格（按之后的拆股和分红调整），并非当日的实际成交价。",
    mixed_returns="两者口径不同：{shares}的收益率由复权价格算出，是含分红的总收益率；{indices}是价格指数，不含分红。",
    not_understood="未能理解：{phrases}{cites}。以下内容没有考虑它，可能不是您要问的。",
    not_answered="未能理解：{phrases}{cites}。忽略它就成了另一个问题，因此不给出数字。",
    missing="缺失：{items}。",
    missing_item="{subject}（{reason}）",
    nearest="；最接近的已知名称：{names}",
    nothing="没有找到可以回答这个问题的数据或资料，因此不给出任何数字。",
    failed="有步骤失败（{errors}），相应内容未写入。",
    as_of="数据截至{dates}{cites}。",
    caveat_price="以上按复权价格计算，未计成本和税费，只描述上述区间，不是预测，也不构成建议。",
    caveat_level="以上只描述上述区间，数据此后可能修订，不是预测。",
    reasons={
        "UNKNOWN_ENTITY": "不在已知名称之列",
        "UNKNOWN_INDICATOR": "没有这个指标",
        "NO_DATA_IN_PERIOD": "该区间没有数据",
        "NOT_YET_PUBLISHED": "当时尚未发布",
        "NO_MATCH": "没有匹配的内容",
        "SOURCE_FAILED": "数据源失败",
        "NOT_UNDERSTOOD": "未能理解",
    },
)
