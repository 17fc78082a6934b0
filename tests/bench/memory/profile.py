"""Long-term memory: facts read from users' words, and contradictions of earlier views, without a language model.

``python -m tests.bench profile FOLDER/``. FOLDER has ``facts.jsonl`` and ``contradictions.jsonl`` in the form that
``tests/golden/memory/README.md`` describes; that folder is taken without one. A fact counts as found when a sentence
with its words was taken for one of its kind; ``role``, ``holdings``, ``risk`` and ``standing_request`` are statements.
Of a conversation whatever was learnt last of a preference counts. The pairs are read twice: from their sentences, as from an answer whose
question their fields stand for, and from their fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fathom.clients import Clients
from fathom.core.telemetry import Telemetry
from fathom.domain.profile.kinds import Kind
from fathom.services.planner.answering.verification.numbers import Number, find_numbers
from fathom.services.planner.classification.classifier import FACT_FILE, MEASURE_FILE
from fathom.services.planner.model.memory import View
from fathom.services.planner.model.slots import ENTITY, ReadText
from fathom.services.planner.remembering.contradictions import find_contradictions
from fathom.services.planner.remembering.extraction import Extractor, Learnt
from fathom.services.planner.remembering.views import (
    DIRECTION,
    ViewReader,
    find_window,
    name_basis,
    name_measure,
    unit_of,
)
from tests.bench.datafetch.datafetch_gold import service
from tests.bench.planner.rewriting import LocalReader
from tests.bench.planner.router import HOME, make_classifier, read_lines

GOLD = Path(__file__).parents[2] / "golden" / "memory"
Read = Callable[[ViewReader, dict[str, Any]], Awaitable[list[View]]]
# Words of the field "direction" that say a sign; comparisons of two things have none.
SIGNS = {
    **dict.fromkeys(("up", "positive", "上涨", "盈利"), 1.0),
    **dict.fromkeys(("down", "negative", "下跌", "亏损"), -1.0),
}
KINDS = {
    "unit": Kind.UNITS,
    **dict.fromkeys(("role", "holdings", "risk", "standing_request"), Kind.STATEMENT),
}


async def run(path: str = "") -> None:
    """Print precision and recall of facts, and how many contradictions are found and falsely alarmed."""
    folder = Path(path) if path else GOLD
    clients = Clients({}, Telemetry("bench", log_level="critical"))
    async with service(HOME / "data" / "tables", models_dir=str(HOME / "models"), embedding="auto") as (servicer, _):
        reader = LocalReader(servicer)
        extractor = Extractor(clients, reader, make_classifier(FACT_FILE))
        views = ViewReader(reader, make_classifier(MEASURE_FILE))
        await measure_facts(extractor, read_lines(folder / "facts.jsonl"))
        await measure_contradictions(views, read_lines(folder / "contradictions.jsonl"))


async def measure_facts(extractor: Extractor, cases: Sequence[dict[str, Any]]) -> None:
    """Print precision and recall over all conversations."""
    counts: Counter[str] = Counter()
    for case in cases:
        said = [turn["content"] for turn in case["turns"] if turn["role"] == "user"]
        # What memory holds at the end: a later message replaces what an earlier one said.
        learnt = keep_last([one for text in said for one in await extractor.extract(text)])
        wanted = list(case["facts"])
        for one in learnt:
            # Each expected fact counts once, however often it was learnt.
            hit = next((fact for fact in wanted if is_same(one, fact)), None)
            counts["right" if hit else "wrong"] += 1
            if hit:
                wanted.remove(hit)
        counts["missed"] += len(wanted)
    if cases:
        taken, there = counts["right"] + counts["wrong"], counts["right"] + counts["missed"]
        print(f"facts: {len(cases)} conversations, {there} facts; {taken} learnt, {counts['right']} of them right")
        print(f"facts: precision {counts['right'] / max(1, taken):.3f}, recall {counts['right'] / max(1, there):.3f}")


def keep_last(learnt: Sequence[Learnt]) -> list[Learnt]:
    """Return what memory holds after a conversation."""
    last = {(one.kind, one.text if one.kind is Kind.STATEMENT else ""): one for one in learnt}
    return list(last.values())


def is_same(one: Learnt, fact: dict[str, Any]) -> bool:
    """Return whether a learnt fact is one of a case: of its kind, with its words."""
    kind = KINDS.get(fact["kind"]) or Kind(fact["kind"])
    # The words of a case may be a part of the sentence that was learnt, or the other way round.
    said, wanted = (" ".join(text.casefold().split()) for text in (one.text, fact["text"]))
    return one.kind is kind and (said in wanted or wanted in said)


async def read_side(views: ViewReader, side: dict[str, Any]) -> list[View]:
    """Return the views of a sentence; what it leaves out is that of its question, which its fields stand for."""
    asked = " ".join(str(side.get(name) or "") for name in ("measure", "entity", "window"))
    question = await views.reader.read(asked)
    return await views.read(side["text"], question, cited_only=False)


async def read_fields(views: ViewReader, side: dict[str, Any]) -> list[View]:
    """Return the view of a side's fields: entity, measure and period as datafetch reads them, value and direction."""
    asked = " ".join(str(side.get(name) or "") for name in ("measure", "entity", "window"))
    read = await views.reader.read(asked)
    if read is None:
        return []
    # Invented names are no entities of the data, and are compared as they are written.
    entities = [slot.value for slot in read.of(ENTITY) if slot.value] or [str(side["entity"]).casefold()]
    measure = name_measure(read) or str(side["measure"]).casefold()
    first, last = find_window(read, None)
    # The fields themselves are the words of the question that the side answers.
    compared = f"{measure}{name_basis(ReadText(asked), read, (), '')}"
    made = View(",".join(sorted(entities)), compared, first, last, 0.0, "", side["text"])
    sign = SIGNS.get(str(side.get("direction")), 0.0)
    # A comparison of two things has no direction of its own.
    if side.get("value") is None:
        return [replace(made, value=sign, unit=DIRECTION)] if sign else []
    said = find_numbers(f"{side['value']} {side.get('unit') or ''}")
    value = -abs(side["value"]) if sign < 0 else side["value"]
    unit = unit_of(said[0]) if said and unit_of(said[0]) else str(side.get("unit") or "")
    return [replace(made, value=value * scale_of(said, side), unit=unit)]


