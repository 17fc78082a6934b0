"""Long-term memory: facts read from users' words, and contradictions of earlier views.

``python -m tests.bench profile FOLDER/``. FOLDER has ``facts.jsonl`` and maybe ``contradictions.jsonl`` in the form that
``tests/golden/memory/README.md`` describes; that folder is taken without one. A fact counts as found when a sentence
with its words was taken for one of its kind, or for a statement; how many were of the kind itself is told beside it.
``role``, ``holdings``, ``risk`` and ``standing_request`` are statements. Of a conversation whatever memory holds at its
end counts. The pairs are read twice: from their sentences, as from an answer whose question their fields stand for, and
from their fields.

``FATHOM_BENCH_MEMORY_MODEL`` is the root of an OpenAI-compatible endpoint, ``tests.bench.planner.file_model`` for one:
then its model reads facts and sentences, as a run's own model does, all conversations and pairs at once, those within
one in turn. ``FATHOM_BENCH_MEMORY_FAULTS`` set to anything prints what is not right.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fathom.domain.profile.kinds import Kind
from fathom.services.planner.answering.verification.numbers import Number, find_numbers
from fathom.services.planner.classification.classifier import FACT_FILE, MEASURE_FILE
from fathom.services.planner.model.memory import Statement, View
from fathom.services.planner.model.slots import ENTITY, ReadText
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.remembering.comparing import DIRECTION
from fathom.services.planner.remembering.contradictions import Contradiction, find_contradictions, join_contradictions
from fathom.services.planner.remembering.extraction import Extractor, Learnt
from fathom.services.planner.remembering.judging import ContradictionJudge
from fathom.services.planner.remembering.typed_views import ViewTypist
from fathom.services.planner.remembering.views import ViewReader, find_window, name_basis, name_measure, unit_of
from tests.bench.datafetch.datafetch_gold import service
from tests.bench.memory.endpoint import TIMEOUT_S, serve_model
from tests.bench.planner.rewriting import LocalReader
from tests.bench.planner.router import HOME, make_classifier, read_lines

GOLD = Path(__file__).parents[2] / "golden" / "memory"
ComparePair = Callable[[dict[str, Any]], Awaitable["Compared"]]
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
    catalogue = load_catalogue()
    async with (
        serve_model() as (clients, model),
        service(HOME / "data" / "tables", models_dir=str(HOME / "models"), embedding="auto") as (servicer, _),
    ):
        print(f"model: {model or 'none, the classifier and the reader of questions alone'}")
        reader, facts = LocalReader(servicer), catalogue.find("facts", "en").render()
        extractor = Extractor(clients, reader, make_classifier(FACT_FILE), facts, TIMEOUT_S)
        views = ViewReader(reader, make_classifier(MEASURE_FILE))
        typist = ViewTypist(clients, reader, catalogue.find("views", "en").render(), TIMEOUT_S)
        await measure_facts(extractor, read_lines(folder / "facts.jsonl"), model)
        sides = folder / "contradictions.jsonl"
        pairs = read_lines(sides) if sides.exists() else []
        judge = ContradictionJudge(clients, catalogue.find("contradictions", "en").render(), TIMEOUT_S)
        await compare_sides(pairs, "sentences", SentenceReader(views, typist, judge, model).compare)
        await compare_sides(pairs, "fields", FieldReader(views).compare)


async def measure_facts(extractor: Extractor, cases: Sequence[dict[str, Any]], model: str) -> None:
    """Print precision and recall over all conversations."""
    counts: Counter[str] = Counter()
    held = await asyncio.gather(*(learn(extractor, case, model) for case in cases))
    for case, learnt in zip(cases, held, strict=True):
        wanted = list(case["facts"])
        for one in learnt:
            # Each expected fact counts once, however often it was learnt.
            hit = next((fact for fact in wanted if is_same(one, fact)), None)
            counts["right" if hit else "wrong"] += 1
            if hit:
                counts["of its kind"] += one.kind is kind_of(hit)
                wanted.remove(hit)
            else:
                print_fault(f"  {case['id']} nobody said so: {one.kind} {one.text!r}")
        for fact in wanted:
            print_fault(f"  {case['id']} missed: {fact['kind']} {fact['text']!r}")
        counts["missed"] += len(wanted)
    if cases:
        taken, there = counts["right"] + counts["wrong"], counts["right"] + counts["missed"]
        print(
            f"facts: {len(cases)} conversations, {there} facts; {taken} learnt, {counts['right']} of them right"
            f" ({counts['of its kind']} of its kind)"
        )
        print(f"facts: precision {counts['right'] / max(1, taken):.3f}, recall {counts['right'] / max(1, there):.3f}")


async def learn(extractor: Extractor, case: dict[str, Any], model: str) -> list[Learnt]:
    """Return what memory holds after a conversation: a later message replaces or takes back what an earlier one said."""
    held: list[Learnt] = []
    for turn in case["turns"]:
        if turn["role"] != "user":
            continue
        found = await extractor.extract(turn["content"], model, [one.text for one in held])
        gone = [held[place] for place in found.withdrawn]
        held = keep_last([*(one for one in held if one not in gone), *found.facts])
    return held


def keep_last(learnt: Sequence[Learnt]) -> list[Learnt]:
    """Return facts as memory holds them: the last one of each preference, each statement once."""
    last = {(one.kind, one.text if one.kind is Kind.STATEMENT else ""): one for one in learnt}
    return list(last.values())


def kind_of(fact: dict[str, Any]) -> Kind:
    """Return the product's kind of a fact of a case."""
    return KINDS.get(fact["kind"]) or Kind(fact["kind"])


