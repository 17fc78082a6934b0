"""Choice of what of a memory a prompt gets, within its budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.domain.profile.guidance import format_line
from fathom.domain.profile.kinds import Kind
from fathom.services.planner.answering.rendering.material import estimate_tokens
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.classification.examples import ROUTE
from fathom.services.planner.model.memory import Fact, Memory, View

# More lines say less: a prompt is about its question.
MAX_STATEMENTS, MAX_VIEWS = 12, 6


def is_on(facts: Sequence[Fact]) -> bool:
    """Return whether the user lets anything be learnt and used."""
    # One fact of its own, so that turning memory off deletes nothing and can be undone.
    return all(fact.value != "off" for fact in facts if fact.kind is Kind.MEMORY)


async def rank_statements(facts: Sequence[Fact], question: str, classifier: Classifier | None) -> list[Fact]:
    """Return the statements, those nearest to the question first; without an encoder the newest first."""
    statements = [fact for fact in facts if fact.kind is Kind.STATEMENT]
    # A few statements all fit: ranking them would only cost an encoding.
    if classifier is None or len(statements) <= MAX_STATEMENTS:
        return statements
    near = await classifier.compare(ROUTE, [fact.text for fact in statements], [question])
    if not near:
        return statements[:MAX_STATEMENTS]
    # The nearest first: the budget cuts from the end.
    order = sorted(range(len(statements)), key=lambda place: -near[place])
    return [statements[place] for place in order[:MAX_STATEMENTS]]


def fit(facts: Sequence[Fact], views: Sequence[View], tokens: int) -> Memory:
    """Return what fits into a budget of tokens by an upper estimate: preferences first, then views, then statements."""
    # The switch itself says nothing to a model.
    preferences = [fact for fact in facts if fact.kind not in (Kind.STATEMENT, Kind.MEMORY)]
    statements = [fact for fact in facts if fact.kind is Kind.STATEMENT]
    kept: list[Fact | View] = []
    offered: list[Fact | View] = [*preferences, *views[:MAX_VIEWS], *statements]
    # A preference changes every answer, a view contradictions, a statement at best the tone.
    for item in offered:
        need = estimate_tokens(format_line(item.line)) + 1
        # One long line leaves room to the shorter ones behind it.
        if need <= tokens:
            kept.append(item)
            tokens -= need
    return Memory(
        tuple(item for item in kept if isinstance(item, Fact)), tuple(item for item in kept if isinstance(item, View))
    )
