"""Coordinated names that share a head or tail: "food and energy CPI", "imports from China and Japan"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fathom.services.datafetch.catalog.names import Mention, Names
from fathom.services.datafetch.catalog.text import CJK
from fathom.services.datafetch.parser.lexicon import cue

# Lists are followed name by name, up to four on each side of a mention, so that a wrong match cannot run through the
# text.
MAX_ROUNDS = 4


def complete_coordinated(text: str, mentions: Sequence[Mention], names: Names) -> list[Mention]:
    """Return the mentions plus those that coordination implies, sorted by position.

    A mention that is only the common tail ("能源、食品两项CPI") is replaced by the names that it completes.
    """
    found = list(mentions)
    for mention in mentions:
        for look in (_look_ahead, _look_behind):
            edge = mention
            for _ in range(MAX_ROUNDS):
                more = look(text, edge, mention, names)
                if more is None or any(more.start < other.end and other.start < more.end for other in found):
                    break
                found.append(more)
                if mention in found and cue("counted_list").search(text[: mention.start]):
                    found.remove(mention)
                edge = more
    return sorted(found, key=lambda mention: mention.start)


def _look_ahead(text: str, edge: Mention, whole: Mention, names: Names) -> Mention | None:
    """Return a mention before ``edge`` that shares the tail of ``whole``, or None: "food" in "food and energy CPI"."""
    before = cue("counted_list").sub("", text[: edge.start])
    match = cue("word_before_joint").search(before)
    if match is None and before != text[: edge.start]:
        # "能源、食品两项CPI": the mention is only the common tail.
        match = re.search(r"(?P<word>[\u3400-\u9fff]{2,6})$", before)
    if match is None:
        return None
    start, end = match.span("word")
    # Drop leading characters one by one, Latin words as a whole: the match takes more words than the name has.
    cuts = ((cut, end) for cut in range(start, end - 1) if CJK.match(text[cut]) or cut == start or text[cut - 1] == " ")
    tails = [*_split_parts(whole.surface, from_end=True)]
    return _complete(text, cuts, whole, names, [(None, tail) for tail in tails])


def _look_behind(text: str, edge: Mention, whole: Mention, names: Names) -> Mention | None:
    """Return a mention after ``edge`` that shares the head of ``whole``: "Japan" in "imports from China and Japan"."""
    match = cue("word_behind_joint").search(text[edge.end :])
    if match is None:
        return None
    start, end = edge.end + match.start("word"), edge.end + match.end("word")
    cuts = (
        (start, stop)
        for stop in range(end, start + 1, -1)
        if CJK.match(text[start]) or stop == end or text[stop] == " "
    )
    heads = [*_split_parts(whole.surface, from_end=False)]
    return _complete(text, cuts, whole, names, [(head, None) for head in heads])


def _complete(
    text: str,
    cuts: Iterator[tuple[int, int]],
    whole: Mention,
    names: Names,
    parts: Sequence[tuple[str | None, str | None]],
) -> Mention | None:
    """Return the first cut of the text that is another name together with a part of ``whole``."""
    for start, end in cuts:
        for head, tail in parts:
            words = [word for word in (head, text[start:end], tail) if word]
            for name in ("".join(words), " ".join(words)):
                ids = names.find_all(name)
                if ids and ids[0] not in whole.ids:
                    return Mention(ids, start, end, text[start:end])
    return None


def _split_parts(surface: str, *, from_end: bool) -> Iterator[str]:
    """Yield the suffixes or proper prefixes of a name, longest first: by character in Chinese, else by word."""
    chinese = CJK.search(surface) is not None
    # "10-" in "10- and 30-year yields" shares what stands behind the hyphen.
    units: Sequence[str] = surface if chinese else re.split(r"\s+|(?<=-)", surface) if from_end else surface.split()
    for at in range(len(units)):
        part = units[at:] if from_end else units[: len(units) - 1 - at]
        if part and not (chinese and from_end and len(part) == 1):
            yield ("" if chinese else " ").join(part).replace("- ", "-")
