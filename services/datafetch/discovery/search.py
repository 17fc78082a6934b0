"""Search of the catalogue: entities by name, indicators by name and meaning, joined to the series that exist."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from fathom.core.errors import InvalidField
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.matching import Scored
from fathom.services.datafetch.catalog.schema import EntitySpec
from fathom.services.datafetch.catalog.text import blank, fold_case, plain
from fathom.services.datafetch.discovery.availability import Availability, KindOverview, Row
from fathom.services.datafetch.discovery.words import find_unmatched, split_words

MatchIndicators = Callable[[str, int], Awaitable[Sequence[Scored]]]
"""Returns candidate indicators for a text, best first, at most the given number."""
MAX_QUERY_CHARS = 500
# Candidates beyond these hardly ever reach a page that somebody reads.
CANDIDATES = 60
# Rows whose names are compared with the words of the query.
READ_ROWS = 20
# Below this score a row shares single words with the query at best; such rows are noise, and an overview helps more.
FLOOR = 0.3
# A row that shares no word with the query is a guess by meaning alone; unrelated questions reach 0.3.
FLOOR_BY_MEANING = 0.45
# Rows far below the best one say nothing new.
SHARE_OF_BEST = 0.5
# A series of a named entity: half for the entity, the rest for how well the indicator fits the other words. Another
# series of that entity, of which the query says nothing, still beats a distant indicator of others.
NAMED, UNNAMED_INDICATOR = 0.5, 0.3
# A name inside a longer text counts by the share of the text that it covers.
INSIDE, COVERED = 0.35, 0.64
# Six letters are two currency codes, as in EURUSD or EUR/USD.
PAIR = re.compile(r"(?<![A-Za-z])([A-Za-z]{3})[/\-]?([A-Za-z]{3})(?![A-Za-z])")
# A whole word that an id can be, such as close_adj.
ID = re.compile(r"(?<![\w.])\w+(?!\w)", re.ASCII)
# The base of all stored exchange rates; it has no series of its own.
BASE_CURRENCY = "EUR"
# A misspelt name must be this long, for shorter words are one letter away from many others.
MIN_TYPO = 5
# Words of a misspelt name, at most.
TYPO_WORDS = 3
LATIN_WORDS = re.compile(r"[a-z0-9&']+")


@dataclass(frozen=True)
class Found:
    """The rows that fit a query, best first, and the words that no name in the best of them has."""

    rows: tuple[Row, ...]
    unmatched: tuple[str, ...]


@dataclass(frozen=True)
class EntityMention:
    """An entity that the query names, and where."""

    ids: tuple[str, ...]
    start: int
    end: int


class CatalogSearch:
    """A search over the series of a layer; ``match`` finds indicators."""

    def __init__(self, layer: Layer, match: MatchIndicators) -> None:
        self._layer, self._match = layer, match

    async def search(self, query: str, kind: str, available: Availability) -> Found:
        """Return the series that fit a query of 1 to 500 characters; the same query gives the same rows.

        Raises ``InvalidField`` for a longer query and for an unknown kind.
        """
        text = " ".join(plain(query).split())
        if len(text) > MAX_QUERY_CHARS:
            raise InvalidField("query", f"must have at most {MAX_QUERY_CHARS} characters")
        check_kind(kind, available)
        mentions = self._find_entities(text)
        rest = " ".join(blank(text, [(m.start, m.end) for m in mentions]).replace("\0", " ").split())
        entities = list(dict.fromkeys(ident for mention in mentions for ident in mention.ids))
        # What is left of the names must say something, or every indicator would be compared with a particle.
        beside = await self._score_indicators(rest) if split_words(rest) and mentions else {}
        whole = await self._score_indicators(text)
        named = self._list_named(entities, beside, available)
        # Who names Apple and a price does not ask for the prices of all others.
        answered = {row.indicator.id for row in named}
        others = {ident: score for ident, score in whole.items() if ident not in answered}
        rows = [*named, *self._list_others(others, kind, available)]
        best = rank(row for row in rows if kind in ("", row.kind))
        # The words of a name that was found are accounted for, whatever else its rows have; so are ids.
        left = blank_ids(rest if mentions else text, {row.indicator.id.lower() for row in best})
        unmatched = find_unmatched(left, [self._list_names(row) for row in best[:READ_ROWS]])
        if not mentions and len(unmatched) == len(split_words(text)) and best and best[0].score < FLOOR_BY_MEANING:
            best = ()
        return Found(best, unmatched)

    def list_kind(self, kind: str, available: Availability) -> tuple[Row, ...]:
        """Return all series of a kind: a row per indicator, the default ones first, then each entity's first series.

        Raises ``InvalidField`` for an unknown kind.
        """
        check_kind(kind, available)
        overview = available.describe_kinds().get(kind, KindOverview())
        specs = self._layer.indicators
        ordered = sorted(overview.indicators, key=lambda ident: (not specs[ident].default, ident))
        rows = [row for ident in ordered for row in available.make_rows(ident, 1.0, kind)]
        firsts = ((entity, available.list_indicators(entity)[0]) for entity in sorted(overview.entities))
        rows += filter(None, (available.make_row(entity, ident, 1.0) for entity, ident in firsts))
        # A kind of one entity has each of its series once.
        return tuple({(row.indicator.id, row.entities): row for row in rows}.values())

    def _list_named(self, entities: Sequence[str], beside: dict[str, float], available: Availability) -> list[Row]:
        """Return the series of the named entities."""
        rows = []
        for entity in entities:
            own = available.list_indicators(entity)
            for place, indicator in enumerate(own):
                # A name alone asks for its default series, such as the price of a share.
                alone = NAMED if not place or not beside else UNNAMED_INDICATOR
                score = NAMED + (1 - NAMED) * beside[indicator] if indicator in beside else alone
                if place and indicator not in beside and len(own) > CANDIDATES:
                    # An economy has hundreds of series; those of which the query says nothing are no answer.
                    continue
                rows.append(available.make_row(entity, indicator, score))
            derived = [ident for ident in beside if ident not in own and entity in available.list_owners(ident)]
            rows += [available.make_row(entity, i, NAMED + (1 - NAMED) * beside[i]) for i in derived]
        return [row for row in rows if row is not None]

    def _list_others(self, whole: dict[str, float], kind: str, available: Availability) -> list[Row]:
        return [row for ident, score in whole.items() for row in available.make_rows(ident, score, kind)]

    async def _score_indicators(self, text: str) -> dict[str, float]:
        """Return the indicators that fit a text with their scores."""
        scores = {item.id: item.score for item in await self._match(text, CANDIDATES)}
        for mention in self._layer.indicator_names.find(text):
            score = INSIDE + COVERED * (mention.end - mention.start) / len(text)
            for ident in mention.ids:
                scores[ident] = max(score, scores.get(ident, 0.0))
        return scores

    def _find_entities(self, text: str) -> list[EntityMention]:
        """Return the named entities: by their names, as a pair of currencies, in pinyin, or with a typing error."""
        pairs = [mention for match in PAIR.finditer(text) if (mention := self._read_pair(match))]
        free = blank(text, [(m.start, m.end) for m in pairs])
        found = [EntityMention(m.ids, m.start, m.end) for m in self._layer.entity_names.find(free)]
        found += pairs or [EntityMention(ids, 0, len(text)) for ids in [self._layer.entity_names.find_all(text)] if ids]
        if not found and text.isascii():
            found = [EntityMention(m.ids, m.start, m.end) for m in self._layer.pinyin_names.find(text)]
        return found or list(self._find_misspelt(text))

    def _read_pair(self, match: re.Match[str]) -> EntityMention | None:
        codes = [code.upper() for code in match.groups()]
        known = [code for code in codes if (spec := self._layer.entities.get(code)) and spec.kind == "currency"]
        if len(known) + codes.count(BASE_CURRENCY) < 2:
            return None
        return EntityMention(tuple(known), match.start(), match.end())

    def _find_misspelt(self, text: str) -> Iterable[EntityMention]:
        """Yield the entities whose names differ in a letter or two from words that no indicator has."""
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        lower = fold_case(text)
        words = [(m.start(), m.end()) for m in LATIN_WORDS.finditer(lower)]
        names = list(self._layer.entity_names.keys())
        for size in range(min(TYPO_WORDS, len(words)), 0, -1):
            for at in range(len(words) - size + 1):
                start, end = words[at][0], words[at + size - 1][1]
                part = lower[start:end]
                if len(part) < MIN_TYPO or self._layer.indicator_names.find_all(part):
                    continue
                hit = process.extractOne(part, names, scorer=OSA.distance, score_cutoff=1 if len(part) < 9 else 2)
                if hit is not None and len(hit[0]) >= MIN_TYPO:
                    yield EntityMention(self._layer.entity_names.find_all(hit[0]), start, end)
                    return

    def _list_names(self, row: Row) -> list[str]:
        """Return every name by which a row is known."""
        spec = row.indicator
        names = [spec.id, spec.name, spec.name_zh, spec.definition, spec.unit, row.kind, *spec.synonyms]
        names += self._layer.indicator_names.list_names(spec.id)
        # The members of a long row are not what the query named, except by their kind.
        for entity in row.entities if len(row.entities) == 1 else ():
            names += list_entity_names(self._layer.entities.get(entity))
        return [name for name in names if name]


def blank_ids(text: str, ids: Collection[str]) -> str:
    """Return the text without the words that are ids of the indicators found."""
    return ID.sub(lambda match: " " if match[0].lower() in ids else match[0], text)


def check_kind(kind: str, available: Availability) -> None:
    """Raise ``InvalidField`` for a kind of which there is nothing."""
    kinds = available.list_kinds()
    if kind and kind not in kinds:
        raise InvalidField("kind", f"no entity is a {kind[:40]!r}; kinds: {', '.join(kinds)}")


def rank(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows in a stable order, best first, each series once, without those far below the best."""
    best: dict[tuple[str, tuple[str, ...]], Row] = {}
    for row in rows:
        key = (row.indicator.id, row.entities)
        if key not in best or best[key].score < row.score:
            best[key] = replace(row, score=round(row.score, 4))
    single = {(row.indicator.id, row.entities[0]) for row in best.values() if len(row.entities) == 1}
    # Of equal rows the one that reaches furthest comes first, then by name, so that the order never changes.
    ordered = sorted(
        best.values(), key=lambda r: (-r.score, -len(r.entities), -r.span.last.toordinal(), r.indicator.id, r.entities)
    )
    floor = max(FLOOR, SHARE_OF_BEST * ordered[0].score) if ordered else 0.0
    # A group that only repeats rows shown one by one adds nothing.
    return tuple(
        row
        for row in ordered
        if row.score >= floor
        and (len(row.entities) == 1 or any((row.indicator.id, entity) not in single for entity in row.entities))
    )


def list_entity_names(spec: EntitySpec | None) -> list[str]:
    return [spec.id, spec.name, spec.name_zh, *spec.aliases, *spec.former_names] if spec is not None else []
