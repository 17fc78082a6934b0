"""Scripts of operations: generators that yield calls and receive their results, replayed from the start each time.

The policy is stateless between calls. Each time, the script runs again on the results in the conversation until it
yields a call that has not been made, which is the next one. Later calls can therefore depend on earlier results.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from fathom.services.policy.backends.rules.findings import Row
from fathom.services.policy.backends.rules.names import Name
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.passages import best_hit, quote_of
from fathom.services.policy.backends.rules.prose.wording import cited
from fathom.services.policy.backends.rules.prose.words import CHINESE, ENGLISH, Words
from fathom.services.policy.backends.rules.reading import UNREADABLE, Reading, Step, json_object
from fathom.services.policy.backends.rules.sheets import Series

NOT_OFFERED = "the tool is not on offer"


@dataclass(frozen=True)
class Call:
    """A tool call to make."""

    tool: str
    arguments: Mapping[str, Any]
    beside: tuple[Call, ...] = ()
    """Following calls that do not depend on this one, and may be made in the same round."""

    def made_by(self, step: Step) -> bool:
        """Return whether the step executed this call; the intent is for readers and is not compared."""
        # Compared by arguments: a script that is replayed must find its own calls again, in whatever order they were
        # made.
        mine = {name: value for name, value in self.arguments.items() if name != "intent"}
        theirs = {name: value for name, value in step.arguments.items() if name != "intent"}
        return step.tool == self.tool and mine == theirs


T = TypeVar("T")
Play: TypeAlias = Generator[Call, Step, T]
Columns: TypeAlias = dict[Name, Series]


@dataclass
class Desk:
    """Context of a script, which collects the parts of the answer."""

    ask: Ask
    paragraphs: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    found: bool = False
    """True when any number was found."""

    @property
    def words(self) -> Words:
        return CHINESE if self.ask.chinese else ENGLISH

    def either(self, english: str, chinese: str) -> str:
        """Return the text in the question's language."""
        return chinese if self.ask.chinese else english

    def say(self, english: str, chinese: str, *rows: Row) -> None:
        """Append a paragraph that cites the sources of its numbers."""
        self.paragraphs.append(self.cited(self.either(english, chinese), *rows))
        self.found = True

    def cited(self, text: str, *rows: Row) -> str:
        """Return the text with citations before its final full stop."""
        marks = cited([row.material for row in rows], self.words)
        stop = text[-1] if text[-1] in ".。" else ""
        return f"{text.removesuffix(stop)}{marks}{stop}"

    def label(self, name: Name) -> str:
        return name.label(self.ask.chinese)

    def think(self, english: str, chinese: str, kind: str = "argument decomposition") -> Play[None]:
        """Record a thought."""
        intent = self.either("Say what has to be found, and in which order.", "写明要查什么、按什么顺序查。")
        yield Call("think", {"intent": intent, "content": self.either(english, chinese), "kind": kind})

    def data(self, names: Sequence[Name], start: str = "", end: str = "", owners: Sequence[Name] = ()) -> Play[Columns]:
        """Fetch the series of these names by typed queries, one per kind of series; missing ones are omitted.

        Indicators of statements are requested for ``owners``, else for the companies among the names.
        """
        columns: Columns = {}
        for indicators, entities in grouped(names, owners or names):
            labels = self.words.comma.join(self.label(name) for name in names)
            arguments: dict[str, Any] = {
                "intent": self.either(f"Fetch the series of {labels}.", f"取{labels}的数据。"),
                "entities": entities,
                "indicators": indicators,
            }
            arguments |= {"start_date": start} if start else {}
            arguments |= {"end_date": end} if end else {}
            step = yield from self._insistent(Call("data", arguments))
            for sheet in step.head.get("sheets", ()) if step.ok else ():
                self.take(sheet, names, columns)
        return {name: columns[name] for name in names if name in columns}

    def take(self, sheet: Mapping[str, Any], names: Sequence[Name], columns: Columns, *, show: bool = True) -> None:
        """Add the columns of a sheet that are series of these names; ``show`` adds the table to the answer."""
        variable, material = str(sheet["variable"]), int(sheet.get("material", 0))
        if show and variable not in self.tables:
            self.tables.append(variable)
        for column in sheet.get("columns", ()):
            for name in names:
                if (column.get("entity"), column.get("indicator")) == (name.entity, name.indicator):
                    columns[name] = Series(
                        variable, material, str(column["name"]), self.label(name), str(column.get("unit", "")),
                        name.kind in ("price", "currency"), str(column.get("as_of", "")),
                    )  # fmt: skip

    def python(self, code: str, english: str, chinese: str) -> Play[list[Row]]:
        """Run a cell and return the JSON rows it prints; [] when it failed."""
        step = yield from self._insistent(Call("python", {"intent": self.either(english, chinese), "code": code}))
        if not step.ok:
            return []
        self.figures += [str(figure) for figure in step.head.get("figures", ())]
        parsed = [json_object(line) for line in step.body.splitlines() if line.startswith("{")]
        return [Row(values, step.material) for values in parsed if values]

    def document(self, query: str, required: str = "", limit: int = 2) -> Play[None]:
        """Quote one sentence of the document that matches a query best."""
        intent = self.words.intent_search.format(query=query)
        search = yield Call("search", {"intent": intent, "query": query, "top_k": 5})
        read: list[str] = []
        while len(read) < limit:
            hit = best_hit(search.head.get("hits", ()), query, read, required) if search.ok else None
            if hit is None:
                return
            intent = self.words.intent_fetch.format(title=hit.get("title", ""))
            step = yield Call("fetch", {"intent": intent, "id": hit["id"]})
            quote = quote_of(step, query) if step.ok and step.material else None
            if quote is not None:
                marks = cited([quote.material], self.words).strip()
                self.quotes.append(self.words.quoted.format(title=quote.title, text=quote.text, cites=marks))
                return
            read.append(str(hit["id"]))

    def _insistent(self, call: Call) -> Play[Step]:
        """Make a call, and repeat it once when the service failed or the result was truncated since."""
        step = yield call
        failed, error = step.head.get("status") == "failed", step.head.get("error")
        # A failed cell is not repeated, because it would fail again.
        # A service may be back; a result that compaction has cut to one line is no longer readable.
        if failed and (error == UNREADABLE or (call.tool == "data" and error != NOT_OFFERED)):
            step = yield call
        return step


