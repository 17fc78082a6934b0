"""Noise as people type it: slips within words, characters that sound or look alike, punctuation, width, other words.

Digits are never changed: a slip there would ask something else, and the label would be wrong.
"""

from __future__ import annotations

import difflib
import random
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from fathom.core.errors import InvalidField
from fathom.core.extras import name_missing_extra
from fathom.domain.text.numerals import DIGITS
from fathom.domain.text.scripts import HAN_CHARACTER
from fathom.trainers.data.queries.record import Change, Query
from fathom.trainers.data.queries.variants import Operator, change_around, look_alike, speak, switch_language

# A shorter word with two letters changed places is often another word.
LEAST_WORD = 4
# Chinese numerals are digits, too: 是 must not become 十.
NUMERALS = frozenset(DIGITS + "十百千万亿两")
# Distance between the half-width and the full-width form of a mark in Unicode.
WIDTH = 0xFEE0
FULL_WIDTH = {chr(code + WIDTH): chr(code) for code in range(0x21, 0x7F)}
HALF_WIDTH = {half: full for full, half in FULL_WIDTH.items()}


def slip(text: str, rate: float, draws: random.Random) -> str:
    """Swap, drop or double a letter in words of Latin script."""
    words = text.split(" ")
    for place, word in enumerate(words):
        if len(word) < LEAST_WORD or not (word.isascii() and word.isalpha()) or draws.random() >= rate:
            continue
        # First and last letter stay: such words are what people overlook.
        at = draws.randrange(1, len(word) - 1)
        swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        words[place] = draws.choice((swapped, word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]))
    return " ".join(words)


def sound_alike(text: str, rate: float, draws: random.Random) -> str:
    """Replace Chinese characters by common ones of the same sound, as a wrong choice of an input method does."""
    found = []
    for letter in text:
        sounds = list_homophones().get(letter, ()) if letter not in NUMERALS else ()
        others = [other for other in sounds if other != letter and other not in NUMERALS]
        found.append(draws.choice(others) if others and draws.random() < rate else letter)
    return "".join(found)


def mispunctuate(text: str, rate: float, draws: random.Random) -> str:
    """Drop or double marks of punctuation, but for those within numbers."""
    found = []
    for place, letter in enumerate(text):
        is_mark = unicodedata.category(letter).startswith("P") and not has_digit_beside(text, place)
        found.append(draws.choice(("", letter * 2)) if is_mark and draws.random() < rate else letter)
    return "".join(found)


def change_width(text: str, rate: float, draws: random.Random) -> str:
    """Write marks and digits in the other width: the same characters to a reader, others to a program."""
    found = []
    for letter in text:
        other = HALF_WIDTH.get(letter) if not letter.isalpha() else None
        other = other or FULL_WIDTH.get(letter)
        found.append(other if other and draws.random() < rate else letter)
    return "".join(found)


def drop_case(text: str, rate: float, draws: random.Random) -> str:
    """Write words in lower case."""
    return " ".join(word.lower() if draws.random() < rate else word for word in text.split(" "))


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "slip": slip,
        "sound_alike": sound_alike,
        # Before the marks and the case change, by which these know words, and the capitals of names.
        "look_alike": look_alike,
        "speak": speak,
        "switch_language": switch_language,
        "mispunctuate": mispunctuate,
        "change_width": change_width,
        "drop_case": drop_case,
    }
)


def has_digit_beside(text: str, place: int) -> bool:
    """Return whether a digit stands directly before or behind a place."""
    return any(letter.isdigit() for letter in text[max(0, place - 1) : place + 2])


@cache
def list_homophones() -> Mapping[str, tuple[str, ...]]:
    """Return the common Chinese characters (level 1 of GB 2312, 3,755 of them) that sound like each of them."""
    with name_missing_extra():
        from pypinyin import Style, lazy_pinyin
    # The standard sorts its first level by use: characters that an input method offers first.
    codes = (bytes((high, low)) for high in range(0xB0, 0xD8) for low in range(0xA1, 0xFF))
    common = [letter for code in codes if HAN_CHARACTER.match(letter := code.decode("gb2312", "ignore") or " ")]
    by_sound: dict[str, list[str]] = defaultdict(list)
    for letter in common:
        by_sound[lazy_pinyin(letter, style=Style.TONE3)[0]].append(letter)
    return MappingProxyType({letter: tuple(group) for group in by_sound.values() for letter in group})


def add_noise(
    query: Query, operators: tuple[str, ...], rate: float, seed: int, names: Sequence[str] = ()
) -> Query | None:
    """Return the query with noise, its clean text and what each operator changed; None where none did.

    ``names`` stay as they are. The same seed gives a query the same noise, whatever else is in its file. Raises
    ``InvalidField`` for an unknown operator or a rate outside of [0, 1].
    """
    if not 0.0 <= rate <= 1.0:
        raise InvalidField("rate", "must be in [0, 1]")
    if unknown := [name for name in operators if name not in OPERATORS]:
        raise InvalidField("operators", f"{unknown[0]!r} is none of {', '.join(OPERATORS)}")
    draws, text, done = random.Random(f"{seed}:{query.id}"), query.text, list[str]()
    changes: list[Change] = []
    for name in operators:
        changed = change_around(text, names, OPERATORS[name], rate, draws)
        # A text of marks alone may lose them all.
        if changed != text and changed.strip():
            changes += find_changes(name, text, changed)
            text = changed
            done.append(name)
    if not done:
        return None
    update = {"id": f"{query.id}-noise{seed}", "parent": query.id, "text": text, "clean": query.text}
    return query.model_copy(update={**update, "noise": tuple(done), "changes": tuple(changes)})


def find_changes(operator: str, before: str, after: str) -> Iterator[Change]:
    """Yield what differs between two texts, from the left, with places in the later one."""
    # Not by what an operator says of itself: a record that is computed from the texts cannot disagree with them.
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, stop, at, end in matcher.get_opcodes():
        if tag != "equal":
            yield Change(operator=operator, at=at, before=before[start:stop], after=after[at:end])


def undo_changes(text: str, changes: Sequence[Change]) -> str:
    """Return the text as it was before the changes; raise ``InvalidField`` where they are not those of the text."""
    for change in reversed(changes):
        if text[change.at : change.at + len(change.after)] != change.after:
            raise InvalidField("changes", f"{change.after!r} does not stand at {change.at}")
        text = text[: change.at] + change.before + text[change.at + len(change.after) :]
    return text
