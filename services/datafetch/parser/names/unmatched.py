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
from fathom.services.datafetch.parser.names.entities import Resolver
from fathom.services.datafetch.query.model import Missing

# Score from which a fuzzy match is used, and its lead over the next one: lower accepts the names of other indicators.
ACCEPT, MARGIN = 0.62, 0.04
# A qualified name must match better than a free one: the bare name is close to all its variants.
QUALIFIED = 0.8
# Confidence of a name whose words stand apart in the question.
SPECIFIC = 0.9
# Scores below which words are unlike every indicator and rather a name: with other unmatched words beside them, and
# alone.
STRANGE, ALIEN = 0.35, 0.2
# Characters around a known name that may belong to a longer one: enough for a place in front of it and a legal form
# behind it.
MAX_BEFORE, MAX_AFTER = 12, 16
# The last word of a text, and what may stand between the words of one name.
ONE_WORD, LINKS = re.compile(r"[A-Za-z]+\s+$"), re.compile(r"\s*(?:(?:of|for|in|on|at|by|and|the|an?)\s+)*|的", re.I)
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
    resolver: Resolver
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
        self._reject_economies()
        self._report_names()
        chinese = is_chinese(self.text)
        if not self.indicators and not chinese:
            # The whole phrase first: its words alone may each match something else.
            phrase = cue("of_phrase").search(self.rest)
            if phrase is None or not self._match_free(*phrase.span()):
                self._match_runs()
        self._drop_hyphenated()
        if not chinese:
            self._check_qualifiers()
        # Chinese has no blanks, so unmatched runs are judged by what they touch: an entity, an indicator, or nothing.
        runs = list(find_chinese_runs(self.rest))
        for start, end in runs:
            self._read_chinese(start, end, alone=len(runs) == 1, leads=(start, end) == runs[0])

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

    def _reject_economies(self) -> None:
        """Report other economies: figures of theirs must not be answered with those of the United States."""
        owned = [self.layer.indicators[item.value].kinds for item in self.indicators]
        if owned and all("economy" in kinds for kinds in owned):
            others = list(cue("economies").finditer(self.rest))
            self.missing += [unknown_entity(match[0], ("United States",)) for match in others]
            if others:
                self._drop(*self.indicators)
                self.rest = blank(self.rest, [match.span() for match in others])

    def _report_names(self) -> None:
        """Report capitalised words, which are an indicator beside an entity unless they are coordinated with it."""
        for name in find_unknown_names(self.rest):
            start = self.rest.find(name)
            # A proper name is not inflected: "Bank" is not the number of banks.
            if not self.indicators and self._match_free(start, start + len(name), inflected=False):
                continue
            coordinated = re.search(rf"(?:\band|,|\bvs\.?|versus|\bor|&)\s+{re.escape(name)}", self.rest)
            if self.entities and not self.indicators and not coordinated:
                self._report_indicator(name)
            elif not cue("economies").fullmatch(name):
                self.missing.append(unknown_entity(name, tuple(self.layer.entity_names.find_nearest(name))))

    def _match_runs(self) -> None:
        """Match runs of Latin words to indicators; one run without a match invalidates the matches of the others."""
        strange = []
        for start, end in find_latin_runs(self.rest):
            words = self.text[start:end]
            # Reported already, by a more specific rule.
            reported = any(words in item.subject or item.subject in words for item in self.missing)
            if not reported and not self._match_free(start, end):
                strange.append(words)
        if self.entities:
            for words in strange:
                self._report_indicator(words)
        elif strange and self.indicators:
            self._report_indicator(" ".join(strange), [item.value for item in self.indicators])
            self._drop(*self.indicators)

    def _drop_hyphenated(self) -> None:
        """Remove indicators whose name continues with a hyphen: "price-to-earnings" is not a price."""
        for item in self.indicators if self.entities else ():
            tied = re.match(r"-[A-Za-z]+(?:-[A-Za-z]+)*(?: (?:ratio|multiple))?", self.text[item.end :])
            if tied:
                self._drop(item)
                self._report_indicator(self.text[item.start : item.end + tied.end()])

    def _check_qualifiers(self) -> None:
        """Re-read names with words before, behind or under them: "weekly hours in mining" is not "weekly hours"."""
        for item in self.indicators:
            for start, end in self._find_qualified(item):
                if item in self.mentions:
                    self._qualify(item, start, end)

    def _find_qualified(self, item: Mention) -> Iterator[tuple[int, int]]:
        """Yield the spans of a name with the words that narrow it."""
        narrower = cue("narrowed_by").match(self.rest, item.end)
        if narrower and len(narrower["what"]) > 3 and self._is_unread(narrower["what"]):
            yield item.start, narrower.end()
        spec = self.layer.indicators[item.value]
        # Default indicators (prices) stand beside words of all kinds, which do not qualify them.
        if spec.default or item.how != "exact":
            return
        before = cue("word_before").search(self.rest[: item.start])
        if before and cue("price_word").fullmatch(before["w"]):
            # "New car prices CPI": the words before "prices" select the indicator.
            before = cue("words_before_prices").search(self.rest[: item.start]) or before
        after = cue("word_behind").match(self.rest, item.end)
        if cue("inverted").search(self.text[: item.start]) and cue("verb_behind").match(self.rest, item.end):
            after = None
        words = [match["w"] for match in (before, after) if match]
        if any(cue("economies").fullmatch(word) for word in words):
            return
        quoted = "=" in spec.unit or " per " in spec.unit
        unread = [self._is_unread(match["w"]) if match else False for match in (before, after)]
        if after and (after["per"] or (cue("price_word").fullmatch(after["w"]) and not quoted)):
            unread[1] = True
        if any(unread):
            start = before.start("w") if before and unread[0] else item.start
            yield start, after.end("w") if after and unread[1] else item.end

    def _is_unread(self, words: str) -> bool:
        return any(True for _ in find_latin_runs(words)) and not cue("economies").fullmatch(words.strip())

    def _qualify(self, item: Mention, start: int, end: int) -> None:
        """Replace an indicator by the better match of its qualified name, or report it."""
        words = self.text[start:end]
        if self._covers(words, item.value, 0.0):
            return
        near = self._match(words)
        self._drop(item)
        if near and near[0].score >= QUALIFIED and near[0].id != item.value:
            self._take(start, end, near)
        else:
            self._report_indicator(words, [found.id for found in near])

    def _read_chinese(self, start: int, end: int, *, alone: bool, leads: bool) -> None:
        """Read an unmatched Chinese run as part of a name, an unknown name, a qualifier or an indicator."""
        words, behind = self.text[start:end], self.rest[end : end + 2]
        touching = [
            item
            for item in self.indicators
            if end == item.start or (start == item.end and not cue("growth").match(self.text, item.end))
        ]
        inside = [item for item in self.entities if item.end == start or end == item.start]
        like_company = bool(cue("company_end").search(words)) or behind in ("公司", "集团", "股份", "企业")
        if inside and (like_company or cue("company_tail").match(self.text, inside[0].end)):
            self._extend(start, end, inside[0])
        elif self._is_name(start, end, like_company=like_company) or (
            # Of two unmatched runs the first is more likely the entity.
            leads and not self.entities and not self.indicators and self._is_strange(words, ALIEN if alone else STRANGE)
        ):
            self.missing.append(unknown_entity(words, tuple(self.layer.entity_names.find_nearest(words))))
        elif touching:
            self._qualify(touching[0], min(start, touching[0].start), max(end, touching[0].end))
        elif not self.indicators and not self._match_free(start, end):
            near = [item.id for item in self._match(words)[:3] if item.score > ALIEN]
            self._report_indicator(words, near)

    def _is_name(self, start: int, end: int, *, like_company: bool) -> bool:
        """Return whether unmatched words are an entity name.

        They are one if they end like a company name, are coordinated with an entity, or none of the indicators belongs
        to economies and no entity was found.
        """
        if not self.entities and like_company:
            return True
        joint = cue("chinese_joint")
        if any(
            joint.fullmatch(self.rest[end : item.start]) or joint.fullmatch(self.rest[item.end : start])
            for item in self.entities
        ):
            return True
        owned = [self.layer.indicators[item.value].kinds for item in self.indicators]
        return not self.entities and bool(owned) and all("economy" not in kinds for kinds in owned)

    def _is_strange(self, words: str, threshold: float) -> bool:
        near = self.matcher.match(words, 1)
        return len(words) > 2 and (not near or near[0].score < threshold)

    def _extend(self, start: int, end: int, inside: Mention) -> None:
        """Replace a known name inside a longer one by a known name that the longer one misspells, or report it."""
        first, last = min(start, inside.start), max(end, inside.end)
        # The rest has NUL where something was recognised, so the name grows over unrecognised characters only.
        while first and CJK.match(self.rest[first - 1]) and inside.start - first < MAX_BEFORE:
            first -= 1
        while last < len(self.rest) and (CJK.match(self.rest[last]) or self.rest[last] in "()"):
            if last - inside.end >= MAX_AFTER:
                break
            last += 1
        # NUL in front keeps the positions of the question.
        found = self.resolver.approximate("\0" * first + self.text[first:last])
        near = [
            item for item in found if item.start <= inside.start and item.end >= inside.end and item.span != inside.span
        ]
        self._drop(inside)
        # Two candidates are no misspelling of one name.
        if len(near) == 1 and not near[0].others:
            self.mentions.append(near[0])
            return
        whole = self.text[min(start, inside.start) : max(end, inside.end)]
        self.missing.append(unknown_entity(whole, (self.layer.entities[inside.value].name,)))

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


def unknown_entity(name: str, nearest: tuple[str, ...]) -> Missing:
    """Return a missing item for an unknown entity name, with the nearest known names."""
    detail = f"no company, index, fund, currency or economy called {name!r} has data here"
    return Missing(name, "UNKNOWN_ENTITY", detail, nearest=nearest)


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
