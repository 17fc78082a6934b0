"""Enrichment of a plan from the library: frameworks, related indicators, and canonical indicator names.

Names that the model suggests reach the data tool only as names of the library. Each part can be disabled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.domain.text.folding import join_words
from fathom.services.planner.answering.rendering.material import estimate_tokens
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.classification.examples import TOOL
from fathom.services.planner.model.stages import ASSOCIATION, FRAMEWORKS, INDICATORS, PARTS, LibraryLookup, Widening

# Two frameworks of three levels and a dozen indicators fit the plan's prompt; deeper levels repeat indicators.
DEEPEST, TOPICS, NEAR, MAX_MENTIONS, MAX_QUESTION = 3, 2, 12, 64, 2_000
KNOWN_SCORE, HELD_SCORE = 0.7, 0.6
"""Lowest similarity at which a model's phrase counts as an indicator's name, and at which one that contains it does."""


@dataclass(frozen=True)
class QuestionContext:
    """Context of a question: a framework as lines of a tree, and names of indicators."""

    framework: str = ""
    indicators: tuple[str, ...] = ()
    widening: tuple[Widening, ...] = ()


class Enricher(Protocol):
    """Library lookups; an unreachable service is recorded, never raised, and leaves the plan unenriched."""

    async def find_context(self, question: str, chinese: bool) -> QuestionContext: ...

    async def look_up(self, names: Sequence[str], texts: Sequence[str], chinese: bool) -> LibraryLookup: ...


@dataclass(frozen=True)
class LibraryEnricher:
    """Lookups in datafetch: ``ListFrameworks`` for topics of a question, ``MatchIndicators`` for names."""

    clients: Clients
    parts: Collection[str] = PARTS
    budget_tokens: int = 2_500
    timeout_s: float = 10.0
    classifier: Classifier | None = None
    """Tells which tool suits a sub-question; without one the model's choice stays."""

    async def find_context(self, question: str, chinese: bool) -> QuestionContext:
        framework, widening = "", []
        indicators: tuple[str, ...] = ()
        if FRAMEWORKS in self.parts:
            try:
                request = pb.ListFrameworksRequest(question=question[:MAX_QUESTION], level=DEEPEST, limit=TOPICS)
                response = await self.clients.datafetch.list_frameworks(request, timeout_s=self.timeout_s)
                framework = format_tree(response.frameworks, chinese, self.budget_tokens)
                widening.append(Widening(FRAMEWORKS, tuple(one.topic for one in response.frameworks)))
            except FathomError as error:
                widening.append(Widening(FRAMEWORKS, error=error.message))
        if INDICATORS in self.parts:
            try:
                found = await self._match([question[:MAX_QUESTION]])
                near = [(one.id, choose_name(one, chinese)) for one in found[0].indicators[:NEAR]]
                indicators = tuple(name for _, name in near)
                widening.append(Widening(INDICATORS, tuple(ident for ident, _ in near)))
            except FathomError as error:
                widening.append(Widening(INDICATORS, error=error.message))
        return QuestionContext(framework, indicators, tuple(widening))

    async def look_up(self, names: Sequence[str], texts: Sequence[str], chinese: bool) -> LibraryLookup:
        suited = await self._find_tools(texts)
        names = list(names) if ASSOCIATION in self.parts else []
        # Texts first: the limit of the request must not cost what the routing needs.
        asked = list(dict.fromkeys([*texts, *names]))[:MAX_MENTIONS]
        try:
            found = dict(zip(asked, await self._match(asked), strict=True)) if asked else {}
        except FathomError as error:
            return LibraryLookup(widening=(Widening(ASSOCIATION, error=error.message),), suited=suited)
        known, canonical = {}, {}
        for name in names:
            matches = found.get(name)
            best = matches.indicators[0] if matches is not None and matches.indicators else None
            fits = best is not None and matches is not None and is_known(name, matches)
            known[name] = best.id if best is not None and fits else ""
            if best is not None and matches is not None and fits:
                # A name of the library stays as the model wrote it, in its language.
                canonical[name] = name if matches.scores[0] >= 1 else choose_name(best, chinese)
        inside = {text: find_surfaces(text, found[text].surfaces) for text in texts if text in found}
        told = tuple(sorted({ident for ident in known.values() if ident}))
        return LibraryLookup(known, canonical, inside, (Widening(ASSOCIATION, told),) if names else (), suited)

    async def _find_tools(self, texts: Sequence[str]) -> dict[str, str]:
        """Return the tool that suits each sub-question of which the classifier is sure."""
        if self.classifier is None:
            return {}
        asked = list(dict.fromkeys(texts))[:MAX_MENTIONS]
        verdicts = await self.classifier.classify(TOOL, asked)
        return {text: verdict.label for text, verdict in zip(asked, verdicts, strict=True) if verdict.is_sure}

    async def _match(self, mentions: Sequence[str]) -> list[pb.IndicatorMatches]:
        request = pb.MatchIndicatorsRequest(mentions=mentions)
        return list((await self.clients.datafetch.match_indicators(request, timeout_s=self.timeout_s)).results)


def is_known(name: str, matches: pb.IndicatorMatches) -> bool:
    """Return whether a phrase resembles an indicator's name or contains one verbatim ("free cash flow margin")."""
    if matches.scores[0] >= KNOWN_SCORE:
        return True
    return matches.scores[0] >= HELD_SCORE and bool(find_surfaces(name, matches.surfaces[:1]))


def choose_name(indicator: pb.Indicator, chinese: bool) -> str:
    """Return the indicator's name in the question's language."""
    return str((indicator.name_zh if chinese else "") or indicator.name or indicator.id)


def find_surfaces(text: str, surfaces: Sequence[str]) -> tuple[str, ...]:
    """Return the indicator names that occur in the text."""
    folded = f" {join_words(text)} "
    inside = (surface for surface in surfaces if len(surface) > 1 and is_word_in(join_words(surface), folded))
    return tuple(dict.fromkeys(inside))


def is_word_in(name: str, text: str) -> bool:
    """Return whether the name occurs in the text: Latin names as whole words, Chinese ones anywhere."""
    if not name.isascii():
        return name in text
    start = text.find(name)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(name) : start + len(name) + 1]
        # An "s" behind the name is its plural.
        if not before.isalnum() and not (after.isalnum() and after != "s"):
            return True
        start = text.find(name, start + 1)
    return False


def format_tree(frameworks: Sequence[pb.Framework], chinese: bool, budget_tokens: int) -> str:
    """Return the trees as indented lines, at most ``DEEPEST`` levels, within a budget by an upper token estimate.

    A leaf is written "name [tool]"; when the budget is exhausted, "…" marks the omission.
    """
    lines: list[str] = []
    spent = 0
    for framework in frameworks:
        head = f"# {framework.topic}: {(framework.name_zh if chinese else '') or framework.name}"
        for line in [head, *(format_node(node, chinese) for node in framework.nodes if len(node.path) <= DEEPEST)]:
            cost = estimate_tokens(line) + 1
            if spent + cost > budget_tokens:
                return "\n".join([*lines, "…"])
            lines.append(line)
            spent += cost
    return "\n".join(lines)


def format_node(node: pb.FrameworkNode, chinese: bool) -> str:
    name = (node.name_zh if chinese else "") or node.name
    tool = "search" if node.tool == pb.FRAMEWORK_TOOL_SEARCH else "data"
    return f"{'  ' * (len(node.path) - 1)}- {name}" + (f" [{tool}]" if len(node.path) == DEEPEST else "")
