"""The next call of the reference policy: data, a computation, a chart, documents, then the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from fathom.domain.chat.tolerant import items
from fathom.domain.text.terms import is_chinese, is_small_talk
from fathom.services.policy.reference.answer import Findings, compose, mend, say
from fathom.services.policy.reference.calculation import Calculation, refuse_program
from fathom.services.policy.reference.calls import Call
from fathom.services.policy.reference.cells import (
    Result,
    is_chart,
    list_columns,
    read_results,
    write_cell,
    write_chart,
)
from fathom.services.policy.reference.conversation import Conversation, Step
from fathom.services.policy.reference.documents import Quote, choose_hit, list_quotes
from fathom.services.policy.reference.planning import Plan, Refusal, make_plans
from fathom.services.policy.reference.programs import Series, read_program
from fathom.services.policy.reference.reading import (
    Reading,
    add_series,
    inherit,
    is_incomplete,
    is_reason,
    load_table,
    read_step,
)

# Rows of a table that a reader takes in as they stand; longer ones are summed up.
FEW_ROWS = 12
# As many as one run may delegate by default.
MOST_PARTS = 4
# Arguments of a typed query that change which values it gives.
QUERY = {"entities", "indicators", "start_date", "end_date", "frequency", "include_previous", "currency"}
# Columns that the data tool computed are named by their formula: "US.count(unrate)", "US.100 * yoy(cpi)", "A.x / B.x".
DERIVED = re.compile(r"(\w+)\(|(?<= )/(?= )")
CITATION = re.compile(r"\s*\[[\d, ]+\]")


class Walk:
    """The walk through the tools for one conversation, as far as its results say that it has come."""

    def __init__(
        self,
        conversation: Conversation,
        tools: Sequence[str],
        *,
        by_documents: bool = False,
        is_doubtful: bool = False,
    ) -> None:
        """Begin the walk; ``by_documents`` for a question that only texts can answer.

        An answer with figures to an ``is_doubtful`` question says that it may ask for something else.
        """
        self._conversation, self._tools = conversation, frozenset(tools)
        self._by_documents, self._is_doubtful = by_documents, is_doubtful
        questions = [step for step in conversation.of("data") if "question" in step.arguments]
        self._asked, self._recalled = questions[:1], questions[1:]
        self._fetched = [step for step in conversation.of("data") if "question" not in step.arguments]

    def next(self) -> Call:
        """Return the next call, ``finish`` when nothing is left to try or only that is allowed."""
        intents = load_table("texts")["intent"]
        draft, is_zh = mend(self._conversation), is_chinese(self._conversation.question)
        for step in () if self._conversation.is_last_round or draft is not None else self._list_steps():
            call = step()
            if call is not None and call.tool in self._tools:
                return Call(call.tool, {"intent": intents[call.tool][is_zh], **call.arguments})
        text, is_shortened = draft or (compose(self._findings), False)
        # What the planner's checks took away is open, and a reader must not take the rest for the whole answer.
        left = [*self._findings.list_open(), *([say("removed", is_zh)] if is_shortened else [])]
        if self._is_doubtful and (self._successes or self._sheets) and not left:
            left = [say("doubtful", is_zh)]
        stated = {"reading": {"open": left}} if left else {}
        return Call("finish", {"intent": intents["finish"][is_zh], "answer": text, **stated})

    def _list_steps(self) -> tuple[Callable[[], Call | None], ...]:
        if is_small_talk(self._conversation.question):
            return (self._ask,)
        if self._by_documents:
            return (self.search, self.read)
        return (
            self._ask,
            self._recall,
            self._look_up,
            self._fetch,
            self._compute,
            self._draw,
            self.search,
            self.read,
        )

    @cached_property
    def _reading(self) -> Reading:
        reading = read_step(self._asked[-1]) if self._asked else Reading()
        for step in self._recalled:
            reading = inherit(reading, read_step(step))
        for step in self._conversation.of("catalogue"):
            reading = add_series(reading, step)
        return reading

    @cached_property
    def _sheets(self) -> list[Mapping[str, Any]]:
        # Those of a follow-up were made without what it leaves out.
        asked = [] if self._recalled or self._refers_back or self._by_documents else self._asked
        return [sheet for step in asked if step.is_ok for sheet in step.head.get("sheets", ())]

    @property
    def _refers_back(self) -> bool:
        return "same" in self._reading.values("output") and not self._reading.windows

    @cached_property
    def _results(self) -> list[Result]:
        return read_results(self._conversation.of("python"))

    @property
    def _successes(self) -> list[Result]:
        return [one for one in self._results if not one.error]

    @cached_property
    def _quotes(self) -> list[Quote]:
        return list_quotes(self._conversation, self._reading)

    @cached_property
    def _outcomes(self) -> list[Plan | Refusal]:
        if self._by_documents or self._is_answered_by_table:
            return []
        found = make_plans(self._reading, self._conversation.question)
        plans = [one for one in found if isinstance(one, Plan)]
        # Growth and newest values the data tool has itself.
        if self._sheets and all(set(plan.measures) <= {"growth", "recent"} for plan in plans):
            found = [one for one in found if isinstance(one, Refusal)]
            # What cannot be computed here is answered by its tables, long ones summed up.
            if any(sheet.get("rows", 0) > FEW_ROWS for sheet in self._sheets):
                return [Plan({}, ("summary",), tuple(self._reading.windows[:1]) or (("", ""),))]
        return found

    @property
    def _is_answered_by_table(self) -> bool:
        """Return whether the data tool has read the whole question, and computed what no measure here does.

        What both compute is computed here, with its convention and its chart.
        """
        # What the question takes for granted is held against a calculation.
        has_premise = any(premise for _, _, premise in self._reading.asked)
        if len(self._sheets) != 1 or has_premise or self._reading.missing or self._reading.texts("unknown"):
            return False
        sheet = self._sheets[0]
        known = load_table("measures")["measures"]
        names = [str(column["name"]) for column in list_columns(sheet)]
        computed = [name for name in names if (parts := {*DERIVED.findall(name)}) and not parts & {*known}]
        asked = [words for name, words, _ in self._reading.asked if name not in ("level", "")]
        return 0 < sheet.get("rows", 0) <= FEW_ROWS and len(computed) >= max(1, len(asked))

    @cached_property
    def _plans(self) -> list[Plan]:
        return [one for one in self._outcomes if isinstance(one, Plan)]

    def _owns(self, plan: Plan) -> bool:
        """Return whether the table of the question itself has the series from which a plan is computed."""
        sheet, *others = *self._sheets, None
        if sheet is None or others[:-1] or sheet.get("rows", 0) <= FEW_ROWS:
            return False
        held = [column.get("entity") for column in list_columns(sheet)]
        has_other = bool({"frequency", "currency"} & {*plan.query}) or len(plan.query.get("indicators", ())) > 1
        has_other = has_other or bool(plan.find("history_days") or plan.find("forward"))
        # A table that begins behind the start lacks the value from which the return counts.
        is_late = self._reading.query.get("start_date", "") > min(start for start, _ in plan.windows)
        return not plan.query or (held == plan.query.get("entities") and not has_other and not is_late)

    def _find_sheet(self, plan: Plan) -> Mapping[str, Any] | None:
        """Return the table from which a plan is computed."""
        if self._owns(plan):
            return self._sheets[0]
        steps = [step for step in self._fetched if step.is_ok and holds(step.arguments, plan.query)]
        sheets = [sheet for step in steps for sheet in step.head.get("sheets", ())]
        index = load_table("measures")["price_index"]
        held = {one["name"]: sheet["variable"] for sheet in sheets for one in find_columns(sheet, index)}
        others = [sheet for sheet in sheets if len(sheets) < 2 or not find_columns(sheet, index)]
        found = max(others, key=lambda sheet: len(list_columns(sheet)), default=None)
        # The consumer prices may come in a table of their own.
        return found and {**found, **({"index": (next(iter(held.values())), [*held])} if held else {})}

    @cached_property
    def _tables(self) -> list[tuple[Plan, Mapping[str, Any]]]:
        found = [(plan, self._find_sheet(plan)) for plan in self._plans]
        return [(plan, sheet) for plan, sheet in found if sheet is not None]

    @property
    def _findings(self) -> Findings:
        refused = [word for one in self._outcomes if isinstance(one, Refusal) for word in one.words]
        used = {sheet["variable"]: sheet for _, sheet in self._tables}
        successes = self._successes
        # Where every calculation failed, the tables of the question itself are what there is.
        sheets = list(used.values()) if successes and used else self._sheets
        failed = [f"{one.measure} ({one.error})" for one in self._results if one.error]
        return Findings(self._conversation, self._reading, refused, successes, sheets, self._quotes, failed)

    def _ask(self) -> Call | None:
        return None if self._asked else Call("data", {"question": self._conversation.question[:2000]})

    def _recall(self) -> Call | None:
        """Read the question before, from which a follow-up takes what it leaves out."""
        earlier = self._conversation.earlier
        is_needed = earlier and not self._recalled and is_incomplete(self._reading)
        return Call("data", {"question": earlier[:2000]}) if is_needed else None

    def _look_up(self) -> Call | None:
        """Ask the catalogue for words that the data tool does not know, when it knows no other."""
        unknown = " ".join(self._reading.texts("unknown"))
        has_names = self._reading.entities or self._reading.values("indicator")
        if self._sheets or has_names or not unknown or self._conversation.of("catalogue"):
            return None
        return Call("catalogue", {"query": unknown[:500]})

    def _fetch(self) -> Call | None:
        wanted = [plan.query for plan in self._plans if plan.query and not self._owns(plan)]
        left = [query for query in wanted if not any(holds(step.arguments, query) for step in self._fetched)]
        return Call("data", left[0]) if left else None

    def _compute(self) -> Call | None:
        is_done = not self._tables or self._conversation.of("python")
        return None if is_done else Call("python", {"code": write_cell(self._tables)})

    def _draw(self) -> Call | None:
        """Draw each table of which something was computed."""
        drawn = [step.arguments.get("code") for step in self._conversation.of("python") if is_chart(step)]
        is_zh = is_chinese(self._conversation.question)
        cells = [write_chart(plan, sheet, is_zh) for plan, sheet in self._tables if self._successes]
        left = [code for code in dict.fromkeys(cells) if code and code not in drawn]
        return Call("python", {"code": left[0]}) if left else None

    def holds(self, series: Series | None) -> bool:
        """Return whether the table of the question itself is the one value of a series."""
        sheet, *others = *self._sheets, None
        if series is None or sheet is None or others[:-1] or sheet.get("rows") != 1:
            return False
        return [column.get("indicator") for column in list_columns(sheet)] == [series.indicator]

    def search(self) -> Call | None:
        """Search documents for reasons, and for what the tables do not have."""
        question = self._conversation.question
        if self._conversation.of("search") or ((self._sheets or self._results) and not is_reason(question)):
            return None
        return Call("search", {"query": question[:2000]})

    def read(self) -> Call | None:
        chosen = "" if self._quotes else choose_hit(self._conversation)
        return Call("fetch", {"id": chosen}) if chosen else None


def find_columns(sheet: Mapping[str, Any], indicator: str) -> list[Mapping[str, Any]]:
    """Return the columns of a sheet that hold an indicator."""
    return [column for column in list_columns(sheet) if column.get("indicator") == indicator]


def holds(arguments: Mapping[str, Any], query: Mapping[str, Any]) -> bool:
    """Return whether a call had these arguments, beside what every call has."""
    return all(arguments.get(name) == value for name, value in query.items()) and not ({*arguments} & QUERY) - {*query}


def choose_walk(conversation: Conversation, tools: Sequence[str]) -> Call:
    """Return the next call of the calculation that the data tool made of the question, or of the walk by its words."""
    walk = Walk(conversation, tools)
    asked = [step for step in conversation.of("data") if "question" in step.arguments][:1]
    program = read_program(asked[0]) if asked else None
    if program is None or is_small_talk(conversation.question):
        return walk.next()
    if not program.is_sure:
        return Walk(conversation, tools, is_doubtful=program.kind != "chat").next()
    # A follow-up's words are only a part of what is asked.
    if not conversation.earlier and program.leaves_out(read_step(asked[0]), conversation.question):
        return Walk(conversation, tools, is_doubtful=True).next()
    if walk.holds(program.lookup):
        return walk.next()
    if program.is_computable and "python" in tools:
        return Calculation(conversation, program, walk).next()
    if program.kind == "documents" and "search" in tools:
        return Walk(conversation, tools, by_documents=True).next()
    return refuse_program(conversation, program) or walk.next()


def next_call(conversation: Conversation, tools: Sequence[str]) -> Call:
    """Return the next call of the reference policy; the questions of a list are given to researchers of their own."""
    parts = [text for text in items(conversation.question) if text.endswith(("?", "？"))][:MOST_PARTS]
    if "delegate" not in tools or len(parts) < 2 or mend(conversation) is not None:
        return choose_walk(conversation, tools)
    results = conversation.of("delegate")
    if not results and not conversation.is_last_round:
        intent = load_table("texts")["intent"]["delegate"][is_chinese(conversation.question)]
        first, *others = [Call("delegate", {"intent": intent, "question": part}) for part in parts]
        return replace(first, beside=tuple(others))
    return answer_parts(conversation, tools, results)


def answer_parts(conversation: Conversation, tools: Sequence[str], results: Sequence[Step]) -> Call:
    """Return the answers of the researchers under their questions; the first one that failed is answered here."""
    texts = [f"### {step.arguments.get('question', '')}\n\n{step.body}" for step in results if step.is_ok]
    failed = next((step for step in results if not step.is_ok), None)
    arguments: Mapping[str, Any] = {
        "intent": load_table("texts")["intent"]["finish"][is_chinese(conversation.question)]
    }
    if failed is not None:
        own = tuple(step for step in conversation.steps if step.tool != "delegate")
        part = str(failed.arguments.get("question", ""))
        call = choose_walk(replace(conversation, question=part, steps=own), tools)
        if call.tool != "finish":
            return call
        arguments = call.arguments
        texts += [f"### {part}\n\n{call.arguments['answer']}"]
        texts += [say("failed", is_chinese(part), f"delegate: {failed.head.get('error', '')}")]
    # What every researcher says, such as the date of the data, is said once.
    paragraphs = {CITATION.sub("", text): text for text in reversed("\n\n".join(texts).split("\n\n")) if text.strip()}
    return Call("finish", {**arguments, "answer": "\n\n".join(reversed(paragraphs.values()))})
