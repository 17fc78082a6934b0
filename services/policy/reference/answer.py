"""The answer as Markdown in the question's language: what was computed, what tables say, quotations, what is open."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from fathom.domain.text.terms import is_chinese, is_small_talk
from fathom.services.policy.reference.cells import Result, is_chart, list_columns
from fathom.services.policy.reference.conversation import Conversation, Step
from fathom.services.policy.reference.documents import Quote
from fathom.services.policy.reference.reading import Reading, load_table

# Columns of results that say which way a value went.
MOVES = ("return", "change", "return_pct")
# Measures of which two series need not have one unit.
MIXED = ("summary", "cross")
MOST_OPEN, OPEN_CHARS = 20, 120
# A question over twenty years may lack twenty periods; the first ones show which.
MAX_LISTED, MOST_CLOSEST = 6, 3
DAY = re.compile(r"(\d{4}-\d\d-\d\d)T[\d:.Z]+")
FINDING = re.compile(r"""^- [a-z ]+: ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): .+$""", re.MULTILINE)
# Up to a full stop that is followed by a blank or the end, so that "3.5" ends no sentence.
SENTENCE = re.compile(r"[^.!?。！？]*(?:[.!?](?!\s|$)[^.!?。！？]*)*(?:[.!?。！？]|$)[ \t]*")
ROW = re.compile(r"^\d+ +(\S.*)$", re.MULTILINE)


def say(name: str, is_zh: bool, *values: object) -> str:
    """Return a text in one of the languages."""
    return str(load_table("texts")["answer"][name][is_zh]).format(*values)


@dataclass(frozen=True)
class Findings:
    """All that an answer is made of."""

    conversation: Conversation
    reading: Reading
    refused: Sequence[str]
    results: Sequence[Result]
    sheets: Sequence[Mapping[str, Any]]
    quotes: Sequence[Quote]
    failed: Sequence[str] = ()
    """Measures that could not be computed, each with the reason."""

    @property
    def open_clauses(self) -> list[str]:
        """Return the clauses of a question that has more of them than the data tool gave tables, each for one."""
        asked = [words for name, words, _ in self.reading.asked if name != "level"]
        return asked if self.sheets and not self.results and len(asked) > max(1, len(self.sheets)) else []

    @property
    def premise(self) -> str:
        """Return that a value rose where the question takes for granted that it fell, or the other way round."""
        moves = [row[name] for one in self.results for row in one.rows for name in MOVES if row.get(name) is not None]
        went = "rise" if moves and min(moves) > 0 else "fall" if moves and max(moves) < 0 else ""
        # A rate counts the units of a currency for one euro, which are the more, the less it is worth.
        indicators = {column.get("indicator") for sheet in self.sheets for column in list_columns(sheet)}
        has_other = any(premise not in ("", went) for _, _, premise in self.reading.asked)
        if not went or not has_other or load_table("measures")["inverse"] in indicators:
            return ""
        is_zh, words = is_chinese(self.conversation.question), load_table("texts")["premise"]
        return self.say("premise", words["rise" if went == "fall" else "fall"][is_zh], words[went][is_zh])

    def list_open(self) -> list[str]:
        """Return what of the question stays open: words, clauses, a premise that does not hold."""
        texts = [*self.reading.texts("unknown"), *self.open_clauses, *(self.refused if self.results else ())]
        texts += self.failed
        # What is computed here was read word for word; a table of the data tool leaves out what it did not understand.
        items = [item for item in self.reading.missing if item.get("reason") == "NOT_UNDERSTOOD"]
        texts += [str(item.get("subject", "")) for item in items] if not self.results else []
        texts = [text[:OPEN_CHARS] for text in (self.premise.rstrip(".。"), *texts) if text]
        return list(dict.fromkeys(texts))[:MOST_OPEN]

    def say(self, name: str, *values: object) -> str:
        """Return a text in the question's language."""
        return say(name, is_chinese(self.conversation.question), *values)

    def join(self, parts: Sequence[str]) -> str:
        return ("；" if is_chinese(self.conversation.question) else "; ").join(parts)


