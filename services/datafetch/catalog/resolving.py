"""Entities named in a text: exactly, and by shortened, romanised, homophone or misspelt names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from fathom.services.datafetch.catalog.completion import Completion
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.names import Mention
from fathom.services.datafetch.catalog.pinyin import split_syllables
from fathom.services.datafetch.catalog.text import CJK, fold_case, is_chinese, normal, plain

CHINESE_RUN = re.compile(f"(?:{CJK.pattern})+")
# The legal form at the end of a Chinese name: 贵州茅台酒股份有限公司.
COMPANY = re.compile(r"(?:集团)?(?:股份)?有限(?:责任)?公司$|股份公司$|\(集团\)$")
# Legal forms do not distinguish names, so misspellings are searched in the part before them.
LEGAL_FORM = re.compile(
    r"(?:\(集团\)|集团|控股|股份|有限|责任|公司)+$"
    r"|(?:[\s,]+(?:incorporated|inc|corporation|corp|company|co|limited|ltd|llc|plc|ag|se|sa|nv|holdings?|group)\.?)+$",
    re.I | re.A,
)
# A legal form right behind a match belongs to the match, not to a longer name.
LEGAL_FORM_NEXT = re.compile(r"\(?(?:集团|控股|股份|有限|责任|公司)")
# Up to eight characters between a match and a legal form make a longer name, unless a particle separates them.
LONGER_NAME = re.compile(r"(?:(?![的和与及、])[\u3400-\u9fff]){1,8}?(?:集团|控股|股份|有限|公司)")
WORD_BEFORE, WORD_AFTER = re.compile(r"([A-Z][A-Za-z&'-]+) $"), re.compile(r"^ ([A-Z][A-Za-z&'-]+)")
# Characters of the longest word that a name is told apart from: 是不是, 多少个交易日.
LONGEST_WORD = 7
# Shortest Chinese name found by sound: two syllables have too many homophones.
MIN_SOUND = 3
# Shortest name found in spite of an error; shorter ones are one character away from ordinary words.
MIN_TYPO = 4
# A window of this length needs no filler behind it: chance does not match so many characters.
SURE = 8
# How sure a name is that has lost its legal form, or has one slip.
SHORT_CONFIDENCE, TYPO_CONFIDENCE = 0.95, 0.85
# Inexact search tries every window of the text, so its time grows with the length, and a question may have 2,000
# characters.
MAX_SCAN = 300

Key = TypeVar("Key")


class Resolver:
    """A resolver of entity names; its indices for inexact matches are built on first use."""

    def __init__(self, layer: Layer, fillers: Collection[str]) -> None:
        """Take the names, and the words beside which a name can begin or end, as no name has them."""
        self._layer, self._fillers = layer, fillers
        # From the surest to the least sure; the first that finds anything decides.
        self._readers = (self._find_short, self._find_pinyin, self._find_homophones, self._find_typo)

    @cached_property
    def _forms(self) -> list[tuple[str, str, str]]:
        """Return every name with and without its Chinese legal form, as (name, form, entity id)."""
        named = [
            (normal(name), spec.id)
            for spec in self._layer.entities.values()
            for name in dict.fromkeys((spec.name, spec.name_zh, *spec.aliases, *spec.former_names))
        ]
        return [(whole, form, ident) for whole, ident in named for form in (whole, COMPANY.sub("", whole))]

    @cached_property
    def _cores(self) -> dict[str, list[str]]:
        return index((form, ident) for name, form, ident in self._forms if form != name and len(form) >= MIN_TYPO)

    @cached_property
    def _sounds(self) -> dict[tuple[str, ...], list[str]]:
        forms = ((form, ident) for _, form, ident in self._forms if len(form) >= MIN_SOUND)
        return index((split_syllables(form), ident) for form, ident in forms if CHINESE_RUN.fullmatch(form))

    @cached_property
    def _lengths(self) -> dict[int, dict[str, list[str]]]:
        """Return the entities by the length of their names without a legal form, and by these names."""
        return index_lengths((core_of(form), ident) for _, form, ident in self._forms)

    @cached_property
    def _formed_lengths(self) -> dict[int, dict[str, list[str]]]:
        """Return the same of the names that have a legal form alone."""
        cores = ((core_of(whole), whole, ident) for whole, _, ident in self._forms)
        return index_lengths((core, ident) for core, whole, ident in cores if core != whole)

    @cached_property
    def _wholes(self) -> dict[str, list[str]]:
        """Return the entities by their whole Chinese names, legal form included."""
        return index((whole, ident) for whole, form, ident in self._forms if form != whole and len(whole) >= SURE)

    @cached_property
    def _longer(self) -> dict[str, dict[str, int]]:
        """Return for each entity its Chinese names with and without their legal form, and how many slips each may have.

        A part before the legal form must be right: it says too little for a slip in it to be one.
        """
        names: dict[str, dict[str, int]] = defaultdict(dict)
        for whole, form, ident in self._forms:
            if form != whole and is_chinese(whole):
                names[ident][whole] = 1 if len(whole) >= SURE else 0
                names[ident].setdefault(form, 0)
        return names

    def exact(self, text: str) -> list[Mention]:
        """Return entities named exactly, in the order of the text, and as much of a longer name as is written around.

        One slip in a longer name with its legal form leaves it the same: 中颖电子|股份有公限司.
        """
        found = self._layer.entity_names.find(text)
        lower = fold_case(plain(text))
        # Names that others overlap keep their own words.
        wide = [self._widen(lower, item, [one for one in found if one is not item]) for item in found]
        return [item for item in wide if not any(is_inside(item, one) for one in wide)]

    def _widen(self, lower: str, item: Mention, others: Sequence[Mention]) -> Mention:
        """Return a name with the longer one of the same entity that is written around it, if there is one."""
        if not is_chinese(lower[max(item.start - 1, 0) : item.start] + lower[item.end : item.end + 1]):
            return item
        fitting = []
        names = ((ident, name, slips) for ident in item.ids for name, slips in self._longer.get(ident, {}).items())
        for ident, name, slips in names:
            for start, end in list_windows(lower, item, name, slips):
                window = lower[start:end]
                is_free = all(one.end <= start or one.start >= end for one in others)
                # Without its legal form a name may be another one's words: 中国石油|天然气价格.
                if (slips or is_free) and (window == name or (slips and is_slip(window, name))):
                    # A last character that no end of the name has is the next word's: the name has lost one.
                    rank = -len(name), window != name, window[-1] not in name[-2:], -len(window)
                    fitting.append((*rank, start, end, ident))
        if not fitting:
            return item
        _, has_slip, *_, start, end, ident = min(fitting)
        how, confidence = ("typo", TYPO_CONFIDENCE) if has_slip else ("short", SHORT_CONFIDENCE)
        return make_mention((ident,), start, end, how, confidence)

    def approximate(self, text: str, share: float = 0.0) -> list[Mention]:
        """Return entities by shortened, romanised, homophone or misspelt names, by the first method that finds any.

        Meant for texts without an exact name, of which each found one is at least a ``share``.
        """
        least = share * len(normal(text))
        found = ([item for item in reader(text) if item.end - item.start >= least] for reader in self._readers)
        return sorted(next(filter(None, found), []), key=lambda item: item.start)

    def resolve(self, mention: str, limit: int = 5) -> list[Mention]:
        """Return candidates for a whole mention, best first; empty when no name is near."""
        names = self._layer.entity_names
        exact = names.find_all(mention)
        # A part of a mention is no match of the whole: 平安 in 平安大街.
        found = [make_mention(exact, 0, len(mention), "exact", 1.0)] if exact else self.approximate(mention, 0.7)
        near = () if found else (ident for name in names.find_nearest(mention, limit) for ident in names.find_all(name))
        found += [make_mention((ident,), 0, 0, "near", 0.5) for ident in dict.fromkeys(near)]
        each = [(ident, item) for item in found for ident in item.ids]
        return [make_mention((one,), 0, len(mention), item.how, item.confidence) for one, item in each[:limit]]

    @cached_property
    def _completion(self) -> Completion:
        return Completion(self._layer)

    def complete(self, beginning: str, limit: int = 8) -> list[Mention]:
        """Return the entities one of whose names begins so, or has a word that does, best first."""
        found = self._completion.complete(beginning, limit)
        return [make_mention((ident,), 0, len(beginning), "beginning", score) for ident, score in found]

    def _find_short(self, text: str) -> list[Mention]:
        """Find names without their legal form: 有限公司, 集团."""
        return self._scan(text, 2 * MIN_TYPO, lambda window: self._cores.get(window, ()), "short", SHORT_CONFIDENCE)

    def _find_pinyin(self, text: str) -> list[Mention]:
        """Find full pinyin or initials that are separate words."""
        return [
            make_mention(m.ids, m.start, m.end, "sound", 0.9)
            for m in self._layer.pinyin_names.find(text)
            # Short pinyin in small letters is an English word too often ("an", "he").
            if m.end - m.start >= 4 or m.surface.isupper()
        ]

    def _find_homophones(self, text: str) -> list[Mention]:
        """Find Chinese names written with homophones."""

        def read(window: str) -> Sequence[str]:
            return self._sounds.get(split_syllables(window), ()) if CHINESE_RUN.fullmatch(window) else ()

        return self._scan(text, 20, read, "sound", 0.9, MIN_SOUND)

    def _find_typo(self, text: str) -> list[Mention]:
        """Find names with one wrong, missing or extra character."""
        found, shown = self._scan(text, 24, self._list_similar, "typo", TYPO_CONFIDENCE), plain(text)[:MAX_SCAN]
        found = [item for item in found if not is_inside_name(shown, item.start, item.end, self._fillers)]
        return [item for item in found if not self._is_of_longer(shown, item)]

    def _is_of_longer(self, text: str, item: Mention) -> bool:
        """Return whether a legal form right behind a Chinese match makes it the name of somebody else."""
        form = LEGAL_FORM_NEXT.match(text, item.end) if is_chinese(text[item.start : item.end]) else None
        whole = fold_case(text[item.start : form.end()]) if form else ""
        return bool(whole) and not set(item.ids) & set(self._list_similar(whole))

    def _list_similar(self, window: str) -> list[str]:
        """Return entities whose name has one other character than the window, or is it but for the legal form."""
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        core = core_of(window)
        if len(core) < (MIN_TYPO if is_chinese(core) else MIN_TYPO + 1):
            return []
        near: list[tuple[float, str]] = []
        # Beside a legal form stands the whole name: a slip from somebody's short one is another company.
        lengths = self._formed_lengths if core != window and is_chinese(core) else self._lengths
        for length in range(max(MIN_TYPO, len(core) - 1), len(core) + 2):
            names = lengths.get(length, {})
            for name, slips, _ in process.extract_iter(core, names.keys(), scorer=OSA.distance, score_cutoff=1):
                # The first letter of a word is the least often wrong: "trouble" is no misspelt rouble.
                if not core[0].isascii() or core[0] == name[0]:
                    near += [(slips, ident) for ident in names[name]]
        if not near and len(window) >= SURE and is_chinese(window):
            # A slip within the legal form, or where the name meets it, leaves nothing to cut off: …节集水团股份….
            wholes = process.extract_iter(window, self._wholes.keys(), scorer=OSA.distance, score_cutoff=1)
            near = [(slips, ident) for whole, slips, _ in wholes for ident in self._wholes[whole]]
        found = [ident for _, ident in sorted(near, key=lambda one: one[0])]
        return [] if found and self._is_of_another(core, set(found)) else found

    def _is_of_another(self, core: str, similar: set[str]) -> bool:
        """Return whether a Chinese name without its legal form is written so in the name of a company not ``similar``.

        Then it is no slip of the pen: 国家能源 of 国家能源集团长源电力 is not 国新能源, however near.
        """
        # Latin words are apart already, and one inside another says nothing.
        return is_chinese(core) and any(core in whole for whole, _, ident in self._forms if ident not in similar)

    def _scan(
        self,
        text: str,
        longest: int,
        read: Callable[[str], Sequence[str]],
        how: str,
        confidence: float,
        shortest: int = MIN_TYPO,
    ) -> list[Mention]:
        """Apply ``read`` to the windows of the text, longest first, and return the hits without overlaps."""
        lower = fold_case(plain(text))[:MAX_SCAN]
        starts = [at for at, can_start in enumerate(list_starts(lower, self._fillers)) if can_start]
        found: list[Mention] = []
        # The longest window first, so that a name is not found inside a longer one.
        for length in range(min(longest, len(lower)), shortest - 1, -1):
            for start, end in ((at, at + length) for at in starts if at + length <= len(lower)):
                window = lower[start:end]
                if (
                    "\0" in window
                    or window != window.strip()
                    or any(start < one.end and one.start < end for one in found)
                ):
                    continue
                ends_here = length >= SURE or can_end(lower, end, self._fillers)
                ids = read(window) if ends_here and not cuts_word(lower, start) and not cuts_word(lower, end) else ()
                if ids:
                    found.append(make_mention(tuple(dict.fromkeys(ids)), start, end, how, confidence))
        return found


def list_windows(text: str, item: Mention, name: str, slips: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a text around a mention that may be a longer name with up to so many slips."""
    is_longer = len(name) > item.end - item.start
    for start in range(max(0, item.end - len(name) - slips), item.start + 1):
        # The first character of a name is the least often wrong, and anchors the rest.
        if is_longer and text[start] == name[0]:
            for end in range(start + len(name) - slips, start + len(name) + slips + 1):
                window = text[start:end]
                if item.end <= end <= len(text) and end - start > item.end - item.start and "\0" not in window:
                    yield start, end


