"""What is an action of the environment, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.clients.environment import parse_action
from fathom.core.errors import InvalidField


@pytest.mark.parametrize(
    "action",
    [{"answer": "42"}, '{"answer": "42"}', {"tool": "think"}, '{"tool": "data", "arguments": {"question": "why?"}}'],
)
def test_a_call_or_an_answer_is_an_action(action: Any) -> None:
    assert set(parse_action(action)) <= {"answer", "tool", "arguments"}


@pytest.mark.parametrize(
    "action",
    ["think", "[]", "{", "[" * 100_000, {}, {"answer": 42}, {"answer": "42", "tool": "think"}, {"tool": 3},
     {"tool": "think", "arguments": []}, {"tool": "think", "more": 1}, None],
)  # fmt: skip
def test_anything_else_is_refused_by_its_field(action: Any) -> None:
    with pytest.raises(InvalidField, match="action"):
        parse_action(action)