def compose(found: Findings) -> str:
    """Return the answer; each paragraph with figures cites them."""
    if is_small_talk(found.conversation.question):
        return found.say("greeting")
    has_figures = bool(found.results or found.sheets)
    body = [*write_results(found), *write_sheets(found), *write_figures(found), *write_quotes(found)]
    opening = list(write_opening(found, has_figures))
    body += [] if has_figures else list(write_closest(found))
    if not body and not opening:
        body = [found.say("nothing")]
    return "\n\n".join([*opening, *body, *write_ending(found)])


def state_open(arguments: Mapping[str, Any], question: str) -> str:
    """Return the answer of a ``finish`` call behind what it leaves open, for a reader to whom nobody else says that."""
    left = [str(text) for text in arguments.get("reading", {}).get("open", ())]
    text, is_zh = str(arguments["answer"]), is_chinese(question)
    return f"{say('open', is_zh, ('；' if is_zh else '; ').join(left))}\n\n{text}" if left else text


def write_opening(found: Findings, has_figures: bool) -> Iterator[str]:
    """Yield what of the question was not understood or cannot be computed.

    Beside figures the planner's line above the answer names the words that were not understood.
    """
    items = [item for item in found.reading.missing if item.get("reason") == "NOT_UNDERSTOOD"]
    words = [f"“{item['subject']}”{cite(item)}" for item in items]
    words += [f"“{word}”" for word in found.reading.texts("unknown") if not any(word in text for text in words)]
    if words and not has_figures and not found.quotes:
        yield found.say("unanswered", found.join(list(dict.fromkeys(words))))
    if found.refused and not has_figures:
        # The reply of the data tool, where it has something to cite, is what says so.
        source = next((cite(item) for item in found.reading.missing), "")
        yield found.say("refused", found.join([f"“{word}”" for word in found.refused]) + source)


def write_closest(found: Findings) -> Iterator[str]:
    """Yield the three series that the catalogue holds for closest."""
    for step in found.conversation.of("catalogue"):
        rows = [line.split(" | ") for line in step.body.splitlines()[1:] if step.is_ok]
        if names := [row[2] for row in rows if len(row) > 5][:MOST_CLOSEST]:
            yield found.say("closest", found.join(names) + cite(step.material))


def cite(item: Mapping[str, Any] | int) -> str:
    """Return the citation of a material; "" for none."""
    number = item if isinstance(item, int) else item.get("material", 0)
    return f" [{number}]" if isinstance(number, int) and number else ""


def write_results(found: Findings) -> Iterator[str]:
    """Yield a paragraph per computed measure: its series by size, and the convention of the calculation."""
    table, side = load_table("measures")["measures"], is_chinese(found.conversation.question)
    language = "zh" if side else "en"
    for result in found.results:
        measure = table[result.measure]
        rows = [row for row in result.rows if row.get(measure["key"]) is not None]
        # Dates stay in their order, as do the periods of one series.
        if measure["key"] != "date" and len({row.get("series") for row in rows}) > 1:
            rows.sort(key=lambda row: -row[measure["key"]])
        forms = measure[language] if isinstance(measure[language], list) else [measure[language]]
        lines = [
            f"- {fill(forms, row, found.reading, measure.get('percent', ()))}{cite(result.material)}" for row in rows
        ]
        percent = measure["key"] in measure.get("percent", ())
        if len(rows) == 2 and result.apart is not None and measure["key"] != "date" and result.measure not in MIXED:
            lines.append(found.say("apart", show_value(result.apart, percent), cite(result.material)))
        for one in result.between if result.measure != "summary" else ():
            # The difference of two shares is in percentage points, and no share of the first one.
            grown = "" if percent or one["grown"] is None else f" ({show_value(one['grown'], is_percent=True)}%)"
            name, apart = name_series(one["series"], found.reading), show_value(one["apart"], percent) + grown
            lines.append(found.say("between", name, apart, cite(result.material)))
        yield "\n".join([*lines, "", f"{result.convention[language]}{cite(result.material)}"])


