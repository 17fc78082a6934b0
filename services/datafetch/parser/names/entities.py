"""Entity resolution: exact names, abbreviations, pinyin, homophones and misspellings.

Ambiguous names return candidates.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from fathom.services.datafetch.catalog.completion import Completion
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.pinyin import split_syllables
from fathom.services.datafetch.catalog.text import CJK, fold_case, is_chinese, normal, plain
from fathom.services.datafetch.parser.lexicon import cue, load_known_words
from fathom.services.datafetch.parser.mention import Mention, MentionKind, is_free
from fathom.services.datafetch.parser.names.coordination import complete_coordinated

WORD_BEFORE, WORD_AFTER = re.compile(r"([A-Z][A-Za-z&'-]+) $"), re.compile(r"^ ([A-Z][A-Za-z&'-]+)")
# Characters of the longest word that a name is told apart from: 是不是, 多少个交易日.
LONGEST_WORD = 7
# Shortest Chinese name found by sound: two syllables have too many homophones.
MIN_SOUND = 3
# Shortest name found in spite of an error; shorter ones are one character away from ordinary words.
MIN_TYPO = 4
# A window of this length needs no filler behind it: chance does not match so many characters.
SURE = 8
# Inexact search tries every window of the text, so its time grows with the length, and a question may have 2,000
# characters.
MAX_SCAN = 300


class Resolver:
    """A resolver of entity names; its indices for inexact matches are built on first use."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer

    def _forms(self) -> Iterator[tuple[str, str, str]]:
        """Yield every name with and without its Chinese legal form, as (name, form, entity id)."""
        for spec in self._layer.entities.values():
            for name in dict.fromkeys((spec.name, spec.name_zh, *spec.aliases, *spec.former_names)):
                whole = normal(name)
                for form in dict.fromkeys((whole, cue("company").sub("", whole))):
                    yield whole, form, spec.id

    @cached_property
    def _cores(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name, form, ident in self._forms():
            if form != name and len(form) >= MIN_TYPO and ident not in found[form]:
                found[form].append(ident)
        return found

    @cached_property
    def _sounds(self) -> dict[tuple[str, ...], list[str]]:
        found: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for _, form, ident in self._forms():
            if len(form) >= MIN_SOUND and all(CJK.match(char) for char in form):
                found[split_syllables(form)].append(ident)
        return found

    @cached_property
    def _deletions(self) -> dict[str, list[tuple[str, str]]]:
        """Index the cores of names by their variants with one character deleted."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for core, ident in dict.fromkeys((core_of(form), ident) for _, form, ident in self._forms()):
            if len(core) >= (MIN_TYPO if is_chinese(core) else MIN_TYPO + 1):
                for position in range(len(core)):
                    found[core[:position] + core[position + 1 :]].append((core, ident))
        return found

    @cached_property
    def _whole_cores(self) -> dict[str, list[str]]:
        """Index the entity ids by the cores of their names."""
        found: dict[str, list[str]] = defaultdict(list)
        for core, ident in dict.fromkeys((core_of(form), ident) for _, form, ident in self._forms()):
            found[core].append(ident)
        return found

    def exact(self, text: str) -> list[Mention]:
        """Return entities named exactly, in the order of the text."""
        names = self._layer.entity_names
        return [make_entity(m.ids, m.start, m.end) for m in complete_coordinated(text, names.find(text), names)]

    def approximate(self, text: str) -> list[Mention]:
        """Return entities by shortened, romanised, homophone or misspelt names, by the first method that finds any.

        Meant for texts without an exact name.
        """
        # From the surest to the least sure; the first that finds anything decides.
        for reader in (self._find_short, self._find_pinyin, self._find_homophones, self._find_typo):
            found = reader(text)
            if found:
                return sorted(found, key=lambda item: item.start)
        return []

    def resolve(self, mention: str, limit: int = 5) -> list[Mention]:
        """Return candidates for a whole mention, best first; empty when no name is near."""
        ids = self._layer.entity_names.find_all(mention)
        if ids:
            return [make_entity((ident,), 0, len(mention)) for ident in ids[:limit]]
        for reader in (self._find_short, self._find_pinyin, self._find_homophones, self._find_typo):
            # A part of a mention is no match of the whole: 平安 in 平安大街.
            found = [item for item in reader(mention) if item.end - item.start >= 0.7 * len(normal(mention))]
            if found:
                return [
                    make_entity((ident,), 0, len(mention), item.how, item.confidence)
                    for item in found
                    for ident in item.ids
                ][:limit]
        near = self._layer.entity_names.find_nearest(mention, limit)
        ids = tuple(dict.fromkeys(ident for name in near for ident in self._layer.entity_names.find_all(name)))
        return [make_entity((ident,), 0, len(mention), "near", 0.5) for ident in ids[:limit]]

    @cached_property
    def _completion(self) -> Completion:
        return Completion(self._layer)

    def complete(self, beginning: str, limit: int = 8) -> list[Mention]:
        """Return the entities one of whose names begins so, or has a word that does, best first."""
        found = self._completion.complete(beginning, limit)
        return [make_entity((ident,), 0, len(beginning), "beginning", score) for ident, score in found]

    def _find_short(self, text: str) -> list[Mention]:
        """Find names without their legal form: 有限公司, 集团."""
        return self._windows(text, 2 * MIN_TYPO, lambda window: (self._cores.get(window, ()), "short", 0.95), MIN_TYPO)

    def _find_pinyin(self, text: str) -> list[Mention]:
        """Find full pinyin or initials that are separate words."""
        return [
            make_entity(m.ids, m.start, m.end, "sound", 0.9)
            for m in self._layer.pinyin_names.find(text)
            # Short pinyin in small letters is an English word too often ("an", "he").
            if m.end - m.start >= 4 or m.surface.isupper()
        ]

    def _find_homophones(self, text: str) -> list[Mention]:
        """Find Chinese names written with homophones."""

        def read(window: str) -> tuple[list[str] | tuple[()], str, float]:
            if not all(CJK.match(char) for char in window):
                return (), "sound", 0.0
            return self._sounds.get(split_syllables(window), ()), "sound", 0.9

        return self._windows(text, 20, read, MIN_SOUND)

    def _find_typo(self, text: str) -> list[Mention]:
        """Find names with one wrong, missing or extra character."""
        found = self._windows(text, 24, lambda window: (self._one_off(window), "typo", 0.85), MIN_TYPO)
        shown = plain(text)[:MAX_SCAN]
        return [item for item in found if not inside_name(shown, item.start, item.end)]

    def _one_off(self, window: str) -> list[str]:
        """Return entities whose name core is within edit distance 1 of the window's core; legal forms are ignored."""
        from rapidfuzz.distance import OSA

        core = core_of(window)
        if len(core) < (MIN_TYPO if is_chinese(core) else MIN_TYPO + 1):
            return []
        hits: dict[str, int] = {}
        shorter = (core[:position] + core[position + 1 :] for position in range(len(core)))
        for key in (core, *shorter):
            for form, ident in self._deletions.get(key, ()):
                # A four-character name may have one wrong character, but none missing or extra: three would be left in
                # common.
                if len(form) <= MIN_TYPO and len(form) != len(core):
                    continue
                # The first letter of a word is the least often wrong: "trouble" is no misspelt rouble.
                if core[0].isascii() and core[0] != form[0]:
                    continue
                distance = OSA.distance(core, form)
                if distance <= 1:
                    hits[ident] = min(distance, hits.get(ident, 9))
            same = len(key) >= MIN_TYPO and key != window and (not core[0].isascii() or key[0] == core[0])
            for ident in self._whole_cores.get(key, ()) if same else ():
                hits.setdefault(ident, 1)
        return sorted(hits, key=lambda ident: hits[ident])

    def _windows(self, text: str, longest: int, read, shortest: int) -> list[Mention]:  # type: ignore[no-untyped-def]
        """Apply ``read`` to the windows of the text, longest first, and return the hits without overlaps."""
        lower = fold_case(plain(text))[:MAX_SCAN]
        starts = name_starts(lower)
        found: list[Mention] = []
        # The longest window first, so that a name is not found inside a longer one.
        for length in range(min(max(longest, 2 * shortest), len(lower)), shortest - 1, -1):
            for start in range(len(lower) - length + 1):
                end = start + length
                if "\0" in lower[start:end] or not is_free(Mention(MentionKind.ENTITY, start, end, ""), found):
                    continue
                if not (
                    starts[start] and is_whole_words(lower, start, end) and (length >= SURE or can_end(lower, end))
                ):
                    continue
                ids, how, score = read(lower[start:end])
                if ids:
                    found.append(make_entity(tuple(dict.fromkeys(ids)), start, end, how, score))
        return found


def make_entity(ids: tuple[str, ...], start: int, end: int, how: str = "exact", confidence: float = 1.0) -> Mention:
    return Mention(MentionKind.ENTITY, start, end, ids[0], confidence, how, ids[1:])


def core_of(name: str) -> str:
    """Return the name without its legal form."""
    return cue("legal_form").sub("", name)


def name_starts(text: str) -> list[bool]:
    """Return for each position whether a name can begin there.

    A name begins at the start, after a non-Chinese character, or after filler phrases that follow such a position.
    """
    # A single phrase right before the position is not enough: 能 is one, but no name begins at 源 in 国家能源.
    starts, known = [True], load_known_words()
    for place in range(1, len(text) + 1):
        sizes = range(1, min(place, LONGEST_WORD) + 1)
        phrases = (starts[place - size] and text[place - size : place] in known for size in sizes)
        starts.append(not CJK.match(text[place - 1]) or any(phrases))
    return starts


def can_end(text: str, end: int) -> bool:
    """Return whether a name can end at a position: at the end, or before a filler phrase or a non-Chinese character."""
    return (
        end == len(text)
        or not CJK.match(text[end])
        or any(text[end : end + size] in load_known_words() for size in range(1, LONGEST_WORD + 1))
    )


def inside_name(text: str, start: int, end: int) -> bool:
    """Return whether a span is part of a longer name.

    A longer name has a legal form in Chinese, or capitalised words in English.
    """
    if cue("longer_name").match(text, end) and not cue("legal_form_next").match(text, end):
        return True
    words = [*WORD_BEFORE.findall(text[:start]), *WORD_AFTER.findall(text[end:])]
    return any(
        word.lower() not in load_known_words() and not cue("legal_form").fullmatch(f" {word.lower()}") for word in words
    )


def is_whole_words(text: str, start: int, end: int) -> bool:
    """Return whether a window has no blanks at its ends and does not cut a Latin word."""
    window = text[start:end]
    if window != window.strip():
        return False
    left = (
        start
        and text[start - 1].isascii()
        and text[start - 1].isalnum()
        and window[0].isascii()
        and window[0].isalnum()
    )
    right = (
        end < len(text)
        and text[end].isascii()
        and text[end].isalnum()
        and window[-1].isascii()
        and window[-1].isalnum()
    )
    return not left and not right
