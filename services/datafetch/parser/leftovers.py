"""Words that no name, period or operator took: unknown entities and indicators, and words that narrow a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fathom.services.datafetch.catalog.matching import Matcher
from fathom.services.datafetch.catalog.text import CJK, blank, is_chinese, normal
from fathom.services.datafetch.parser import lexicon
from fathom.services.datafetch.parser.draft import Draft
from fathom.services.datafetch.parser.mention import Mention, MentionKind, Span, join_spans, select
from fathom.services.datafetch.query.model import Missing

# Scores below which words are rather a name than an indicator, and below which an indicator is not even near them.
STRANGE, ALIEN = 0.35, 0.2
# What may stand between the words of one name.
LINKS = re.compile(r"\s*(?:(?:of|for|in|on|at|by|and|the|an?)\s+)*|的", re.I)
JOINT = re.compile(r"\s*[和与、及,，]\s*")
# Capitalised words that look like a name; used only to report unknown names, never to guess. EV/EBITDA is a figure.
NAME_LIKE = re.compile(r"\b(?<!/)(?:[A-Z][a-z]+(?:\s+[A-Z][a-z]+)*|[A-Z]{2,5})\b(?!/)")
# Prepositions that are also the first character of names: 比亚迪, 和而泰.
GLUE = "比对和与在从由给用各"


@dataclass
class Leftovers:
    """The unmatched words of one question; ``read`` reports them, and drops names that they make other ones of."""

    draft: Draft
    matcher: Matcher
    rest: str

    def read(self) -> None:
        """Classify the words of ``rest`` that are not blanked."""
        # Names first: a word that is reported as one is no figure besides.
        self._report_names()
        is_known, runs = bool(self.draft.indicators), find_runs(self.rest)
        for start, end in runs:
            words = self.draft.text[start:end]
            if is_chinese(words) and self._is_name(start, end):
                self._report_entity(words)
            elif self._report_longer_name(start, end) or is_known:
                continue
            elif not any(words in item.subject or item.subject in words for item in self.draft.missing):
                self._report_indicator(words)

    def _report_names(self) -> None:
        """Report capitalised words as names that are unknown; with them, figures of the United States are not meant."""
        for name in find_unknown_names(self.rest):
            start = self.rest.find(name)
            coordinated = re.search(rf"(?:\band|,|\bvs\.?|versus|\bor|&)\s+{re.escape(name)}", self.rest)
            # "P/E of Microsoft": beside a known name, a figure, and no further name.
            figure = self.draft.entities and not self.draft.indicators and not coordinated
            (self._report_indicator if figure else self._report_entity)(name)
            self.rest = blank(self.rest, [(start, start + len(name))])

    def _report_longer_name(self, start: int, end: int) -> bool:
        """Report a name that unread words beside it make another one of; return whether there is one."""
        text, specs = self.draft.text, self.draft.layer.indicators
        # Prices stand beside words of all kinds.
        for item in (one for one in self.draft.indicators if not specs[one.value].default):
            # Before the name or behind it, with at most a preposition between them.
            gap = text[end : item.start] if end <= item.start else text[item.end : start]
            if LINKS.fullmatch(gap):
                words = text[min(start, item.start) : max(end, item.end)]
                if not self.matcher.covers(words, item.value, self.draft.layer.indicator_names.list_names):
                    self._drop([item])
                    self._report_indicator(words)
                return True
        return False

    def _is_name(self, start: int, end: int) -> bool:
        """Return whether unread Chinese words are a name: joined to one, owning the figures, or unlike all figures."""
        entities = select(self.draft.mentions, MentionKind.ENTITY)
        # What 和 joins to a name is one as well, however much it is like a figure.
        if any(JOINT.fullmatch(self.rest[end : one.start] or self.rest[one.end : start]) for one in entities):
            return True
        if entities or self.draft.indicators:
            return not entities and all("economy" not in kinds for kinds in self._list_kinds())
        # Two characters are too few to be told from a figure by likeness.
        near = self.matcher.match(self.draft.text[start:end], 1)
        return end - start > 2 and (not near or near[0].score < STRANGE)

    def _list_kinds(self) -> list[list[str]]:
        """Return for each indicator the kinds of those that have it."""
        return [self.draft.layer.indicators[item.value].kinds for item in self.draft.indicators]

    def _report_entity(self, name: str) -> None:
        """Report an unknown name; figures that only economies have must not be those of the United States instead."""
        detail = f"no company, index, fund, currency or economy called {name!r} has data here"
        nearest = tuple(self.draft.layer.entity_names.find_nearest(name))
        self.draft.missing.append(Missing(name, "UNKNOWN_ENTITY", detail, nearest=nearest))
        if not self.draft.entities and all("economy" in kinds for kinds in self._list_kinds()):
            self._drop(self.draft.indicators)

    def _drop(self, items: Iterable[Mention]) -> None:
        dropped = list(map(id, items))
        self.draft.mentions = [item for item in self.draft.mentions if id(item) not in dropped]

    def _report_indicator(self, words: str) -> None:
        """Report words for an unknown indicator once, with the nearest ones and whose it would be."""
        layer, entities = self.draft.layer, self.draft.entities
        known = {word for name in entities for word in normal(layer.entities[name].name).split()}
        is_reported = any(item.reason == "UNKNOWN_INDICATOR" and item.subject == words for item in self.draft.missing)
        # "Which factor ETF" behind the codes of factor ETFs is what they are, and no figure of them.
        if is_reported or known.issuperset(normal(words).split()):
            return
        # Only what the named entities have is of use to a reader.
        near = [layer.indicators[item.id] for item in self.matcher.match(words) if item.score > ALIEN]
        specs = [spec for spec in near if not self.draft.kinds or self.draft.kinds & set(spec.kinds)][:3]
        names = tuple(spec.name_zh if spec.name_zh and is_chinese(words) else spec.name for spec in specs)
        owner = f", asked of {layer.entities[entities[0]].name}" if entities else ""
        detail = f"no indicator here is called {words!r}{owner}"
        self.draft.missing.append(Missing(words, "UNKNOWN_INDICATOR", detail, aspect=words, nearest=names))


def find_unknown_names(rest: str) -> list[str]:
    """Return Latin words of a blanked question that look like names."""
    rest = blank(rest, [item.span for item in lexicon.find_terms(rest)])
    known = lexicon.load_known_words()
    names = (" ".join(word for word in found.split() if word.lower() not in known) for found in NAME_LIKE.findall(rest))
    return list(filter(None, dict.fromkeys(names)))


def find_runs(rest: str) -> list[Span]:
    """Return the spans of runs of unread words of a blanked question, in their order."""
    known = [*(item.span for item in lexicon.find_terms(rest)), *lexicon.find_spans(["counted_noun"], rest)]
    unread = sorted(lexicon.find_content_words(blank(rest, known)))
    # A word of comparison or time beside a name is no part of the name; a word that was read ends a run.
    latin = [
        (start, end)
        for start, end in unread
        if end - start > 1
        and rest[start].isalpha()
        and not CJK.match(rest[start])
        and not lexicon.is_decisive(rest[start:end])
    ]
    return sorted({*join_spans(latin, rest), *_find_chinese_runs(unread, rest)})


def _find_chinese_runs(unread: Sequence[Span], rest: str) -> Iterator[Span]:
    """Yield the runs of unread words with Chinese ones, Latin parts included."""
    for start, end in join_spans(unread, rest, ""):
        # The first character of 比亚迪 is a preposition elsewhere; behind a name it is one here.
        is_glued = start and rest[start - 1] in GLUE and rest[max(start - 2, 0)] != "\0"
        if end - start == 2 and is_glued and CJK.match(rest[start]):
            start -= 1
        if end - start >= 2 and CJK.search(rest[start:end]):
            yield start, end
