"""Cells that compute the measures of a plan by the finance library, and their printed results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from fathom.services.policy.reference.conversation import Step, parse_object
from fathom.services.policy.reference.planning import Plan
from fathom.services.policy.reference.reading import load_table

# A result of any shape as one line of JSON, with its convention in both languages.
HEAD = '''import json


def show(measure, calls, percent, unit, key, series, rows=lambda found: found):
    """Print the results of all periods as one line of JSON, with their convention in both languages."""
    tables, found = [], None
    for window, call in calls.items():
        try:
            found = call()
        except (ValueError, ArithmeticError) as error:
            print(json.dumps({"measure": measure, "error": str(error)}, ensure_ascii=False))
            return
        whole = pd.Series({series: float(found)}, name=key) if isinstance(found, float) else rows(found)
        names = ["series"] if whole.index.name is None and whole.index.nlevels == 1 else whole.index.names
        tables.append(pd.DataFrame(whole).rename_axis(names).reset_index().assign(window=window))
    table = pd.concat(tables)
    table = table.assign(unit=unit, **{column: table[column] * 100 for column in percent if column in table})
    text = table.to_json(orient="records", date_format="iso", double_precision=6)
    said = {language: finance.convention(found, language) for language in ("en", "zh")}
    pair = pd.to_numeric(table[key], errors="coerce").dropna().tolist()
    printed = {"measure": measure, "rows": json.loads(text), "convention": said}
    printed["apart"] = abs(pair[1] - pair[0]) if len(pair) == 2 and len(tables) == 1 else None
    two = [part[key].tolist() for _, part in table.groupby("series", sort=False)] if "series" in table else []
    two = dict(zip(table["series"].unique(), two)) if two and len(tables) == 2 and key != "date" else {}
    printed["between"] = [
        {"series": name, "apart": last - first, "grown": (last / first - 1) * 100 if first > 0 else None}
        for name, (first, last) in two.items()
    ]
    print(json.dumps(printed, ensure_ascii=False))


'''


# Columns of `finance.summary` that have the unit of the values.
LEVELS = ["first", "last", "min", "max", "mean", "change"]


@dataclass(frozen=True)
class Result:
    """What a cell printed of one measure: its rows, its convention by language, and the number to cite."""

    measure: str
    rows: tuple[Mapping[str, Any], ...]
    convention: Mapping[str, str]
    material: int
    apart: float | None = None
    """How far two series lie apart, where there are two."""
    between: Sequence[Mapping[str, Any]] = ()
    """By series, the second of two periods less the first one, and the same in per cent of it."""
    error: str = ""


def list_columns(sheet: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the columns of a sheet that hold values."""
    columns: Sequence[Mapping[str, Any]] = sheet.get("columns", ())
    return [column for column in columns if not str(column.get("type", "")).startswith(("time", "date", "string"))]


def write_cell(plans: Sequence[tuple[Plan, Mapping[str, Any]]]) -> str:
    """Return the cell that computes all measures of plans over their tables for each of their periods."""
    return HEAD + "\n".join(line for plan, sheet in plans for line in write_calls(plan, sheet)) + "\n"


def write_calls(plan: Plan, sheet: Mapping[str, Any]) -> Iterator[str]:
    table, variable = load_table("measures"), str(sheet["variable"])
    asked = {*plan.query.get("indicators", ())}
    columns = [str(one["name"]) for one in list_columns(sheet) if not asked or one.get("indicator") in asked]
    columns = columns or [str(one["name"]) for one in list_columns(sheet)]
    index = [str(column["name"]) for column in list_columns(sheet) if column.get("indicator") == table["price_index"]]
    by, index = (variable, index) if index else sheet.get("index", (variable, index))
    is_price = any(one.get("indicator") in table["inputs"] for one in list_columns(sheet))
    for name in plan.measures:
        measure = table["measures"][name]
        used = [column for column in columns if "real" not in plan.measures or column not in index] or columns
        data = variable if used == columns else f"{variable}[{json.dumps(['date', *used], ensure_ascii=False)}]"
        calls = []
        for start, end in plan.windows:
            values = {"data": data, "start": repr(start or None), "end": repr(end or None), **plan.values}
            values |= {"since": repr(find_base(start, end)), "after": repr(find_base(start, end, of_steps=True))}
            values |= {"first": repr(used[0]), "last": repr(used[-1])}
            values |= {"columns": repr(used), "index": f"{by}[{['date', *index]!r}]"}
            values |= {"base": "" if is_price else ", 'first'"}
            window = f"{start or '…'} – {end or '…'}"
            calls.append(f"{window!r}: lambda: {measure['call'].format(**values)}")
        rows = f", lambda found: {measure['rows'].replace('{first}', repr(used[0]))}" if "rows" in measure else ""
        # Shares of one are shown in per cent, whatever is taken of them; so are returns by period.
        units = {str(column.get("unit", "")) for column in list_columns(sheet)}
        percent = measure.get("percent", []) + (LEVELS if units == {"fraction"} and name != "cross" else [])
        unit = "%" if percent or all(one.startswith("%") for one in units) else ""
        arguments = f"{percent!r}, {unit!r}, {measure['key']!r}, {used[0]!r}{rows}"
        yield f"show({name!r}, {{{', '.join(calls)}}}, {arguments})"


def find_base(start: str, end: str, of_steps: bool = False) -> str | None:
    """Return from when a return counts: a start that is the first of a month is this month, with the value before it.

    Any other day is its own base; ``of_steps`` gives the day behind it, from which the first of single returns is. Of a
    single day the data have the row before, which is the first one.
    """
    day = date.fromisoformat(start) if start and start != end else None
    if day is None:
        return None
    return start[:7] if day.day == 1 else str(day + timedelta(days=1)) if of_steps else start


def write_chart(plan: Plan, sheet: Mapping[str, Any], is_zh: bool) -> str:
    """Return the cell that draws the first measure with a chart; "" for none and for a single day."""
    measures = load_table("measures")["measures"]
    kind = next((measures[name]["chart"] for name in plan.measures if "chart" in measures[name]), "")
    start, end = plan.windows[0]
    if not kind or (start and start == end):
        return ""
    language = "zh" if is_zh else "en"
    return f"finance.chart({sheet['variable']}, {kind!r}, '', {start!r}, {end!r}, language={language!r})"


def is_chart(step: Step) -> bool:
    """Return whether a cell was to draw a chart."""
    return str(step.arguments.get("code", "")).startswith("finance.chart")


def read_results(steps: Sequence[Step]) -> list[Result]:
    """Return what the cells printed, in order."""
    found = []
    for step in steps:
        for line in step.body.splitlines() if step.is_ok else ():
            printed = parse_object(line)
            if printed and "measure" in printed:
                known = {key: printed[key] for key in ("apart", "between", "error") if key in printed}
                rows, said = tuple(printed.get("rows", ())), printed.get("convention", {})
                found.append(Result(str(printed["measure"]), rows, said, step.material, **known))
    return found