def fill(forms: Sequence[str], row: Mapping[str, Any], reading: Reading, percent: Collection[str]) -> str:
    """Return a line about one row of a result, in the first form whose fields it all has, or else in the last one."""
    is_rate = row.get("unit") == "%" and not percent
    shown = {name for name in row if is_rate or name.endswith("_pct") or name in percent}
    values = {name: show_value(value, name in shown) for name, value in row.items()}
    for field in ("series", "other", "market"):
        values[field] = name_series(str(row.get(field, "")), reading)
    values["name"] = values["series"]
    known = {name for name in values if name not in row or row[name] is not None}
    fields = [{field for _, field, _, _ in Formatter().parse(form) if field} for form in forms]
    chosen = next((form for form, needed in zip(forms, fields, strict=True) if needed <= known), forms[-1])
    return chosen.format_map(defaultdict(lambda: "–", values))


def show_value(value: object, is_percent: bool) -> str:
    """Return a number with as many decimals as its size is worth, a date as ISO, and a dash for nothing."""
    if isinstance(value, float):
        if not is_percent and 0 < abs(value) < 0.1:
            return f"{value:.4g}"
        places = (1 if abs(value) >= 10 else 2) if is_percent else 2 if abs(value) >= 10 else 4
        return f"{value:,.{places}f}"
    return "–" if value is None else DAY.sub(r"\1", str(value))


def name_series(column: str, reading: Reading) -> str:
    """Return the question's own words for a column such as ``AAPL.close_adj``, or its ids."""
    if " - " in column:
        return " – ".join(name_series(part, reading) for part in column.split(" - "))
    entity, _, indicator = column.partition(".")
    # What an economy has many of is named by what is measured.
    known = [indicator, entity] if entity in load_table("measures")["no_series"] else [entity, indicator]
    return next((reading.names[one] for one in known if one in reading.names), entity)


def write_sheets(found: Findings) -> Iterator[str]:
    """Yield each table of the data tool: its values in words where they are few, and the table itself."""
    bodies = "\n\n".join(step.body for step in found.conversation.of("data"))
    # Several queries may give the same table, which is shown once.
    for sheet in {str(sheet.get("title", "")): sheet for sheet in reversed(found.sheets)}.values():
        rows = [] if found.results else list_rows(bodies, sheet)
        said = [text for row in rows for text in write_row(row, sheet, found.reading)]
        title = f"{sheet.get('title', '')}{cite(sheet)}"
        yield f"{title}: {found.join(said)}{cite(sheet)}" if said else title
        yield f"{{{{table:{sheet['variable']}}}}}"


def list_rows(body: str, sheet: Mapping[str, Any]) -> list[list[str]]:
    """Return all rows of a short table as the data tool shows them, of a long one the first and the last row."""
    _, _, rest = body.partition(f"{sheet['variable']}: ")
    shown = rest.partition("\ncolumn | dtype")[0].partition("\n")[2]
    rows = [match.group(1).split() for match in ROW.finditer(shown)]
    if not rows or any(len(row) != len(sheet.get("columns", ())) for row in rows):
        return []
    return rows if len(rows) == sheet.get("rows") else [rows[0], rows[-1]]


