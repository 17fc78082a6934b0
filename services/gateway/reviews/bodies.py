"""JSON bodies of reviews, and their conversion from and to the contract."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from fathom.api.memory.v1 import review_pb2 as pb
from fathom.services.gateway.bodies import MAX_INT32, Body
from fathom.services.gateway.users import Right

AddedKind = Literal["comparison", "rewriting", "hallucination", "candidate"]
Kind = Literal[AddedKind, "recheck"]
Verdict = Literal["grade", "accept", "reject", "edit"]
Language = Literal["", "en", "zh"]
MAX_ITEMS = 100
KIND_PREFIX, VERDICT_PREFIX = "REVIEW_KIND_", "REVIEW_VERDICT_"
GRADE = "-2 bad, -1 rather bad, 0 even, 1 rather good, 2 good"


class EarlierTurn(Body):
    """An earlier question and its answer."""

    question: str
    answer: str


class OwnedText(Body):
    """A text to decide on, and whose it is."""

    owner: str = Field("", max_length=200, description="Model, program or person; told to nobody before the decision.")
    text: str = Field(description="Markdown.")


class Machine(Body):
    """Verdict of a program on an item."""

    verdict: str = Field("", max_length=64, description="In a word.")
    grade: int | None = Field(None, ge=-2, le=2, description=f"Of the first text against the second: {GRADE}.")
    reason: str = Field("", max_length=10_000)
    by: str = Field("", max_length=200, description="Model that judged.")


class NewItem(Body):
    """An item to decide on."""

    key: str = Field(min_length=1, max_length=200, description="Idempotency key of the item.")
    kind: AddedKind
    question: str
    language: Language = ""
    history: list[EarlierTurn] = Field(default_factory=list, max_length=50, description="Oldest first.")
    material: str = Field("", description="What an answer has to rest on, in Markdown.")
    texts: list[OwnedText] = Field(
        min_length=1, max_length=2, description="Two of a comparison and of a candidate (rejected, proposed), else one."
    )
    machine: Machine | None = Field(None, description="May come later, under the same key.")
    run_id: str = Field("", max_length=200, description="Run that it is about; it is deleted with the run's turn.")
    source: str = Field("", max_length=1_000, description="Where it is from, such as a file and a row.")

    def to_proto(self) -> pb.NewReviewItem:
        """Convert to the contract."""
        item = pb.NewReviewItem(
            key=self.key,
            kind=f"{KIND_PREFIX}{self.kind.upper()}",
            question=self.question,
            language=self.language,
            history=[pb.ReviewTurn(question=turn.question, answer=turn.answer) for turn in self.history],
            material=self.material,
            texts=[pb.ReviewText(text=one.text, owner=one.owner) for one in self.texts],
            run_id=self.run_id,
            source=self.source,
        )
        if self.machine is not None:
            item.machine.CopyFrom(pb.MachineVerdict(**self.machine.model_dump()))
        return item


class NewItems(Body):
    """Items to decide on."""

    items: list[NewItem] = Field(min_length=1, max_length=MAX_ITEMS, description="Each of at most 256 KiB of text.")
    request_id: str = Field("", description="Idempotency key.")


class AddedItems(BaseModel):
    """Number of items that were added, and of those that were there."""

    added: int
    known: int


class NewDecision(Body):
    """Decision on an item: `grade` of comparisons and rechecks, `accept`, `reject` and `edit` of the others.

    `accept` of a recheck takes the machine's grade, `reject` the person's.
    """

    version: int = Field(ge=1, le=MAX_INT32, description="Version of the item that was shown.")
    decision: Verdict
    grade: int | None = Field(None, ge=-2, le=2, description=f"Of A against B: {GRADE}; with `grade` alone.")
    reason: str = Field("", max_length=10_000)
    text: str = Field("", description="The text as edited; with `edit` alone.")
    request_id: str = Field("", description="Idempotency key.")

    def request(self, item_id: str) -> pb.DecideReviewItemRequest:
        """Convert to a request."""
        return pb.DecideReviewItemRequest(
            request_id=self.request_id,
            item_id=item_id,
            version=self.version,
            verdict=f"{VERDICT_PREFIX}{self.decision.upper()}",
            grade=self.grade,
            reason=self.reason,
            text=self.text,
        )


class Rights(BaseModel):
    """Rights of the caller in the review."""

    rights: list[Right] = Field(
        description="`review` decides on items, `review-items` adds them, `sources` sees how sources are set up."
    )


class Queue(BaseModel):
    """A queue and its counts."""

    kind: Kind
    open: int = Field(description="Items that wait, those that somebody holds included.")
    decided: int


class Queues(BaseModel):
    """All queues."""

    queues: list[Queue]


class ShownText(BaseModel):
    """A text to decide on."""

    label: str
    text: str
    owner: str | None = Field(description="Whose it is; null until the item is decided.")


class ShownTurn(BaseModel):
    """An earlier question and its answer."""

    question: str
    answer: str


class ShownMachine(BaseModel):
    """Verdict of a program."""

    verdict: str
    grade: int | None = Field(description=f"Of A against B: {GRADE}.")
    reason: str
    by: str = Field(description="Model that judged; empty until the item is decided.")


class ShownGrade(BaseModel):
    """Grade of a person."""

    grade: int = Field(description=f"Of A against B: {GRADE}.")
    reason: str


class ShownDecision(BaseModel):
    """Decision on an item."""

    decision: Verdict
    grade: int | None = Field(description=f"Of A against B: {GRADE}; of comparisons and rechecks.")
    reason: str
    before: str = Field(description="The text before an edit; empty without one.")
    after: str = Field(description="The text after an edit; empty without one.")
    reviewer: str = Field(description="Who decided; empty where callers are not identified.")
    decided_at: str = Field(description="ISO 8601.")


# Every member is always there, so that a page reads one shape before and after a decision.
class Item(BaseModel):
    """An item as a reviewer may see it: whose the texts are, and the judge's grade, once it is decided."""

    id: str
    kind: Kind
    version: int
    question: str
    language: Language
    history: list[ShownTurn]
    material: str
    texts: list[ShownText] = Field(description="In the order in which they are shown.")
    machine: ShownMachine | None = Field(description="What a program said; null of an open comparison.")
    previous: ShownGrade | None = Field(description="The person's grade that a recheck looks at again.")
    created_at: str = Field(description="ISO 8601.")
    decision: ShownDecision | None = Field(description="Null while it is open.")
    key: str = Field(description="Key under which it was added; empty until it is decided.")
    run_id: str = Field(description="Run that it is about; empty until it is decided.")
    source: str = Field(description="Where it is from; empty until it is decided.")


