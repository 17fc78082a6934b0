"""Words that no name, period or operator took: unknown entities, unknown indicators, and words that narrow a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.matching import STRANGE as STRANGE_CHARS
from fathom.services.datafetch.catalog.matching import Matcher, Scored
from fathom.services.datafetch.catalog.name_words import REPLACES, list_roots
from fathom.services.datafetch.catalog.text import CJK, blank, is_chinese
from fathom.services.datafetch.parser.lexicon import (
    cue,
    find_content_words,
    find_terms,
    is_decisive,
    load_known_words,
)
from fathom.services.datafetch.parser.mention import Mention, MentionKind, select
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
    """The unmatched words of one question; ``read`` adds and removes mentions and reports what is missing.

    An indicator is accepted only when its score is high and clearly above the next one's.
    """

    layer: Layer
    matcher: Matcher
    text: str
    rest: str
    kinds: set[str]
    mentions: list[Mention]
    missing: list[Missing] = field(default_factory=list)

    @property
    def entities(self) -> list[Mention]:
        return select(self.mentions, MentionKind.ENTITY)

    @property
    def indicators(self) -> list[Mention]:
        return select(self.mentions, MentionKind.INDICATOR)

    def read(self) -> None:
        """Classify the words of ``rest`` that are not blanked."""
        self._link()
        self._report_names()
        known, runs = bool(self.indicators), find_runs(self.rest)
        for start, end in runs:
            words = self.text[start:end]
            if is_chinese(words) and self._is_name(start, end, alone=len(runs) == 1):
                self._report_entity(words)
            elif not self._narrow_named(start, end) and not known and not self._match_free(start, end):
                self._report_run(words)

    def _link(self) -> None:
        """Take the series whose names hold unread words and the names beside them: "median unemployment duration"."""
        names = self.layer.name_words
        for phrase in list(self._find_phrases()):
            start, end = phrase
            inside = [item for item in self.indicators if start <= item.start and item.end <= end]
            # Beside a series that is named, words alone narrow it or mean nothing.
            if self.indicators and not inside:
                continue
            least = REPLACES if inside else 0.0
            texts = (self.text[at:end] for at in self._widen(start))
            found = next(filter(None, (names.choose(list_roots(text), least=least) for text in texts)), "")
            if found and self._list_fitting([found]):
                self._drop(*inside)
                self._take_words([phrase], [found])
                if found in [item.value for item in inside]:
                    # The words only say more of the series that was named, which others may still narrow.
                    self.mentions[-1] = replace(self.mentions[-1], confidence=1.0, how="exact")
        for item in self.indicators:
            if item.how == "words" or self.layer.indicators[item.value].default:
                continue
            narrowed = [(span, found) for span in find_runs(self.rest) if (found := self._narrow(item, span))]
            if narrowed:
                self._drop(item)
                self.mentions.append(replace(item, value=narrowed[0][1], confidence=SPECIFIC, how="words", others=()))
                self._take_words(*zip(*narrowed, strict=True))

    def _narrow(self, item: Mention, span: tuple[int, int]) -> str:
        """Return the series that unread words make of a named one: "regular" beside "pump price"; "" for none."""
        names, words = self.layer.name_words, list_roots(self.text[slice(*span)])
        found = names.choose(words, names.get_words(item.value) | list_roots(self.text)) if words else ""
        # What the series itself is called makes it no other one.
        if not found or found == item.value or not self._list_fitting([found]):
            return ""
        return found if names.narrows(found, item.value, self.text[item.start : item.end]) else ""

    def _take_words(self, spans: Sequence[tuple[int, int]], ids: Sequence[str]) -> None:
        self.rest = blank(self.rest, spans)
        pairs = zip(spans, ids, strict=True)
        self.mentions += [Mention(MentionKind.INDICATOR, *span, ident, SPECIFIC, "words") for span, ident in pairs]

    def _widen(self, start: int) -> Iterator[int]:
        """Yield where a phrase may begin: at a word before it with another meaning ("median duration"), or as it is."""
        before = ONE_WORD.search(self.text[:start])
        if before and all(not item.start <= before.start() < item.end for item in self.mentions):
            yield before.start()
        yield start

    def _find_phrases(self) -> Iterator[tuple[int, int]]:
        """Yield the spans of unread words with the names of series that only words without content part from them.

        The longest come first, and none that holds another that was taken.
        """
        runs = find_runs(self.rest)
        named = [item.span for item in self.indicators if not self.layer.indicators[item.value].default]
        parts = sorted([*runs, *named])
        ends = {at: at for at in range(len(parts))}
        for at in reversed(range(len(parts) - 1)):
            if LINKS.fullmatch(self.text[parts[at][1] : parts[at + 1][0]]):
                ends[at] = ends[at + 1]
        phrases = [(first, last) for first, end in ends.items() for last in range(first, end + 1)]
        for first, last in sorted(phrases, key=lambda one: one[0] - one[1]):
            held = parts[first : last + 1]
            if set(held) & set(runs) and all(self.rest[slice(*run)].strip("\0") for run in held if run in runs):
                yield parts[first][0], parts[last][1]

    def _report_names(self) -> None:
        """Report capitalised words as names that are unknown; with them, figures of the United States are not meant."""
        for name in find_unknown_names(self.rest):
            start = self.rest.find(name)
            # A proper name is not inflected: "Bank" is not the number of banks.
            if self.indicators or not self._match_free(start, start + len(name), inflected=False):
                coordinated = re.search(rf"(?:\band|,|\bvs\.?|versus|\bor|&)\s+{re.escape(name)}", self.rest)
                # "P/E of Microsoft": beside a known name, a figure, and no further name.
                figure = self.entities and not self.indicators and not coordinated
                (self._report_indicator if figure else self._report_entity)(name)
                self.rest = blank(self.rest, [(start, start + len(name))])

    def _narrow_named(self, start: int, end: int) -> bool:
        """Report a name that unread words beside it make another one of; return whether there is one."""
        # Prices stand beside words of all kinds, which do not narrow them.
        touching = [
            item
            for item in self.indicators
            if item.how == "exact" and not self.layer.indicators[item.value].default and self._touches(item, start, end)
        ]
        if touching:
            first, last = min(start, touching[0].start), max(end, touching[0].end)
            if not self._covers(self.text[first:last], touching[0].value, 0.0):
                self._drop(touching[0])
                self._report_indicator(self.text[first:last])
        return bool(touching)

    def _touches(self, item: Mention, start: int, end: int) -> bool:
        """Return whether words stand right before a name, or behind it with at most a preposition between them."""
        if end <= item.start:
            return not self.text[end : item.start].strip()
        return LINKS.fullmatch(self.text[item.end : start]) is not None

    def _report_run(self, words: str) -> None:
        """Report words for an unknown indicator, unless they are; a guess for other words is unsure then."""
        if not any(words in item.subject or item.subject in words for item in self.missing):
            self._report_indicator(words)
            self._drop(*(item for item in self.indicators if item.how != "exact"))

    def _is_name(self, start: int, end: int, *, alone: bool) -> bool:
        """Return whether unread Chinese words are a name: joined to one, owning the figures, or unlike all figures."""
        if any(JOINT.fullmatch(self.rest[end : one.start] or self.rest[one.end : start]) for one in self.entities):
            return True
        if self.entities or self.indicators:
            owned = [self.layer.indicators[item.value].kinds for item in self.indicators]
            return not self.entities and all("economy" not in kinds for kinds in owned)
        near = self.matcher.match(self.text[start:end], 1)
        return end - start > 2 and (not near or near[0].score < (ALIEN if alone else STRANGE))

    def _report_entity(self, name: str) -> None:
        """Report an unknown name; figures that only economies have must not be those of the United States instead."""
        detail = f"no company, index, fund, currency or economy called {name!r} has data here"
        nearest = tuple(self.layer.entity_names.find_nearest(name))
        self.missing.append(Missing(name, "UNKNOWN_ENTITY", detail, nearest=nearest))
        owned = [self.layer.indicators[item.value].kinds for item in self.indicators]
        if not self.entities and all("economy" in kinds for kinds in owned):
            self._drop(*self.indicators)

    def _drop(self, *items: Mention) -> None:
        self.mentions = [item for item in self.mentions if all(item is not other for other in items)]

    def _list_fitting(self, idents: Iterable[str]) -> list[str]:
        """Return the indicators that the kinds of the entities have."""
        return [one for one in idents if not self.kinds or self.kinds & set(self.layer.indicators[one].kinds)]

    def _covers(self, words: str, ident: str, allowed: float = STRANGE_CHARS) -> bool:
        return self.matcher.covers(words, ident, allowed, self.layer.indicator_names.list_names)

    def _is_named(self, words: str, near: Scored, *, inflected: bool) -> bool:
        """Return whether a name that one word is like says no more than the word, in the same form if not inflected."""
        same = inflected or re.search(rf"\b{re.escape(words)}\b", near.surface, re.I) is not None
        # Whatever is called a price is the default of its kind.
        return same and (self.layer.indicators[near.id].default or self.matcher.resembles(words, near.surface))

    def _match(self, words: str) -> list[Scored]:
        """Return the indicators like some words that the kinds of the entities have."""
        found = self.matcher.match(words)
        fitting = self._list_fitting(item.id for item in found)
        return [item for item in found if item.id in fitting]

    def _match_free(self, start: int, end: int, *, inflected: bool = True) -> bool:
        """Take the indicator that words match with a clear lead; return whether there is one."""
        words = self.text[start:end].strip()
        near = self._match(words)
        sure = near and near[0].score >= ACCEPT and (len(near) < 2 or near[0].score - near[1].score >= MARGIN)
        if sure and self._covers(words, near[0].id) and self._is_named(words, near[0], inflected=inflected):
            self._take(start, start + len(words), near)
            return True
        return False

    def _take(self, start: int, end: int, near: Sequence[Scored]) -> None:
        others = tuple(item.id for item in near[1:4])
        self.mentions.append(Mention(MentionKind.INDICATOR, start, end, near[0].id, near[0].score, near[0].how, others))

    def _report_indicator(self, words: str, near: Sequence[str] | None = None) -> None:
        """Report words for an unknown indicator once, with the nearest ones and whose it would be."""
        if any(item.reason == "UNKNOWN_INDICATOR" and item.subject == words for item in self.missing):
            return
        if near is None:
            near = [item.id for item in self._match(words)[:5] if item.score > ALIEN]
        specs = [self.layer.indicators[ident] for ident in near[:3]]
        names = tuple(spec.name_zh if spec.name_zh and is_chinese(words) else spec.name for spec in specs)
        detail = f"no indicator here is called {words!r}"
        if self.entities:
            detail += f", asked of {self.layer.entities[self.entities[0].value].name}"
        self.missing.append(Missing(words, "UNKNOWN_INDICATOR", detail, aspect=words, nearest=names))


def find_unread(rest: str) -> list[tuple[int, int]]:
    """Return the spans of content words of a blanked question that are no words of a lexicon either."""
    known = [*(item.span for item in find_terms(rest)), *(match.span() for match in cue("counted_noun").finditer(rest))]
    return list(find_content_words(blank(rest, known)))


def find_unknown_names(rest: str) -> list[str]:
    """Return Latin words of a blanked question that look like names, and multiples such as "P/E"."""
    unknown: list[str] = [match.group() for match in MULTIPLE.finditer(rest)]
    # Blanked, or "EV" and "EBITDA" would be reported as names besides.
    rest = blank(rest, [match.span() for match in MULTIPLE.finditer(rest)])
    rest = blank(rest, [item.span for item in find_terms(rest)])
    for match in NAME_LIKE.finditer(rest):
        words = " ".join(word for word in match.group().split() if word.lower() not in load_known_words())
        if words and words not in unknown:
            unknown.append(words)
    return unknown


def find_runs(rest: str) -> list[tuple[int, int]]:
    """Return the spans of runs of unread words of a blanked question, in their order."""
    return sorted({*find_latin_runs(rest), *find_chinese_runs(rest)})


def find_latin_runs(rest: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of runs of unread Latin words of a blanked question; a word that was read ends a run."""
    first, last = 0, -1
    for start, end in find_unread(rest):
        # A word of comparison or time beside a name is no part of the name.
        strange = CJK.match(rest[start]) or not rest[start].isalpha() or end - start < 2 or is_decisive(rest[start:end])
        if last >= 0 and (strange or rest[last:start].strip()):
            yield first, last
            last = -1
        if not strange:
            first, last = (first if last >= 0 else start), end
    if last >= 0:
        yield first, last


def find_chinese_runs(rest: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of runs of unread Chinese words of a blanked question, Latin parts included."""
    merged: list[list[int]] = []
    for start, end in sorted(find_unread(rest)):
        if merged and merged[-1][1] == start:
            merged[-1][1] = end
        else:
            merged.append([start, end])
    for start, end in merged:
        # The first character of 比亚迪 is a preposition elsewhere; behind a name it is one here.
        glued = start and rest[start - 1] in GLUE and rest[max(start - 2, 0)] != "\0"
        if end - start == 2 and glued and CJK.match(rest[start]):
            start -= 1
        if end - start >= 2 and CJK.search(rest[start:end]):
            yield start, end
