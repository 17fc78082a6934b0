"""Search of documents: the choice of a hit, and quotations of what was read, which answer the question or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.text.addresses import is_placed
from fathom.domain.text.terms import YEAR, Part, find_within, is_about, list_words
from fathom.services.policy.reference.conversation import Conversation
from fathom.services.policy.reference.passages.answerability import Quoted, Rater, quote_parts
from fathom.services.policy.reference.passages.windows import quote_window
from fathom.services.policy.reference.reading import Reading, say
from fathom.services.policy.reference.versions import are_alike, find_day, name_source

# Passages that are read until one answers.
MAX_READ = 4
# Files of nearly the same name that are read beside the one that answers.
MOST_ALIKE = 2
MOST_NEAREST = 3
# Share of the greatest probability from which on the name of a row decides.
NEARLY = 0.5


@dataclass(frozen=True)
class Quotation:
    """A quotation of a document that was read, and how likely it answers the question."""

    title: str
    text: str
    material: int
    probability: float
    is_answer: bool
    """True where it may be given as the answer: as likely as held-out ones that were right."""
    source: str = ""
    """File of the user's own from which it is; "" for other documents."""
    day: str = ""
    """Day of that file, if known."""
    around: str = ""
    """The quotation with what stands before and behind it, for a reader who has to judge it."""
    place: str = ""
    """File and page of the user's own."""

    def is_behind(self, others: Sequence[Quotation]) -> bool:
        """Return whether one of some others was read before it: what the search ranks first is read first."""
        return any(one.material < self.material for one in others)

    def write(self, is_zh: bool) -> str:
        """Return the paragraph of an answer."""
        name = self.place if self.place.startswith(self.title) else join_names(self.title, self.place)
        text = self.text if self.is_answer else self.around or self.text
        return say("quote" if self.is_answer else "nearest", is_zh, name, text, f"[{self.material}]")


def join_names(title: str, place: str) -> str:
    """Return a title with its place; one without a place as it is."""
    return f"{title}, {place}" if place else title


def choose_hits(conversation: Conversation, rater: Rater) -> list[str]:
    """Return the ids of the found documents that are read next, none where enough were read."""
    hits = [hit for step in conversation.of("search") if step.is_ok for hit in step.head.get("hits", ())]
    read = [str(step.arguments.get("id", "")) for step in conversation.of("fetch")]
    found = [hit for hit in hits if str(hit.get("id", "")) not in ("", *read)]
    if len(read) >= MAX_READ or not found:
        return []
    if conversation.has_own_documents:
        # The search has ranked whole passages; by a summary alone the one that answers was often not read at all.
        return [str(hit["id"]) for hit in found[: MAX_READ - len(read)]]
    return list(filter(None, [choose_hit(conversation, found, rater)]))


def choose_hit(conversation: Conversation, found: Sequence[Mapping[str, Any]], rater: Rater) -> str:
    """Return the id of the document that is read next, the likeliest by its summary first; "" for none."""
    if rater.has_meanings:
        question = conversation.question
        return str(max(found, key=lambda hit: rate_summary(question, hit, rater)).get("id", ""))
    wanted = set(list_words(conversation.question))
    # One term of several is chance.
    least = max(1, min(2, len(wanted)))
    named = [
        hit
        for hit in found
        if len(wanted & set(list_words(f"{hit.get('title', '')} {hit.get('summary', '')}"))) >= least
    ]
    return str(named[0].get("id", "")) if named else ""


