"""Rewording of unread words: by spelling to a known word, by meaning to a measure or an indicator."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from fathom.domain.chat.negation import is_denial
from fathom.domain.periods.lexer import list_words
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.matching import grams
from fathom.services.datafetch.catalog.text import is_chinese
from fathom.services.datafetch.parser.lexicon import is_decisive, list_terms, load_vocabulary
from fathom.services.datafetch.parser.mention import Mention, MentionKind, Span, is_free, overlap

# Shortest word that is corrected; a letter may be too many only in longer ones, or "stack" would be a stock.
MIN_WORD, MIN_EXTRA, MIN_CHANGED = 5, 7, 9
# Length of the shortest codes of shares that are read in small letters.
MIN_CODE = 3
# Kinds whose codes are no English words, as those of funds ("size") and currencies ("try") are.
CODED = ("stock", "commodity", "index")
SPELLING = 0.85
# Likeness of a word and a term: of 80 words outside the lexicons 12 of the 13 above it mean what their term does, and
# few below it.
ALIKE = 0.62
# Likeness of a phrase and an indicator's name, and its lead over the next one. Of 60 phrases, half of them nothing that
# the catalog has, one of the 16 above is wrong.
INDICATOR, LEAD = 0.66, 0.04
# A phrase whose best name leads by so much may be less like it: of the 155 pairs of words and indicators that the bench
# datafetch_pairs holds, all ten between both likenesses are right.
CLEAR, CLEAR_LEAD = 0.5, 0.13
WORD = re.compile(r"[a-z]{4,}")
Likenesses = Callable[[str], Sequence[tuple[str, float]]]
"""Returns the known names most like a text, best first, with a likeness of 0 to 1."""


def make_rewording(span: Span, words: str, how: str, confidence: float) -> Mention:
    """Return unread words of a question with those that they are read as; ``how`` is "typo" or "embedding"."""
    return Mention(MentionKind.UNKNOWN, *span, words, confidence, how)


def reword(text: str, changes: Sequence[Mention]) -> str:
    """Return the text with all changes, which do not overlap."""
    for change in sorted(changes, key=lambda item: -item.start):
        text = text[: change.start] + change.value + text[change.end :]
    return text


def mark(mentions: Sequence[Mention], changes: Sequence[Mention]) -> list[Mention]:
    """Return the mentions of a reworded text; those that hold changed words are no surer than the change."""
    marked, shift = list(mentions), 0
    for change in sorted(changes, key=lambda item: item.start):
        span = (change.start + shift, change.start + shift + len(change.value))
        shift += len(change.value) - (change.end - change.start)
        for at, item in enumerate(marked):
            if item.confidence and overlap(item.span, span):
                marked[at] = replace(item, how=change.how, confidence=min(item.confidence, change.confidence))
    return marked


class Speller:
    """Corrector of unread words that are one slip away from a word of the catalog, the lexicons or the calendar."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer

    @cached_property
    def _words(self) -> dict[str, list[str]]:
        catalog = (*self._layer.indicator_names.keys(), *self._layer.entity_names.keys())
        names = (*catalog, *list_words(), *load_vocabulary())
        found: dict[str, list[str]] = defaultdict(list)
        for word in sorted({word for name in names for word in WORD.findall(name.lower())}):
            found[word[0]].append(word)
        return found

    def find(self, text: str, unread: Sequence[Span]) -> Iterator[Mention]:
        """Yield the corrections of misspelt words."""
        for start, end in unread:
            for match in re.finditer(r"[A-Za-z]+", text[start:end]):
                # The code of a share, commodity or index may be written in small letters.
                spec = self._layer.entities.get(match[0].upper())
                is_code = spec is not None and spec.kind in CODED and len(match[0]) >= MIN_CODE and match[0].islower()
                known = spec.id if spec is not None and is_code else self.correct(match[0].lower())
                if known:
                    yield make_rewording((start + match.start(), start + match.end()), known, "typo", SPELLING)

    def knows(self, word: str) -> bool:
        """Return whether names of the catalog, the lexicons or the calendar have a word."""
        return word.lower() in self._words[word[:1].lower()]

    def correct(self, word: str) -> str:
        """Return the only known word from which a slip of the keyboard makes ``word``, or ""."""
        if len(word) < MIN_WORD or self.knows(word):
            return ""
        near = [known for known in self._words[word[0]] if is_slip(word, known)]
        # Two swapped letters are the surest slip.
        near = [known for known in near if len(known) == len(word)] or near
        return near[0] if len(near) == 1 else ""


