"""Enrichment of a plan from the library: frameworks, related indicators, and canonical indicator names.

Names that the model suggests reach the data tool only as names of the library. Each part can be disabled.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.errors import FathomError
from services.planner.answering.material import estimated_tokens
from services.planner.workflow.record import ASSOCIATION, FRAMEWORKS, INDICATORS, PARTS, Meant, Widening

DEEPEST, TOPICS, NEAR, MAX_MENTIONS, MAX_QUESTION = 3, 2, 12, 64, 2_000
KNOWN_SCORE, HELD_SCORE = 0.7, 0.6
"""Lowest similarity at which a model's phrase counts as an indicator's name, and at which one that contains it does."""


@dataclass(frozen=True)
class Around:
    """Context of a question: a framework as lines of a tree, and names of indicators."""

    framework: str = ""
    indicators: tuple[str, ...] = ()
    widening: tuple[Widening, ...] = ()


class Widener(Protocol):
    """Library lookups; an unreachable service is recorded, never raised, and leaves the plan unenriched."""

    async def around(self, question: str, chinese: bool) -> Around: ...

    async def meant(self, names: Sequence[str], texts: Sequence[str], chinese: bool) -> Meant: ...


@dataclass(frozen=True)
class LibraryWidener:
    """Lookups in datafetch: ``ListFrameworks`` for topics of a question, ``MatchIndicators`` for names."""

    clients: Clients
    parts: Collection[str] = PARTS
    budget_tokens: int = 2_500
    timeout_s: float = 10.0

    async def around(self, question: str, chinese: bool) -> Around:
        framework, widening = "", []
        indicators: tuple[str, ...] = ()
        if FRAMEWORKS in self.parts:
            try:
                request = pb.ListFrameworksRequest(question=question[:MAX_QUESTION], level=DEEPEST, limit=TOPICS)
                response = await self.clients.datafetch.list_frameworks(request, timeout_s=self.timeout_s)
                framework = tree(response.frameworks, chinese, self.budget_tokens)
                widening.append(Widening(FRAMEWORKS, tuple(one.topic for one in response.frameworks)))
            except FathomError as error:
                widening.append(Widening(FRAMEWORKS, error=error.message))
        if INDICATORS in self.parts:
            try:
                found = await self._match([question[:MAX_QUESTION]])
                near = [(one.id, named(one, chinese)) for one in found[0].indicators[:NEAR]]
                indicators = tuple(name for _, name in near)
                widening.append(Widening(INDICATORS, tuple(ident for ident, _ in near)))
            except FathomError as error:
                widening.append(Widening(INDICATORS, error=error.message))
        return Around(framework, indicators, tuple(widening))

    async def meant(self, names: Sequence[str], texts: Sequence[str], chinese: bool) -> Meant:
        names = list(names) if ASSOCIATION in self.parts else []
        asked = list(dict.fromkeys([*texts, *names]))[:MAX_MENTIONS]
        try:
            found = dict(zip(asked, await self._match(asked), strict=True)) if asked else {}
        except FathomError as error:
            return Meant(widening=(Widening(ASSOCIATION, error=error.message),))
        known, canonical = {}, {}
        for name in names:
            matches = found.get(name)
            best = matches.indicators[0] if matches is not None and matches.indicators else None
            fits = best is not None and matches is not None and is_known(name, matches)
            known[name] = best.id if best is not None and fits else ""
            if best is not None and matches is not None and fits:
                canonical[name] = name if matches.scores[0] >= 1 else named(best, chinese)
        inside = {text: surfaces_in(text, found[text].surfaces) for text in texts if text in found}
        told = tuple(sorted({ident for ident in known.values() if ident}))
        return Meant(known, canonical, inside, (Widening(ASSOCIATION, told),) if names else ())

    async def _match(self, mentions: Sequence[str]) -> list[pb.IndicatorMatches]:
        request = pb.MatchIndicatorsRequest(mentions=mentions)
        return list((await self.clients.datafetch.match_indicators(request, timeout_s=self.timeout_s)).results)


def is_known(name: str, matches: pb.IndicatorMatches) -> bool:
    """Return whether a phrase resembles an indicator's name or contains one verbatim ("free cash flow margin")."""
    if matches.scores[0] >= KNOWN_SCORE:
        return True
    return matches.scores[0] >= HELD_SCORE and bool(surfaces_in(name, matches.surfaces[:1]))


def named(indicator: pb.Indicator, chinese: bool) -> str:
    """Return the indicator's name in the question's language."""
    return str((indicator.name_zh if chinese else "") or indicator.name or indicator.id)


def surfaces_in(text: str, surfaces: Sequence[str]) -> tuple[str, ...]:
    """Return the indicator names that occur in the text."""
    folded = f" {fold(text)} "
    inside = (surface for surface in surfaces if len(surface) > 1 and stands(fold(surface), folded))
    return tuple(dict.fromkeys(inside))


def fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def stands(name: str, text: str) -> bool:
    """Return whether the name occurs in the text: Latin names as whole words, Chinese ones anywhere."""
    if not name.isascii():
        return name in text
    start = text.find(name)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(name) : start + len(name) + 1]
        if not before.isalnum() and not (after.isalnum() and after != "s"):
            return True
        start = text.find(name, start + 1)
    return False


def tree(frameworks: Sequence[pb.Framework], chinese: bool, budget_tokens: int) -> str:
    """Return the trees as indented lines, at most ``DEEPEST`` levels, within a budget by an upper token estimate.

    A leaf is written "name [tool]"; when the budget is exhausted, "…" marks the omission.
    """
    lines: list[str] = []
    spent = 0
    for framework in frameworks:
        head = f"# {framework.topic}: {(framework.name_zh if chinese else '') or framework.name}"
        for line in [head, *(node_line(node, chinese) for node in framework.nodes if len(node.path) <= DEEPEST)]:
            cost = estimated_tokens(line) + 1
            if spent + cost > budget_tokens:
                return "\n".join([*lines, "…"])
            lines.append(line)
            spent += cost
    return "\n".join(lines)


def node_line(node: pb.FrameworkNode, chinese: bool) -> str:
    name = (node.name_zh if chinese else "") or node.name
    tool = "search" if node.tool == pb.FRAMEWORK_TOOL_SEARCH else "data"
    return f"{'  ' * (len(node.path) - 1)}- {name}" + (f" [{tool}]" if len(node.path) == DEEPEST else "")
