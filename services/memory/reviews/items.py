"""Items and decisions as they are added and shown, and what is wrong with those that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from fathom.core.errors import InvalidField
from fathom.core.ids import checked_id, content_hash

# A long report with its material has some tens of KiB.
MAX_ITEM_BYTES = 256 << 10
# Names and sources are for lists and logs, reasons are some paragraphs.
MAX_KEY_CHARS, MAX_NAME_CHARS, MAX_REASON_CHARS, MAX_SOURCE_CHARS = 200, 200, 10_000, 1_000
# More than a window has, so that any conversation of the workflow fits.
MAX_TURNS = 50
WORST, BEST = -2, 2
LANGUAGES = ("", "en", "zh")


class Kind(StrEnum):
    """Queue of an item."""

    COMPARISON = "comparison"
    REWRITING = "rewriting"
    HALLUCINATION = "hallucination"
    CANDIDATE = "candidate"
    RECHECK = "recheck"


class Verdict(StrEnum):
    """Verdict of a person on an item."""

    GRADE = "grade"
    ACCEPT = "accept"
    REJECT = "reject"
    EDIT = "edit"


# By these a page names the texts, and tells a pair from an item with one text.
LABELS = {
    Kind.COMPARISON: ("A", "B"),
    Kind.RECHECK: ("A", "B"),
    Kind.REWRITING: ("rewriting",),
    Kind.HALLUCINATION: ("answer",),
    Kind.CANDIDATE: ("rejected", "proposed"),
}
# The kinds whose texts are two sides of which neither is meant to be the better one.
GRADED = frozenset({Kind.COMPARISON, Kind.RECHECK})
VERDICTS = {
    Kind.COMPARISON: (Verdict.GRADE,),
    Kind.RECHECK: (Verdict.GRADE, Verdict.ACCEPT, Verdict.REJECT),
    Kind.REWRITING: (Verdict.ACCEPT, Verdict.REJECT, Verdict.EDIT),
    Kind.HALLUCINATION: (Verdict.ACCEPT, Verdict.REJECT, Verdict.EDIT),
    Kind.CANDIDATE: (Verdict.ACCEPT, Verdict.REJECT, Verdict.EDIT),
}


@dataclass(frozen=True)
class Text:
    """A text, whose it is, and the name under which it is shown."""

    text: str
    owner: str = ""
    label: str = ""


@dataclass(frozen=True)
class Machine:
    """Verdict of a program; ``grade`` is of the first text against the second, -2 to 2."""

    verdict: str = ""
    grade: int | None = None
    reason: str = ""
    by: str = ""


@dataclass(frozen=True)
class NewItem:
    """An item to add. ``history`` has questions and answers, oldest first."""

    key: str
    kind: Kind
    question: str
    texts: tuple[Text, ...]
    language: str = ""
    history: tuple[tuple[str, str], ...] = ()
    material: str = ""
    machine: Machine | None = None
    run: str = ""
    source: str = ""

    def hash_content(self) -> str:
        """Return a hash of all but the machine's verdict, which may come later."""
        texts = [(one.text, one.owner) for one in self.texts]
        parts = (self.kind.value, self.question, self.language, self.history, self.material, texts)
        return content_hash([*parts, self.run, self.source])


@dataclass(frozen=True)
class Grade:
    """A person's grade of the first text as shown against the second, -2 to 2."""

    grade: int
    reason: str


@dataclass(frozen=True)
class Decision:
    """A decision. ``grade`` is of the first text as shown against the second, ``created`` seconds since the epoch."""

    verdict: Verdict
    grade: int | None = None
    reason: str = ""
    before: str = ""
    after: str = ""
    reviewer: str = ""
    created: float = 0.0


@dataclass(frozen=True)
class Item:
    """An item as a reviewer may see it; what would tell whose the texts are is empty until it is decided."""

    id: str
    kind: Kind
    version: int
    question: str
    language: str
    history: tuple[tuple[str, str], ...]
    material: str
    texts: tuple[Text, ...]
    machine: Machine | None
    previous: Grade | None
    created: float
    decision: Decision | None = None
    key: str = ""
    run: str = ""
    source: str = ""


def check_item(item: NewItem, field: str) -> None:
    """Raise ``InvalidField`` of a field below ``field`` for an item that nobody could decide on."""
    if not item.key or len(item.key) > MAX_KEY_CHARS or not item.key.isprintable():
        raise InvalidField(f"{field}.key", f"must have 1 to {MAX_KEY_CHARS} characters that can be printed")
    if item.kind is Kind.RECHECK:
        raise InvalidField(f"{field}.kind", "rechecks follow from grades that are apart, and are not added")
    if item.language not in LANGUAGES:
        raise InvalidField(f"{field}.language", "must be en, zh or empty")
    if len(item.history) > MAX_TURNS:
        raise InvalidField(f"{field}.history", f"must have at most {MAX_TURNS} turns")
    if item.run:
        checked_id(f"{field}.run_id", item.run)
    check_texts(item, field)
    check_machine(item, f"{field}.machine")
    for name, text, limit in (
        ("question", item.question, MAX_ITEM_BYTES),
        ("source", item.source, MAX_SOURCE_CHARS),
        *((f"texts[{place}].owner", one.owner, MAX_NAME_CHARS) for place, one in enumerate(item.texts)),
    ):
        if len(text) > limit:
            raise InvalidField(f"{field}.{name}", f"must have at most {limit:,} characters")
    if any("\0" in text for text in list_texts(item)):
        raise InvalidField(field, "must not have the character NUL")
    # In bytes: what is stored and sent is, and a Chinese character has three.
    if sum(len(text.encode()) for text in list_texts(item)) > MAX_ITEM_BYTES:
        raise InvalidField(field, f"has more than {MAX_ITEM_BYTES >> 10} KiB of text")


