"""Contradictions that a language model finds count if it judges the statements of control rightly, too."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from fathom.core.errors import DependencyFailed
from fathom.services.planner.model.memory import Statement
from fathom.services.planner.remembering import asking
from fathom.services.planner.remembering.contradictions import write_notes
from fathom.services.planner.remembering.judging import CONTROL_EARLIER, CONTROL_FALSE, CONTROL_TRUE, ContradictionJudge
from tests.unit.planner.remembering.test_contradictions import THEN

ABOVE = Statement("Apple never gained more than 60% in a year [1].", "2022-12-30")
OTHER = Statement("Apple lost 26.4% in 2022 [1].")


def number_of(request: str, title: str, text: str) -> int:
    """Return the number under which a request lists a text below a title."""
    part = request.split(f"# {title}", 1)[1]
    found = re.search(rf"(\d+)\. .*{re.escape(text)}", part)
    assert found is not None
    return int(found[1])


class Endpoint:
    """Answers with pairs of sentences, as the numbers that the request gives them."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = pairs
        self.requests: list[str] = []

    async def complete(self, clients: Any, model: str, system: str, request: str, *_: Any) -> str:
        self.requests.append(request)
        places = [
            {
                "new": number_of(request, "New statements", now),
                "earlier": number_of(request, "Earlier statements", then),
            }
            for now, then in self.pairs
        ]
        return json.dumps({"pairs": places})


RIGHT = (CONTROL_FALSE.text, CONTROL_EARLIER.text)
WRONG = (CONTROL_TRUE.text, CONTROL_EARLIER.text)
FOUND = (ABOVE.text, THEN.text)


@pytest.fixture
def judge() -> ContradictionJudge:
    clients: Any = None
    return ContradictionJudge(clients, "prompt")


def connect(monkeypatch: pytest.MonkeyPatch, endpoint: Any, model: str = "model") -> None:
    async def find(*_: Any) -> str:
        return model

    monkeypatch.setattr(asking, "complete", endpoint.complete)
    monkeypatch.setattr(asking, "find_language_model", find)


async def test_a_pair_is_found_whose_measures_differ(
    judge: ContradictionJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint([FOUND, RIGHT])
    connect(monkeypatch, endpoint)
    (one,) = await judge.find([OTHER, ABOVE], "How did Apple do?", [THEN], "m")
    assert (one.now.text, one.now.as_of, one.then) == (ABOVE.text, ABOVE.as_of, THEN)
    assert "How did Apple do?" in endpoint.requests[0]
    note = write_notes([one], "en")
    assert "Both cannot be true" not in note  # the data differ, and that is the reason which the note gives
    assert THEN.text in note
    assert ABOVE.text in note


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([FOUND], id="misses the control"),
        pytest.param([FOUND, RIGHT, WRONG], id="calls everything a contradiction"),
        pytest.param([FOUND, RIGHT, (OTHER.text, CONTROL_EARLIER.text)], id="mixes companies up"),
    ],
)
async def test_a_model_that_misjudges_the_controls_finds_nothing(
    judge: ContradictionJudge, monkeypatch: pytest.MonkeyPatch, pairs: Sequence[tuple[str, str]]
) -> None:
    connect(monkeypatch, Endpoint(pairs))
    assert await judge.find([OTHER, ABOVE], "", [THEN], "m") == []


@pytest.mark.parametrize(
    "reply", ["", "no", "[]", '{"pairs": 1}', '{"pairs": [{"new": 9, "earlier": 1}, {"new": true, "earlier": 0}, 7]}']
)
async def test_a_reply_of_another_form_finds_nothing(
    judge: ContradictionJudge, monkeypatch: pytest.MonkeyPatch, reply: str
) -> None:
    class Other:
        async def complete(self, *_: Any) -> str:
            return reply

    connect(monkeypatch, Other())
    assert await judge.find([ABOVE], "", [THEN], "m") == []


async def test_a_model_that_is_away_finds_nothing(judge: ContradictionJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        async def complete(self, *_: Any) -> str:
            raise DependencyFailed("policy", "is away")

    connect(monkeypatch, Away())
    assert await judge.find([ABOVE], "", [THEN], "m") == []


async def test_nobody_is_asked_without_a_model_or_anything_to_compare(
    judge: ContradictionJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint([])
    connect(monkeypatch, endpoint, model="")
    assert await judge.find([ABOVE], "", [THEN], "rules") == []
    connect(monkeypatch, endpoint)
    assert await judge.find([], "", [THEN], "m") == []
    assert await judge.find([ABOVE], "", [], "m") == []
    assert endpoint.requests == []
