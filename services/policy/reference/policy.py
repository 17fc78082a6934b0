"""The next calls of the reference policy: of its walk, of the parts of a report, or of the questions of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathom.domain.chat.tolerant import items
from fathom.domain.conversation import Conversation
from fathom.domain.passages.answerability import Rater
from fathom.domain.text.paragraphs import share_paragraphs
from fathom.domain.text.terms import is_small_talk
from fathom.domain.tool_results import Step
from fathom.domain.writing import wording
from fathom.domain.writing.overview import write_overview
from fathom.services.policy.reference.answer import compose
from fathom.services.policy.reference.calls import Call, Written, finish
from fathom.services.policy.reference.report import list_part_calls
from fathom.services.policy.reference.walk import Walk
from fathom.services.policy.reference.wording import load_own, say

# As many as one run may delegate by default.
MOST_PARTS = 4


def next_call(
    conversation: Conversation, tools: Sequence[str], written: Written | None = None, rater: Rater | None = None
) -> Call:
    """Return the next call of the reference policy; the questions of a list are given to researchers of their own.

    ``written`` is a program of the question that a model has written, in place of that of the data tool; ``rater`` says
    which passages answer, by default by their words.
    """
    parts = [text for text in items(conversation.question) if text.endswith(("?", "？"))][:MOST_PARTS]
    results, is_zh = conversation.of("delegate"), conversation.is_zh
    itself = answer_about_itself(conversation, tools)
    rater = rater or Rater()
    # A model that writes the program of a question writes that of the whole.
    of_report = list_part_calls(conversation, frozenset(tools), rater) if written is None else []
    if is_small_talk(conversation.question):
        calls = [finish(compose(conversation, (), ()))]
    elif itself is not None:
        calls = [itself]
    elif of_report:
        calls = of_report
    elif "delegate" not in tools or len(parts) < 2:
        calls = [Walk(conversation, frozenset(tools), written, rater).next()]
    elif not results and not conversation.is_last_round:
        calls = [Call("delegate", {"question": part}) for part in parts]
    else:
        calls = [join_parts(results, is_zh)]
    intents = load_own()["intent"]
    every = (one for call in calls for one in (call, *call.beside))
    first, *others = (Call(one.tool, {"intent": intents[one.tool][is_zh], **one.arguments}) for one in every)
    return replace(first, beside=tuple(others))


def answer_about_itself(conversation: Conversation, tools: Sequence[str]) -> Call | None:
    """Return the next call for a question about the data or the program; None for any other question."""
    if conversation.is_about_product:
        return finish(say("handed_off", conversation.is_zh))
    overview = next((step for step in conversation.of("catalogue") if "query" not in step.arguments), None)
    if not conversation.is_about_data or (overview is not None and not overview.is_ok):
        return None
    if overview is not None:
        return finish("\n\n".join(write_overview(overview, conversation)))
    return Call("catalogue", {}) if "catalogue" in tools and not conversation.is_last_round else None


def join_parts(results: Sequence[Step], is_zh: bool) -> Call:
    """Return the answers of the researchers under their questions; a question without one stays open."""
    answered = {str(step.arguments.get("question", "")): step.body if step.is_ok else "" for step in results}
    ahead, parts, behind = share_paragraphs(list(answered.values()))
    nothing = wording.say("nothing", is_zh)
    texts = [f"### {question}\n\n{part or nothing}" for question, part in zip(answered, parts, strict=True)]
    left = [question for question, body in answered.items() if not body]
    return finish("\n\n".join([*ahead, *texts, *behind]), left)
