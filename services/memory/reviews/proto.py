"""Conversion of items and decisions to and from the contract."""

from __future__ import annotations

from fathom.api.memory.v1 import review_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.services.memory.reviews.items import Decision, Item, Kind, Machine, NewItem, Text, Verdict
from fathom.services.memory.times import to_timestamp

KINDS = {kind: f"REVIEW_KIND_{kind.name}" for kind in Kind}
KINDS_BACK = {pb.ReviewKind.Value(name): kind for kind, name in KINDS.items()}
VERDICTS = {verdict: f"REVIEW_VERDICT_{verdict.name}" for verdict in Verdict}
VERDICTS_BACK = {pb.ReviewVerdict.Value(name): verdict for verdict, name in VERDICTS.items()}


def kind_from_proto(kind: pb.ReviewKind, field: str = "kind") -> Kind:
    """Return a queue; raise ``InvalidField`` for none."""
    if kind not in KINDS_BACK:
        raise InvalidField(field, f"{kind} is no queue")
    return KINDS_BACK[kind]


def item_from_proto(message: pb.NewReviewItem, field: str) -> NewItem:
    """Return an item to add; raise ``InvalidField`` for a queue that is none."""
    machine = message.machine
    said = Machine(machine.verdict, machine.grade if machine.HasField("grade") else None, machine.reason, machine.by)
    return NewItem(
        key=message.key,
        kind=kind_from_proto(message.kind, f"{field}.kind"),
        question=message.question,
        texts=tuple(Text(one.text, one.owner) for one in message.texts),
        language=message.language,
        history=tuple((one.question, one.answer) for one in message.history),
        material=message.material,
        machine=said if message.HasField("machine") else None,
        run=message.run_id,
        source=message.source,
    )


def decision_from_proto(message: pb.DecideReviewItemRequest) -> Decision:
    """Return a decision; raise ``InvalidField`` for a verdict that is none."""
    if message.verdict not in VERDICTS_BACK:
        raise InvalidField("decision", f"{message.verdict} is none")
    grade = message.grade if message.HasField("grade") else None
    return Decision(VERDICTS_BACK[message.verdict], grade, message.reason, after=message.text)


def item_to_proto(item: Item) -> pb.ReviewItem:
    made = pb.ReviewItem(
        id=item.id,
        kind=KINDS[item.kind],
        version=item.version,
        question=item.question,
        language=item.language,
        history=[pb.ReviewTurn(question=question, answer=answer) for question, answer in item.history],
        material=item.material,
        texts=[pb.ReviewText(label=one.label, text=one.text, owner=one.owner) for one in item.texts],
        create_time=to_timestamp(item.created),
        key=item.key,
        run_id=item.run,
        source=item.source,
    )
    if item.machine is not None:
        said = item.machine
        made.machine.CopyFrom(pb.MachineVerdict(verdict=said.verdict, grade=said.grade, reason=said.reason, by=said.by))
    if item.previous is not None:
        made.previous.CopyFrom(pb.ReviewGrade(grade=item.previous.grade, reason=item.previous.reason))
    if item.decision is not None:
        made.decision.CopyFrom(decision_to_proto(item.decision))
    return made


def decision_to_proto(decision: Decision) -> pb.ReviewDecision:
    return pb.ReviewDecision(
        verdict=VERDICTS[decision.verdict],
        grade=decision.grade,
        reason=decision.reason,
        before=decision.before,
        after=decision.after,
        reviewer=decision.reviewer,
        time=to_timestamp(decision.created),
    )


def queue_to_proto(kind: Kind, counts: tuple[int, int]) -> pb.ReviewQueue:
    """Return a queue with its counts of open and decided items."""
    return pb.ReviewQueue(kind=KINDS[kind], open=counts[0], decided=counts[1])
