"""Words that no name, period or operator took: unknown entities, unknown indicators, and words that narrow a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

from fathom.services.datafetch.catalog.matching import STRANGE as STRANGE_CHARS
from fathom.services.datafetch.catalog.matching import Matcher, Scored
from fathom.services.datafetch.catalog.name_words import REPLACES, list_roots
from fathom.services.datafetch.catalog.text import CJK, blank, is_chinese
from fathom.services.datafetch.parser.draft import Draft
from fathom.services.datafetch.parser.lexicon import (
    find_content_words,
    find_spans,
    find_terms,
    is_decisive,
    load_known_words,
)
from fathom.services.datafetch.parser.mention import Mention, MentionKind, Span, is_free, join_spans, select
from fathom.services.datafetch.query.model import Missing

# Score from which a fuzzy match is used, and its lead over the next one: lower accepts the names of other indicators.
ACCEPT, MARGIN = 0.62, 0.04
# Confidence of a name whose words stand apart in the question.
SPECIFIC = 0.9
# Scores below which words are unlike every indicator and rather a name: with other unmatched words beside them, and
# alone.
STRANGE, ALIEN = 0.35, 0.2
# The last word of a text, and what may stand between the words of one name.
ONE_WORD, LINKS = re.compile(r"[A-Za-z]+\s+$"), re.compile(r"\s*(?:(?:of|for|in|on|at|by|and|the|an?)\s+)*|的", re.I)
JOINT = re.compile(r"\s*[和与、及,，]\s*")
# Capitalised words that look like a name; used only to report unknown names, never to guess.
NAME_LIKE = re.compile(r"\b(?:[A-Z][a-z]+(?:\s+[A-Z][a-z]+)*|[A-Z]{2,5})\b")
# Valuation multiples: P/E, EV/EBITDA.
MULTIPLE = re.compile(r"\b(?:[A-Z]{1,3}/[A-Z]{1,6}|p/[ebs])\b")
# Prepositions that are also the first character of names: 比亚迪, 和而泰.
GLUE = "比对和与在从由给用各"


@dataclass
class Leftovers:
    """The unmatched words of one question; ``read`` changes the mentions of its draft and reports what is missing.

    An indicator is accepted only when its score is high and clearly above the next one's.
    """

    draft: Draft
    matcher: Matcher
    rest: str

    def read(self) -> None:
        """Classify the words of ``rest`` that are not blanked."""
        self._link()
        self._narrow()
        self._report_names()
        is_known, runs = bool(self.draft.indicators), find_runs(self.rest)
        for start, end in runs:
            words = self.draft.text[start:end]
            if is_chinese(words) and self._is_name(start, end, is_alone=len(runs) == 1):
                self._report_entity(words)
            elif self._report_longer_name(start, end) or is_known or self._match_free(start, end):
                continue
            elif not any(words in item.subject or item.subject in words for item in self.draft.missing):
                self._report_indicator(words)
                # A guess for other words is unsure then.
                self._drop(item for item in self.draft.indicators if item.how != "exact")

    def _list_names(self) -> list[Mention]:
        """Return the indicators that words name; prices stand beside words of all kinds."""
        return [item for item in self.draft.indicators if not self.draft.layer.indicators[item.value].default]

    def _link(self) -> None:
        """Take the series whose names hold unread words and the names beside them: "median unemployment duration"."""
        text = self.draft.text
        for start, end in self._find_phrases():
            inside = [item for item in self.draft.indicators if start <= item.start and item.end <= end]
            # Beside a series that is named, words alone narrow it or mean nothing.
            if self.draft.indicators and not inside:
                continue
            before = ONE_WORD.search(text[:start])
            # A word before it may have another meaning: "median duration".
            wider = [before.start()] if before and is_free((before.start(), before.end()), self.draft.mentions) else []
            least, names = REPLACES if inside else 0.0, self.draft.layer.name_words
            found = (names.choose(list_roots(text[at:end]), least=least) for at in (*wider, start))
            series = next(filter(None, found), "")
            if series and self._fits(series):
                # Where the words only say more of the series that was named, others may still narrow it.
                is_same = series in [item.value for item in inside]
                self._drop(inside)
                self._take((start, end), series, (1.0, "exact") if is_same else (SPECIFIC, "words"))

    def _narrow(self) -> None:
        """Take the series that unread words make of a named one: "regular" beside "pump price"."""
        names, text = self.draft.layer.name_words, self.draft.text
        for item in self._list_names():
            if item.how == "words":
                continue
            given = names.get_words(item.value) | list_roots(text)
            spans = [(span, words) for span in find_runs(self.rest) if (words := list_roots(text[slice(*span)]))]
            chosen = [(span, names.choose(words, given)) for span, words in spans]
            narrowed = [
                (span, found)
                for span, found in chosen
                # What the series itself is called makes it no other one.
                if found not in ("", item.value)
                and self._fits(found)
                and names.narrows(found, item.value, text[item.start : item.end])
            ]
            if narrowed:
                self._drop([item])
                kept = replace(item, value=narrowed[0][1], confidence=SPECIFIC, how="words", others=())
                self.draft.mentions.append(kept)
                for span, found in narrowed:
                    self._take(span, found, (SPECIFIC, "words"))

    def _take(self, span: Span, ident: str, sure: tuple[float, str]) -> None:
        self.rest = blank(self.rest, [span])
        self.draft.mentions.append(Mention(MentionKind.INDICATOR, *span, ident, *sure))

    def _find_phrases(self) -> list[Span]:
        """Return the spans of unread words with the names of series that only words without content part from them.

        The longest come first.
        """
        runs, chains = find_runs(self.rest), list[list[Span]]()
        for part in sorted([*runs, *(item.span for item in self._list_names())]):
            if chains and LINKS.fullmatch(self.draft.text[chains[-1][-1][1] : part[0]]):
                chains[-1].append(part)
            else:
                chains.append([part])
        pairs = ((chain, pair) for chain in chains for pair in combinations_with_replacement(range(len(chain)), 2))
        held = [chain[first : last + 1] for chain, (first, last) in pairs]
        phrases = [parts for parts in sorted(held, key=len, reverse=True) if not set(runs).isdisjoint(parts)]
        return [(parts[0][0], parts[-1][1]) for parts in phrases]

    def _report_names(self) -> None:
        """Report capitalised words as names that are unknown; with them, figures of the United States are not meant."""
        for name in find_unknown_names(self.rest):
            start = self.rest.find(name)
            # A proper name is not inflected: "Bank" is not the number of banks.
            if self.draft.indicators or not self._match_free(start, start + len(name), is_inflected=False):
                coordinated = re.search(rf"(?:\band|,|\bvs\.?|versus|\bor|&)\s+{re.escape(name)}", self.rest)
                # "P/E of Microsoft": beside a known name, a figure, and no further name.
                figure = self.draft.entities and not self.draft.indicators and not coordinated
                (self._report_indicator if figure else self._report_entity)(name)
                self.rest = blank(self.rest, [(start, start + len(name))])

    def _report_longer_name(self, start: int, end: int) -> bool:
        """Report a name that unread words beside it make another one of; return whether there is one."""
        text = self.draft.text
        for item in self._list_names():
            # Right before the name, or behind it with at most a preposition between them.
            before = end <= item.start and not text[end : item.start].strip()
            behind = end > item.start and LINKS.fullmatch(text[item.end : start])
            if item.how == "exact" and (before or behind):
                words = text[min(start, item.start) : max(end, item.end)]
                if not self._covers(words, item.value, 0.0):
                    self._drop([item])
                    self._report_indicator(words)
                return True
        return False

    def _is_name(self, start: int, end: int, *, is_alone: bool) -> bool:
        """Return whether unread Chinese words are a name: joined to one, owning the figures, or unlike all figures."""
        entities = select(self.draft.mentions, MentionKind.ENTITY)
        if any(JOINT.fullmatch(self.rest[end : one.start] or self.rest[one.end : start]) for one in entities):
            return True
        if entities or self.draft.indicators:
            return not entities and all("economy" not in kinds for kinds in self._list_kinds())
        near = self.matcher.match(self.draft.text[start:end], 1)
        return end - start > 2 and (not near or near[0].score < (ALIEN if is_alone else STRANGE))

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

    def _fits(self, ident: str) -> bool:
        """Return whether the kinds of the entities have an indicator."""
        return not self.draft.kinds or not self.draft.kinds.isdisjoint(self.draft.layer.indicators[ident].kinds)

    def _covers(self, words: str, ident: str, allowed: float = STRANGE_CHARS) -> bool:
        return self.matcher.covers(words, ident, allowed, self.draft.layer.indicator_names.list_names)

    def _match(self, words: str) -> list[Scored]:
        """Return the indicators like some words that the kinds of the entities have."""
        return [item for item in self.matcher.match(words) if self._fits(item.id)]

    def _match_free(self, start: int, end: int, *, is_inflected: bool = True) -> bool:
        """Take the indicator that words match with a clear lead; return whether there is one.

        Its name says no more than a single word, which has the same form if it is not inflected.
        """
        words = self.draft.text[start:end].strip()
        near = self._match(words)
        if not near or near[0].score < ACCEPT or (len(near) > 1 and near[0].score - near[1].score < MARGIN):
            return False
        best = near[0]
        is_same = is_inflected or re.search(rf"\b{re.escape(words)}\b", best.surface, re.I)
        # Whatever is called a price is the default of its kind.
        is_whole = self.draft.layer.indicators[best.id].default or self.matcher.resembles(words, best.surface)
        if is_same and is_whole and self._covers(words, best.id):
            others, end = tuple(item.id for item in near[1:4]), start + len(words)
            self.draft.mentions.append(
                Mention(MentionKind.INDICATOR, start, end, best.id, best.score, best.how, others)
            )
            return True
        return False

    def _report_indicator(self, words: str) -> None:
        """Report words for an unknown indicator once, with the nearest ones and whose it would be."""
        if any(item.reason == "UNKNOWN_INDICATOR" and item.subject == words for item in self.draft.missing):
            return
        layer, entities = self.draft.layer, self.draft.entities
        specs = [layer.indicators[item.id] for item in self._match(words)[:3] if item.score > ALIEN]
        names = tuple(spec.name_zh if spec.name_zh and is_chinese(words) else spec.name for spec in specs)
        owner = f", asked of {layer.entities[entities[0]].name}" if entities else ""
        detail = f"no indicator here is called {words!r}{owner}"
        self.draft.missing.append(Missing(words, "UNKNOWN_INDICATOR", detail, aspect=words, nearest=names))


def find_unknown_names(rest: str) -> list[str]:
    """Return Latin words of a blanked question that look like names, and multiples such as "P/E"."""
    multiples = list(MULTIPLE.finditer(rest))
    # Blanked, or "EV" and "EBITDA" would be reported as names besides.
    rest = blank(rest, [match.span() for match in multiples])
    rest = blank(rest, [item.span for item in find_terms(rest)])
    known = load_known_words()
    names = (" ".join(word for word in found.split() if word.lower() not in known) for found in NAME_LIKE.findall(rest))
    return list(filter(None, dict.fromkeys((*(match[0] for match in multiples), *names))))


def find_runs(rest: str) -> list[Span]:
    """Return the spans of runs of unread words of a blanked question, in their order."""
    known = [*(item.span for item in find_terms(rest)), *find_spans(["counted_noun"], rest)]
    unread = sorted(find_content_words(blank(rest, known)))
    # A word of comparison or time beside a name is no part of the name; a word that was read ends a run.
    latin = [
        (start, end)
        for start, end in unread
        if end - start > 1 and rest[start].isalpha() and not CJK.match(rest[start]) and not is_decisive(rest[start:end])
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
