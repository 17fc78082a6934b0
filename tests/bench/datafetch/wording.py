"""Programs put into words and read again: how many come back as they were.

``python -m tests.bench wording``. A sample of the programs that the reader has learnt from is written as questions by
``services/planner/questions/wording.yaml``, in the language of their example, and read by the learned reader. Steps that
others refer to stand in their place on both sides. The baseline is the example's own question, without its
conversation.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path

from fathom.domain.programs.language import SPECIAL, walk
from fathom.services.planner.model.programs import Program, parse_steps
from fathom.services.planner.questions.wording import GENITIVE, put_in_place, write_question
from tests.bench.datafetch.datafetch_gold import service
from tests.bench.planner.rewriting import LocalReader
from tests.bench.planner.router import HOME

EXAMPLES = Path(__file__).parents[3] / "services" / "datafetch" / "programs" / "examples"
# Every so many of the examples; each is read twice.
STRIDE = 40


def list_examples() -> list[tuple[str, str, Program]]:
    """Return question, language and program of a sample of the examples that are no follow-ups."""
    found = []
    for file in sorted(EXAMPLES.glob("*.jsonl")):
        for line in islice(file.read_text(encoding="utf-8").splitlines(), 0, None, STRIDE):
            row = json.loads(line)
            program = Program("calculation", parse_steps(row["program"]), 1.0, 1.0)
            if not row.get("turns") and not program.functions & SPECIAL:
                found.append((row["question"], row["language"], program))
    return found


def describe(program: Program | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the shape and the words of a program with its steps in the place of their numbers."""
    if program is None:
        return (), ()
    whole = Program(program.kind, tuple(put_in_place(program.steps)), 1.0, 1.0)
    return whole.shape, tuple(GENITIVE.sub("", words).casefold() for words in whole.words)


async def run() -> None:
    """Print the shares that come back, and the functions that are lost most often."""
    counts: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    async with service(HOME / "data" / "tables", models_dir=str(HOME / "models"), embedding="auto") as (servicer, _):
        reader = LocalReader(servicer)
        for question, language, program in list_examples():
            written = write_question(program, language == "zh")
            for name, text in (("in our words", written), ("as it was asked", question)):
                read = await reader.read_program(text)
                (shape, words), (back, said) = describe(program), describe(read.program if read else None)
                counts[f"{name}: all"] += 1
                counts[f"{name}: same program"] += (shape, words) == (back, said)
                counts[f"{name}: same calculation"] += shape == back
                if name == "in our words" and shape != back:
                    lost.update({one.name for step in program.steps for one in walk(step) if hasattr(one, "name")})
    for name in ("in our words", "as it was asked"):
        total = counts[f"{name}: all"]
        for what in ("same calculation", "same program"):
            print(
                f"{name:16} {what:17} {counts[f'{name}: {what}']} of {total} = {counts[f'{name}: {what}'] / total:.1%}"
            )
    print("functions of those that come back as another calculation:", lost.most_common(12))
