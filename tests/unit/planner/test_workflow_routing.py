"""Scene and mode of a question by its words alone (rows A02, A03, A04)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.planner.workflow.routing import Mode, Scene, route

QA, DATA, TABLE, SERVICE = (
    Scene.QUESTION_ANSWERING, Scene.DATA_QUERY, Scene.TABLE_QUERY, Scene.CUSTOMER_SERVICE,
)  # fmt: skip
DIRECT, FLOW, AGENT = Mode.DIRECT, Mode.WORKFLOW, Mode.RESEARCH
# 15 per scene, in English and Chinese.
LABELLED: list[tuple[str, Scene, Mode]] = [
    ("What was Apple's closing price on 2020-12-31?", DATA, DIRECT),
    ("US unemployment rate in April 2020", DATA, DIRECT),
    ("latest federal funds rate", DATA, DIRECT),
    ("How much is the euro worth in dollars today?", DATA, DIRECT),
    ("GDP of the United States in 2019", DATA, DIRECT),
    ("What is the current 10-year Treasury yield?", DATA, DIRECT),
    ("Microsoft revenue 2021", DATA, DIRECT),
    ("dividend of Coca-Cola last year", DATA, DIRECT),
    ("苹果昨天的收盘价是多少？", DATA, DIRECT),
    ("2020年4月美国失业率", DATA, DIRECT),
    ("贵州茅台2021年净利润", DATA, DIRECT),
    ("最新的联邦基金利率", DATA, DIRECT),
    ("沪深300现在多少点位", DATA, DIRECT),
    ("人民币兑美元汇率是多少", DATA, DIRECT),
    ("宁德时代2022年毛利率", DATA, DIRECT),
    ("List all constituents of the CSI 300", TABLE, DIRECT),
    ("Show me a table of daily closes of Apple in 2020", TABLE, DIRECT),
    ("top 10 banks by total assets", TABLE, DIRECT),
    ("Which stocks pay a dividend above 5%?", TABLE, DIRECT),
    ("all funds with more than 10 billion under management", TABLE, DIRECT),
    ("screen for companies with ROE above 20%", TABLE, DIRECT),
    ("ranking of oil producers in 2021", TABLE, DIRECT),
    ("full table of US interest rates since 1990", TABLE, DIRECT),
    ("列出沪深300的成分股", TABLE, DIRECT),
    ("市值排名前十的银行", TABLE, DIRECT),
    ("哪些股票股息率超过5%", TABLE, DIRECT),
    ("有哪些基金规模超过百亿", TABLE, DIRECT),
    ("贵州茅台近五年财务数据表格", TABLE, DIRECT),
    ("新能源车公司一览", TABLE, DIRECT),
    ("筛选净资产收益率大于20%的公司", TABLE, DIRECT),
    ("How do I reset my password?", SERVICE, DIRECT),
    ("I cannot log in to the terminal", SERVICE, DIRECT),
    ("Where is the invoice for our subscription?", SERVICE, DIRECT),
    ("I want a refund", SERVICE, DIRECT),
    ("Can I speak to a human agent?", SERVICE, DIRECT),
    ("How do I renew the trial?", SERVICE, DIRECT),
    ("The terminal keeps crashing, please contact support", SERVICE, DIRECT),
    ("How do I install the Excel plug-in?", SERVICE, DIRECT),
    ("忘记密码怎么办", SERVICE, DIRECT),
    ("终端打不开了", SERVICE, DIRECT),
    ("怎么开发票", SERVICE, DIRECT),
    ("我要转人工客服", SERVICE, DIRECT),
    ("账号没有权限查看研报", SERVICE, DIRECT),
    ("试用到期后怎么续费", SERVICE, DIRECT),
    ("导不出数据，报错了", SERVICE, DIRECT),
    ("How profitable is Apple?", QA, FLOW),
    ("Assess the risks of Chinese property developers", QA, FLOW),
    ("Why did gold fall in 2013?", QA, FLOW),
    ("Outlook for the semiconductor industry", QA, FLOW),
    ("贵州茅台盈利能力怎么样？", QA, FLOW),
    ("分析新能源汽车行业的竞争格局", QA, FLOW),
    ("美联储加息对银行的影响", QA, FLOW),
    ("Back-test a dual moving average strategy on the S&P 500", QA, AGENT),
    ("Find the worst year of the S&P 500 since 1995, then say what Walmart did in that year", QA, AGENT),
    ("Is there a pattern in the three days with the highest share price of Apple?", QA, AGENT),
    ("苹果股价最高的三天有什么规律？", QA, AGENT),
    ("先找出标普500跌幅最大的一年，然后看那一年黄金的表现", QA, AGENT),
    ("Hello", QA, DIRECT),
    ("What is the weather today?", QA, DIRECT),
    ("什么是夏普比率？", QA, DIRECT),
]


def test_there_are_fifteen_of_each_scene() -> None:
    assert Counter(scene for _, scene, _ in LABELLED) == dict.fromkeys(Scene, 15)


@pytest.mark.parametrize(("what", "least"), [("scene", 0.9), ("mode", 0.9)])
def test_nine_of_ten_are_routed_as_labelled(what: str, least: float) -> None:
    wrong = []
    for question, scene, mode in LABELLED:
        found = route(question)
        if (found.scene is not scene) if what == "scene" else (found.mode is not mode):
            wrong.append((question, found))
    assert 1 - len(wrong) / len(LABELLED) >= least, wrong
    print(f"{what}: {len(LABELLED) - len(wrong)} of {len(LABELLED)}: {wrong}")


def test_a_look_up_and_customer_service_never_start_research() -> None:
    for question, scene, _ in LABELLED:
        if route(question).scene is not QA:
            assert route(question).mode is DIRECT, (question, scene)


@given(st.text(max_size=200))
def test_any_text_has_a_route(question: str) -> None:
    found = route(question)
    assert 0 <= found.confidence <= 1
    assert found == route(question)
