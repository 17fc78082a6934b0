"""``fathom ask``: prints the trace as it happens, then the answer with its table, figure and sources."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from google.protobuf.json_format import MessageToJson
from rich.console import Console, Group
from rich.live import Live
from rich.markdown import Markdown
from rich.markup import escape
from rich.spinner import Spinner
from rich.text import Text

from fathom.api.common.v1.common_pb2 import Usage
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.cli.uploads.meanings import read_meanings
from fathom.cli.uploads.sending import upload_files, upload_tables
from fathom.clients import Clients, connect
from fathom.clients.local import read_endpoints
from fathom.clients.runs import run
from fathom.core.errors import DependencyFailed, FathomError, InvalidField
from fathom.domain.chat.windows import effort_of

REFERENCE = re.compile(r"\{\{(table|figure):([A-Za-z0-9_]+)\}\}")
# Lines of the draft shown; it must fit a small terminal, or the display flickers.
DRAFT_LINES = 12
REPLACED = {
    "correction": "a check found faults in the draft; it is being corrected",
    "refused": "the draft came too early; the research continues",
}
REASONING_CHARS = 160
"""Characters of a model's own thought that are printed."""
MARKS = {
    trajectory.TOOL_STATUS_OK: "[green]✓[/]",
    trajectory.TOOL_STATUS_EMPTY: "[yellow]∅[/]",
    trajectory.TOOL_STATUS_FAILED: "[red]✗[/]",
    trajectory.TOOL_STATUS_INVALID: "[red]?[/]",
}


MODES = {
    "research": trajectory.PROTOCOL_RESEARCH,
    "workflow": trajectory.PROTOCOL_WORKFLOW,
    "auto": trajectory.PROTOCOL_AUTO,
}


class RunFailed(FathomError):
    """The run ended without an answer; the message names the culprit."""

    code, reason = "ABORTED", "DEPENDENCY_FAILED"


def ask_question(
    question: str,
    home: Path,
    planner: str,
    *,
    model: str,
    conversation: str,
    parent: int | None = None,
    mode: str,
    window: trajectory.Window,
    effort: str,
    tables: Sequence[Path] = (),
    own: Sequence[Path] = (),
    columns: Path | None = None,
    gateway: str = "",
    json_events: bool,
) -> None:
    """Ask a question and print the run, which begins with ``tables`` and ``own`` files sent to the gateway.

    ``parent`` is the turn of the conversation that it follows, None the newest. ``columns`` is a file with what
    the columns of the tables among ``own`` mean.

    Raises ``RunFailed`` without an answer, ``InvalidField`` for an unknown mode or effort, and the errors of
    ``upload_tables`` and ``upload_files``.
    """
    if mode not in MODES:
        raise InvalidField("mode", f"{mode!r} is not one of {', '.join(MODES)}")
    endpoints = {"planner": planner} if planner else dict(read_endpoints(home).services)
    gateway = gateway or ("" if planner else read_endpoints(home).gateway)
    console = Console(stderr=True)
    meanings = read_meanings(columns) if columns is not None else {}
    uploaded = upload_files(gateway, own, lambda text: console.print(f"[yellow]{escape(text)}[/]"), meanings)
    request = pb.RunRequest(
        question=question,
        model=model,
        conversation_id=conversation,
        parent_turn=parent,
        protocol=MODES[mode],
        window=window,
        effort=effort_of(effort),
        table_ids=[*upload_tables(gateway, tables), *uploaded.table_ids],
        corpora=[uploaded.corpus] if uploaded.corpus else [],
    )

    async def work() -> None:
        clients = connect(endpoints)
        try:
            await ask(clients, request, Console(), gateway, json_events=json_events)
        finally:
            await clients.close()

    asyncio.run(work())