def is_same(one: Learnt, fact: dict[str, Any]) -> bool:
    """Return whether a learnt fact is one of a case: its words, as one of its kind or as a statement."""
    # The words of a case may be a part of the sentence that was learnt, or the other way round.
    said, wanted = (" ".join(text.casefold().split()) for text in (one.text, fact["text"]))
    return one.kind in (kind_of(fact), Kind.STATEMENT) and (said in wanted or wanted in said)


def print_fault(text: str) -> None:
    """Print what is not right, if that is asked for."""
    if os.environ.get("FATHOM_BENCH_MEMORY_FAULTS"):
        print(text)


def write_question(side: dict[str, Any]) -> str:
    """Return the fields of a side as the question that it answers."""
    return " ".join(str(side.get(name) or "") for name in ("measure", "entity", "window"))


@dataclass(frozen=True)
class Compared:
    """Views of both sides of a pair, and where the later ones contradict the earlier ones."""

    earlier: list[View]
    later: list[View]
    found: list[Contradiction]


@dataclass(frozen=True)
class SentenceReader:
    """Reads and compares the sentences of a pair as a run does its answer's, by the model where there is one."""

    views: ViewReader
    typist: ViewTypist
    judge: ContradictionJudge
    model: str

    async def compare(self, case: dict[str, Any]) -> Compared:
        """Return the views of both sides, compared; what a sentence leaves out is that of its question."""
        earlier, side = await self._read(case["earlier"], ()), case["later"]
        asked = ([Statement(side["text"])], write_question(side), earlier, self.model)
        later, judged = await asyncio.gather(self._read(side, earlier), self.judge.find(*asked))
        return Compared(earlier, later, join_contradictions(find_contradictions(later, earlier), judged))

    async def _read(self, side: dict[str, Any], known: Sequence[View]) -> list[View]:
        asked = write_question(side)
        typed = await self.typist.read([Statement(side["text"])], asked, known, self.model)
        if typed is not None:
            return typed
        return await self.views.read(side["text"], await self.views.reader.read(asked), cited_only=False)


@dataclass(frozen=True)
class FieldReader:
    """Reads the fields of a pair: entity, measure and period as datafetch reads them, value and direction."""

    views: ViewReader

    async def compare(self, case: dict[str, Any]) -> Compared:
        """Return the views of both sides, compared."""
        earlier, later = await read_fields(self.views, case["earlier"]), await read_fields(self.views, case["later"])
        return Compared(earlier, later, find_contradictions(later, earlier))


async def read_fields(views: ViewReader, side: dict[str, Any]) -> list[View]:
    """Return the view of a side's fields: entity, measure and period as datafetch reads them, value and direction."""
    asked = write_question(side)
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


async def compare_sides(cases: Sequence[dict[str, Any]], name: str, compare: ComparePair) -> None:
    """Print the share of contradictions that are found, and of the other pairs that raise an alarm."""
    counts: Counter[tuple[bool, bool]] = Counter()
    unread = 0
    # All at once: a model answers many, and whoever plays one sees all that it is asked.
    pairs = await asyncio.gather(*map(compare, cases))
    for case, pair in zip(cases, pairs, strict=True):
        unread += (not pair.earlier) + (not pair.later)
        is_found = bool(pair.found)
        counts[bool(case["contradicts"]), is_found] += 1
        if is_found is not bool(case["contradicts"]):
            print_fault(f"  {case['id']} {'alarm' if is_found else 'missed'}: {pair.earlier} {pair.later}")
    if cases:
        print(f"contradictions from {name}: {unread} of {2 * len(cases)} sides give no view")
        true, false = (sum(count for key, count in counts.items() if key[0] is side) for side in (True, False))
        found, alarms = counts[True, True], counts[False, True]
        print(f"contradictions from {name}: {found} of {true} found ({found / max(1, true):.3f})")
        print(f"contradictions from {name}: {alarms} of {false} false alarms ({alarms / max(1, false):.3f})")
