"""Documents: which are read next, and quotations of what was read, which answer the question or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.conversation import Conversation
from fathom.domain.passages.answerability import Rater
from fathom.domain.passages.answers import Excerpt, choose_hit, quote_document
from fathom.domain.passages.files import are_alike, find_day, name_source
from fathom.domain.programs.reading import Reading
from fathom.domain.tool_results import Step
from fathom.domain.writing.wording import cite, join
from fathom.services.policy.reference.wording import say

# Passages that are read until one answers, and files of nearly the same name that are read beside that one.
MAX_READ, MOST_ALIKE = 4, 2
MOST_NEAREST = 3


@dataclass(frozen=True)
class Quotation:
    """A quotation of a document that was read, with the file of the user's own from which it is, "" for another one."""

    title: str
    excerpt: Excerpt
    material: int
    source: str = ""
    day: str = ""
    place: str = ""
    """File and page of the user's own."""

    @property
    def is_answer(self) -> bool:
        """Return whether it may be given as the answer."""
        return self.excerpt.is_answer

    def is_behind(self, others: Sequence[Quotation]) -> bool:
        """Return whether one of some others was read before it: what the search ranks first is read first."""
        return any(one.material < self.material for one in others)

    def write(self, is_zh: bool) -> str:
        """Return the paragraph of an answer."""
        name = self.place if self.place.startswith(self.title) else ", ".join(filter(None, (self.title, self.place)))
        text = self.excerpt.text if self.is_answer else self.excerpt.around or self.excerpt.text
        return say("quote" if self.is_answer else "nearest", is_zh, name, text, f"[{self.material}]")


def list_hits(conversation: Conversation) -> list[Mapping[str, Any]]:
    """Return the found documents that were not read."""
    read = ["", *(str(step.arguments.get("id", "")) for step in conversation.of("fetch"))]
    hits = [hit for step in conversation.of("search") if step.is_ok for hit in step.head.get("hits", ())]
    return [hit for hit in hits if str(hit.get("id", "")) not in read]


def choose_hits(conversation: Conversation, rater: Rater) -> list[str]:
    """Return the ids of the found documents that are read next, none where enough were read."""
    left, found = MAX_READ - len(conversation.of("fetch")), list_hits(conversation)
    if left <= 0 or not found:
        return []
    if conversation.has_own_documents:
        # The search has ranked whole passages; by a summary alone the one that answers was often not read at all.
        return [str(hit["id"]) for hit in found[:left]]
    return list(filter(None, [choose_hit(conversation.question, found, rater)]))


def choose_alike(conversation: Conversation, answers: Sequence[Quotation], rater: Rater) -> list[str]:
    """Return the id of a document to read beside an answer, whose file has nearly the same name; [] for none."""
    steps = conversation.of("fetch")
    read = {name_source(step.head) for step in steps}
    found = [
        hit
        for hit in list_hits(conversation)
        if name_source(hit) not in read and any(are_alike(name_source(hit), one.source) for one in answers)
    ]
    if not found or len(steps) >= MAX_READ + MOST_ALIKE:
        return []
    return [choose_hit(conversation.question, found, rater) if rater.has_meanings else str(found[0]["id"])]


def list_quotations(conversation: Conversation, reading: Reading, rater: Rater) -> list[Quotation]:
    """Return the likeliest quotation of each document that was read, the likeliest of all first."""
    found, question, is_own = [], conversation.question, conversation.has_own_documents
    for step in conversation.of("fetch"):
        title, place = str(step.head.get("title", "")), str(step.head.get("place", ""))
        if not (step.is_ok and step.material):
            continue
        # What somebody has sent with the question is shown in any case, as what may answer.
        excerpt = quote_document(question, title, step.body, rater, reading.names, is_chosen=is_own)
        source = name_source(step.head)
        if excerpt is not None:
            found.append(Quotation(title, excerpt, step.material, source, find_day(step.head) if source else "", place))
    return sorted(found, key=lambda one: -one.excerpt.probability)


def list_nearest(quotations: Sequence[Quotation], is_own: bool) -> list[Quotation]:
    """Return the quotations that may answer: of the user's own documents as the search ranks them, which were so read.

    Others are in the order of their likelihood.
    """
    found = [one for one in quotations if not one.is_answer]
    return sorted(found, key=lambda one: one.material if is_own else 0)[:MOST_NEAREST]


def group_answers(answers: Sequence[Quotation], quotations: Sequence[Quotation]) -> list[Quotation]:
    """Return the answers, each with the quotations of files of nearly its name, of which the later ones come first."""
    found: list[Quotation] = []
    for answer in answers:
        if answer not in found:
            beside = [one for one in quotations if are_alike(one.source, answer.source) and one not in found]
            # Stable, so that those without a day follow in the order of their likelihood.
            found += sorted([answer, *beside], key=lambda one: one.day, reverse=True)
    return found


def name_alike(sources: Sequence[str], read: Sequence[Step], is_zh: bool) -> list[str]:
    """Return the sentence that names the files of an answer beside those of nearly the same name, with their days.

    ``read`` are the documents that were read. Nothing proves that one file replaces another, so none is hidden.
    """
    steps = {name_source(step.head): step for step in reversed(read) if step.is_ok and step.material}
    files = [source for source in dict.fromkeys((*sources, *steps)) if source in steps]
    # What the answer quotes is named for the sake of the others, and the others for its sake.
    days = {
        source: find_day(steps[source].head)
        for source in files
        if any(are_alike(source, other) for other in (files if source in sources else sources))
    }
    listed = sorted(days, key=lambda source: days[source], reverse=True)
    texts = [f"{source} ({days[source] or say('undated', is_zh)}){cite(steps[source].material)}" for source in listed]
    return [say("alike", is_zh, join(texts, is_zh))] if texts else []
