"""Exact match and F1 of words, as SQuAD (arXiv 1606.05250) and the sets that follow it measure short answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fathom.domain.grading.graders import exact_match, token_f1
from fathom.domain.grading.model import Item
from fathom.domain.grading.text import normalize_text

# Answers that are right or wrong as a whole: HotpotQA's script, and 2WikiMultihopQA's after it, give no share of them.
WHOLE = frozenset({"yes", "no", "noanswer"})


def score_words(given: str, accepted: Sequence[str]) -> Mapping[str, float]:
    """Return the best exact match and F1 over the accepted answers, by the graders of training."""
    item = Item(answer=given, references=tuple(accepted))
    return {"em": exact_match(item).value, "f1": token_f1(item).value}


def score_multihop(given: str, accepted: Sequence[str]) -> Mapping[str, float]:
    """Return the same, without a share for a text that only contains a wanted "yes" or "no"."""
    own = normalize_text(given)

    def fits(answer: str) -> bool:
        wanted = normalize_text(answer)
        return own == wanted or not WHOLE & {own, wanted}

    return {
        "em": score_words(given, accepted)["em"],
        "f1": score_words(given, [answer for answer in accepted if fits(answer)])["f1"],
    }
