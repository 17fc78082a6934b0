"""Script what the replayed run says: a comparison of two made-up price series with a table, a figure and a failed cell.

The series are synthetic (a seeded random walk under the names AAA and BBB): they test the page, not a market.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1.datafetch_pb2 import Column, Sheet
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.retrieval.v1.retrieval_pb2 import Document
from fathom.domain import frames

QUESTION = "Compare the price performance and the maximum drawdown of AAA and BBB from 2015 to 2020"
ANSWER = """## AAA returned more, BBB fell less deeply

From 2015-01-02 to 2020-12-31 **AAA** gained *far more* than **BBB**, with a deeper maximum drawdown [2][3]. \
A drawdown is the loss from the highest value reached so far [1].

| measure | AAA | BBB |
|---|---:|---:|
| total return | 148.2 % | 96.4 % |
| maximum drawdown | −38.7 % | −31.2 % |

{{table:sheet_1}}

Both lines start at 100; hover for the values of a day.

{{figure:fig_1}}

- CCC has no data here; the nearest names are `AAA` and `BBB`.
- See the [method](https://example.com/drawdown) and {{table:sheet_9}}.
"""
CODE = """import plotly.express as px
price = sheet_1.set_index("date")
growth = price / price.iloc[0] * 100
drawdown = price / price.cummax() - 1
print(drawdown.min())
px.line(growth, title="Growth of 100")"""
HOSTILE = """# <img src=x onerror="window.hacked=1">

<script>window.hacked = 1</script> <svg/onload=window.hacked=1> **<b onmouseover=window.hacked=1>bold</b>**

[link](javascript:window.hacked=1) [data](data:text/html,<script>window.hacked=1</script>) \
[tab](java\tscript:alert(1)) ![picture](https://example.com/x.png) [1]

{{table:<img src=x onerror=window.hacked=1>}} {{figure:"><script>window.hacked=1</script>}}

```html
<script>window.hacked = 1</script>
```
"""
SHEET_ID = "t0123456789abcdef01234567"


def played_by(name: str) -> str:
    """The model that a run names, or the one that plays the planner's role."""
    return "rules" if name == "planner" else name


def walk(days: int, drift: float, seed: int) -> list[float]:
    """A seeded geometric random walk from 100 on."""
    generator, value, values = random.Random(seed), 100.0, []
    for _ in range(days):
        values.append(round(value, 4))
        value *= 1 + generator.gauss(drift, 0.016)
    return values


def trading_days(count: int) -> list[date]:
    """Weekdays from 2015-01-02 on."""
    day = date(2015, 1, 2)
    days: list[date] = []
    while len(days) < count:
        if day.weekday() < 5:
            days.append(day)
        day += timedelta(days=1)
    return days


@dataclass
class Script:
    """The events of a run; ``figures`` are plotly JSON, shown as fig_1, fig_2, …"""

    answer: str = ANSWER
    code: str = CODE
    days: int = 1_510
    figures: list[dict[str, Any]] = field(default_factory=list)
    figure_refs: list[common.ObjectRef] = field(default_factory=list)
    """The keys under which figures are stored; set by the gateway's double."""
    reading: trajectory.Reading | None = None
    clarification: trajectory.Clarification | None = None
    form: planner.AnswerForm = planner.ANSWER_FORM_UNSPECIFIED
    reasoning: str = ""
    """Thoughts of a thinking model before its first call."""
    findings: list[trajectory.Finding] = field(default_factory=list)
    answer_material: list[trajectory.Material] = field(default_factory=list)
    cited: list[int] = field(default_factory=lambda: [1, 2, 3])
    """Numbers of the material that the answer cites."""
    cached: str = ""
    """Tool whose results were held from equal calls."""
    hits: list[Any] = field(
        default_factory=lambda: [
            {"id": "note-drawdown", "time": "2024-03-01", "title": "Drawdown", "summary": "largest loss from a peak"}
        ]
    )
    """Hits that a search returns."""
    drafts: list[str] = field(default_factory=list)
    """Drafts that the model wrote before its answer, each taken back by a check."""

    def __post_init__(self) -> None:
        pa = frames.arrow()
        columns: dict[str, Any] = {"date": pa.array(trading_days(self.days)).cast(pa.timestamp("us"))}
        columns["AAA.close_adj"] = walk(self.days, 0.0008, 1)
        columns["BBB.close_adj"] = [None, *walk(self.days - 1, 0.0005, 2)]
        self.arrow = frames.write_table(pa.table(columns))
        self.sheet = Sheet(id=SHEET_ID, title="Adjusted close of AAA and BBB", rows=self.days)
        self.sheet.digest = f"{self.sheet.id}: {self.days:,} rows × 3 columns"
        self.sheet.columns.add(name="date", type="timestamp[us]")
        for name in ("AAA", "BBB"):
            self.sheet.columns.append(
                Column(
                    name=f"{name}.close_adj",
                    type="double",
                    unit="USD",
                    indicator="close_adj",
                    entity=name,
                    source="synthetic 1.0",
                    as_of="2020-10-15",
                    nulls=int(name == "BBB"),
                )
            )

    def conversation(self, request: planner.RunRequest) -> str:
        return request.conversation_id or f"conv_{request.request_id}"

    def material(self) -> list[trajectory.Material]:
        passage = Document(id="note-drawdown", title="Drawdown", source="own notes", type="note")
        passage.text = "The maximum drawdown is the largest loss from a peak to a later trough. <b>Not bold.</b>" * 3
        passage.publish_time.FromJsonString("2024-03-01T00:00:00Z")
        figures = [
            trajectory.Figure(id=f"fig_{number}", title=figure["layout"]["title"]["text"], ref=ref)
            for number, (figure, ref) in enumerate(zip(self.figures, self.figure_refs, strict=True), 1)
        ]
        out = "AAA.close_adj   -0.387\nBBB.close_adj   -0.312\ndtype: float64\n"
        code = trajectory.CodeRecord(id="call_5", code=self.code, stdout=out, ok=True, figures=figures, duration_ms=412)
        missing = common.MissingItem(
            subject="CCC", reason=common.MISSING_REASON_UNKNOWN_ENTITY, nearest=["AAA", "BBB"], detail="no data for CCC"
        )
        return [
            trajectory.Material(number=1, passage=passage),
            trajectory.Material(number=2, sheet=self.sheet, variable="sheet_1"),
            trajectory.Material(number=3, code=code),
            trajectory.Material(number=4, missing=missing),
        ]

    def calls(self) -> Iterator[tuple[policy.ToolCall, trajectory.ToolResult, list[trajectory.Material]]]:
        """Every tool call with its result and what it added."""
        passage, sheet, code, missing = self.material()
        broken = '{"tool":"python","status":"failed","error":"KeyError: \'Date\'"}\n\n## traceback\nKeyError: \'Date\''
        plan: list[tuple[str, str, dict[str, Any], str, trajectory.ToolStatus, int, list[trajectory.Material]]] = [
            ("search", "find out how drawdown is defined", {"query": "maximum drawdown"},
             json.dumps({"tool": "search", "status": "ok", "hits": self.hits}), trajectory.TOOL_STATUS_OK, 12, []),
            ("fetch", "read the definition", {"id": "note-drawdown"}, '{"tool":"fetch","status":"ok"}\n\nThe maximum…',
             trajectory.TOOL_STATUS_OK, 8, [passage]),
            ("data", "get the daily prices of AAA, BBB and CCC", {"entities": ["AAA", "BBB", "CCC"]},
             '{"tool":"data","status":"ok"}\n\nsheet_1: 1,510 rows × 3 columns', trajectory.TOOL_STATUS_OK, 64,
             [sheet, missing]),
            ("python", "compute growth and drawdown", {"code": "sheet_1['Date']"}, broken,
             trajectory.TOOL_STATUS_FAILED, 31, []),
            ("python", "compute again with the right column", {"code": CODE}, '{"tool":"python","status":"ok"}',
             trajectory.TOOL_STATUS_OK, 412, [code]),
        ]  # fmt: skip
        for index, (name, intent, arguments, content, status, took, material) in enumerate(plan, 1):
            call = policy.ToolCall(
                id=f"call_{index}", name=name, arguments_json=json.dumps({"intent": intent, **arguments})
            )
            result = trajectory.ToolResult(
                tool_call_id=call.id,
                tool=name,
                intent=intent,
                content=content,
                status=status,
                duration_ms=took,
                material=[item.number for item in material],
                is_cached=name == self.cached,
            )
            yield call, result, material

    def events(self, request: planner.RunRequest) -> Iterator[planner.RunEvent]:
        """The run from its start to its end."""
        sequence = 0

        def event(**what: Any) -> planner.RunEvent:
            nonlocal sequence
            sequence += 1
            message = planner.RunEvent(sequence=sequence, run_id=request.request_id, **what)
            message.time.FromSeconds(1_700_000_000 + sequence)
            return message

        yield event(
            started=planner.RunStarted(
                run_id=request.request_id,
                conversation_id=self.conversation(request),
                question=request.question,
                model=played_by(request.model),
                form=self.form,
            )
        )
        if self.reasoning:
            yield event(thought=planner.Thought(text=self.reasoning, kind="reasoning"))
        yield event(thought=planner.Thought(text="Prices first, then growth and drawdown.", kind="plan"))
        for step, (call, result, material) in enumerate(self.calls()):
            intent = result.intent
            yield event(tool_started=planner.ToolCallStarted(call=call, intent=intent, step=step))
            yield event(tool_finished=planner.ToolCallFinished(result=result, material=material))
        for step, draft in enumerate(self.drafts, start=5):
            yield event(answer_delta=planner.AnswerDelta(text=draft, step=step, draft=True))
            yield event(answer_replaced=planner.AnswerReplaced(step=step, why="correction"))
        for start in range(0, len(self.answer), 90):
            yield event(answer_delta=planner.AnswerDelta(text=self.answer[start : start + 90]))
        yield event(finished=self.finish_run(request))

    def finish_run(self, request: planner.RunRequest) -> planner.RunFinished:
        usage = common.Usage(prompt_tokens=5_120, completion_tokens=640, duration_ms=1_900)
        answer = trajectory.Answer(
            markdown=self.answer,
            cited=self.cited,
            model=played_by(request.model),
            findings=self.findings,
            material=self.answer_material,
            reading=self.reading,
            clarification=self.clarification,
        )
        return planner.RunFinished(
            stop_reason=trajectory.STOP_REASON_FINISHED, answer=answer, usage=usage, material=self.material()
        )

    def stop_run(self, request: planner.RunRequest, sequence: int) -> planner.RunEvent:
        """Return the end of a run that was stopped."""
        finished = planner.RunFinished(stop_reason=trajectory.STOP_REASON_STOPPED)
        return planner.RunEvent(sequence=sequence, run_id=request.request_id, finished=finished)

    def trajectory(self, request: planner.RunRequest, events: list[planner.RunEvent]) -> trajectory.Trajectory:
        """The record of what has happened."""
        message = trajectory.Trajectory(run_id=request.request_id, question=request.question, token_ids=[1, 2, 3])
        message.mask.extend([0, 1, 1])
        calls = {
            event.tool_started.call.id: event.tool_started.call for event in events if event.HasField("tool_started")
        }
        for event in events:
            if event.HasField("tool_finished"):
                step = message.steps.add(index=len(message.steps), tool_results=[event.tool_finished.result])
                step.completion.tool_calls.append(calls[event.tool_finished.result.tool_call_id])
                step.completion.sampled_token_ids.extend([2, 3])
                step.completion.model = played_by(request.model)
                step.completion.reasoning = self.reasoning if step.index == 0 else ""
                step.material.extend(event.tool_finished.material)
            elif event.HasField("finished"):
                message.answer.CopyFrom(event.finished.answer)
                message.stop_reason = event.finished.stop_reason
        return message


def draw_figure(script: Script) -> dict[str, Any]:
    """Draw the figure as plotly express writes it: typed arrays, its template, WebGL traces over 1,000 points."""
    import plotly.express as px

    frame = frames.from_arrow(script.arrow).set_index("date")
    figure: dict[str, Any] = json.loads(px.line(frame / frame.iloc[1] * 100, title="Growth of 100").to_json())
    return figure