async def ask(
    clients: Clients, request: pb.RunRequest, console: Console, gateway: str = "", *, json_events: bool = False
) -> pb.RunFinished:
    """Run the question, print its events and return the end of the run; raise ``RunFailed`` without an answer."""
    events = run(clients, request)
    if json_events:
        finished = await print_json(events)
    else:
        finished = await print_trace(events, console, gateway)
    # An answer in the model's place is shown, but a script that asks must learn that the run did not finish.
    if finished.stop_reason != trajectory.STOP_REASON_FINISHED:
        stop = trajectory.StopReason.Name(finished.stop_reason).removeprefix("STOP_REASON_").lower()
        raise RunFailed(finished.error or f"the run ended without an answer ({stop})")
    return finished


async def print_json(events: AsyncIterator[pb.RunEvent]) -> pb.RunFinished:
    async for event in events:
        sys.stdout.write(MessageToJson(event, preserving_proto_field_name=True, indent=None) + "\n")
        sys.stdout.flush()
        if event.HasField("finished"):
            return event.finished
    raise DependencyFailed("planner", "the run's events ended early")


async def print_trace(events: AsyncIterator[pb.RunEvent], console: Console, gateway: str) -> pb.RunFinished:
    draft = DraftDisplay(console)
    with draft:
        async for event in events:
            kind = event.WhichOneof("event")
            if kind == "started":
                label = " (reference policy, not a language model)" if event.started.model == "rules" else ""
                form = ", a report" if event.started.form == pb.ANSWER_FORM_REPORT else ""
                console.print(f"[dim]run {event.run_id}, model {escape(event.started.model)}{label}{form}[/]")
                for line in event.started.capped:
                    console.print(f"  [yellow]limit of the server[/] {escape(line)}")
            elif kind == "thought" and event.thought.kind == "reasoning":
                # A model's own thought may be pages; the run's record has all of it.
                beginning = " ".join(event.thought.text.split())[:REASONING_CHARS]
                console.print(f"  [dim]✻ {escape(beginning)}[/]")
            elif kind == "thought":
                console.print(f"  [cyan]…[/] [italic]{escape(event.thought.text)}[/]")
            elif kind == "staged":
                console.print(f"  [magenta]▸ {event.staged.stage.name}[/] {escape(describe_stage(event.staged.stage))}")
            elif kind == "waiting":
                draft.set_status(describe_wait(event.waiting))
            elif kind == "tool_started":
                draft.set_status(f"{event.tool_started.call.name}: {event.tool_started.intent}")
            elif kind == "tool_finished":
                result = event.tool_finished.result
                line = f"[bold]{result.tool}[/] {escape(result.intent)} [dim]{result.duration_ms} ms[/]"
                console.print(f"  {MARKS.get(result.status, '·')} {line}")
            elif kind == "answer_delta":
                draft.add_text(event.answer_delta.text)
            elif kind == "answer_replaced":
                if event.answer_replaced.why in REPLACED:
                    console.print(f"  [yellow]↻[/] {REPLACED[event.answer_replaced.why]}")
                draft.restart()
            elif kind == "finished":
                break
        else:
            raise DependencyFailed("planner", "the run's events ended early")
    show_answer(event.finished, console, gateway)
    return event.finished


def describe_wait(waiting: pb.RunWaiting) -> str:
    """Describe in one line what a run waits for."""
    if waiting.message:
        return f"waiting for {waiting.culprit or 'a service'}: {waiting.message}"
    if not waiting.before:
        return "accepted, waiting for the planner…"
    about = f", about {waiting.expected_ms / 1000:.0f} s" if waiting.expected_ms else ""
    return f"waiting in the queue, runs before this one: {waiting.before}{about}"


def describe_stage(stage: trajectory.StageNote) -> str:
    """Describe the result of a workflow stage in one line."""
    sent = [query for query in stage.queries if not query.dropped]
    parts = [stage.text] if stage.text else []
    parts += [f"{len(sent)} sub-questions"] if stage.queries else []
    parts += [f"{len(stage.flaws)} corrected: {', '.join(sorted({flaw.fault for flaw in stage.flaws}))}"] * bool(
        stage.flaws
    )
    return "; ".join(parts)