def is_slip(window: str, name: str) -> bool:
    """Return whether a Chinese name is written with one character lost, doubled, swapped or replaced by a homophone.

    Any other character may make the name of another company: 焦点科技园股份有限公司 is none of 焦点科技.
    """
    from rapidfuzz.distance import OSA

    if OSA.distance(window, name, score_cutoff=1) > 1:
        return False
    return set(window) <= set(name) or split_syllables(window) == split_syllables(name)


def is_inside(item: Mention, other: Mention) -> bool:
    """Return whether a mention stands within a longer one."""
    return other.start <= item.start < item.end <= other.end and other.end - other.start > item.end - item.start


def make_mention(ids: Sequence[str], start: int, end: int, how: str, confidence: float) -> Mention:
    return Mention(tuple(ids), start, end, "", how, confidence)


def index(pairs: Iterator[tuple[Key, str]]) -> dict[Key, list[str]]:
    """Return the second parts of pairs by the first ones, without duplicates."""
    found: dict[Key, list[str]] = defaultdict(list)
    for key, ident in dict.fromkeys(pairs):
        found[key].append(ident)
    return found


def index_lengths(pairs: Iterator[tuple[str, str]]) -> dict[int, dict[str, list[str]]]:
    """Return entities by the length of their names, and by these names."""
    cores = index(pairs)
    return {
        length: {core: ids for core, ids in cores.items() if len(core) == length} for length in set(map(len, cores))
    }


