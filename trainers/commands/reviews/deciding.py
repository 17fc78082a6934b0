"""Decisions in the terminal: an item is shown, and a person grades, accepts, rejects or edits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fathom.api.memory.v1 import review_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import Conflict, InvalidField
from fathom.operations.ranking.agreement import read_grade
from fathom.operations.ranking.matches import EVEN, GRADES

GRADED = (pb.REVIEW_KIND_COMPARISON, pb.REVIEW_KIND_RECHECK)
VERDICTS = {"a": pb.REVIEW_VERDICT_ACCEPT, "r": pb.REVIEW_VERDICT_REJECT, "e": pb.REVIEW_VERDICT_EDIT}
SCALE = ", ".join(f"{number} {word}" for word, number in GRADES.items())
END = "q"
Ask = Callable[[str], str]


class Terminal:
    """Asks a person: ``ask`` returns what was typed, ``edit`` a text as the person leaves it, "" for nothing."""

    def __init__(self, ask: Ask, edit: Ask, say: Callable[[str], None]) -> None:
        self.ask, self.edit, self.say = ask, edit, say


async def decide_all(clients: Clients, kind: pb.ReviewKind, terminal: Terminal) -> int:
    """Show the items of a queue one after the other until none is left or the person ends; return how many decided."""
    count, after = 0, ""
    while True:
        found = await clients.memory.claim_review_item(pb.ClaimReviewItemRequest(kind=kind, after_id=after))
        if not found.HasField("item"):
            return count
        item = found.item
        terminal.say("\n".join(describe(item)))
        request = read_decision(item, terminal)
        if request is None:
            return count
        after = item.id
        # An empty answer skips: the item is left to others, and comes again with the next call.
        if request.verdict:
            try:
                decided = (await clients.memory.decide_review_item(request)).item
            # Somebody else was faster, or the text was not changed: the next item is as good.
            except (Conflict, InvalidField) as error:
                terminal.say(f"not taken: {error.message}")
                continue
            count, after = count + 1, ""
            terminal.say("\n".join(reveal(decided)))


def read_decision(item: pb.ReviewItem, terminal: Terminal) -> pb.DecideReviewItemRequest | None:
    """Ask until there is a decision; one without a verdict skips, None ends."""
    request = pb.DecideReviewItemRequest(item_id=item.id, version=item.version)
    while True:
        given = terminal.ask(write_prompt(item.kind)).strip().lower()
        if given == END:
            return None
        if not given:
            return request
        if item.kind in GRADED and (grade := read_grade(given)) is not None:
            request.verdict, request.grade = pb.REVIEW_VERDICT_GRADE, grade - EVEN
        elif item.kind != pb.REVIEW_KIND_COMPARISON and given in VERDICTS:
            request.verdict = VERDICTS[given]
        else:
            continue
        if request.verdict == pb.REVIEW_VERDICT_EDIT:
            # A recheck has no text of its own to change.
            request.text = terminal.edit(item.texts[-1].text) if item.kind not in GRADED else ""
            if not request.text.strip():
                request.verdict = pb.REVIEW_VERDICT_UNSPECIFIED
                continue
        request.reason = terminal.ask("Why").strip()
        return request


def write_prompt(kind: pb.ReviewKind) -> str:
    """Return what can be typed."""
    if kind == pb.REVIEW_KIND_COMPARISON:
        return f"A is {SCALE}; empty skips, q ends"
    if kind == pb.REVIEW_KIND_RECHECK:
        return f"a the judge's grade holds, r the person's stays, or A is {SCALE}; empty skips, q ends"
    return "a accepts, r rejects, e edits, empty skips, q ends"


def describe(item: pb.ReviewItem) -> Iterator[str]:
    """Yield what a person needs to see of an item."""
    for turn in item.history:
        yield f"--- Earlier\n{turn.question}\n{turn.answer}"
    yield f"--- Question\n{item.question}"
    if item.material:
        yield f"--- Material\n{item.material}"
    for one in item.texts:
        yield f"--- {one.label}\n{one.text or '(nothing is proposed: edit to write one)'}"
    if item.HasField("machine"):
        yield f"--- Judge: {describe_machine(item.machine)}"
    if item.HasField("previous"):
        yield f"--- Person: {describe_grade(item.previous.grade)} {item.previous.reason}"


def reveal(item: pb.ReviewItem) -> Iterator[str]:
    """Yield what is told once an item is decided: whose the texts are, and what the judge said."""
    yield ", ".join(f"{one.label} is by {one.owner}" for one in item.texts if one.owner) or "decided"
    if item.HasField("machine"):
        yield f"judge: {describe_machine(item.machine)}"


def describe_machine(machine: pb.MachineVerdict) -> str:
    """Return what a program said in a line."""
    grade = describe_grade(machine.grade) if machine.HasField("grade") else ""
    return " ".join(filter(None, [machine.verdict, grade, machine.reason]))


def describe_grade(grade: int) -> str:
    """Return a grade of A in words."""
    return f"A is {next(word for word, number in GRADES.items() if number == grade + EVEN)}."
