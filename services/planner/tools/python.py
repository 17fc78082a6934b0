"""Tool ``python``: executes a cell in the run's session and records its output and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from prometheus_client import Counter

from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1.trajectory_pb2 import CodeRecord
from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.domain.chat.quoting import shorten
from fathom.domain.grading.code_style import check
from fathom.services.planner.model.episode import MaterialKind, ToolStatus
from fathom.services.planner.model.turns import EarlierFigure
from fathom.services.planner.tools.data.sheets import describe_sheet
from fathom.services.planner.tools.figures import FigureStore, is_figure
from fathom.services.planner.tools.session import Session
from fathom.services.planner.tools.tables.listing import limit_columns
from fathom.services.planner.tools.tables.results import MAX_RESULTS, ResultTables
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, make_schema
from fathom.transport.store.refs import read_ref

# Per part of the output, as a page of `fetch`; a loop that prints must not fill the window.
OUTPUT_CHARS = 6_000
# A figure is shown to the reader; its text, which it may not have, says nothing to the model.
NO_TEXT = "whose repr failed"
# Four parts of the output, and as much again for tables.
BODY_CHARS = 8 * OUTPUT_CHARS


@dataclass
class Python:
    """Execution of model-written code; sheets are available as variables, tools are not."""

    session: Session
    figures: FigureStore
    styles: Counter
    """Counter of cells by code style."""
    tables: ResultTables
    results: int = 0
    """Count of the run's tables of results."""
    teaches_style: bool = False
    """True tells the model how its cell departs from the functional style that trainers reward."""

    name: ClassVar[str] = "python"
    reads: ClassVar[bool] = False
    description: ClassVar[str] = (
        "Runs Python in the run's own session; state stays between calls. pandas is pd, numpy is np; plotly, scipy,"
        " statsmodels and matplotlib can be imported; sheet_1, sheet_2, … are DataFrames; to_date() reads any date"
        " format. finance, listed by print(finance.__doc__), computes and charts returns, risk, events, crossings,"
        " portfolios and deflation, and prints the convention to quote. A figure, best of plotly, as the last"
        " expression becomes fig_1, fig_2, … A DataFrame as the last expression, or in show_table(df, 'Title',"
        " units={'return': '%'}), becomes the next sheet_n: a table of results that the answer places with"
        " {{table:sheet_n}} and cites; at most 50,000 rows."
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["code"], code={"type": "string", "minLength": 1, "maxLength": 65_536, "description": "The cell."}
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        events = await self.session.execute(call_id, arguments["code"])
        outcome = events[-1].outcome
        record = CodeRecord(
            id=call_id,
            code=arguments["code"],
            stdout=join_output(events, pb.OUTPUT_STREAM_STDOUT),
            result="" if NO_TEXT in outcome.result and any(map(is_figure, events)) else outcome.result,
            traceback=outcome.traceback,
            ok=outcome.status == pb.EXECUTE_STATUS_OK,
            figures=[await self.figures.put_display(event.display) for event in events if is_figure(event)],
            duration_ms=outcome.duration_ms,
        )
        style = check(arguments["code"])
        self.styles.labels("functional" if style.ok else "other").inc()
        # Tables of a failed cell are not kept: a rebuilt session does not run it again.
        inputs = self.session.find_inputs() if record.ok else ()
        room = MAX_RESULTS - self.results
        read = [self.session.sheets[name] for name in inputs]
        kept, refused = await self.tables.keep(events, call_id, record.code, read, room) if record.ok else ([], [])
        head = {
            "figures": [figure.id for figure in record.figures],
            "changed": [variable.name for variable in outcome.changed],
            "error": "" if record.ok else describe_error(outcome),
            **({"tables_not_kept": refused} if refused else {}),
            **({"style": style.correction} if style.correction and self.teaches_style else {}),
        }
        body = format_output(record, join_output(events, pb.OUTPUT_STREAM_STDERR))
        return lambda first: self._make_reply(first, record, head, body, kept, inputs)

    def _make_reply(
        self,
        first: int,
        record: CodeRecord,
        head: Mapping[str, Any],
        body: str,
        kept: Sequence[tuple[Sheet, bool]],
        inputs: Sequence[str],
    ) -> Reply:
        """Register the cell's tables in the session and return the reply with names and numbers."""
        # A failed cell is material as well: the answer may say what could not be computed.
        status, found = ToolStatus.OK if record.ok else ToolStatus.FAILED, [NewMaterial(MaterialKind.CODE, record)]
        shown, digests = [], []
        for sheet, is_result in kept:
            is_known = any(known.id == sheet.id for known in self.session.sheets.values())
            variable = self.session.put(sheet)
            shown.append({**describe_sheet(sheet, variable, first + len(found)), "computed_from": list(inputs)})
            if is_known:
                # The cell ran before, or gives a table of the run once more: it has its name and number already.
                shown[-1].pop("material")
            else:
                self.results += 1
                found.append(NewMaterial(MaterialKind.SHEET, sheet, variable, first, tuple(inputs)))
            # The text of the last expression is in the cell's result.
            if not is_result:
                digests.append(sheet.digest.replace(sheet.id, variable))
        text = "\n\n".join([part for part in (body, *digests) if part])
        sheets = {"sheets": limit_columns(shown)} if shown else {}
        return Reply(status, {"material": first, **head, **sheets}, shorten(text, BODY_CHARS), tuple(found))

    async def copy_figure(self, call_id: str, earlier: EarlierFigure) -> CodeRecord:
        """Return the cell that drew a figure of an earlier run, with the figure under the next name of this one."""
        reference = earlier.figure.ref
        data = await read_ref(self.figures.store, reference)
        figure = await self.figures.put(data, reference.content_type, earlier.figure.title)
        # The other run's name keeps the cell from being run again where this run's session is rebuilt.
        return CodeRecord(id=call_id, code=earlier.code, ok=True, run_id=earlier.run_id, figures=[figure])


def join_output(events: Sequence[pb.ExecuteResponse], stream: pb.OutputStream) -> str:
    """Return all output of one stream."""
    return "".join(event.output.text for event in events if event.HasField("output") and event.output.stream == stream)


def describe_error(outcome: pb.Outcome) -> str:
    """Return why a cell failed, on one line."""
    if outcome.error_name:
        return f"{outcome.error_name}: {outcome.error_value}"
    status = pb.ExecuteStatus.Name(outcome.status).removeprefix("EXECUTE_STATUS_").lower()
    return f"{status}: {outcome.cause}" if outcome.cause else status


def format_output(record: CodeRecord, stderr: str) -> str:
    """Return the output as shown to the model, each part under a heading."""
    parts = (("stdout", record.stdout), ("result", record.result), ("stderr", stderr), ("traceback", record.traceback))
    return "\n\n".join(f"## {name}\n{shorten(text.rstrip(), OUTPUT_CHARS)}" for name, text in parts if text.strip())