def core_of(name: str) -> str:
    """Return the name without its legal form."""
    return LEGAL_FORM.sub("", name)


def list_starts(text: str, fillers: Collection[str]) -> list[bool]:
    """Return for each position whether a name can begin there.

    A name begins at the start, after a non-Chinese character, or after filler phrases that follow such a position.
    """
    # A single phrase right before the position is not enough: 能 is one, but no name begins at 源 in 国家能源.
    starts = [True]
    for place in range(1, len(text) + 1):
        sizes = range(1, min(place, LONGEST_WORD) + 1)
        phrases = (starts[place - size] and text[place - size : place] in fillers for size in sizes)
        starts.append(not CJK.match(text[place - 1]) or any(phrases))
    return starts


def can_end(text: str, end: int, fillers: Collection[str]) -> bool:
    """Return whether a name can end at a position: at the end, or before a filler phrase or a non-Chinese character."""
    found = (text[end : end + size] in fillers for size in range(1, LONGEST_WORD + 1))
    return end == len(text) or not CJK.match(text[end]) or any(found)


def is_inside_name(text: str, start: int, end: int, fillers: Collection[str]) -> bool:
    """Return whether a span is part of a longer name.

    A longer name has a legal form in Chinese, or capitalised words in English.
    """
    if LONGER_NAME.match(text, end) and not LEGAL_FORM_NEXT.match(text, end):
        return True
    words = (word.lower() for word in (*WORD_BEFORE.findall(text[:start]), *WORD_AFTER.findall(text[end:])))
    return any(word not in fillers and not LEGAL_FORM.fullmatch(f" {word}") for word in words)


def cuts_word(text: str, at: int) -> bool:
    """Return whether a position of a text in small letters lies inside a Latin word."""
    return re.fullmatch(r"[a-z0-9]{2}", text[max(at - 1, 0) : at + 1]) is not None
