"""Names that share their end or beginning: "food and energy CPI", "imports from China and Japan", 10年期和2年期美债."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from services.datafetch.semantic.names import Mention, Names
from services.datafetch.semantic.text import CJK

JOINT = r"\s*(?:、|和|与|及|以及|跟|对|减去?|,|，|/|\band\b|\bminus\b|\bless\b|\bvs\.?|\bversus\b|&)\s*(?:the\s+)?"
BEFORE = re.compile(rf"(?P<word>[\u3400-\u9fff0-9]{{2,8}}|[A-Za-z0-9][A-Za-z0-9.-]*(?: [A-Za-z]+)?){JOINT}$", re.I)
AFTER = re.compile(rf"^{JOINT}(?P<word>[\u3400-\u9fff0-9]{{2,8}}|[A-Za-z0-9][A-Za-z0-9.-]*(?: [A-Za-z]+)?)", re.I)
COUNTED = re.compile(r"(?:[两二三四五]|两|三)(?:项|个|种|类|者|国)的?$")
MAX_ROUNDS = 4


def coordinated(text: str, mentions: Sequence[Mention], names: Names) -> list[Mention]:
    """The mentions and further ones: what stands joined to one and is a name only with its end or its beginning.

    A mention that is no more than the common end ("能源、食品两项CPI") gives way to those that it completes.
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
    """ "food" of "food and energy CPI": a word that is a name with the end of the mention."""
    before = COUNTED.sub("", text[: edge.start])
    match = BEFORE.search(before)
    if match is None and before != text[: edge.start]:
        # "能源、食品两项CPI": the mention is the common end alone.
        match = re.search(r"(?P<word>[\u3400-\u9fff]{2,6})$", before)
    if match is None:
        return None
    start, end = match.span("word")
    for cut in range(start, end - 1):
        word = text[cut:end]
        if CJK.match(word) is None and cut > start and text[cut - 1] not in " ":
            continue
        for tail in ends(whole.surface):
            for name in (word + tail, f"{word} {tail}"):
                ids = names.all(name)
                if ids and ids[0] not in whole.ids:
                    return Mention(ids, cut, end, text[cut:end])
    return None


def behind(text: str, edge: Mention, whole: Mention, names: Names) -> Mention | None:
    """ "Japan" of "imports from China and Japan": a word that is a name with the beginning of the mention."""
    match = AFTER.search(text[edge.end :])
    if match is None:
        return None
    start, end = edge.end + match.start("word"), edge.end + match.end("word")
    for stop in range(end, start + 1, -1):
        word = text[start:stop]
        if CJK.match(word) is None and stop < end and text[stop] not in " ":
            continue
        for head in beginnings(whole.surface):
            for name in (head + word, f"{head} {word}"):
                ids = names.all(name)
                if ids and ids[0] not in whole.ids:
                    return Mention(ids, start, stop, text[start:stop])
    return None


def ends(surface: str) -> Iterator[str]:
    """The ends of a name, longest first; of Latin ones whole words."""
    if CJK.search(surface):
        yield from (surface[at:] for at in range(len(surface) - 1))
    else:
        words = surface.split()
        yield from (" ".join(words[at:]) for at in range(len(words)))


def beginnings(surface: str) -> Iterator[str]:
    """The beginnings of a name, longest first."""
    if CJK.search(surface):
        yield from (surface[:at] for at in range(len(surface) - 1, 0, -1))
    else:
        words = surface.split()
        yield from (" ".join(words[:at]) for at in range(len(words) - 1, 0, -1))
