"""Statements that a language model finds to contradict earlier ones: for what typed values cannot tell."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.domain.chat.quoting import quote
from fathom.domain.chat.tolerant import read_object
from fathom.services.planner.episode.llm import complete
from fathom.services.planner.model.memory import Statement, View
from fathom.services.planner.questions.model_routing import find_language_model
from fathom.services.planner.remembering.contradictions import Contradiction, find_latest
from fathom.services.planner.remembering.typed_views import describe

MAX_TOKENS, MAX_STATEMENTS, MAX_EARLIER = 2_000, 32, 24
# Statements whose relation is known stand among the others: a model that does not see that the second excludes the
# first, or thinks that the third does, cannot judge the others either.
CONTROL_EARLIER = View(
    "harrow mills", "net profit/reading", "2012-01-01", "2012-12-31", 4.2e6, "GBP",
    "Harrow Mills made a net profit of 4.2 million pounds in 2012.",
)  # fmt: skip
CONTROL_FALSE = Statement("For 2012 Harrow Mills had to report a net loss of 1.1 million pounds.")
CONTROL_TRUE = Statement("In 2013 Harrow Mills made a net profit of 5.0 million pounds.")


@dataclass(frozen=True)
class ContradictionJudge:
    """Asks a language model which statements of an answer cannot be true beside earlier ones, in one call."""

    clients: Clients
    prompt: str
    timeout_s: float = 20.0

    async def find(
        self, statements: Sequence[Statement], question: str, earlier: Sequence[View], model: str
    ) -> list[Contradiction]:
        """Return the contradictions, each statement with the newest earlier view; newest views come first.

        Empty where no language model answers in time and in form, or where it misjudges the statements of control.
        """
        name = await find_language_model(self.clients, model) if model and statements and earlier else ""
        if not name:
            return []
        # The controls stand in the middle of the one list and at the end of the other, where nothing sets them apart.
        listed = [*statements[:MAX_STATEMENTS]]
        listed[len(listed) // 2 : len(listed) // 2] = [CONTROL_TRUE, CONTROL_FALSE]
        known = [*find_latest(earlier)[:MAX_EARLIER], CONTROL_EARLIER]
        try:
            async with asyncio.timeout(self.timeout_s):
                said = read_object(
                    await complete(self.clients, name, self.prompt, write_request(listed, question, known), MAX_TOKENS)
                )
        except (FathomError, TimeoutError):
            return []
        pairs = read_pairs(said.get("pairs") if said else None, listed, known)
        if not knows_controls(pairs):
            return []
        first: dict[str, Contradiction] = {}
        for now, then in sorted(pairs, key=lambda pair: known.index(pair[1])):
            if then is not CONTROL_EARLIER and now not in (CONTROL_FALSE, CONTROL_TRUE):
                first.setdefault(now.text, Contradiction(make_view(now), then))
        return list(first.values())


def write_request(statements: Sequence[Statement], question: str, earlier: Sequence[View]) -> str:
    """Return the text for the model: question, numbered earlier views and numbered statements, each quoted."""
    told = "\n".join(f"{number}. {describe(one)}" for number, one in enumerate(earlier, 1))
    new = "\n".join(f"{number}. {' '.join(one.text.split())}" for number, one in enumerate(statements, 1))
    parts = [f"# Question\n{quote(question)}"] if question.strip() else []
    return "\n\n".join([*parts, f"# Earlier statements\n{quote(told)}", f"# New statements\n{quote(new)}"])


def read_pairs(said: Any, statements: Sequence[Statement], earlier: Sequence[View]) -> list[tuple[Statement, View]]:
    """Return the pairs of a reply whose numbers are those of statements."""
    listed = [item for item in said if isinstance(item, dict)] if isinstance(said, list) else []
    return [
        (statements[item["new"] - 1], earlier[item["earlier"] - 1])
        for item in listed
        if is_number(item.get("new"), len(statements)) and is_number(item.get("earlier"), len(earlier))
    ]


def is_number(value: Any, count: int) -> bool:
    """Return whether a value is a whole number from 1 to ``count``."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= count


def knows_controls(pairs: Sequence[tuple[Statement, View]]) -> bool:
    """Return whether the statements of control are judged rightly, and paired with no others."""
    touched = [
        pair for pair in pairs if pair[1] is CONTROL_EARLIER or pair[0] in (CONTROL_FALSE, CONTROL_TRUE)
    ]  # fmt: skip
    return touched == [(CONTROL_FALSE, CONTROL_EARLIER)]


def make_view(statement: Statement) -> View:
    """Return a statement as a view of nothing in particular: a note on it quotes its words."""
    return View("", "", "", "", 0.0, "", " ".join(statement.text.split()), statement.as_of)
