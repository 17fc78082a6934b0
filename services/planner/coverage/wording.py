"""Words of a reading for a person: the line at the top of an answer, and what it leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathom.domain.text.language import language_of
from fathom.services.planner.answering.rendering.missing import escape_markdown
from fathom.services.planner.coverage.stated import STATED
from fathom.services.planner.model.episode import Answer
from fathom.services.planner.model.slots import Slot, SlotKind, SlotSource, SlotState

ORDER = (
    SlotKind.ENTITY,
    SlotKind.INDICATOR,
    SlotKind.MEASURE,
    SlotKind.FREQUENCY,
    SlotKind.PERIOD,
    SlotKind.CONDITION,
    SlotKind.PARAMETER,
    SlotKind.OUTPUT,
)
# A reason names dates and densities, which read alike in both languages; its words are translated here.
REASONS_ZH = {
    "nothing that the answer uses is about it": "答案所用材料未涉及",
    "nothing that the answer uses holds it": "答案所用材料中没有",
    "no calculation gives it": "没有计算",
    "no calculation uses it": "计算中没有使用",
    "there are no values": "没有数值",
    "the answer has no chart": "答案没有图",
    "the answer has no table": "答案没有表格",
    "the answer uses no dates": "答案没有日期",
    "nothing was made of it": "未能理解",
    "its source failed": "数据源出错",
    "the table has no dates": "表中没有日期",
    "the values are ": "所用数据为",
    "the data are of ": "数据日期为",
    "the data begin on ": "数据始于",
    "the data end on ": "数据止于",
    "the data have no date from ": "该时期没有数据：",
    " to ": "至",
}
FREQUENCIES_ZH = {"daily": "每日", "weekly": "每周", "monthly": "每月", "quarterly": "每季", "annual": "每年"}
NOT_VERIFIED, NOT_UNDERSTOOD = ("; not verified: ", "；未能核实："), ("; not understood: ", "；未能理解：")
READ_AS, GUESSED = ("Read as: ", "理解为："), ("Read as, by a guess: ", "推测理解为：")
# A line is read at a glance; a list of fifty companies is not.
MAX_LISTED, SHOWN_CHARS = 12, 80
# A name that is spelt so, or is without its legal form only; below it another spelling was taken for it.
SPELT = 0.95
TAKEN = ("“{}” taken for {}", "“{}”按{}理解")


def format_line(question: str, slots: Sequence[Slot], is_guess: bool = False) -> str:
    """Return "Read as: …" with entities, indicators, measures, density, period and parameters; "" for none of them.

    With ``is_guess`` the line says that a follow-up is only taken to mean this.
    """
    is_chinese = language_of(question) == "zh"
    parts: list[str] = []
    known: set[str] = set()
    for kind in ORDER:
        described = [describe(slot, is_chinese) for slot in slots if slot.kind is kind]
        # Words that are both, such as "how many months", are shown once.
        shown = [text for text in dict.fromkeys(described) if text not in known]
        known |= set(shown)
        if len(shown) > MAX_LISTED:
            shown = [*shown[:MAX_LISTED], f"+{len(shown) - MAX_LISTED}"]
        parts += [("、" if is_chinese else ", ").join(shown)] if shown else []
    unsure = [slot for slot in slots if slot.state is SlotState.UNSURE]
    if not parts:
        return ""
    line = (GUESSED if is_guess else READ_AS)[is_chinese] + " · ".join(parts)
    for words, are_unknown in ((NOT_VERIFIED, False), (NOT_UNDERSTOOD, True)):
        texts = [slot.text for slot in unsure if (slot.kind is SlotKind.UNKNOWN) is are_unknown]
        line += words[is_chinese] + ", ".join(dict.fromkeys(texts)) if texts else ""
    return line


def describe(slot: Slot, is_chinese: bool) -> str:
    """Return one slot in a few words: the words of the question, and their meaning where it says more."""
    if slot.kind is SlotKind.PERIOD:
        first, _, last = slot.value.partition("/")
        last = last or first
        return first if first == last else f"{first} {'至' if is_chinese else 'to'} {last}".replace("..", "…")
    if slot.kind is SlotKind.FREQUENCY:
        return FREQUENCIES_ZH.get(slot.value, slot.value or slot.text) if is_chinese else slot.value or slot.text
    # Who wrote the name must see that somebody else may be meant: 腾跃 is not 腾邦.
    if slot.kind is SlotKind.ENTITY and slot.value and slot.confidence < SPELT:
        return TAKEN[is_chinese].format(slot.text, slot.value)
    has_id = slot.kind in (SlotKind.ENTITY, SlotKind.INDICATOR) and slot.value
    return f"{slot.text} ({slot.value})" if has_id and slot.value.casefold() != slot.text.casefold() else slot.text


def format_guess(question: str, guess: str) -> str:
    """Return what stays open where the words ``guess`` of a follow-up may mean something else."""
    words = guess if len(guess) <= SHOWN_CHARS else f"{guess[: SHOWN_CHARS - 1]}…"
    return f"“{words}”的其他含义" if language_of(question) == "zh" else f"what else “{words}” may mean"


def list_open(question: str, slots: Sequence[Slot]) -> tuple[str, ...]:
    """Return what stays open, each with its reason, in the question's language.

    Each is named once: not again within longer words, and what the model names as open not beside what the check says
    of the same words.
    """
    is_chinese = language_of(question) == "zh"
    left = sorted(
        (slot for slot in slots if slot.state is SlotState.OPEN), key=lambda slot: slot.source is SlotSource.MODEL
    )
    own = [
        slot
        for place, slot in enumerate(left)
        if not any(names(other, slot, at < place) for at, other in enumerate(left))
    ]
    return tuple(dict.fromkeys(format_open(slot, is_chinese) for slot in own))


def names(other: Slot, slot: Slot, is_before: bool) -> bool:
    """Return whether what is open by one slot names the words of another, where the model has stated one of them."""
    has_stated = SlotSource.MODEL in (slot.source, other.source)
    text, longer = slot.text.casefold(), other.text.casefold()
    return has_stated and text in longer and (text != longer or is_before)


def format_open(slot: Slot, is_chinese: bool) -> str:
    # What the answer itself leaves open needs no reason beside it.
    detail = "" if slot.detail == STATED else slot.detail
    if not is_chinese:
        return f"{slot.text} ({detail})" if detail else slot.text
    for english, chinese in {**REASONS_ZH, **FREQUENCIES_ZH}.items():
        detail = detail.replace(english, chinese)
    return f"{slot.text}（{detail}）" if detail else slot.text


def open_with_notice(answer: Answer) -> Answer:
    """Return the answer with what it leaves open in front, and its findings at their new places.

    An answer that leaves nothing open stays as it is.
    """
    if answer.reading is None:
        return answer
    notice = format_notice(answer.reading.question, answer.reading.open_texts)
    if not notice:
        return answer
    head = f"{notice}\n\n"
    moved = [replace(mark, start=mark.start + len(head), end=mark.end + len(head)) for mark in answer.findings]
    return replace(answer, markdown=head + answer.markdown, findings=tuple(moved))


def format_notice(question: str, parts: Sequence[str]) -> str:
    """Return the paragraph that opens an answer with open slots; "" for none."""
    if not parts:
        return ""
    shown = [escape_markdown(text) for text in parts[:MAX_LISTED]]
    if language_of(question) == "zh":
        return f"**未涵盖：** {'；'.join(shown)}。"
    return f"**Not covered:** {'; '.join(shown)}."
