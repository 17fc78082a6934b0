"""English words that a text has whatever it is about; a room adds those that say nothing of its own matter."""

from __future__ import annotations

LINKING_WORDS = frozenset(("and", "as", "at", "by", "for", "from", "in", "its", "of", "on", "the", "to"))
FUNCTION_WORDS = LINKING_WORDS | {
    "a", "an", "are", "be", "has", "have", "is", "it", "or", "that", "then", "there", "this", "was", "will", "with",
}  # fmt: skip
