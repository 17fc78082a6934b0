"""General planning: the next call from the question and the findings; stateless, one decision at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fathom.services.policy.backends.rules import code
from fathom.services.policy.backends.rules.findings import Findings, collect
from fathom.services.policy.backends.rules.mending import mended
from fathom.services.policy.backends.rules.operations.answering import played
from fathom.services.policy.backends.rules.operations.script import Call
from fathom.services.policy.backends.rules.passages import best_hit, context_query, method_query, query_of, read_ids
from fathom.services.policy.backends.rules.prose.words import CHINESE, ENGLISH, Words
from fathom.services.policy.backends.rules.prose.writing import answer
from fathom.services.policy.backends.rules.question import Kind, Question, read_question
from fathom.services.policy.backends.rules.reading import Reading
from fathom.services.policy.backends.rules.sheets import Series, shown_rows
from fathom.services.policy.backends.rules.terms import keywords

# A third attempt with the same rules would repeat the second.
ATTEMPTS = 2


class Plan:
    """Planner for one reading of the conversation."""

    def __init__(self, reading: Reading, tools: Sequence[str]) -> None:
        self._reading, self._tools = reading, frozenset(tools)
        self._question: Question = read_question(reading.question)
        self._words: Words = CHINESE if self._question.chinese else ENGLISH
        self._found: Findings = collect(reading, self._question)

    def next(self) -> Call:
        """Return the next call; ``finish`` when nothing is left to try or this is the last round."""
        if self._reading.last_round or self._question.kind is Kind.CHAT:
            return self._finish()
        steps = {
            Kind.ANALYSIS: (self._think, self._data, self._summary, self._figure, self._insight, self._documents),
            Kind.LOOKUP: (self._data, self._value, self._fallback_documents),
            Kind.DOCUMENT: (self._documents, self._fallback_data, self._value),
        }[self._question.kind]
        for step in steps:
            call = step()
            if call is not None and call.tool in self._tools:
                return call
        return self._finish()

    def _call(self, tool: str, intent: str, **arguments: Any) -> Call:
        return Call(tool, {"intent": intent, **arguments})

    def _finish(self) -> Call:
        text = answer(self._question, self._found, self._shown_value())
        return self._call("finish", self._words.intent_finish, answer=text)

    def _think(self) -> Call | None:
        if self._reading.of("think"):
            return None
        names = [a.chinese if self._question.chinese else a.english for a in self._question.aspects if a.computed]
        content = self._words.decomposition.format(aspects=self._words.comma.join(names) or self._words.default_aspect)
        return self._call("think", self._words.intent_think, content=content, kind="argument decomposition")

    def _data(self) -> Call | None:
        """Query the question verbatim, then once more by keywords when that returned nothing."""
        tried = self._reading.of("data")
        if self._found.sheets or len(tried) >= ATTEMPTS:
            return None
        # A name that is not known stays unknown in other words, and so does a phrase that was not understood.
        if self._found.not_understood:
            return None
        if any(item.get("reason") not in ("NO_MATCH", "SOURCE_FAILED") for item in self._found.missing):
            return None
        asked = [str(step.arguments.get("question", "")) for step in tried]
        wording = keywords(self._question.text) if tried else self._question.text
        # The same words would fail in the same way, unless it was the service that failed.
        if wording in asked and tried[-1].head.get("status") != "failed":
            return None
        return self._call("data", self._words.intent_data_again if tried else self._words.intent_data, question=wording)

    def _summary(self) -> Call | None:
        """Compute the summary; once it failed, only first and last values."""
        series, tried = self._found.series, self._computations()
        if not series or self._found.rows or tried >= ATTEMPTS:
            return None
        if tried:
            return self._call("python", self._words.intent_simple, code=code.simple_cell(series))
        return self._call("python", self._words.intent_summary, code=code.summary_cell(series))

    def _computations(self) -> int:
        return sum("import plotly" not in str(step.arguments.get("code", "")) for step in self._reading.of("python"))

    def _figure(self) -> Call | None:
        drawn = any("import plotly" in str(step.arguments.get("code", "")) for step in self._reading.of("python"))
        if drawn or not self._found.rows or all(row.number("n") == 1 for row in self._found.rows):
            return None
        title = self._title(self._found.series)
        cell = code.figure_cell(self._found.series, title, self._question.chinese)
        return self._call("python", self._words.intent_figure, code=cell)

    def _title(self, series: Sequence[Series]) -> str:
        names = self._words.comma.join(one.label for one in series)
        rows = self._found.rows
        start = min((str(row.values.get("start", "")) for row in rows), default="")
        end = max((str(row.values.get("end", "")) for row in rows), default="")
        return self._words.figure_title.format(names=names, start=start, end=end)

    def _insight(self) -> Call | None:
        if len(self._reading.of("think")) >= 2 or len(self._found.rows) < 2:
            return None
        query = method_query(self._question, self._labels())
        content = self._words.insight.format(names=self._words.comma.join(self._labels()), query=query)
        return self._call("think", self._words.intent_insight, content=content, kind="data insight")

    def _labels(self) -> list[str]:
        return list(dict.fromkeys(one.label for one in self._found.series))

    def _documents(self) -> Call | None:
        """Read the best hit of the last search, or run the next useful search."""
        if self._found.not_understood and not self._found.sheets:
            # A document on the rest of the question would answer another one.
            return None
        searches = self._reading.of("search")
        if searches:
            last = searches[-1]
            query, hits = str(last.arguments.get("query", "")), last.head.get("hits", ())
            hit = best_hit(hits, query, read_ids(self._reading), self._required(query))
            if last.ok and hit is not None and self._unread(len(searches)):
                return self._call("fetch", self._words.intent_fetch.format(title=hit.get("title", "")), id=hit["id"])
        asked = [str(step.arguments.get("query", "")) for step in searches]
        for query in self._queries():
            if query and query not in asked:
                return self._call("search", self._words.intent_search.format(query=query), query=query, top_k=5)
        return None

    def _required(self, query: str) -> str:
        """Return the terms of which a document must have one: missing subjects, or the years searched for."""
        if not self._found.sheets:
            return " ".join(str(item.get("subject", "")) for item in self._found.missing)
        sought = context_query(self._question, self._labels(), self._years())
        return " ".join(self._years()) if query == sought else ""

    def _unread(self, searches: int) -> bool:
        """Return whether no document has been read since the last search and fewer than ``ATTEMPTS`` were tried."""
        since = self._reading.steps[max(i for i, step in enumerate(self._reading.steps) if step.tool == "search") :]
        fetches = [step for step in since if step.tool == "fetch"]
        return not any(step.ok for step in fetches) and len(fetches) < ATTEMPTS

    def _queries(self) -> list[str]:
        """Return search queries in order; later ones are alternatives when earlier ones find nothing."""
        question, read = self._question, len(self._found.quotes)
        if question.kind is Kind.DOCUMENT:
            return [query_of(question), *self._reworded()] if not read else [query_of(question)]
        if not self._found.sheets:
            return [query_of(question)]
        labels = self._labels()
        queries = [method_query(question, labels)]
        if self._years() and (question.background or len(question.aspects) > 1 or len(labels) > 1):
            queries.append(context_query(question, labels, self._years()))
        return queries

    def _reworded(self) -> list[str]:
        """Return the question in other words: its measure's proper name, or else its longest words."""
        names = [aspect.chinese if self._question.chinese else aspect.english for aspect in self._question.aspects]
        longest = sorted(query_of(self._question).split(), key=len, reverse=True)[:2]
        return names[:1] or [" ".join(longest)]

    def _years(self) -> list[str]:
        """Return the years of notable troughs and peaks."""
        dates = [row.values.get("trough") or row.values.get("max_date") for row in self._found.rows]
        return [str(date)[:4] for date in dates if date][:2]

    def _value(self) -> Call | None:
        """Compute one value, unless the digest shows it already."""
        if not self._found.series or self._found.rows or self._shown_value() or self._computations() >= ATTEMPTS:
            return None
        if self._computations():
            return self._call("python", self._words.intent_simple, code=code.simple_cell(self._found.series))
        cell = code.value_cell(self._found.series, self._question.moment)
        return self._call("python", self._words.intent_value, code=cell)

    def _shown_value(self) -> tuple[Series, str, str] | None:
        """Return series, date and value from the digest if that answers a look-up of one series."""
        if self._question.kind is Kind.ANALYSIS or len(self._found.series) != 1:
            return None
        series, step = self._found.series[0], next(step for step in self._reading.of("data") if step.ok)
        rows = shown_rows(step, series.variable)
        moment = self._question.moment
        fitting = [(date, cells) for date, cells in rows if date.startswith(moment)] if moment else rows[-1:]
        if not fitting or len(fitting[-1][1]) != 1 or fitting[-1][1][0] == "NaN":
            return None
        # Of a month with many days the digest may show only some; a cell finds the last one.
        if moment and len(fitting) > 1:
            return None
        return series, fitting[-1][0], fitting[-1][1][0]

    def _fallback_documents(self) -> Call | None:
        return self._documents() if not self._found.sheets else None

    def _fallback_data(self) -> Call | None:
        """Query data when no document has the answer."""
        return self._data() if not self._found.quotes else None


def next_call(reading: Reading, tools: Sequence[str]) -> Call:
    """Return the reference policy's next tool call.

    A rejected draft is corrected first; otherwise a recognised operation is played, or else the general plan.
    """
    again = mended(reading)
    if again is not None:
        words = CHINESE if read_question(reading.question).chinese else ENGLISH
        return Call("finish", {"intent": words.intent_finish, "answer": again})
    # Operations first: they understand the question better than the general plan, which always has an answer.
    return played(reading, tools) or Plan(reading, tools).next()
