"""The answer as Markdown in the question's language, with sources in every paragraph and only numbers from tools."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.services.policy.backends.rules.findings import Findings, Row
from fathom.services.policy.backends.rules.prose.missing import missing_items, not_understood
from fathom.services.policy.backends.rules.prose.wording import cited, grouped, percent, plain, signed, unit_text
from fathom.services.policy.backends.rules.prose.words import CHINESE, ENGLISH, Words
from fathom.services.policy.backends.rules.question import Kind, Question
from fathom.services.policy.backends.rules.sheets import Series, is_price_index, is_share, subject_of

# The first errors usually cause the others.
MAX_ERRORS = 2
Shown = tuple[Series, str, str]


def answer(question: Question, found: Findings, shown: Shown | None) -> str:
    """Write the findings; ``shown`` is a value that the digest itself shows."""
    words = CHINESE if question.chinese else ENGLISH
    if question.kind is Kind.CHAT:
        return words.chat
    paragraphs = [
        *(
            values(found, shown, question, words)
            if question.kind is not Kind.ANALYSIS
            else analysis(found, question, words)
        ),
        *documents(found, question, words),
    ]
    strange = not_understood(found.not_understood, words, bool(found.sheets))
    if not paragraphs and not strange:
        paragraphs = [words.nothing]
    return "\n\n".join([*strange, *paragraphs, *endings(found, question, words, bool(found.rows) or shown is not None)])


def analysis(found: Findings, question: Question, words: Words) -> list[str]:
    """Return restatement and comparison, one finding per series, tables and figures."""
    if not found.sheets:
        return []
    compared = comparison(found, question, words)
    # Without rows nothing was computed, and a comparison has no dates to state.
    opening = [restated(found, words), *([compared] if compared else [])] if found.rows else []
    parts = [words.stop.join(opening)] if opening else []
    parts += [finding(row, unit_of(row, found), words) for row in found.rows]
    parts += [f"{{{{table:{sheet['variable']}}}}}" for sheet in found.sheets]
    return [*parts, *(f"{{{{figure:{figure}}}}}" for figure, _ in found.figures)]


def restated(found: Findings, words: Words) -> str:
    """State the examined subjects and dates."""
    start = min(str(row.values.get("start", "")) for row in found.rows)
    end = max(str(row.values.get("end", "")) for row in found.rows)
    subject = "; ".join(dict.fromkeys(subject_of(sheet) for sheet in found.sheets))
    cites = cited([int(sheet.get("material", 0)) for sheet in found.sheets], words)
    return words.restated.format(subject=subject, start=start, end=end, cites=cites)


def finding(row: Row, unit: str, words: Words) -> str:
    """Describe one series, omitting measures that the cell could not compute."""
    fields = {
        "label": row.label,
        "unit": unit,
        "cites": cited([row.material], words),
        **{name: plain(row.number(name)) for name in ("first", "last", "min", "max", "mean")},
        **{name: percent(row.number(f"{name}_pct")) for name in ("cagr", "volatility", "drawdown")},
        **{name: str(row.values.get(name, "")) for name in ("start", "end", "peak", "trough", "min_date", "max_date")},
    }
    if row.number("return_pct") is not None:
        text = words.price.format(change=signed(percent(row.number("return_pct"))), **fields)
        parts = [text, *([words.growth.format(**fields)] if row.number("cagr_pct") is not None else [])]
        if row.number("drawdown_pct") is not None and row.number("volatility_pct") is not None:
            fell = (row.number("drawdown_pct") or 0) < 0
            parts.append((words.risk if fell else words.no_fall).format(**fields))
        return words.stop.join(parts)
    if row.number("mean") is not None:
        return words.level.format(change=signed(plain(row.number("change"))), **fields)
    return words.ends.format(**fields)


def comparison(found: Findings, question: Question, words: Words) -> str:
    """Name the best by return, drawdown and, if requested, volatility; levels of one unit by their final value."""
    rows = found.rows
    if len(rows) < 2:
        return ""
    volatility = any(aspect.name == "volatility" for aspect in question.aspects)
    measures = [("return_pct", 1, words.best_return), ("drawdown_pct", 1, words.best_drawdown)]
    measures += [("volatility_pct", -1, words.best_volatility)] if volatility else []
    parts = []
    for name, sign, phrase in measures:
        # A best one among some of them would be wrong if the missing one were better.
        if all(row.number(name) is not None for row in rows):
            best = max(rows, key=lambda row, name=name, sign=sign: sign * (row.number(name) or 0.0))  # type: ignore[misc]
            value = percent(best.number(name))
            shown = signed(value) if name == "return_pct" else value
            parts.append(phrase.format(label=best.label, value=shown, cites=cited([best.material], words)))
    if parts and any(row.number("return_pct") is not None for row in rows):
        parts += mixed_returns(found.series, words)
    # A rate in % and an index of 2017=100 have no higher one.
    if not parts and same_unit(found) and all(row.number("last") is not None for row in rows):
        best = max(rows, key=lambda row: row.number("last") or 0.0)
        value = plain(best.number("last")) + unit_of(best, found)
        parts.append(words.highest_level.format(label=best.label, value=value, cites=cited([best.material], words)))
    return words.stop.join(parts)


def mixed_returns(series: Sequence[Series], words: Words) -> list[str]:
    """Return a warning when total returns are compared with those of a price index; [] otherwise."""
    shares, indices = ([one.label for one in series if kind(one)] for kind in (is_share, is_price_index))
    if not (shares and indices):
        return []
    return [words.mixed_returns.format(shares=words.comma.join(shares), indices=words.comma.join(indices))]


def values(found: Findings, shown: Shown | None, question: Question, words: Words) -> list[str]:
    """Describe single values, from the digest or from a cell."""
    if shown is not None and not found.rows:
        series, date, value = shown
        text = words.value.format(
            label=series_name(series, found),
            value=grouped(value),
            unit=unit_text(series.unit),
            date=date,
            cites=cited([series.material], words),
        )
        # The price paid on that day was another one wherever a split or dividend followed.
        return [words.stop.join([text, words.adjusted]) if is_share(series) else text]
    parts = []
    for row in found.rows:
        unit, cites = unit_of(row, found), cited([row.material], words)
        if row.number("value") is not None:
            value, date = plain(row.number("value")), str(row.values.get("date", ""))
            text = words.value.format(label=row.label, value=value, unit=unit, date=date, cites=cites)
            share = any(one.label == row.label and is_share(one) for one in found.series)
            parts.append(words.stop.join([text, words.adjusted]) if share else text)
        elif row.number("n") == 0:
            parts.append(words.no_value.format(label=row.label, moment=question.moment or "", cites=cites))
        else:
            parts.append(finding(row, unit, words))
    return parts


def series_name(series: Series, found: Findings) -> str:
    """Return the sheet's title if there is one, because it is more descriptive than the column's label."""
    titles = [subject_of(sheet) for sheet in found.sheets if sheet.get("variable") == series.variable]
    return titles[0] if titles and titles[0] else series.label


def documents(found: Findings, question: Question, words: Words) -> list[str]:
    """Return a quote per document; in an analysis the later ones are background."""
    parts = []
    for index, quote in enumerate(found.quotes):
        phrase = words.background if index and question.kind is Kind.ANALYSIS else words.quoted
        parts.append(phrase.format(title=quote.title, text=quote.text, cites=cited([quote.material], words).strip()))
    return parts


def endings(found: Findings, question: Question, words: Words, numbers: bool) -> list[str]:
    """Return statements on missing data, errors, the date of the data, and caveats."""
    parts = []
    if found.missing:
        items = ("；" if question.chinese else "; ").join(missing_items(found.missing, words))
        parts.append(words.missing.format(items=items))
    uncomputed = [a.chinese if question.chinese else a.english for a in question.aspects if not a.computed]
    if uncomputed and question.kind is Kind.ANALYSIS and found.sheets:
        parts.append(words.uncomputed.format(names=words.comma.join(uncomputed)))
    if found.errors:
        parts.append(words.failed.format(errors="; ".join(dict.fromkeys(found.errors[:MAX_ERRORS]))))
    if numbers:
        dates = words.comma.join(sorted({one.as_of for one in found.series if one.as_of}))
        cites = cited([int(sheet.get("material", 0)) for sheet in found.sheets], words)
        caveat = words.caveat_price if any(one.price for one in found.series) else words.caveat_level
        parts.append(words.stop.join([words.as_of.format(dates=dates, cites=cites), caveat] if dates else [caveat]))
    return parts


def unit_of(row: Row, found: Findings) -> str:
    """Return the unit of a row's series, formatted to follow a number."""
    return unit_text(next((one.unit for one in found.series if one.label == row.label), ""))


def same_unit(found: Findings) -> bool:
    return len({one.unit for one in found.series}) == 1
