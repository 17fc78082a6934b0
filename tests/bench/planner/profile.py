"""Long-term memory: facts read from users' words, and contradictions of earlier views, without a language model.

``python -m tests.bench profile FOLDER/``. FOLDER has ``facts.jsonl`` and ``contradictions.jsonl`` in the form that
``tests/golden/memory/README.md`` describes; that folder is taken without one. A fact counts as found when a sentence
with its words was taken for one of its kind; ``role``, ``holdings``, ``risk`` and ``standing_request`` are statements.
Of a conversation whatever was learnt last of a preference counts. Of the pairs, each side is one sentence of an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fathom.clients import Clients
from fathom.core.telemetry import Telemetry
from fathom.domain.profile.kinds import Kind
from fathom.services.planner.classification.classifier import FACT_FILE, MEASURE_FILE
from fathom.services.planner.model.memory import View
from fathom.services.planner.remembering.contradictions import find_contradictions
from fathom.services.planner.remembering.extraction import Extractor, Learnt
from fathom.services.planner.remembering.views import ViewReader
from tests.bench.datafetch.datafetch_gold import service
from tests.bench.planner.rewriting import LocalReader
from tests.bench.planner.router import HOME, make_classifier, read_lines

GOLD = Path(__file__).parents[2] / "golden" / "memory"
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
        learnt = keep_last([one for text in said for one in await extractor.extract(text)])
        wanted = list(case["facts"])
        for one in learnt:
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
    said, wanted = (" ".join(text.casefold().split()) for text in (one.text, fact["text"]))
    return one.kind is kind and (said in wanted or wanted in said)


async def read_side(views: ViewReader, side: dict[str, Any]) -> list[View]:
    """Return the views of a sentence; what it leaves out is that of its question, which its fields stand for."""
    asked = " ".join(str(side.get(name) or "") for name in ("measure", "entity", "window"))
    question = await views.reader.read(asked)
    return await views.read(side["text"], question, cited_only=False)


async def measure_contradictions(views: ViewReader, cases: Sequence[dict[str, Any]]) -> None:
    """Print the share of contradictions that are found, and of the other pairs that raise an alarm."""
    counts: Counter[tuple[bool, bool]] = Counter()
    for case in cases:
        earlier, later = [await read_side(views, case[side]) for side in ("earlier", "later")]
        counts[bool(case["contradicts"]), bool(find_contradictions(later, earlier))] += 1
    if cases:
        true, false = (sum(count for key, count in counts.items() if key[0] is side) for side in (True, False))
        print(f"contradictions: {counts[True, True]} of {true} found ({counts[True, True] / max(1, true):.3f})")
        print(
            f"contradictions: {counts[False, True]} of {false} false alarms ({counts[False, True] / max(1, false):.3f})"
        )