def write_row(row: Sequence[str], sheet: Mapping[str, Any], reading: Reading) -> Iterator[str]:
    """Yield the values of a row, each with its series where there are several, its unit and its date."""
    cells = dict(zip([str(column["name"]) for column in sheet["columns"]], row, strict=True))
    columns = list_columns(sheet)
    days = " – ".join(cells[name] for name in ("date", "from", "to") if name in cells)
    for column in columns:
        value = cells[str(column["name"])]
        if value == "NaN":
            continue
        name = str(column["name"])
        entity, _, rest = name.partition(".")
        label = f"{reading.names.get(entity, entity)} {rest}: " if len(columns) > 1 else ""
        unit = str(column.get("unit", "")).partition(" (")[0]
        is_number = bool(re.fullmatch(r"-?\d+(?:\.\d+)?", value))
        if is_number and unit == "fraction":
            number, unit = show_value(float(value) * 100, is_percent=True), "%"
        else:
            number = f"{float(value):,}".removesuffix(".0") if is_number else value
        # "2017=100" is the base of an index and no unit of its values.
        unit = unit if unit.startswith("%") else f" {unit}" if unit and "=" not in unit else ""
        yield f"{label}{number}{unit} ({days})"


def write_figures(found: Findings) -> Iterator[str]:
    for step in found.conversation.of("python"):
        if step.is_ok and is_chart(step):
            yield from (f"{{{{figure:{figure}}}}}" for figure in step.head.get("figures", ()))


def write_quotes(found: Findings) -> Iterator[str]:
    for quote in found.quotes:
        yield found.say("quote", quote.title, quote.text, cite(quote.material).strip())


def write_ending(found: Findings) -> Iterator[str]:
    """Yield what is missing, what failed, and as of when the figures are."""
    replies = [*found.conversation.of("data")]
    missing = [item for step in replies for item in step.head.get("missing", ())] or found.reading.missing
    items = [item for item in missing if item.get("reason") != "NOT_UNDERSTOOD"]
    lines: dict[str, str] = {}
    for item in items:
        # A question of which nothing was found need not be said again.
        subject = str(item.get("subject", "")).replace(found.conversation.question, "").strip()
        subject = " ".join(filter(None, (subject, str(item.get("period", "")))))
        detail = item.get("detail") or item.get("reason")
        lines.setdefault(f"{subject} ({detail})" if subject else str(detail), cite(item))
    if lines:
        yield found.say("missing", found.join([text + source for text, source in lines.items()][:MAX_LISTED]))
    errors = [str(step.head.get("error", "")) for step in found.conversation.steps if has_failed(step)]
    if errors:
        yield found.say("failed", found.join(list(dict.fromkeys(errors))[:2]))
    dated = [
        (str(column.get("as_of", "")), sheet)
        for step in replies
        for sheet in step.head.get("sheets", ())
        for column in list_columns(sheet)
        if column.get("as_of")
    ]
    if dated:
        cited = "".join(dict.fromkeys(cite(sheet).strip() for _, sheet in dated))
        yield found.say("dated", found.join(sorted({day for day, _ in dated})), cited)
    elif found.reading.entities:
        yield found.say("caveat")


def has_failed(step: Step) -> bool:
    # A draft that came back is no failure, and without a chart nothing is wrong.
    return step.tool != "finish" and not is_chart(step) and step.head.get("status") in ("failed", "invalid", "refused")


def mend(conversation: Conversation) -> tuple[str, bool] | None:
    """Return the draft that the planner gave back, without the sentences that do not hold, and whether it had some.

    None is returned when no draft came back.

    A draft that came back because parts of the question stay open is given again: all that this policy can look for
    was looked for.
    """
    last = conversation.steps[-1] if conversation.steps else None
    if last is None or last.tool != "finish" or last.head.get("status") not in ("invalid", "open"):
        return None
    draft = str(last.arguments.get("answer", ""))
    # literal_eval undoes repr() and runs no code.
    wrong = [str(ast.literal_eval(text)) for text in FINDING.findall(last.body)]
    lines = [[part for part in SENTENCE.findall(line) if part] for line in draft.split("\n")]
    left = [[part for part in line if not any(text in part for text in wrong)] for line in lines]
    removed = sum(map(len, lines)) - sum(map(len, left))
    if not removed:
        return (draft, False) if draft else None
    return re.sub(r"\n{3,}", "\n\n", "\n".join(map("".join, left))).strip(), True
