"""Choose what of a document is quoted for a question, and which of some search results is likeliest to answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.passages.answerability import Quoted, Rater, quote_parts
from fathom.domain.passages.windows import quote_window
from fathom.domain.text.addresses import is_placed
from fathom.domain.text.terms import YEAR, Part, find_within, is_about, list_words

# Share of the greatest probability from which on the name of a row decides.
NEARLY = 0.5


@dataclass(frozen=True)
class Excerpt:
    """A quotation of a document, with what stands before and behind it, and how likely it answers the question."""

    text: str
    around: str
    probability: float
    is_answer: bool
    """True where it may be given as the answer: as likely as held-out ones that were right."""


def quote_document(
    question: str, title: str, body: str, rater: Rater, names: Sequence[str] = (), *, is_chosen: bool = False
) -> Excerpt | None:
    """Return the likeliest quotation of a document; None for one that does not speak of the question.

    ``names`` are those of the question, of which an answer has one. Of a document that somebody has chosen for the
    question there is a quotation in any case, as what may answer.
    """
    text = f"{title}\n{body}"
    is_named = not names or any(name.casefold() in text.casefold() for name in names)
    found = quote_parts(question, body) if is_named or is_chosen else []
    rated = rater.rate(question, found, title, body)
    if not rated:
        return None
    best = choose_best(question, found, rated, rater.threshold)
    quoted = drop_lead(question, found, best).text
    # By meaning a text may answer in other words; another year is never the one that is asked for.
    has_years = set(YEAR.findall(question)) <= set(YEAR.findall(text))
    is_there = has_years if rater.has_meanings else is_about(f"{title}\n{quoted}", text, question)
    if not (is_there or is_chosen):
        return None
    # The model has learnt on texts: a row of a spreadsheet shares the names of its columns with any question.
    is_sure = (is_there and is_named and rated[best] >= rater.threshold) and (
        not is_placed(quoted) or has_all_terms(title, question, quoted)
    )
    return Excerpt(quoted, quote_window(body, found[best].part), rated[best], is_sure)


def choose_hit(question: str, hits: Sequence[Mapping[str, Any]], rater: Rater) -> str:
    """Return the id of the search result whose summary is likeliest to answer; "" for none.

    Without meanings to compare it is the first that has two terms of the question.
    """
    if rater.has_meanings:
        return str(max(hits, key=lambda hit: rate_summary(question, hit, rater), default={}).get("id", ""))
    wanted = set(list_words(question))
    # One term of several is chance.
    least = max(1, min(2, len(wanted)))
    texts = [(hit, f"{hit.get('title', '')} {hit.get('summary', '')}") for hit in hits]
    return next((str(hit.get("id", "")) for hit, text in texts if len(wanted & set(list_words(text))) >= least), "")


def rate_summary(question: str, hit: Mapping[str, Any], rater: Rater) -> float:
    """Return how likely the likeliest part of a hit's summary answers a question."""
    title, text = str(hit.get("title", "")), str(hit.get("summary", ""))
    return max(rater.rate(question, quote_parts(question, text), title, text), default=0.0)


def has_all_terms(title: str, question: str, row: str) -> bool:
    """Return whether a row of a spreadsheet, with the names of its columns, has all terms of a question."""
    return set(list_words(question)) <= set(list_words(f"{title} {row}"))


def choose_best(question: str, found: Sequence[Quoted], rated: Sequence[float], threshold: float) -> int:
    """Return the place of the likeliest quotation; where that is no answer, of a row that the question calls by name.

    What a table says is in a cell, of which the model of words knows nothing, hence the share of likelihood.
    """
    best = max(range(len(found)), key=lambda place: rated[place])
    if rated[best] >= threshold:
        return best
    near = [place for place in range(len(found)) if rated[place] >= NEARLY * rated[best]]
    named = [place for place in near if is_row_of(question, found[place].part)]
    return max(named, key=lambda place: rated[place]) if named else best


def is_row_of(question: str, part: Part) -> bool:
    """Return whether a row's first cell has no other terms than the question, or a range with its quantity."""
    if not part.is_row:
        return False
    name = Part(part.head, part.text.partition("|")[0])
    terms = set(list_words(name.text))
    return bool(terms) and (terms <= set(list_words(question)) or bool(find_within(question, name)))


def drop_lead(question: str, found: Sequence[Quoted], best: int) -> Quoted:
    """Return the likeliest quotation from its sentence with most of the question's terms on."""
    # Sentences in front of the one that says it only blur what is quoted.
    asked = set(list_words(question))
    inside = [one for one in found if found[best].text.endswith(one.text)]
    return max(inside, key=lambda one: (len(asked & set(list_words(one.part.text))), len(one.text)))
