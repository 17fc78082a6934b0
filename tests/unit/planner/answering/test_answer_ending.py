"""From the model's last words to the answer: one correction, figures with one repair, references, missing items, marks."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pytest

from fathom.api.common.v1.common_pb2 import (
    MISSING_REASON_NO_DATA_IN_PERIOD,
    MISSING_REASON_UNKNOWN_ENTITY,
    MissingItem,
)
from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1.trajectory_pb2 import CodeRecord, Figure
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.core.errors import DependencyFailed, NotFound
from fathom.domain import frames
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolCall, Usage
from fathom.services.planner.answering.rendering.coder import PolicyCoder, PolicyJudge
from fathom.services.planner.answering.rendering.figures import NO_FIGURE, Figures
from fathom.services.planner.answering.rendering.finish import CHECKED, CheckedEnding, LengthBand
from fathom.services.planner.answering.rendering.material import estimate_tokens, list_material
from fathom.services.planner.answering.rendering.missing import append_missing
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.model.episode import (
    Answer,
    Episode,
    FindingKind,
    Limits,
    Material,
    MaterialKind,
    Step,
    Task,
    ToolResult,
    ToolStatus,
)
from fathom.services.planner.proto.episode import answer_to_proto, finding_to_proto
from fathom.services.planner.tools.tool import NewMaterial, Reply
from tests.support.coder import Coder
from tests.support.policy import FakePolicy, PolicyRequest

FIGURE = "<figure>\n```python\nimport plotly.express as px\npx.line(sheet_1)\n```\n</figure>"


@dataclass
class Kept:
    """A store that holds one sheet, or has lost it."""

    lost: bool = False

    async def get(self, key: str, sha256: str | None = None) -> bytes:
        if self.lost:
            raise NotFound("object", key)
        pa = frames.arrow()
        days = [datetime(2020, 12, 31), datetime(2021, 1, 4)]
        return frames.write_table(pa.table({"date": pa.array(days), "AAPL.close": [130.74, 127.5]}))


def sheet() -> Material:
    item = Sheet(
        id="t1", title="Apple: close, daily", rows=2, digest="t1: 2 rows\n2020-12-31 130.74\n2021-01-04 127.50"
    )
    item.columns.add(name="date", type="timestamp[us]")
    item.columns.add(name="AAPL.close", type="double", unit="USD", entity="AAPL", indicator="close")
    return Material(1, MaterialKind.SHEET, item, "sheet_1")


def code() -> Material:
    return Material(2, MaterialKind.CODE, CodeRecord(id="c", code="print(x)", stdout="return 12.34\n", ok=True))


def missing() -> Material:
    item = MissingItem(subject="Tencent", reason=MISSING_REASON_UNKNOWN_ENTITY, nearest=["NetEase"])
    return Material(3, MaterialKind.MISSING, item)


def passage() -> Material:
    return Material(
        4, MaterialKind.PASSAGE, Document(id="n", title="News", text="The bank raised its rate to 4 per cent.")
    )


def episode(*drafts: str, seconds: float = 100.0, material: Sequence[Material] | None = None) -> Episode:
    """Return an episode whose rounds wrote ``drafts``; the first one collected the material."""
    # One of each kind, numbered 1 to 4 in this order.
    known = tuple(material if material is not None else (sheet(), code(), missing(), passage()))
    task = Task("run_1", "How did Apple do?", "m", Sampling(), Limits(10, 10_000, time.monotonic() + seconds))
    made = Episode(task, ())
    call = ToolCall("c1", "finish", json.dumps({"answer": "x"}))
    for index, new in enumerate(drafts or ("",)):
        completion = Completion((1,), (2,), (0.0,), "", (call,), FinishReason.TOOL_CALLS, 0, 0, Usage(), True, "m")
        result = ToolResult(ToolCall("c0", "data", "{}"), "", "", ToolStatus.OK, 0, known)
        made.append(Step(index, (Message(Role.TOOL, new),), completion, (result,) if index == 0 else ()))
    return made


def ending(cell: Any = None, coder: Any = None, **settings: Any) -> CheckedEnding:
    figures = Figures(cell or Cell(), coder or Coder(""))
    return CheckedEnding(Evidence(Kept()), figures, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("band", "detail"),
    [
        (LengthBand(), None),
        (LengthBand(10, 30), None),
        (LengthBand(40, 50), "22 visible characters; at least 40 are wanted"),
        (LengthBand(0, 20), "22 visible characters; at most 20 are wanted"),
    ],
)
async def test_an_answer_outside_of_the_wanted_length_is_marked_and_not_returned(
    band: LengthBand, detail: str | None
) -> None:
    # As a reader sees it: "Apple closed at 130.7." without emphasis and citation.
    answer = await ending(correct=True, band=band).finish("**Apple** closed at 130.7. [1]", episode(), False)
    assert isinstance(answer, Answer)
    found = [mark for mark in answer.findings if mark.kind is FindingKind.LENGTH]
    assert [mark.detail for mark in found] == ([] if detail is None else [detail])
    assert all(mark.start == mark.end == len(answer.markdown) for mark in found)


@dataclass
class Cell:
    """Draws when the code says ``px``; fails when it says ``boom``; is out of reach when it says ``gone``."""

    codes: list[str] = field(default_factory=list)

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        source = arguments["code"]
        self.codes.append(source)
        if "gone" in source:
            raise DependencyFailed("sandbox", "is gone")
        ok = "boom" not in source
        figures = [Figure(id=f"fig_{len(self.codes)}", title="t")] if ok and "px" in source else []
        traceback = "" if ok else "Traceback\nKeyError: 'Date'"
        record = CodeRecord(id=call_id, code=source, ok=ok, figures=figures, traceback=traceback)
        status = ToolStatus.OK if ok else ToolStatus.FAILED
        return Reply(status, {"error": "KeyError"}, "", (NewMaterial(MaterialKind.CODE, record),))


async def final(text: str, made: CheckedEnding | None = None, known: Episode | None = None) -> Answer:
    answer = await (made or ending(correct=False)).finish(text, known or episode(), False)
    assert isinstance(answer, Answer)
    return answer


def doubts(answer: Answer) -> list[tuple[FindingKind, str]]:
    for mark in answer.findings:
        if mark.kind is not FindingKind.UNRESOLVED:
            assert answer.markdown[mark.start : mark.end] == mark.text
    return [(mark.kind, mark.text) for mark in answer.findings]


async def test_a_draft_that_does_not_hold_goes_back_once_with_the_list_and_the_material() -> None:
    made, draft = ending(), "Apple closed at 999.99 on 2020-12-31 [1], see [9].\n\nIt gained 12.3%."
    asked = await made.finish(draft, episode(), False)
    assert isinstance(asked, Message)
    assert (asked.role, asked.tool_call_id) == (Role.TOOL, "c1")
    head = json.loads(asked.content.splitlines()[0])
    assert (head["tool"], head["status"]) == ("finish", "invalid")
    for words in ("999.99", "there is no material 9", "no citation says", "[1] table sheet_1", "[3] MISSING Tencent"):
        assert words in asked.content
    answer = await made.finish(draft, episode("", asked.content), False)
    # The request for the first one is found in the episode, so that another planner that goes on asks for none either.
    assert isinstance(answer, Answer), "a second correction is never asked for"
    assert answer.unresolved == (9,)
    assert "[9]" not in answer.markdown
    assert {kind for kind, _ in doubts(answer)} == {FindingKind.NUMBER, FindingKind.UNCITED, FindingKind.UNRESOLVED}


# A correction takes a round and some seconds: without either, what there is must be the answer.
@pytest.mark.parametrize(("last", "seconds", "correct"), [(True, 100, True), (False, 3, True), (False, 100, False)])
async def test_no_correction_without_a_round_or_time_or_leave(last: bool, seconds: float, correct: bool) -> None:
    made = ending(correct=correct)
    assert isinstance(await made.finish("It was 999.99 [1].", episode(seconds=seconds), last), Answer)


async def test_prose_is_corrected_by_a_user_message_and_good_text_by_none() -> None:
    known = episode()
    known.steps[0] = Step(0, (), Completion((1,), (2,), (0.0,), "x", (), FinishReason.STOP, 0, 0, Usage(), True, "m"),
                          known.steps[0].results)  # fmt: skip
    asked = await ending().finish("It was 999.99 [1].", known, False)
    assert isinstance(asked, Message)
    assert asked.role is Role.USER
    assert CHECKED in asked.content
    good = "Apple closed at 130.74 on 2020-12-31 [1], after 12.3% [2]. Tencent is unknown [3]."
    answer = await ending().finish(good, episode(), False)
    assert isinstance(answer, Answer)
    assert (answer.markdown, answer.cited, answer.findings) == (good, (1, 2, 3), ())


async def test_a_figure_is_drawn_where_its_tag_stands_and_its_record_is_citable() -> None:
    answer = await final(f"Before [1].\n\n{FIGURE}\n\nAfter [2]. Tencent.")
    assert answer.markdown == "Before [1].\n\n{{figure:fig_1}}\n\nAfter [2]. Tencent."
    (record,) = answer.material
    assert (record.number, record.kind, record.item.ok) == (5, MaterialKind.CODE, True)
    assert 5 in answer.cited
    assert answer.findings == ()
    assert [item.number for item in answer_to_proto(answer).material] == [5]


async def test_failed_code_is_mended_exactly_once() -> None:
    cell, coder = Cell(), Coder("px.line(sheet_1)")
    text = "<figure>\n```python\nboom(sheet_1)\n```\n</figure>"
    answer = await final(text, ending(cell, coder, correct=False))
    assert coder.asked == ["Traceback\nKeyError: 'Date'"]
    assert cell.codes == ["boom(sheet_1)", "px.line(sheet_1)"]
    assert "{{figure:fig_2}}" in answer.markdown
    assert [(item.number, item.item.ok) for item in answer.material] == [(5, False), (6, True)]


@pytest.mark.parametrize("mended", ["", "boom(1)", "boom(sheet_1)", "gone()"])
async def test_code_that_stays_broken_leaves_a_chip_and_its_table(mended: str) -> None:
    cell, coder = Cell(), Coder(mended)
    text = "Start.\n\n<figure>\n```python\nboom(sheet_1)\n```\n</figure>\n\nEnd. Tencent."
    answer = await final(text, ending(cell, coder, correct=False))
    assert len(coder.asked) == 1
    # Nothing, and the same code again, are not worth a second run.
    assert len(cell.codes) == (2 if mended in ("boom(1)", "gone()") else 1)
    number = answer.material[-1].number
    assert answer.markdown == f"Start.\n\n{{{{figure:code_{number}}}}}\n\n{{{{table:sheet_1}}}}\n\nEnd. Tencent."
    assert doubts(answer) == [(FindingKind.FIGURE, f"{{{{figure:code_{number}}}}}")]


async def test_code_without_a_figure_says_so_and_many_figures_are_bounded() -> None:
    coder = Coder("")
    await final("<figure>\n```python\nx = 1\n```\n</figure>", ending(Cell(), coder, correct=False))
    assert coder.asked == [NO_FIGURE]
    cell = Cell()
    answer = await final("\n\n".join([FIGURE] * 10), ending(cell, correct=False))
    # Of ten: the other two stay in the answer as code, for a reader to see that there was something.
    assert len(cell.codes) == 8
    assert answer.markdown.count("```python") == 2


async def test_html_is_escaped_and_unknown_references_are_marked() -> None:
    answer = await final("<script>alert(1)</script> {{table:sheet_9}} {{table:sheet_1}} Tencent")
    assert answer.markdown.startswith("\\<script>alert(1)\\</script>")
    assert doubts(answer) == [(FindingKind.UNRESOLVED, "{{table:sheet_9}}")]


async def test_wrong_cells_of_typed_tables_and_repetitions_are_marked() -> None:
    table = "| a | b |\n|---|---|\n| x | 130.74 |\n| y | 131.99 |"
    said = "The company gained a lot over the years and its drawdown was deep [2]."
    answer = await final(f"{said} Tencent.\n\n{table}\n\n{said}")
    assert doubts(answer) == [(FindingKind.UNSUPPORTED, "131.99"), (FindingKind.REPEATED, said)]
    assert finding_to_proto(answer.findings[0]).kind == 4


@pytest.mark.parametrize(
    ("question", "said"),
    [("How was Apple last year?", "nearest data: 2022-12-28"), ("苹果去年如何？", "最近的数据：2022-12-28")],
)
def test_where_the_data_end_is_said_in_the_readers_language(question: str, said: str) -> None:
    reason = MISSING_REASON_NO_DATA_IN_PERIOD
    item = MissingItem(subject="AAPL", reason=reason, period="2025", nearest=["2022-12-28"])
    note = append_missing("", [Material(3, MaterialKind.MISSING, item)], question)
    assert "AAPL 2025" in note
    assert said in note


async def test_omitted_missing_items_are_named_in_the_readers_language() -> None:
    answer = await final("Apple closed at 130.74 [1].")
    assert answer.markdown.endswith("\n\n**Missing:** Tencent – unknown here (nearest: NetEase) [3].")
    assert 3 in answer.cited
    assert append_missing("苹果收于130.74[1]。", [missing()], "苹果怎么样？").endswith(
        "**缺失：**Tencent – 未收录（相近：NetEase） [3]。"
    )
    for silent in ("Tencent is not known.", "Not known [3]."):
        assert append_missing(silent, [missing()], "x") == silent
    # A subject comes from a question or a source: as Markdown it could end the line and begin a heading.
    hostile = Material(9, MaterialKind.MISSING, {"subject": "<b>*x*\n\n# y", "reason": "NO_MATCH"})
    assert "\\<b\\>\\*x\\* \\# y" in append_missing("", [hostile], "x")


def test_where_nothing_matches_the_source_says_what_it_lacks() -> None:
    lacks = {"subject": "Microsoft", "reason": "NO_MATCH", "detail": "no source keeps free cash flow"}
    said = append_missing("Nothing.", [Material(2, MaterialKind.MISSING, lacks)], "How large was it?")
    assert said.endswith("**Missing:** Microsoft – no source keeps free cash flow [2].")


async def test_words_that_no_series_bears_are_no_gap_beside_the_users_own_documents() -> None:
    known = episode(material=[missing(), passage()])
    (result,) = known.steps[0].results
    asked = replace(result, call=ToolCall("c0", "data", json.dumps({"question": "What did the bank do?"})))
    named = replace(result, call=ToolCall("c0", "data", json.dumps({"entities": ["Tencent"]})))
    for corpora, tried, is_named in ((("docs_1",), asked, False), (("docs_1",), named, True), ((), asked, True)):
        made = Episode(replace(known.task, corpora=corpora), ())
        made.append(replace(known.steps[0], results=(tried,)))
        answer = await final("The bank raised its rate to 4 per cent [4].", known=made)
        assert ("Tencent" in answer.markdown) is is_named


async def test_of_a_table_that_is_lost_nothing_is_said() -> None:
    made = CheckedEnding(Evidence(Kept(lost=True)), correct=False)  # type: ignore[arg-type]
    assert (await final("It was 999.99 on 2019-05-05 [1]. Tencent.", made)).findings == ()


async def test_without_material_numbers_are_unsupported_and_nothing_is_sent_back() -> None:
    answer = await ending().finish("It is 1,234.5 in 2020.", episode(material=()), False)
    assert isinstance(answer, Answer)
    assert {kind for kind, _ in doubts(answer)} == {FindingKind.UNSUPPORTED}


@pytest.mark.parametrize(
    "text",
    [
        # Each is the beginning of something that a pattern looks for, thousands of times, and never its end.
        "1," * 8_000,
        "2020-" * 4_000,
        "一" * 12_000,
        "1 " * 8_000,
        "{{" * 8_000,
        "[" * 12_000,
        "<" * 12_000,
        "`" * 12_001,
    ],
)
async def test_no_answer_takes_long_to_check(text: str) -> None:
    started = time.process_time()
    await final(text)
    assert time.process_time() - started < 10, "seconds of this process; quadratic work would take minutes"


def test_the_material_list_keeps_ids_within_its_budget_and_drops_in_order() -> None:
    failed = Material(5, MaterialKind.CODE, CodeRecord(code="broken()" * 40, traceback="E\n" * 200 + "KeyError: x"))
    long = Material(6, MaterialKind.PASSAGE, Document(title="Long", text="word " * 800))
    material = [sheet(), code(), missing(), passage(), failed, long]
    whole = list_material(material, 100_000)
    assert whole.dropped == ()
    assert "broken()" in whole.text
    sizes = [list_material(material, budget) for budget in (1_200, 600, 200, 0)]
    # A budget of none cannot be met: the numbers and what is missing stay in any case.
    for budget, made in zip((1_200, 600, 200), sizes, strict=False):
        assert made.tokens <= budget
        assert estimate_tokens(made.text) <= made.tokens
    assert sizes[0].dropped[0] == "failed of [5]"
    for made in sizes:
        assert all(f"[{number}]" in made.text for number in range(1, 7))
        assert "MISSING Tencent: unknown entity; nearest: NetEase" in made.text
    order = [name.split(" of ")[0] for name in sizes[-1].dropped]
    assert order == sorted(order, key=["failed", "source", "middle", "rows", "printed", "passage", "columns"].index)


@dataclass
class Said(FakePolicy):
    """Policy with one reply."""

    text: str
    asked: list[tuple[str, str, tuple[Message, ...]]] = field(default_factory=list)

    async def write(self, request: PolicyRequest) -> str:
        self.asked.append((request.request_id, request.task.model, request.view.messages))
        return self.text


async def test_the_coder_gets_code_and_traceback_and_its_fenced_block_counts() -> None:
    policy = Said("Sure:\n```python\npx.line(sheet_1)\n```\nDone.")
    assert await PolicyCoder(policy, "mend it").mend("r", episode(), "boom()", "KeyError: 'Date'") == "px.line(sheet_1)"
    (request, model, messages) = policy.asked[0]
    assert (request, model) == ("r", "coder")
    for words in ("boom()", "KeyError: 'Date'", "sheet_1"):
        assert words in messages[1].content
    # Prose in place of code must not be run.
    assert await PolicyCoder(Said("no code"), "mend it").mend("r", episode(), "x", "y") == ""


async def test_a_judge_marks_false_claims_once_and_a_broken_one_is_named() -> None:
    said = "The bank raised its rate to 4 per cent [4]. Tencent."
    unquoted = '{"claims": [{"statement": 1, "words": "raised its rate", "quote": ""}]}'
    policy = Said(f"Well {unquoted}")
    made = ending(correct=False, judge=PolicyJudge(policy, "judge them"))
    answer = await made.finish(said, episode(), False)
    assert isinstance(answer, Answer)
    assert doubts(answer) == [(FindingKind.EVENT, "raised its rate")]
    ((_, model, messages),) = policy.asked
    assert model == "judge"
    # What the statement cites, and nothing else.
    assert "The bank raised its rate to 4 per cent [4]." in messages[1].content
    assert "sheet_1" not in messages[1].content
    # Nonsense, a statement that there is not, a form that there is not.
    for reply in ("{nonsense", unquoted.replace("1,", "7,"), unquoted.replace("quote", "guess")):
        made = ending(correct=False, judge=PolicyJudge(Said(reply), "judge them"))
        assert [mark.kind for mark in (await final(said, made)).findings] == [FindingKind.UNCHECKED]


async def test_a_long_answer_is_judged_in_parts_with_statements_numbered_throughout() -> None:
    said = "\n\n".join(f"The bank raised its rate to 4 per cent, say {'I' * n} [4]." for n in range(1, 13))
    policy = Said('{"claims": [{"statement": 2, "words": "raised its rate", "quote": ""}]}')
    answer = await final(said, ending(correct=False, judge=PolicyJudge(policy, "judge them")))
    assert len({request_id for request_id, _, _ in policy.asked}) == len(policy.asked) == 2
    marked = [mark.start for mark in answer.findings if mark.kind is FindingKind.EVENT]
    assert [said[:start].count("\n\n") for start in marked] == [1, 11]
