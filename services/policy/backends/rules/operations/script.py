"""How an operation is played: a generator that asks for calls and is sent their results, replayed from the start.

The policy remembers nothing between two calls. Each time, the script runs again and is fed with the results that the
conversation holds, until it asks for a call that has not been made: that one is next. So a later call may be made of
what an earlier one found.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from services.policy.backends.rules.findings import Row
from services.policy.backends.rules.operations.ask import Ask
from services.policy.backends.rules.operations.names import Name
from services.policy.backends.rules.passages import best_hit, quote_of
from services.policy.backends.rules.reading import UNREADABLE, Reading, Step, json_object
from services.policy.backends.rules.sheets import Series
from services.policy.backends.rules.wording import cited
from services.policy.backends.rules.words import CHINESE, ENGLISH, Words

NOT_OFFERED = "the tool is not on offer"


@dataclass(frozen=True)
class Call:
    """A tool call to make."""

    tool: str
    arguments: Mapping[str, Any]
    beside: tuple[Call, ...] = ()
    """Calls that come next and need nothing of this one: they may be made in the same round."""

    def made_by(self, step: Step) -> bool:
        """True for a step of this call; the intent is for readers and does not count."""
        mine = {name: value for name, value in self.arguments.items() if name != "intent"}
        theirs = {name: value for name, value in step.arguments.items() if name != "intent"}
        return step.tool == self.tool and mine == theirs


T = TypeVar("T")
Play: TypeAlias = Generator[Call, Step, T]
Columns: TypeAlias = dict[Name, Series]


@dataclass
class Desk:
    """What a script works with, and where it puts the paragraphs of the answer as it goes."""

    ask: Ask
    paragraphs: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    found: bool = False
    """Whether any number was found."""

    @property
    def words(self) -> Words:
        return CHINESE if self.ask.chinese else ENGLISH

    def either(self, english: str, chinese: str) -> str:
        """The text in the question's language."""
        return chinese if self.ask.chinese else english

    def say(self, english: str, chinese: str, *rows: Row) -> None:
        """Adds a paragraph that cites what its numbers come from."""
        self.paragraphs.append(self.cited(self.either(english, chinese), *rows))
        self.found = True

    def cited(self, text: str, *rows: Row) -> str:
        """The text with citations before its last stop."""
        marks = cited([row.material for row in rows], self.words)
        stop = text[-1] if text[-1] in ".。" else ""
        return f"{text.removesuffix(stop)}{marks}{stop}"

    def label(self, name: Name) -> str:
        return name.label(self.ask.chinese)

    def think(self, english: str, chinese: str, kind: str = "argument decomposition") -> Play[None]:
        """A thought."""
        intent = self.either("Say what has to be found, and in which order.", "写明要查什么、按什么顺序查。")
        yield Call("think", {"intent": intent, "content": self.either(english, chinese), "kind": kind})

    def data(self, names: Sequence[Name], start: str = "", end: str = "", owners: Sequence[Name] = ()) -> Play[Columns]:
        """The series of these names by typed queries, one per kind of series; what is missing is left out.

        Measures of statements are asked for of ``owners``, else of the companies among the names.
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
        """Adds the columns of a sheet that are series of these names; ``show`` puts the table into the answer."""
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
        """The rows of JSON that a cell prints; none when it failed."""
        step = yield from self._insistent(Call("python", {"intent": self.either(english, chinese), "code": code}))
        if not step.ok:
            return []
        self.figures += [str(figure) for figure in step.head.get("figures", ())]
        parsed = [json_object(line) for line in step.body.splitlines() if line.startswith("{")]
        return [Row(values, step.material) for values in parsed if values]

    def document(self, query: str, required: str = "", limit: int = 2) -> Play[None]:
        """Quotes one sentence of the document that fits a query best."""
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
        """Once more when the service failed, or when the result has been shortened since; a cell would fail alike."""
        step = yield call
        failed, error = step.head.get("status") == "failed", step.head.get("error")
        if failed and (error == UNREADABLE or (call.tool == "data" and error != NOT_OFFERED)):
            step = yield call
        return step


Script: TypeAlias = Callable[[Desk], Play[None]]


def grouped(names: Sequence[Name], owners: Sequence[Name]) -> list[tuple[list[str], list[str]]]:
    """Indicators with their entities, so that one call serves all series of a kind; the same names give the same."""
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
    """The calls that no step was made of."""
    return tuple(call for call in calls if not any(call.made_by(step) for step in steps))


def advance(reading: Reading, tools: Sequence[str], script: Script, desk: Desk) -> Call | None:
    """Plays the script on what was found; the call that comes next, None when nothing is left to do."""
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
