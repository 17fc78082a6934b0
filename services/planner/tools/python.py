"""Tool ``python``: executes a cell in the run's session and records its output and figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from prometheus_client import Counter

from fathom.api.planner.v1.trajectory_pb2 import CodeRecord, Figure
from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.codestyle import check
from fathom.store import ObjectStore
from fathom.store.refs import read_ref, to_ref
from services.planner.model import Kind, ToolState
from services.planner.tools.session import Session
from services.planner.tools.tool import Finding, Numbered, Reply, schema, shortened

PLOTLY = "application/vnd.plotly.v1+json"
OUTPUT_CHARS = 6_000


@dataclass
class Python:
    """Execution of model-written code; sheets are available as variables, tools are not."""

    session: Session
    store: ObjectStore
    styles: Counter
    """Counter of cells by code style."""
    run_id: str
    figures: int = 0
    """Count of the run's figures."""

    name: ClassVar[str] = "python"
    reads: ClassVar[bool] = False
    description: ClassVar[str] = (
        "Runs Python in the run's own session; state stays between calls. pandas is pd, numpy is np, plotly can be"
        " imported; sheet_1, sheet_2, … are DataFrames; to_date() reads any date format. Write one function for one"
        " purpose, then print its result. A plotly figure as the last expression becomes fig_1, fig_2, …"
    )
    parameters: ClassVar[Mapping[str, Any]] = schema(
        ["code"], code={"type": "string", "minLength": 1, "maxLength": 65_536, "description": "The cell."}
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Numbered:
        events = await self.session.execute(call_id, arguments["code"])
        outcome = events[-1].outcome
        record = CodeRecord(
            id=call_id,
            code=arguments["code"],
            stdout=text_of(events, pb.OUTPUT_STREAM_STDOUT),
            result=outcome.result,
            traceback=outcome.traceback,
            ok=outcome.status == pb.EXECUTE_STATUS_OK,
            figures=[await self._figure(event.display) for event in events if is_plotly(event)],
            duration_ms=outcome.duration_ms,
        )
        style = check(arguments["code"])
        self.styles.labels("functional" if style.ok else "other").inc()
        head = {
            "figures": [figure.id for figure in record.figures],
            "changed": [variable.name for variable in outcome.changed],
            "error": "" if record.ok else problem(outcome),
            **({"style": style.correction} if style.correction else {}),
        }
        status, found = ToolState.OK if record.ok else ToolState.FAILED, (Finding(Kind.CODE, record),)
        body = reading(record, text_of(events, pb.OUTPUT_STREAM_STDERR))
        return lambda first: Reply(status, {"material": first, **head}, body, found)

    async def _figure(self, display: pb.Display) -> Figure:
        """Store a figure of the run; its data must be JSON whatever media type the kernel claims."""
        data = display.data or await read_ref(self.store, display.ref)
        content = json.loads(data)
        self.figures += 1
        title = content.get("layout", {}).get("title", {})
        text = title.get("text", "") if isinstance(title, dict) else str(title)
        key = f"figures/{self.run_id}/fig_{self.figures}.json"
        stored = await self.store.put(key, data, "application/json")
        return Figure(id=f"fig_{self.figures}", title=text, ref=to_ref(stored))


def is_plotly(event: pb.ExecuteResponse) -> bool:
    return event.HasField("display") and event.display.media_type == PLOTLY


def text_of(events: Sequence[pb.ExecuteResponse], stream: pb.OutputStream) -> str:
    """Return all output of one stream."""
    return "".join(event.output.text for event in events if event.HasField("output") and event.output.stream == stream)


def problem(outcome: pb.Outcome) -> str:
    """Return why a cell failed, on one line."""
    if outcome.error_name:
        return f"{outcome.error_name}: {outcome.error_value}"
    status = pb.ExecuteStatus.Name(outcome.status).removeprefix("EXECUTE_STATUS_").lower()
    return f"{status}: {outcome.cause}" if outcome.cause else status


def reading(record: CodeRecord, stderr: str) -> str:
    """Return the output as shown to the model, each part under a heading."""
    parts = (("stdout", record.stdout), ("result", record.result), ("stderr", stderr), ("traceback", record.traceback))
    return "\n\n".join(f"## {name}\n{shortened(text.rstrip(), OUTPUT_CHARS)}" for name, text in parts if text.strip())