def scale_of(said: Sequence[Number], side: dict[str, Any]) -> float:
    """Return what a value counts in: 1e9 for "billion USD"."""
    return abs(said[0].value / side["value"]) if said and side["value"] else 1.0


async def measure_contradictions(views: ViewReader, cases: Sequence[dict[str, Any]]) -> None:
    """Print the share of contradictions that are found, and of the other pairs that raise an alarm."""
    for name, read in (("sentences", read_side), ("fields", read_fields)):
        await compare_sides(views, cases, name, read)


async def compare_sides(views: ViewReader, cases: Sequence[dict[str, Any]], name: str, read: Read) -> None:
    """Print the figures of one way to read the sides of a pair."""
    counts: Counter[tuple[bool, bool]] = Counter()
    unread = 0
    for case in cases:
        earlier, later = [await read(views, case[side]) for side in ("earlier", "later")]
        # A side without a view can neither contradict nor alarm.
        unread += (not earlier) + (not later)
        counts[bool(case["contradicts"]), bool(find_contradictions(later, earlier))] += 1
    if cases:
        print(f"contradictions from {name}: {unread} of {2 * len(cases)} sides give no view")
        true, false = (sum(count for key, count in counts.items() if key[0] is side) for side in (True, False))
        print(
            f"contradictions from {name}: {counts[True, True]} of {true} found ({counts[True, True] / max(1, true):.3f})"
        )
        print(
            f"contradictions: {counts[False, True]} of {false} false alarms ({counts[False, True] / max(1, false):.3f})"
        )