def is_slip(word: str, known: str) -> bool:
    """Return whether a word is another one with two letters swapped, one left out, one too many or one changed.

    A longer word bears more; another ending is another form and no slip.
    """
    from rapidfuzz.distance import OSA

    if abs(len(word) - len(known)) > 1 or OSA.distance(word, known, score_cutoff=1) > 1:
        return False
    longest = MIN_WORD if len(word) < len(known) else MIN_EXTRA if len(word) > len(known) else MIN_CHANGED
    return sorted(word) == sorted(known) or (len(word) >= longest and word[-1] == known[-1])


class Meanings:
    """Finder of terms and indicators that mean what unread words do."""

    def __init__(
        self,
        terms: Likenesses,
        indicators: Likenesses,
        prepare: Callable[[Sequence[str]], object] = lambda texts: None,
        cut: Callable[[str], Sequence[Span]] = lambda text: (),
    ) -> None:
        """Take the likenesses of the terms of the lexicons, and those of indicators' names.

        ``prepare`` is called with all texts whose likenesses will be asked for, so that they are encoded together.
        ``cut`` returns the stretches of a text that are words to the encoder.
        """
        self._terms, self._indicators, self._prepare, self.cut = terms, indicators, prepare, cut
        self._values = dict(list_terms())

    def find(self, text: str, unread: Sequence[Span], phrases: Sequence[Span]) -> list[Mention]:
        """Return an indicator for each phrase of one, and a term for each unread word that no phrase holds."""
        # A name in capitals is no verb or noun that another word could stand for, and a known word is none either.
        unread = [
            span
            for span in unread
            if ((words := text[slice(*span)]).islower() or is_chinese(words))
            and not is_decisive(words)
            and not is_denial(words)
        ]
        if spans := (*phrases, *unread):
            self._prepare([text[start:end] for start, end in spans])
        found = [(span, *self._read_phrase(text[slice(*span)])) for span in phrases]
        found += [(span, *self._read_word(text[slice(*span)])) for span in unread]
        changes: list[Mention] = []
        for span, words, alike in found:
            if words and is_free(span, changes):
                changes.append(make_rewording(span, words, "embedding", alike))
        return changes

    def _read_phrase(self, phrase: str) -> tuple[str, float]:
        """Return the indicator that a phrase means, or ""."""
        found = prefer_specific(phrase, self._indicators(phrase))
        # What the words beside a name make of it is not that name.
        if not found or found[0][0].lower() in phrase.lower():
            return "", 0.0
        return found[0] if is_clear(found[0][1], found[1][1] if len(found) > 1 else 0.0) else ("", 0.0)

    def _read_word(self, word: str) -> tuple[str, float]:
        """Return the term that means what a word does, or ""; most words are most like one that asks for nothing."""
        term, alike = next(iter(self._terms(word)), ("", 0.0))
        return (term, alike) if alike >= ALIKE and self._values.get(term) else ("", 0.0)


def is_clear(best: float, next_best: float) -> bool:
    """Return whether the likeness of the best name is high enough for its lead over the next one."""
    lead = best - next_best
    return (best >= INDICATOR and lead >= LEAD) or (best >= CLEAR and lead >= CLEAR_LEAD)


def prefer_specific(phrase: str, found: Sequence[tuple[str, float]]) -> Sequence[tuple[str, float]]:
    """Return the names, first the one that has all words of the phrase that the best one has, and more of them."""
    words = set(grams(phrase))
    has = [words & set(grams(name)) for name, _ in found]
    more = [at for at in range(len(found)) if has[at] > has[0] and not is_chinese(phrase)]
    chosen = max(more, key=lambda at: len(has[at]), default=0)
    # What is more specific is no rival of what it specifies.
    return [found[chosen], *(one for at, one in enumerate(found) if at not in (0, chosen))] if chosen else found
