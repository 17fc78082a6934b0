"""Description of missing data: items of one series grouped, with readable names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fathom.services.policy.backends.rules.names import all_names
from fathom.services.policy.backends.rules.prose.wording import cited
from fathom.services.policy.backends.rules.prose.words import CHINESE, Words

# A question over twenty years may lack twenty periods; the first ones show which.
MAX_PERIODS = 6


def missing_items(items: Sequence[Mapping[str, Any]], words: Words) -> list[str]:
    """Return one phrase per subject, aspect and reason, with the periods that lack data."""
    # Nearest names are part of the key: two subjects with different suggestions need two phrases.
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for item in items:
        key = tuple(str(item.get(field, "")) for field in ("subject", "aspect", "reason"))
        nearest = tuple(str(name) for name in item.get("nearest", ()))
        groups.setdefault((*key, *nearest), []).append(item)
    return [phrase(key, alike, words) for key, alike in groups.items()]


def not_understood(items: Sequence[Mapping[str, Any]], words: Words, figures: bool) -> list[str]:
    """Return a sentence on words of the question that were not understood; [] when all were."""
    if not items:
        return []
    phrases = words.comma.join(f"“{subject}”" for subject in dict.fromkeys(str(item["subject"]) for item in items))
    sentence = words.not_understood if figures else words.not_answered
    return [sentence.format(phrases=phrases, cites=cited([number_of(item) for item in items], words))]


def phrase(key: tuple[str, ...], alike: Sequence[Mapping[str, Any]], words: Words) -> str:
    """Format subject, aspect, periods, reason, nearest names and citations."""
    subject, aspect, reason, *nearest = key
    # The same call made twice reports the same period twice.
    told = {str(item.get("period", "")): number_of(item) for item in reversed(alike)}
    periods = list(reversed(told))[:MAX_PERIODS]
    known = spoken(aspect, words)
    # An indicator of the one economy that there is needs no "US"; a price is what is meant without a word.
    parts = ["" if subject == "US" and known else spoken(subject, words) or subject, known or aspect.replace("_", " ")]
    parts = [part for part in parts if part and part != "close adj"]
    parts += [words.comma.join(dict.fromkeys(period for period in periods if period))]
    more = words.nearest.format(names=words.comma.join(nearest)) if nearest else ""
    shown = words.reasons.get(reason, reason.lower()) + more
    text = words.missing_item.format(subject=" ".join(part for part in parts if part) or "?", reason=shown)
    return text + cited([told[period] for period in periods], words)


def number_of(item: Mapping[str, Any]) -> int:
    """Return the material number to cite; 0 for none."""
    number = item.get("material", 0)
    return number if isinstance(number, int) else 0


def spoken(text: str, words: Words) -> str:
    """Return the readable name of an id or a name; "" when unknown."""
    chinese = words is CHINESE
    return next((name.label(chinese) for name in all_names() if text and text in (name.id, name.en, name.zh)), "")
