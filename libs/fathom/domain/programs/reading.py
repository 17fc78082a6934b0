"""The reading of a question's words as a result of the data tool carries it beside the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.tool_results import Step

# Labels of clauses that name no measure: of an unsure one, and of one that no label fits.
UNSAID = frozenset({"", "other"})
# Entities without a series of prices: an economy, which has many series, and the base of all exchange rates.
ECONOMIES = frozenset({"US", "EUR"})


@dataclass(frozen=True)
class Reading:
    """The mentions of a question in their order, each with kind, words and canonical value, and what it presumes."""

    mentions: tuple[tuple[str, str, str], ...] = ()
    premises: frozenset[str] = frozenset()
    """Of "rise" and "fall" what the question presumes."""
    not_understood: tuple[str, ...] = ()
    """The words that the data tool has not understood."""
    measures: frozenset[str] = frozenset()
    """Measures that clauses of the question surely ask for."""
    limits: tuple[tuple[str, str, str], ...] = ()
    """Series whose data end before the period that is asked for, or begin behind it: name, period and nearest day."""

    @classmethod
    def from_step(cls, step: Step) -> Reading:
        """Return the reading that a result of the data tool carries."""
        mentions = tuple((str(kind), str(text), str(value)) for kind, text, value in step.head.get("words", ()))
        premises = frozenset(str(premise) for _, _, premise in step.head.get("asked", ()) if premise)
        missing = [item for item in step.head.get("missing") or () if item.get("reason") == "NOT_UNDERSTOOD"]
        limits = tuple(dict.fromkeys(list_limits(step.head.get("missing") or ())))
        unknown = [text for kind, text, _ in mentions if kind == "unknown"]
        left = dict.fromkeys([*unknown, *(str(item.get("subject", "")) for item in missing)])
        measures = frozenset(str(measure) for measure, _, _ in step.head.get("asked", ()) if measure not in UNSAID)
        return cls(mentions, premises, tuple(left), measures, limits)

    def texts(self, *kinds: str) -> list[str]:
        """Return the distinct words of some kinds of mentions, in order."""
        return list(dict.fromkeys(text for kind, text, _ in self.mentions if kind in kinds))

    @property
    def names(self) -> list[str]:
        """Return ids and words of what has series of its own, as an economy and the euro do not."""
        named = [one for kind, *one in self.mentions if kind == "entity" and one[1] not in ECONOMIES]
        return list(dict.fromkeys(text for one in named for text in one if text))


def list_limits(missing: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield name, period and nearest day of the missing items whose period lies before or behind the data."""
    for item in missing:
        if item.get("reason") == "NO_DATA_IN_PERIOD" and item.get("nearest") and item.get("period"):
            name = " ".join(filter(None, (str(item.get("subject", "")), str(item.get("aspect", "")))))
            yield name, str(item["period"]), str(item["nearest"][0])
