"""Unmatched tokens: unknown entities, unknown indicators, and qualifiers that change an indicator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.names import Mention
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.catalog.text import CJK, is_chinese
from fathom.services.datafetch.parser.indicators.matching import STRANGE as STRANGE_CHARS
from fathom.services.datafetch.parser.indicators.matching import Matcher
from fathom.services.datafetch.parser.mention import Mention as QuestionMention
from fathom.services.datafetch.parser.names.entities import Found, Resolver
from fathom.services.datafetch.parser.names.unmatched_words import (
    COMPANY_TAIL,
    ECONOMIES,
    chinese_leftovers,
    is_company,
    latin_leftovers,
    unknown_names,
)
from fathom.services.datafetch.parser.operators import cue_words
from fathom.services.datafetch.query.model import Match, Missing, Query

# Score from which a fuzzy match is used; lower accepts the names of other indicators, higher rejects inflected forms.
ACCEPT = 0.62
# Characters around a known name that may belong to a longer one: enough for a place in front of it and a legal form
# behind it.
MAX_BEFORE, MAX_AFTER = 12, 16
# "capacity utilization of manufacturing", up to a blanked span, a punctuation mark or the next preposition.
PHRASE = re.compile(
    r"[A-Za-z][A-Za-z'-]+(?: [A-Za-z'-]+)* (?:of|in|for|on|by) (?:the |all )?[A-Za-z'-]+(?: [A-Za-z'-]+)*?(?=\s*(?:[,;:?\0]|$)|\s+(?:per|each|in|for|from|at|on|during|between|by|over)\b)"
)
# " in mining", " of all production workers" behind a name; a preposition ends the words.
OF = re.compile(
    r"\s+(?:of|in|for|among)\s+(?:the\s+|all\s+)?(?P<what>[a-z][a-z'-]+(?:\s+(?!in\b|for\b|from\b|at\b|on\b|during\b|between\b|by\b|over\b|since\b)[a-z][a-z'-]+){0,3})"
)
# The Latin word right before a name: "natural ".
BEFORE = re.compile(r"(?<![\w'-])(?P<w>[A-Za-z][A-Za-z-]{2,}) $")
# The word right behind a name, past "index" or "total": " sentiment", " per capita".
AFTER = re.compile(r" (?P<per>per )?(?:(?:goods|index|total) )?(?P<w>[A-Za-z][A-Za-z-]{2,})(?![\w'-])")
PRICES = re.compile(r"prices?", re.I)
# One or two words with "prices" before a name: "new car prices ".
BEFORE_PRICES = re.compile(r"(?<![\w'-])(?P<w>[A-Za-z][A-Za-z-]{2,}(?: [A-Za-z][A-Za-z-]{2,})? prices?) $")
JOINT = re.compile(r"\s*(?:和|与|、|及|以及|跟|,|，)\s*")
# The best match must lead the next by this much; closer ones are reported as candidates, not chosen.
MARGIN = 0.04
# Scores below which words are unlike every indicator and rather a name: with other unmatched words beside them, and
# alone.
STRANGE, ALIEN = 0.35, 0.2
NOT_UNDERSTOOD = "NOT_UNDERSTOOD"


@dataclass
class Understanding:
    """The result of parsing a question: query, matches, missing items, unmatched phrases and what each word means."""

    query: Query = field(default_factory=Query)
    missing: list[Missing] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    mentions: list[QuestionMention] = field(default_factory=list)


class Leftovers:
    """A handler of unmatched tokens.

    It accepts an indicator only when its score is high and clearly above the next one's.
    """

    def __init__(self, layer: Layer, matcher: Matcher, resolver: Resolver) -> None:
        self._layer, self._matcher, self._resolver = layer, matcher, resolver

    def read(
        self,
        rest: str,
        found: list[Found],
        mentions: list[Mention],
        names: list[str],
        kinds: set[str],
        shown: str,
        seen: Understanding,
    ) -> None:
        """Classify the unmatched tokens in ``rest``: unknown entities, fuzzy matches of indicators, qualifiers.

        Changes ``found``, ``mentions``, ``names`` and ``seen`` in place.
        """
        # Before all else: figures of another economy than the stored one must not be answered with those of the United
        # States.
        for other in self._economies(rest, names):
            seen.missing.append(unknown_entity(other, ("United States",)))
            names.clear()
            mentions.clear()
            rest = ECONOMIES.sub(lambda match: "\0" * len(match[0]), rest)
        for name in unknown_names(rest):
            if not names and self._match_free(name, kinds, names, seen, quiet=True):
                continue
            # A capitalised word beside an entity is an indicator of it, unless it is coordinated with the entity.
            if found and not names and not re.search(rf"(?:\band|,|\bvs\.?|versus|\bor|&)\s+{re.escape(name)}", rest):
                self._unknown(name, kinds, found, seen)
            elif not ECONOMIES.fullmatch(name):
                seen.missing.append(unknown_entity(name, tuple(self._layer.entity_names.find_nearest(name))))
        # The whole phrase first: its words alone may each match something else.
        if not names and not is_chinese(shown) and not self._phrase(rest, shown, kinds, names, seen):
            self._runs(rest, found, names, kinds, seen)
        self._attached(shown, mentions, names, found, kinds, seen)
        if not is_chinese(shown):
            self._of(rest, mentions, names, kinds, seen)
            self._beside(rest, mentions, names, kinds, seen)
        # Chinese has no blanks, so unmatched runs are judged by what they touch: an entity, an indicator, or nothing.
        left = list(chinese_leftovers(rest))
        for position, (words, start, end) in enumerate(left):
            touching = [
                m for m in mentions if end == m.start or (start == m.end and not cue_words.GROWTH.match(shown, m.end))
            ]
            inside = [item for item in found if item.end == start or end == item.start]
            if inside and (is_company(words, rest, end) or COMPANY_TAIL.match(shown, inside[0].end)):
                self._longer(shown, rest, start, end, inside[0], found, seen)
            elif self._is_name(words, rest, start, end, found, names) or (
                not found and not names and position == 0 and self._is_strange(words, alone=len(left) == 1)
            ):
                seen.missing.append(unknown_entity(words, tuple(self._layer.entity_names.find_nearest(words))))
            elif touching:
                surface = shown[min(start, touching[0].start) : max(end, touching[0].end)]
                self._qualified(surface, touching[0], names, mentions, kinds, seen)
            elif not names and (found or mentions or is_chinese(shown)):
                self._match_free(words, kinds, names, seen)
        if found:
            owner = self._layer.entities[found[0].ids[0]].name
            seen.missing = [
                replace(item, detail=f"{item.detail}, asked of {owner}")
                if item.reason == "UNKNOWN_INDICATOR" and "asked of" not in item.detail
                else item
                for item in seen.missing
            ]

    def _runs(self, rest: str, found: list[Found], names: list[str], kinds: set[str], seen: Understanding) -> None:
        """Match runs of unmatched words to indicators.

        One run without a match invalidates the matches of the others.
        """
        strange = []
        for words in latin_leftovers(rest):
            # Reported already, by a more specific rule.
            if any(words in item.subject or item.subject in words for item in seen.missing):
                continue
            if not self._match_free(words, kinds, names, seen, quiet=True):
                strange.append(words)
        if found:
            for words in strange:
                self._unknown(words, kinds, found, seen)
        elif strange and names:
            seen.missing.append(self._unknown_indicator(" ".join(strange), names))
            seen.unmatched += strange
            names.clear()

    def _phrase(self, rest: str, shown: str, kinds: set[str], names: list[str], seen: Understanding) -> bool:
        """Match words joined by prepositions as one name: "capacity utilization of manufacturing".

        This precedes the match of each word alone.
        """
        found = PHRASE.search(rest)
        return found is not None and self._match_free(found.group().strip(), kinds, names, seen, quiet=True)

    def _of(self, rest: str, mentions: list[Mention], names: list[str], kinds: set[str], seen: Understanding) -> None:
        """Handle qualifiers after a preposition: "weekly hours in mining" is not "weekly hours"."""
        for mention in list(mentions):
            more = OF.match(rest, mention.end)
            if more is None or mention not in mentions or len(mentions) != len(names):
                continue
            words = latin_leftovers(more["what"])
            if words and len(" ".join(words)) > 3 and not ECONOMIES.fullmatch(more["what"].strip()):
                self._qualified(mention.surface + more.group().rstrip(), mention, names, mentions, kinds, seen)

    def _beside(
        self, rest: str, mentions: list[Mention], names: list[str], kinds: set[str], seen: Understanding
    ) -> None:
        """Handle qualifiers right before or after a name: "natural gas price", "consumer sentiment"."""
        for mention in list(mentions):
            if mention not in mentions or len(mentions) != len(names):
                continue
            # Default indicators (prices) stand beside words of all kinds, which do not qualify them.
            if self._layer.indicators[names[mentions.index(mention)]].default:
                continue
            before, after = BEFORE.search(rest[: mention.start]), AFTER.match(rest, mention.end)
            spec = self._layer.indicators[names[mentions.index(mention)]]
            if before and PRICES.fullmatch(before["w"]):
                # "New car prices CPI": the words before "prices" select the indicator.
                before = BEFORE_PRICES.search(rest[: mention.start]) or before
            words = [match["w"] for match in (before, after) if match and latin_leftovers(match["w"])]
            if after and PRICES.fullmatch(after["w"]) and "=" not in spec.unit and " per " not in spec.unit:
                words.append(after["w"])
            if after and after["per"]:
                words.append(after["w"])
            if words and not any(ECONOMIES.fullmatch(word) for word in words):
                start = before.start("w") if before and before["w"] in words else mention.start
                end = after.end("w") if after and after["w"] in words else mention.end
                surface = rest[start : mention.start] + mention.surface + rest[mention.end : end]
                self._qualified(surface, mention, names, mentions, kinds, seen)

    def _economies(self, rest: str, names: Sequence[str]) -> list[str]:
        """Return the other economies named in the text, if all indicators belong to economies."""
        if not names or not all("economy" in self._layer.indicators[name].kinds for name in names):
            return []
        return [match.group() for match in ECONOMIES.finditer(rest)]

    def _unknown(self, words: str, kinds: set[str], found: Sequence[Found], seen: Understanding) -> None:
        """Report words for an indicator of an entity that match no indicator name."""
        if words in seen.unmatched:
            return
        near = [item.id for item in self._matcher.match(words, 5) if self._fits(item.id, kinds) and item.score > 0.2]
        owner = self._layer.entities[found[0].ids[0]]
        item = self._unknown_indicator(words, near)
        seen.missing.append(replace(item, detail=f"{item.detail}, asked of {owner.name}"))
        seen.unmatched.append(words)

    def _attached(
        self,
        shown: str,
        mentions: list[Mention],
        names: list[str],
        found: Sequence[Found],
        kinds: set[str],
        seen: Understanding,
    ) -> None:
        """Remove indicators whose name continues with a hyphen: "price-to-earnings" is not a price."""
        for mention in list(mentions):
            tied = re.match(r"-[A-Za-z]+(?:-[A-Za-z]+)*(?: (?:ratio|multiple))?", shown[mention.end :])
            if tied and mention in mentions and len(mentions) == len(names) and found:
                position = mentions.index(mention)
                names.pop(position)
                mentions.pop(position)
                self._unknown(shown[mention.start : mention.end + tied.end()], kinds, found, seen)

    def _is_name(
        self, words: str, rest: str, start: int, end: int, found: Sequence[Found], names: Sequence[str]
    ) -> bool:
        """Return whether unmatched words are an entity name.

        They are one if they end like a company name, are coordinated with an entity, or none of the indicators belongs
        to economies and no entity was found.
        """
        if not found and is_company(words, rest, end):
            return True
        joined = any(
            JOINT.fullmatch(rest[end : item.start]) or JOINT.fullmatch(rest[item.end : start]) for item in found
        )
        if joined:
            return True
        needs = [name for name in names if "economy" not in self._layer.indicators[name].kinds]
        return not found and bool(needs) and len(needs) == len(names)

    def _is_strange(self, words: str, *, alone: bool) -> bool:
        """Return whether words are unlike any indicator name.

        Of two unmatched runs the first is more likely the entity.
        """
        near = self._matcher.match(words, 1)
        return len(words) > 2 and (not near or near[0].score < (ALIEN if alone else STRANGE))

    def _longer(
        self, shown: str, rest: str, start: int, end: int, inside: Found, found: list[Found], seen: Understanding
    ) -> None:
        """Handle a known name inside a longer one.

        Use the longer name if it is a misspelt known one, otherwise report it.
        """
        if inside not in found:
            return
        first, last = min(start, inside.start), max(end, inside.end)
        # The rest has NUL where something was recognised, so the name grows over unrecognised characters only.
        while first and CJK.match(rest[first - 1]) and inside.start - first < MAX_BEFORE:
            first -= 1
        while last < len(rest) and (CJK.match(rest[last]) or rest[last] in "()") and last - inside.end < MAX_AFTER:
            last += 1
        # NUL in front keeps the positions of the question.
        region = "\0" * first + shown[first:last]
        position = found.index(inside)
        near = [
            item
            for item in self._resolver.approximate(region)
            if item.start <= inside.start
            and item.end >= inside.end
            and item.end - item.start > inside.end - inside.start
        ]
        # Two candidates are no misspelling of one name.
        if len(near) == 1 and not near[0].ambiguous:
            found[position] = near[0]
            seen.matches.append(Match(near[0].surface, near[0].ids[0], near[0].score, near[0].how))
            return
        whole = shown[min(start, inside.start) : max(end, inside.end)]
        seen.missing.append(unknown_entity(whole, (self._layer.entities[inside.ids[0]].name,)))
        found.pop(position)

    def _qualified(
        self,
        surface: str,
        mention: Mention,
        names: list[str],
        mentions: list[Mention],
        kinds: set[str],
        seen: Understanding,
    ) -> None:
        """Replace an indicator by the better match of its qualified name, or report it.

        "Overseas revenue" is not "revenue".
        """
        position = mentions.index(mention)
        if position >= len(names):
            return
        if self._covers(surface, names[position], 0.0):
            return
        near = [item for item in self._matcher.match(surface) if self._fits(item.id, kinds)]
        # A qualified name must match better than a free one: the bare name is close to all its variants.
        if near and near[0].score >= 0.8 and near[0].id != names[position]:
            seen.matches.append(
                Match(surface, near[0].id, near[0].score, near[0].how, tuple(item.id for item in near[1:4]))
            )
            names[position] = near[0].id
            return
        seen.missing.append(self._unknown_indicator(surface, [item.id for item in near]))
        seen.unmatched.append(surface)
        names.pop(position)
        mentions.pop(position)

    def _covers(self, words: str, ident: str, allowed: float = STRANGE_CHARS) -> bool:
        return self._matcher.covers(words, ident, allowed, self._layer.indicator_names.list_names)

    def _match_free(
        self, words: str, kinds: set[str], names: list[str], seen: Understanding, *, quiet: bool = False
    ) -> bool:
        """Match words to an indicator by score.

        Return whether one scores at least ``ACCEPT`` with a margin of ``MARGIN``. Unless ``quiet``, words without a
        match are reported as an unknown indicator.
        """
        near = [item for item in self._matcher.match(words) if self._fits(item.id, kinds)]
        sure = near and near[0].score >= ACCEPT and (len(near) < 2 or near[0].score - near[1].score >= MARGIN)
        if sure and self._covers(words, near[0].id):
            names.append(near[0].id)
            seen.matches.append(
                Match(words, near[0].id, near[0].score, near[0].how, tuple(item.id for item in near[1:4]))
            )
            return True
        if not quiet:
            seen.missing.append(self._unknown_indicator(words, [item.id for item in near[:3] if item.score > 0.2]))
            seen.unmatched.append(words)
        return False

    def _fits(self, ident: str, kinds: set[str]) -> bool:
        return not kinds or bool(kinds & set(self._layer.indicators[ident].kinds))

    def _unknown_indicator(self, words: str, near: Sequence[str]) -> Missing:
        names = tuple(shown_name(self._layer.indicators[ident], words) for ident in near[:3])
        return Missing(
            words, "UNKNOWN_INDICATOR", f"no indicator here is called {words!r}", aspect=words, nearest=names
        )


def is_not_understood(item: Missing) -> bool:
    """Return whether a missing item was made by ``not_understood``."""
    return item.reason == NOT_UNDERSTOOD


def not_understood(phrase: str, why: str) -> Missing:
    """Return a missing item for words of a question that the query does not express."""
    aspect = "未能理解" if is_chinese(phrase) else "not understood"
    return Missing(phrase, NOT_UNDERSTOOD, f"I do not understand {phrase!r} here: {why}", aspect=aspect)


def unknown_entity(name: str, nearest: tuple[str, ...]) -> Missing:
    """Return a missing item for an unknown entity name, with the nearest known names."""
    detail = f"no company, index, fund, currency or economy called {name!r} has data here"
    return Missing(name, "UNKNOWN_ENTITY", detail, nearest=nearest)


def shown_name(spec: IndicatorSpec, like: str) -> str:
    """Return an indicator's name in the language of the text."""
    return spec.name_zh if spec.name_zh and is_chinese(like) else spec.name
