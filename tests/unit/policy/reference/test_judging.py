"""The reference policy as a judge: scores by hand, and replies that fit the schema that was asked for."""

from __future__ import annotations

import json

import pytest

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.quoting import quote
from fathom.services.policy.backends.rules.judging import judge_reply, score

QUESTION = "What was Apple's revenue in 2024?"


def messages(first: str, second: str, reference: str = "") -> list[Message]:
    parts = [("Question", QUESTION), ("Reference", reference), ("First answer", first), ("Second answer", second)]
    said = "\n\n".join(f"# {title}\n{quote(text)}" for title, text in parts if text or title.endswith("answer"))
    return [Message(Role.SYSTEM, "judge"), Message(Role.USER, said)]


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("", "", 0), ("I cannot say.", "", 1), ("Apple's revenue in 2024 was 391 billion [1].", "", 10),
        ("391 billion", "391 billion", 10), ("390 billion", "391 billion", 4), ("nothing of it", "391 billion", 1),
    ],
)  # fmt: skip
def test_scores(answer: str, reference: str, expected: int) -> None:
    assert score(answer, QUESTION, reference) == expected


@pytest.mark.parametrize("title", ["fathom.judge.pairwise", "fathom.judge.rubric"])
def test_replies_say_the_same_in_both_orders(title: str) -> None:
    schema = json.dumps({"title": title, "type": "object"})
    good, bad = "Apple's revenue in 2024 was 391 billion [1].", "I cannot say."
    there, back = (json.loads(judge_reply(schema, messages(*pair)) or "") for pair in ((good, bad), (bad, good)))
    assert there["first"] == back["second"] > there["second"] == back["first"] >= 1
    assert ("principles" in there) is (title == "fathom.judge.rubric")


@pytest.mark.parametrize("schema", ["", "{}", "no json", "[]", '{"title": "another"}'])
def test_other_requests_are_none_of_its_business(schema: str) -> None:
    assert judge_reply(schema, messages("a", "b")) is None
