"""The two turns of a correction as they are played: a draft with one planted error, the list of findings, the draft mended.

``CheckedEnding`` writes the list and checks the second draft; the model between is played by one that takes out each
sentence that the list names. So the bench measures whether the list suffices (``fixed``: no finding is left, the wrong
words are gone, what stood beside the error is unchanged and cited), not how well a model writes. The baseline is a
second turn that says the draft again. ``python -m tests.bench fixing`` runs it; it needs the bundled data.
"""

from __future__ import annotations

import ast
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from fathom.domain.chat.hermes import format_tool_call, parse_tool_calls
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolCall, ToolSpec, Usage
from fathom.services.planner.answering.rendering.finish import MENDED, CheckedEnding
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.model.episode import Answer, Episode, Limits, Material, Step, Task, ToolResult, ToolStatus
from tests.bench.planner.planted.cases import CASES, FRESH, HELD_OUT, LATER, Planted
from tests.bench.planner.planted.material import shelf

QUESTION = "What happened to these companies and rates?"
BESIDE = "Microsoft gained 435.4% over the period [7]."
TOOLS = (ToolSpec("finish", "", "{}"),)
LISTED = re.compile(r"""^- [a-z ]+: ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): .+$""", re.MULTILINE)
# Up to a full stop that is followed by a blank or the end, so that "3.5" ends no sentence.
SENTENCE = re.compile(r"[^.!?。！？]*(?:[.!?](?!\s|$)[^.!?。！？]*)*(?:[.!?。！？]|$)[ \t]*")
Fixer = Callable[[Sequence[Message]], Awaitable[str]]


async def run() -> None:
    """Recall of the first turn, and both rates of the second, per kind of error."""
    cases = (*CASES, *HELD_OUT, *LATER, *FRESH)
    async with shelf() as found:
        ending = CheckedEnding(Evidence(found.store))
        for name, fixer in (("cutting", by_cutting), ("said again", said_again)):
            count: Counter[tuple[str, str]] = Counter()
            for case in cases:
                count.update((case.kind, what) for what in await outcomes(case, ending, found.material, fixer))
            for kind in ("number", "time", "event"):
                whole = count[kind, "planted"]
                rates = [f"{what} {count[kind, what] / whole:.3f}" for what in ("detected", "fixed", "restored")]
                cited = count[kind, "cited"] / max(1, count[kind, "detected"])
                print(f"{name:>12} {kind:>6} of {whole}: {', '.join(rates)}, citations kept {cited:.3f}")


async def outcomes(case: Planted, ending: CheckedEnding, material: Sequence[Material], fixer: Fixer) -> list[str]:
    """Return what became of one planted error."""
    draft = f"{BESIDE}\n\n{case.wrong}"
    episode = make_episode(draft, material)
    listed = await ending.finish(draft, episode, False)
    if isinstance(listed, Answer):
        return ["planted"]
    call = episode.steps[-1].completion.tool_calls[0]
    said = Message(Role.ASSISTANT, format_tool_call("finish", {"answer": draft}), (call,))
    again = await fixer((Message(Role.USER, QUESTION), said, listed))
    answer = await ending.finish(again, make_episode(again, material), True)
    assert isinstance(answer, Answer)
    clean = not any(mark.kind in MENDED for mark in answer.findings)
    # Behind the line that says what was taken away.
    beside = BESIDE in answer.markdown
    fixed = clean and beside and case.wrong not in answer.markdown
    restored = fixed and case.true in answer.markdown
    return ["planted", "detected", *(["fixed"] * fixed), *(["restored"] * restored), *(["cited"] * (7 in answer.cited))]


async def by_cutting(messages: Sequence[Message]) -> str:
    """The draft without the sentences that the list names, as a model that does what it is told would answer."""
    draft = answer_of(parse_tool_calls(messages[1].content)[1][0])
    # literal_eval undoes the quotation of the list and runs no code.
    wrong = [str(ast.literal_eval(text)) for text in LISTED.findall(messages[2].content)]
    lines = [[part for part in SENTENCE.findall(line) if part] for line in draft.split("\n")]
    left = ["".join(part for part in line if not any(text in part for text in wrong)) for line in lines]
    return "\n".join(left).strip()


async def said_again(messages: Sequence[Message]) -> str:
    """The baseline."""
    return answer_of(parse_tool_calls(messages[1].content)[1][0])


def answer_of(call: ToolCall) -> str:
    import json

    return str(json.loads(call.arguments_json)["answer"])


def make_episode(draft: str, material: Sequence[Material], run_id: str = "run_1") -> Episode:
    """Make an episode that has collected the material and has just said the draft."""
    task = Task(run_id, QUESTION, "rules", Sampling(), Limits(10, 10_000, time.monotonic() + 100))
    call = parse_tool_calls(format_tool_call("finish", {"answer": draft}))[1][0]
    result = ToolResult(ToolCall("c0", "data", "{}"), "", "", ToolStatus.OK, 0, tuple(material))
    completion = Completion((1,), (2,), (0.0,), "", (call,), FinishReason.TOOL_CALLS, 0, 0, Usage(), True, "rules")
    episode = Episode(task, ())
    episode.append(Step(0, (Message(Role.USER, QUESTION),), completion, (result,)))
    return episode