def choose_alike(conversation: Conversation, answers: Sequence[Quotation], rater: Rater) -> str:
    """Return the id of a document to read beside an answer, whose file has nearly the same name; "" for none."""
    steps = conversation.of("fetch")
    read = {name_source(step.head) for step in steps} | {str(step.arguments.get("id", "")) for step in steps}
    found = [
        hit
        for step in conversation.of("search")
        for hit in (step.head.get("hits", ()) if step.is_ok else ())
        if hit.get("id") and not {str(hit["id"]), name_source(hit)} & read
        if any(are_alike(name_source(hit), one.source) for one in answers)
    ]
    if not found or len(steps) >= MAX_READ + MOST_ALIKE:
        return ""
    if rater.has_meanings:
        found.sort(key=lambda hit: rate_summary(conversation.question, hit, rater), reverse=True)
    return str(found[0]["id"])


def list_nearest(quotations: Sequence[Quotation], is_own: bool) -> list[Quotation]:
    """Return the quotations that may answer: of the user's own documents as the search ranks them, which were so read.

    Others are in the order of their likelihood.
    """
    found = [one for one in quotations if not one.is_answer]
    if is_own:
        found.sort(key=lambda one: one.material)
    return found[:MOST_NEAREST]


def group_answers(answers: Sequence[Quotation], quotations: Sequence[Quotation]) -> list[Quotation]:
    """Return the answers, each with the quotations of files of nearly its name, of which the later ones come first."""
    found: list[Quotation] = []
    for answer in answers:
        if answer not in found:
            beside = [one for one in quotations if are_alike(one.source, answer.source) and one not in found]
            # Stable, so that those without a day follow in the order of their likelihood.
            found += sorted([answer, *beside], key=lambda one: one.day, reverse=True)
    return found


def rate_summary(question: str, hit: Mapping[str, Any], rater: Rater) -> float:
    """Return how likely the likeliest part of a hit's summary answers a question."""
    title, text = str(hit.get("title", "")), str(hit.get("summary", ""))
    return max(rater.rate(question, quote_parts(question, text), title, text), default=0.0)


def list_quotations(conversation: Conversation, reading: Reading, rater: Rater) -> list[Quotation]:
    """Return the likeliest quotation of each document that was read, the likeliest of all first."""
    return sorted(quote_documents(conversation, reading, rater), key=lambda one: -one.probability)


def quote_documents(conversation: Conversation, reading: Reading, rater: Rater) -> Iterator[Quotation]:
    """Yield a quotation of each document that speaks of the question and of what that names."""
    names = [name.casefold() for name in reading.names]
    for step in conversation.of("fetch"):
        title, question = str(step.head.get("title", "")), conversation.question
        text = f"{title}\n{step.body}"
        is_named = not names or any(name in text.casefold() for name in names)
        if not (step.is_ok and step.material and (is_named or conversation.has_own_documents)):
            continue
        found = quote_parts(question, step.body)
        rated = rater.rate(question, found, title, step.body)
        if not rated:
            continue
        best = choose_best(question, found, rated, rater.threshold)
        quoted = drop_lead(question, found, best).text
        # By meaning a text may answer in other words; another year is never the one that is asked for.
        is_there = has_years(text, question) if rater.has_meanings else is_about(f"{title}\n{quoted}", text, question)
        # What somebody has sent with the question is shown in any case, as what may answer.
        if is_there or conversation.has_own_documents:
            # The model has learnt on texts: a row of a spreadsheet shares the names of its columns with any question.
            is_sure = (is_there and is_named and rated[best] >= rater.threshold) and (
                not is_placed(quoted) or has_all_terms(title, question, quoted)
            )
            source, place = name_source(step.head), str(step.head.get("place", ""))
            day = find_day(step.head) if source else ""
            around = quote_window(step.body, found[best].part)
            yield Quotation(title, quoted, step.material, rated[best], is_sure, source, day, around, place)


def has_all_terms(title: str, question: str, row: str) -> bool:
    """Return whether a row of a spreadsheet, with the names of its columns, has all terms of a question."""
    return set(list_words(question)) <= set(list_words(f"{title} {row}"))


def has_years(text: str, question: str) -> bool:
    """Return whether a text has all years of a question."""
    return set(YEAR.findall(question)) <= set(YEAR.findall(text))


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