Script: TypeAlias = Callable[[Desk], Play[None]]


def grouped(names: Sequence[Name], owners: Sequence[Name]) -> list[tuple[list[str], list[str]]]:
    """Group indicators with their entities, so that one call fetches all series of a kind; deterministic."""
    groups: dict[str, tuple[list[str], list[str]]] = {}
    companies = [name.entity for name in owners if name.kind == "price"]
    for name in dict.fromkeys(names):
        if name.kind == "statement":
            groups[name.en] = ([name.indicator], companies)
            continue
        kind = "macro" if name.kind in ("rate", "index") else name.indicator
        indicators, entities = groups.setdefault(kind, ([], []))
        indicators += [name.indicator] if name.indicator not in indicators else []
        entities += [name.entity] if name.entity not in entities else []
    return list(groups.values())


def unmade(calls: Sequence[Call], steps: Sequence[Step]) -> tuple[Call, ...]:
    """Return the calls that no step has executed."""
    return tuple(call for call in calls if not any(call.made_by(step) for step in steps))


def advance(reading: Reading, tools: Sequence[str], script: Script, desk: Desk) -> Call | None:
    """Replay the script on the recorded steps; return the next call, or None when nothing is left to do."""
    # Each step answers one call: two equal calls need two steps.
    unused = list(reading.steps)
    playing = script(desk)
    try:
        call = next(playing)
        while True:
            step = next((step for step in unused if call.made_by(step)), None)
            if step is not None:
                unused.remove(step)
            elif call.tool not in tools:
                step = Step(call.tool, call.arguments, {"status": "failed", "error": NOT_OFFERED}, "")
            else:
                return None if reading.last_round else replace(call, beside=unmade(call.beside, unused))
            call = playing.send(step)
    except StopIteration:
        return None