class DecisionPage(BaseModel):
    """Decided items, those decided last first."""

    decisions: list[Item]
    next_page_token: str = Field(description="Empty at the end.")


def kind_to_proto(kind: str) -> str:
    """Return the name of a queue in the contract; "" is none in particular."""
    return f"{KIND_PREFIX}{kind.upper() or 'UNSPECIFIED'}"


def show_queue(queue: pb.ReviewQueue) -> Queue:
    """Return a queue as JSON has it."""
    return Queue.model_validate({"kind": name_kind(queue.kind), "open": queue.open, "decided": queue.decided})


def show_item(item: pb.ReviewItem) -> Item:
    """Return an item as JSON has it."""
    is_decided = item.HasField("decision")
    machine, previous = item.machine, item.previous
    return Item.model_validate(
        {
            "id": item.id,
            "kind": name_kind(item.kind),
            "version": item.version,
            "question": item.question,
            "language": item.language,
            "history": [{"question": turn.question, "answer": turn.answer} for turn in item.history],
            "material": item.material,
            "texts": [
                # null and not "", since an item may have no owner.
                {"label": one.label, "text": one.text, "owner": one.owner if is_decided else None}
                for one in item.texts
            ],
            "machine": {
                "verdict": machine.verdict,
                "grade": machine.grade if machine.HasField("grade") else None,
                "reason": machine.reason,
                "by": machine.by,
            }
            if item.HasField("machine")
            else None,
            "previous": {"grade": previous.grade, "reason": previous.reason} if item.HasField("previous") else None,
            "created_at": item.create_time.ToJsonString(),
            "decision": show_decision(item.decision) if is_decided else None,
            "key": item.key,
            "run_id": item.run_id,
            "source": item.source,
        }
    )


def show_decision(decision: pb.ReviewDecision) -> ShownDecision:
    """Return a decision as JSON has it."""
    return ShownDecision.model_validate(
        {
            "decision": pb.ReviewVerdict.Name(decision.verdict).removeprefix(VERDICT_PREFIX).lower(),
            "grade": decision.grade if decision.HasField("grade") else None,
            "reason": decision.reason,
            "before": decision.before,
            "after": decision.after,
            "reviewer": decision.reviewer,
            "decided_at": decision.time.ToJsonString(),
        }
    )


def name_kind(kind: pb.ReviewKind) -> str:
    """Return a queue's name in JSON."""
    return pb.ReviewKind.Name(kind).removeprefix(KIND_PREFIX).lower()
