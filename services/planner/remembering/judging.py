"""Statements that a language model finds to contradict earlier ones: for what typed values cannot tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fathom.clients import Clients
from fathom.domain.chat.quoting import quote
from fathom.services.planner.model.memory import Statement, View
from fathom.services.planner.remembering.asking import ask_object, is_line_number, number_lines
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
        if not statements or not earlier:
            return []
        # The controls stand in the middle of the one list and at the end of the other, where nothing sets them apart.
        listed = [*statements[:MAX_STATEMENTS]]
        listed[len(listed) // 2 : len(listed) // 2] = [CONTROL_TRUE, CONTROL_FALSE]
        known = [*find_latest(earlier)[:MAX_EARLIER], CONTROL_EARLIER]
        request = write_request(listed, question, known)
        said = await ask_object(self.clients, model, self.prompt, request, MAX_TOKENS, self.timeout_s)
        pairs = read_pairs(said.get("pairs") if said else None, listed, known)
        if not knows_controls(pairs):
            return []
        first: dict[str, Contradiction] = {}
        for pair in sorted(pairs, key=lambda pair: known.index(pair[1])):
            if not is_of_control(pair):
                now, then = pair
                first.setdefault(now.text, Contradiction(make_view(now), then))
        return list(first.values())


def write_request(statements: Sequence[Statement], question: str, earlier: Sequence[View]) -> str:
    """Return the text for the model: question, numbered earlier views and numbered statements, each quoted."""
    told, new = number_lines(map(describe, earlier)), number_lines(one.text for one in statements)
    parts = [f"# Question\n{quote(question)}"] if question.strip() else []
    return "\n\n".join([*parts, f"# Earlier statements\n{quote(told)}", f"# New statements\n{quote(new)}"])


def read_pairs(said: Any, statements: Sequence[Statement], earlier: Sequence[View]) -> list[tuple[Statement, View]]:
    """Return the pairs of a reply whose numbers are those of statements."""
    listed = [item for item in said if isinstance(item, dict)] if isinstance(said, list) else []
    return [
        (statements[item["new"] - 1], earlier[item["earlier"] - 1])
        for item in listed
        if is_line_number(item.get("new"), len(statements)) and is_line_number(item.get("earlier"), len(earlier))
    ]


def knows_controls(pairs: Sequence[tuple[Statement, View]]) -> bool:
    """Return whether the statements of control are judged rightly, and paired with no others."""
    return list(filter(is_of_control, pairs)) == [(CONTROL_FALSE, CONTROL_EARLIER)]


def is_of_control(pair: tuple[Statement, View]) -> bool:
    """Return whether a pair has a statement of control."""
    now, then = pair
    return then is CONTROL_EARLIER or now in (CONTROL_FALSE, CONTROL_TRUE)


def make_view(statement: Statement) -> View:
    """Return a statement as a view of nothing in particular: a note on it quotes its words."""
    return View("", "", "", "", 0.0, "", " ".join(statement.text.split()), statement.as_of)
