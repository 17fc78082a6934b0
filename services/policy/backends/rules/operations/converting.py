"""Currency conversion: cross rates, prices and returns in another currency."""

from __future__ import annotations

from fathom.services.policy.backends.rules.findings import Row
from fathom.services.policy.backends.rules.names import Name, named
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.cells import cell
from fathom.services.policy.backends.rules.operations.measures import earlier
from fathom.services.policy.backends.rules.operations.script import Columns, Desk, Play, Script
from fathom.services.policy.backends.rules.prose.wording import percent, plain, signed
from fathom.services.policy.backends.rules.sheets import Series

CROSS = '''\
def crosses(wanted, given, start, end):
    """Units of one currency for one of another, from their rates against the euro: on the last day and over the period."""
    # series()

    rates = [series(*one) if one else 1.0 for one in (wanted, given)]
    cross = (rates[0] / rates[1]).dropna()
    inside = cross[start or None:end or None]
    if inside.empty:
        return [{"label": "cross", "n": 0}]
    return [{"label": "cross", "n": len(inside), "date": str(inside.index[-1].date()), "value": round(float(inside.iloc[-1]), 4),
             "first_date": str(inside.index[0].date()), "first": round(float(inside.iloc[0]), 4),
             "change_pct": round(float(inside.iloc[-1] / inside.iloc[0] - 1) * 100, 1)}]
'''
CELL = '''\
def converted(price, dollar, wanted, label, start, end, before):
    """A price in US dollars in another currency, by the reference rates of its day (the last ones before a holiday)."""
    # series()

    s, dollars = series(*price), series(*dollar)
    rate = (1.0 / dollars if wanted is None else series(*wanted) / dollars).dropna()
    rate = rate.reindex(s.index.union(rate.index)).ffill().reindex(s.index)
    other = (s * rate).dropna()
    inside = other[start or None:end or None]
    if inside.empty:
        return [{"label": label, "n": 0}]
    day, earlier = inside.index[-1], other[other.index < inside.index[0]]
    first = earlier.index[-1] if before and len(earlier) else inside.index[0]
    home, abroad = (float(one[day] / one[first] - 1) * 100 for one in (s, other))
    return [{"label": label, "n": len(inside), "date": str(day.date()), "value": round(float(other[day]), 2),
             "price": round(float(s[day]), 4), "rate": round(float(rate[day]), 6), "first_date": str(first.date()),
             "first": round(float(other[first]), 4), "home_pct": round(home, 1), "return_pct": round(abroad, 1),
             "gap": round(abroad - home, 1)}]
'''


def recognise(ask: Ask) -> Script | None:
    """Return the script for two currencies without a price, or for a price and a currency other than its own."""
    currencies, prices = ask.names("currency"), ask.names("price")
    if not ask.periods:
        return None
    if prices and any(name.id != "USD" for name in currencies):
        return price
    # One currency against the euro is what the table holds: a plain look-up.
    return cross if len(currencies) == 2 and not prices and "EUR" not in {name.id for name in currencies} else None


def argument(columns: Columns, name: Name) -> str:
    """Format a series as an argument; the euro has none, because rates are quoted against it."""
    one = columns.get(name)
    return f"({one.variable}, {one.column!r})" if one else "None"


def cross(desk: Desk) -> Play[None]:
    """Report the cross rate of two currencies."""
    wanted, given = direction(desk.ask)
    period = desk.ask.period
    columns = yield from desk.data([name for name in (wanted, given) if name.id != "EUR"], earlier(period), period.end)
    # Rates are quoted against the euro, which is in no table and always known.
    if not {wanted, given} <= {*columns, named("EUR")}:
        return
    call = f"crosses({argument(columns, wanted)}, {argument(columns, given)}, {period.start!r}, {period.end!r})"
    rows = yield from desk.python(cell(CROSS, call), "Compute the cross rate.", "计算交叉汇率。")
    for row in rows:
        say_cross(desk, row, desk.label(wanted), desk.label(given))


