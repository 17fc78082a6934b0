"""Coordinated names that share a head or tail.

Examples: "food and energy CPI", "imports from China and Japan", 10年期和2年期美债.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fathom.services.datafetch.catalog.names import Mention, Names
from fathom.services.datafetch.catalog.text import CJK

# Words between coordinated names; "minus" and "vs" join two names as "and" does.
JOINT = r"\s*(?:、|和|与|及|以及|跟|对|减去?|,|，|/|\band\b|\bminus\b|\bless\b|\bvs\.?|\bversus\b|&)\s*(?:the\s+)?"
# The word before a joint, at the end of the text: "food and ", 10年期和, "2-year minus the ".
BEFORE = re.compile(rf"(?P<word>[\u3400-\u9fff0-9]{{2,8}}|[A-Za-z0-9][A-Za-z0-9.-]*(?: [A-Za-z]+)?){JOINT}$", re.I)
# The word behind a joint, at the start of the text: " and Japan", 和日本.
AFTER = re.compile(rf"^{JOINT}(?P<word>[\u3400-\u9fff0-9]{{2,8}}|[A-Za-z0-9][A-Za-z0-9.-]*(?: [A-Za-z]+)?)", re.I)
# 能源、食品两项CPI: the count stands between the list and its common tail.
COUNTED = re.compile(r"(?:[两二三四五]|两|三)(?:项|个|种|类|者|国)的?$")
# Lists are followed name by name, up to four on each side of a mention, so that a wrong match cannot run through the
# text.
MAX_ROUNDS = 4


def coordinated(text: str, mentions: Sequence[Mention], names: Names) -> list[Mention]:
    """Return the mentions plus those that coordination implies, sorted by position.

    A mention that is only the common tail ("能源、食品两项CPI") is replaced by the names that it completes.
    """
    found = list(mentions)
    for mention in mentions:
        for look in (ahead, behind):
            edge = mention
            for _ in range(MAX_ROUNDS):
                more = look(text, edge, mention, names)
                if more is None or any(more.start < other.end and other.start < more.end for other in found):
                    break
                found.append(more)
                if mention in found and COUNTED.search(text[: mention.start]):
                    found.remove(mention)
                edge = more
    return sorted(found, key=lambda mention: mention.start)


def ahead(text: str, edge: Mention, whole: Mention, names: Names) -> Mention | None:
    """Return a mention before ``edge`` that shares the tail of ``whole``, or None: "food" in "food and energy CPI"."""
    before = COUNTED.sub("", text[: edge.start])
    match = BEFORE.search(before)
    if match is None and before != text[: edge.start]:
        # "能源、食品两项CPI": the mention is only the common tail.
        match = re.search(r"(?P<word>[\u3400-\u9fff]{2,6})$", before)
    if match is None:
        return None
    start, end = match.span("word")
    # Drop leading characters one by one: the match takes more words than the name has.
    for cut in range(start, end - 1):
        word = text[cut:end]
        # Latin words are cut at blanks only.
        if CJK.match(word) is None and cut > start and text[cut - 1] not in " ":
            continue
        for tail in ends(whole.surface):
            for name in (word + tail, f"{word} {tail}"):
                ids = names.find_all(name)
                if ids and ids[0] not in whole.ids:
                    return Mention(ids, cut, end, text[cut:end])
    return None


def behind(text: str, edge: Mention, whole: Mention, names: Names) -> Mention | None:
    """Return a mention after ``edge`` that shares the head of ``whole``, or None.

    Example: "Japan" in "imports from China and Japan".
    """
    match = AFTER.search(text[edge.end :])
    if match is None:
        return None
    start, end = edge.end + match.start("word"), edge.end + match.end("word")
    # The same from the end of the match.
    for stop in range(end, start + 1, -1):
        word = text[start:stop]
        if CJK.match(word) is None and stop < end and text[stop] not in " ":
            continue
        for head in beginnings(whole.surface):
            for name in (head + word, f"{head} {word}"):
                ids = names.find_all(name)
                if ids and ids[0] not in whole.ids:
                    return Mention(ids, start, stop, text[start:stop])
    return None


def ends(surface: str) -> Iterator[str]:
    """Yield the suffixes of a name, longest first: by character for Chinese names, by word for Latin ones."""
    if CJK.search(surface):
        yield from (surface[at:] for at in range(len(surface) - 1))
    else:
        words = surface.split()
        yield from (" ".join(words[at:]) for at in range(len(words)))


def beginnings(surface: str) -> Iterator[str]:
    """Yield the proper prefixes of a name, longest first: by character for Chinese names, by word for Latin ones."""
    if CJK.search(surface):
        yield from (surface[:at] for at in range(len(surface) - 1, 0, -1))
    else:
        words = surface.split()
        yield from (" ".join(words[:at]) for at in range(len(words) - 1, 0, -1))