def check_texts(item: NewItem, field: str) -> None:
    """Raise ``InvalidField`` for an item without what has to be read."""
    if not item.question.strip():
        raise InvalidField(f"{field}.question", "is empty")
    wanted = len(LABELS[item.kind])
    if len(item.texts) != wanted:
        raise InvalidField(f"{field}.texts", f"must be {wanted} for a {item.kind}, not {len(item.texts)}")
    for place, one in enumerate(item.texts):
        # Of a candidate nobody may have proposed a better answer yet: whoever reviews it can write one.
        if not one.text.strip() and (item.kind, place) != (Kind.CANDIDATE, 1):
            raise InvalidField(f"{field}.texts[{place}].text", "is empty")
    # A preference between equals teaches nothing, whatever a person would say of it.
    if item.kind is Kind.CANDIDATE and item.texts[0].text == item.texts[1].text:
        raise InvalidField(f"{field}.texts[1].text", "is the rejected one")
    if item.kind is Kind.HALLUCINATION and not item.material.strip():
        raise InvalidField(f"{field}.material", "is empty: nobody could say whether the answer rests on it")


def check_machine(item: NewItem, field: str) -> None:
    """Raise ``InvalidField`` for a verdict that does not fit the item."""
    machine = item.machine
    if machine is None:
        return
    # A verdict in words may stand on everything; five grades compare two texts.
    if machine.grade is not None:
        if item.kind not in GRADED:
            raise InvalidField(f"{field}.grade", f"a {item.kind} is not graded")
        if not WORST <= machine.grade <= BEST:
            raise InvalidField(f"{field}.grade", f"must be {WORST} to {BEST}")
    for name, text, limit in (
        ("verdict", machine.verdict, MAX_NAME_CHARS),
        ("by", machine.by, MAX_NAME_CHARS),
        ("reason", machine.reason, MAX_REASON_CHARS),
    ):
        if len(text) > limit:
            raise InvalidField(f"{field}.{name}", f"must have at most {limit:,} characters")


def list_texts(item: NewItem) -> Iterator[str]:
    """Yield all texts of an item."""
    yield from (item.key, item.question, item.material, item.source)
    for question, answer in item.history:
        yield from (question, answer)
    for one in item.texts:
        yield from (one.text, one.owner)
    if item.machine is not None:
        yield from (item.machine.verdict, item.machine.reason, item.machine.by)


def check_decision(item: Item, decision: Decision) -> None:
    """Raise ``InvalidField`` for a decision that does not fit the item; ``after`` is the text as edited."""
    verdict, allowed = decision.verdict, VERDICTS[item.kind]
    if verdict not in allowed:
        raise InvalidField("decision", f"of a {item.kind} is {' or '.join(allowed)}, not {verdict}")
    if (decision.grade is None) == (verdict is Verdict.GRADE):
        raise InvalidField("grade", "is needed" if decision.grade is None else f"goes with {Verdict.GRADE} alone")
    if decision.grade is not None and not WORST <= decision.grade <= BEST:
        raise InvalidField("grade", f"must be {WORST} to {BEST}")
    if len(decision.reason) > MAX_REASON_CHARS or "\0" in decision.reason:
        raise InvalidField("reason", f"must have at most {MAX_REASON_CHARS:,} characters, none of them NUL")
    if bool(decision.after) != (verdict is Verdict.EDIT):
        raise InvalidField("text", f"goes with {Verdict.EDIT} alone" if decision.after else "is empty")
    if verdict is Verdict.EDIT:
        check_edit(item, decision.after)
    if verdict is Verdict.ACCEPT and not item.texts[-1].text.strip():
        raise InvalidField("decision", "there is no proposed text to accept: edit it, or reject the item")


def check_edit(item: Item, text: str) -> None:
    """Raise ``InvalidField`` for an edited text that is none, or too long."""
    if not text.strip() or "\0" in text:
        raise InvalidField("text", "must have a character that can be seen, and none that is NUL")
    if len(text.encode()) > MAX_ITEM_BYTES:
        raise InvalidField("text", f"has more than {MAX_ITEM_BYTES >> 10} KiB")
    # An edit that changes nothing would be counted as a correction.
    if text in [one.text for one in item.texts]:
        raise InvalidField("text", "is unchanged: accept or reject it")