class DraftDisplay:
    """Live display of the last lines of the draft on a terminal; removed when the checked answer is printed."""

    def __init__(self, console: Console) -> None:
        self._text, self._says = "", "waiting for the planner…"
        # Transient: the checked answer replaces the draft, which may differ from it.
        self._live = Live(self._render(), console=console, transient=True, refresh_per_second=10)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def set_status(self, what: str) -> None:
        self._says = what
        self._live.update(self._render())

    def add_text(self, text: str) -> None:
        self._text += text
        self._says = "writing the answer; it is checked when complete"
        self._live.update(self._render())

    def restart(self) -> None:
        self._text = ""
        self.set_status("the answer starts over")

    def _render(self) -> Group:
        lines = self._text.splitlines()[-DRAFT_LINES:]
        return Group(*([Text("\n".join(lines), style="dim")] if lines else []), Spinner("dots", Text(self._says)))


def show_answer(finished: pb.RunFinished, console: Console, gateway: str) -> None:
    """Print the answer with its references resolved to what a terminal can show."""
    if not finished.HasField("answer"):
        return
    sheets = {item.variable: item.sheet for item in finished.material if item.HasField("sheet")}
    figures = {figure.id: figure for item in finished.material for figure in item.code.figures}
    console.rule("answer")
    show_reading(finished.answer, console)
    position = 0
    for match in REFERENCE.finditer(finished.answer.markdown):
        # Piece by piece: tables and figures are not Markdown and are printed between.
        console.print(Markdown(finished.answer.markdown[position : match.start()]))
        kind, name = match.groups()
        if kind == "table" and name in sheets:
            sheet = sheets[name]
            console.print(f"\n[bold]table {name}[/] {escape(sheet.title)}: {sheet.rows:,} rows")
            # The first line names the table by its internal id and repeats its size.
            preview = sheet.digest.partition("\n")[2]
            console.print(escape(preview), highlight=False, overflow="crop", no_wrap=True)
        elif kind == "figure" and name in figures:
            where = f", interactive at {gateway}" if gateway else ""
            console.print(f"\n[bold]figure {name}[/] {escape(figures[name].title)} (plotly{where})\n")
        else:
            console.print(f"\n[red]{kind} {name} does not exist[/]\n")
        position = match.end()
    console.print(Markdown(finished.answer.markdown[position:]))
    show_sources(finished, console)


def show_reading(answer: trajectory.Answer, console: Console) -> None:
    """Print how the question was read; what stays open is the first paragraph of the answer itself."""
    if answer.reading.line:
        console.print(f"[italic]{escape(answer.reading.line)}[/]\n", highlight=False)


def show_sources(finished: pb.RunFinished, console: Console) -> None:
    console.rule("sources")
    for item in finished.material:
        if item.number not in finished.answer.cited and not item.HasField("missing"):
            continue
        console.print(f"[bold]\\[{item.number}][/] {escape(describe_material(item))}", highlight=False)
    console.print(f"[dim]{escape(describe_usage(finished.usage))}[/]")


def describe_usage(used: Usage) -> str:
    """Return tokens, time and cost of a run in one line, with what is cached, thought or only estimated."""
    thought = f" ({used.reasoning_tokens:,} of thought)" if used.reasoning_tokens else ""
    parts = [f"{used.completion_tokens:,} tokens sampled{thought}", f"{used.duration_ms / 1000:.1f} s of sampling"]
    if used.cached_tokens:
        parts.append(f"{used.cached_tokens:,} of {used.prompt_tokens:,} prompt tokens cached")
    parts += [f"cost {used.cost:.4g}"] * bool(used.cost) + ["tokens estimated"] * used.estimated
    return ", ".join(parts)


def describe_material(item: trajectory.Material) -> str:
    """Describe a material in one line."""
    kind = item.WhichOneof("item")
    if kind == "passage":
        return f"{item.passage.title} ({item.passage.source})"
    if kind == "sheet":
        sources = sorted({column.source for column in item.sheet.columns if column.source})
        return f"{item.variable}: {item.sheet.title} ({', '.join(sources)})"
    if kind == "code":
        return f"calculation: {item.code.code.strip().splitlines()[0]}"
    return f"missing: {item.missing.subject}: {item.missing.detail}"