def say_cross(desk: Desk, row: Row, wanted: str, given: str) -> None:
    """Report the rate, and over a longer period its change."""
    if row.number("n") == 0:
        desk.say(f"There is no rate in {desk.ask.period.text}.", f"{desk.ask.period.text}没有汇率。", row)
        return
    value = plain(row.number("value"))
    desk.say(
        f"One **{given}** bought {value} {wanted} on {row.values['date']} (cross of the two ECB euro rates).",
        f"{row.values['date']}一{given}可以兑换{value}{wanted}（由两种欧元参考汇率套算）。",
        row,
    )
    if (row.number("n") or 0) > 1:
        change, first = signed(percent(row.number("change_pct"))), plain(row.number("first"))
        desk.say(
            f"It was {first} on {row.values['first_date']}, a change of {change}.",
            f"{row.values['first_date']}为{first}，变化{change}。",
            row,
        )


def direction(ask: Ask) -> tuple[Name, Name]:
    """Return (bought currency, given currency)."""
    # Examples: "how many yen did one dollar buy", "一英镑可以换多少瑞士法郎", "USD/JPY".
    first, second = ask.names("currency")[:2]
    given_first = ask.has(r"多少|/") or not ask.has(r"how many|how much|\bper\b|for one")
    return (second, first) if given_first else (first, second)


def price(desk: Desk) -> Play[None]:
    """Convert prices to another currency and report the price, or the return when it is asked for."""
    ask, period = desk.ask, desk.ask.period
    currency = next(name for name in ask.names("currency") if name.id != "USD")
    names, rates = ask.names("price"), [named("USD"), *([currency] if currency.id != "EUR" else [])]
    labels = desk.words.comma.join(desk.label(name) for name in names)
    yield from desk.think(
        f"Prices of {labels} in dollars, and the euro rates of dollar and {desk.label(currency)} of the same days.",
        f"取{labels}的美元价格，以及同日美元和{desk.label(currency)}的欧元汇率。",
    )
    columns = yield from desk.data([*names, *rates], earlier(period, True), period.end)
    for name in names:
        if name in columns and all(rate in columns for rate in rates):
            rows = yield from desk.python(
                price_cell(desk, columns, columns[name], currency),
                "Convert by the rates of each day.",
                "按每日汇率换算。",
            )
            for row in rows:
                say_price(desk, row, desk.label(currency))


def price_cell(desk: Desk, columns: Columns, one: Series, currency: Name) -> str:
    """Return the cell for one price."""
    period, dollar = desk.ask.period, argument(columns, named("USD"))
    first = f"converted(({one.variable}, {one.column!r}), {dollar}, {argument(columns, currency)}, {one.label!r}"
    return cell(CELL, f"{first}, {period.start!r}, {period.end!r}, {period.calendar})")


def say_price(desk: Desk, row: Row, currency: str) -> None:
    """Report a price on a day, or both returns over a period."""
    if row.number("n") == 0:
        desk.say(
            f"**{row.label}** has no price in {desk.ask.period.text}.",
            f"**{row.label}**在{desk.ask.period.text}没有价格。",
            row,
        )
    elif row.number("n") == 1 or not desk.ask.measures:
        value = f"{row.number('value'):,.2f}"
        desk.say(
            f"**{row.label}** closed at {value} {currency} on {row.values['date']} ({plain(row.number('price'))} US dollars at {row.number('rate')} per dollar).",
            f"**{row.label}**在{row.values['date']}的收盘价为{value}{currency}（{plain(row.number('price'))}美元，1美元合{row.number('rate')}）。",
            row,
        )
    else:
        abroad, home, gap = (signed(percent(row.number(key))) for key in ("return_pct", "home_pct", "gap"))
        gap = gap.removesuffix("%")
        desk.say(
            f"**{row.label}** returned {abroad} in {currency} and {home} in US dollars, a difference of {gap} percentage points ({row.values['first_date']} to {row.values['date']}).",
            f"**{row.label}**以{currency}计的收益率为{abroad}，以美元计为{home}，相差{gap}个百分点（{row.values['first_date']}至{row.values['date']}）。",
            row,
        )
