"""Topic classification by the words of the frameworks: longest match, deterministic, without a model."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from fathom.domain.text.scripts import HAN_CHARACTER
from fathom.services.datafetch.catalog.frameworks.model import LEVELS, Framework, walk

# A strong signal outweighs two plain words: those occur in questions of several topics.
STRONG, PLAIN, NAME = 3.0, 1.0, 1.0
# Bounds the time of the search; a topic shows in the first sentences.
MAX_CHARS = 2_000


@dataclass(frozen=True)
class TopicWords:
    """The votes of each phrase for topics."""

    votes: Mapping[str, Mapping[str, float]]

    @cached_property
    def phrases(self) -> re.Pattern[str]:
        """Return all phrases as one pattern, compiled for the first question."""
        return compile_phrases(list(self.votes))

    @classmethod
    def from_frameworks(cls, frameworks: Mapping[str, Framework]) -> TopicWords:
        """Build the votes from signals and node names; a phrase of several topics splits its vote."""
        votes: dict[str, dict[str, float]] = defaultdict(dict)
        for topic, framework in frameworks.items():
            places = walk(framework.nodes, LEVELS)
            names = [name for place in places for name in (place.node.name, place.node.zh) if is_specific(name)]
            # The strongest last: it overrides the vote of the same phrase as a name.
            weighted = ((NAME, names), (PLAIN, framework.signals.words), (STRONG, framework.signals.strong))
            for weight, phrases in weighted:
                for phrase in phrases:
                    votes[normalise(phrase)][topic] = weight
        # "Inflation" in three frameworks says a third as much for each.
        shared = {phrase: MappingProxyType({t: w / len(ws) for t, w in ws.items()}) for phrase, ws in votes.items()}
        return cls(MappingProxyType(shared))

    def classify(self, question: str) -> list[tuple[str, float]]:
        """Return topics with their shares of the votes, best first; only the first 2,000 characters count."""
        scores: dict[str, float] = defaultdict(float)
        for match in self.phrases.finditer(normalise(question[:MAX_CHARS])):
            phrase = match.group()
            # The pattern admits a plural that is no phrase of its own.
            for topic, vote in self.votes.get(phrase, self.votes.get(phrase.removesuffix("s"), {})).items():
                scores[topic] += vote
        total = sum(scores.values())
        return sorted(((topic, score / total) for topic, score in scores.items()), key=lambda pair: (-pair[1], pair[0]))


def is_specific(name: str) -> bool:
    """Return whether a name is specific enough: several words or three Chinese characters, unlike "cost" or "价格"."""
    return len(HAN_CHARACTER.findall(name)) >= 3 or " " in name


def normalise(text: str) -> str:
    """Return the text in one width and case, with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def compile_phrases(phrases: Sequence[str]) -> re.Pattern[str]:
    """Compile the phrases, longest first; Latin ones need word boundaries and may end in a plural s."""
    parts = []
    for phrase in sorted(phrases, key=lambda phrase: (-len(phrase), phrase)):
        escaped = re.escape(phrase)
        parts.append(escaped if HAN_CHARACTER.search(phrase) else rf"(?<![a-z0-9]){escaped}s?(?![a-z0-9])")
    # An empty alternation would match everywhere; this one never does.
    return re.compile("|".join(parts) or r"(?!)")
