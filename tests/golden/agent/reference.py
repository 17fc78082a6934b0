"""Compute what the questions' answers must hold, by plain pandas on the parquet tables and none of Fathom's own code.

``Reference(folder).value(expression)`` evaluates an expression of questions.yaml; its methods are the names there.
A series is an entity's adjusted closes ("AAPL"), an indicator of the United States ("unrate"), or "eur:JPY".
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

DAYS = 252
FEE = 0.0005
NAMES = {
    "AAPL": ["Apple", "苹果"], "MSFT": ["Microsoft", "微软"], "NVDA": ["NVIDIA", "英伟达"], "AMD": ["AMD", "Advanced Micro", "超威"],
    "KO": ["Coca-Cola", "可口可乐"], "PEP": ["PepsiCo", "百事"], "PG": ["Procter", "宝洁"], "PFE": ["Pfizer", "辉瑞"],
    "MRK": ["Merck", "默沙东"], "JNJ": ["Johnson", "强生"], "LLY": ["Lilly", "礼来"], "WMT": ["Walmart", "沃尔玛"],
    "XOM": ["Exxon", "埃克森"], "BBY": ["Best Buy", "百思买"], "HD": ["Home Depot", "家得宝"],
}  # fmt: skip
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
FINE = {"Y": "%Y", "M": "%Y-%m"}


class Reference:
    """The tables of a bundle, read once."""

    def __init__(self, folder: Path) -> None:
        observations = pd.read_parquet(folder / "observations.parquet")
        observations["date"] = pd.to_datetime(observations["date"])
        self._series = {
            key: group.set_index("date")["value"].sort_index().dropna()
            for key, group in observations.groupby(["entity", "indicator"])
        }

    def value(self, expression: str) -> Any:
        """The value of an expression such as ``ret('AAPL', '2015', '2020')``."""
        names = {name: getattr(self, name) for name in dir(self) if not name.startswith("_")}
        return eval(expression, {"__builtins__": {}}, names)  # our own checked-in expressions

    def _of(self, key: str) -> pd.Series:
        if key.startswith("eur:"):
            return self._series[key[4:], "eur_rate"]
        return self._series[("US", key) if key.islower() else (key, "close_adj")]

    def _in(self, key: str, start: str, end: str) -> pd.Series:
        return self._of(key)[start:end]

    def _daily(self, key: str, start: str, end: str) -> pd.Series:
        return self._of(key).pct_change()[start:end]

    # -- one number of a period ---------------------------------------------------------------------------------------
    def ret(self, key: str, start: str, end: str) -> float:
        s = self._in(key, start, end).to_numpy()
        return float((s[-1] / s[0] - 1) * 100)

    def calendar(self, key: str, period: str) -> float:
        """Last value of a year or month over the last one before it."""
        s = self._of(key)
        inside = s[period:period]
        before = s[s.index < inside.index[0]]
        return float((inside.iloc[-1] / before.iloc[-1] - 1) * 100)

    def cagr(self, key: str, start: str, end: str) -> float:
        s = self._in(key, start, end)
        years = (s.index[-1] - s.index[0]).days / 365.25
        return float(((s.iloc[-1] / s.iloc[0]) ** (1 / years) - 1) * 100)

    def volatility(self, key: str, start: str, end: str) -> float:
        return float(np.std(self._daily(key, start, end).to_numpy(), ddof=1)) * math.sqrt(DAYS) * 100

    def sharpe(self, key: str, start: str, end: str) -> float:
        daily = self._daily(key, start, end).to_numpy()
        return float(daily.mean() / daily.std(ddof=1)) * math.sqrt(DAYS)

    def _falls(self, key: str, start: str, end: str) -> pd.Series:
        s = self._in(key, start, end)
        return pd.Series(s.to_numpy() / np.maximum.accumulate(s.to_numpy()) - 1, index=s.index)

    def drawdown(self, key: str, start: str, end: str) -> float:
        return float(self._falls(key, start, end).min()) * 100

    def trough_day(self, key: str, start: str, end: str) -> str:
        return str(self._falls(key, start, end).idxmin())[:10]

    def peak_day(self, key: str, start: str, end: str) -> str:
        return str(self._in(key, start, self.trough_day(key, start, end)).idxmax())[:10]

    def at(self, key: str, period: str) -> float:
        return float(self._of(key)[period:period].iloc[-1])

    # -- two series ---------------------------------------------------------------------------------------------------
    def _both(self, one: str, other: str, start: str, end: str) -> np.ndarray:
        joined = pd.concat([self._of(one), self._of(other)], axis=1, join="inner").pct_change()[start:end]
        return joined.to_numpy().T

    def correlation(self, one: str, other: str, start: str, end: str) -> float:
        return float(np.corrcoef(self._both(one, other, start, end))[0, 1])

    def beta(self, one: str, market: str, start: str, end: str) -> float:
        x, y = self._both(market, one, start, end)
        return float(np.polyfit(x, y, 1)[0])

    def _spread(self, one: str, other: str, start: str, end: str) -> pd.Series:
        return (self._of(one) - self._of(other)).dropna()[start:end]

    def spread_low(self, one: str, other: str, start: str, end: str) -> tuple[str, float]:
        s = self._spread(one, other, start, end)
        return f"{s.idxmin():%Y-%m}", float(s.min())

    def spread_high(self, one: str, other: str, start: str, end: str) -> tuple[str, float]:
        s = self._spread(one, other, start, end)
        return f"{s.idxmax():%Y-%m}", float(s.max())

    def count_inversions(self, one: str, other: str, start: str, end: str) -> int:
        return int((self._spread(one, other, start, end) < 0).sum())

    # -- growth and macro ---------------------------------------------------------------------------------------------
    def _before(self, key: str, month: str, months: int) -> float:
        earlier = pd.Period(month, "M") - months
        return self.at(key, str(earlier))

    def yoy(self, key: str, month: str) -> float:
        return float((self.at(key, month) / self._before(key, month, 12) - 1) * 100)

    def qoq(self, key: str, month: str) -> float:
        return float((self.at(key, month) / self._before(key, month, 3) - 1) * 100)

    def yoy_peak(self, key: str, start: str, end: str) -> tuple[str, float]:
        months = [f"{day:%Y-%m}" for day in self._in(key, start, end).index]
        best = max(months, key=lambda month: self.yoy(key, month))
        return best, self.yoy(key, best)

    def real_rate(self, key: str, month: str) -> float:
        return self.at(key, month) - self.yoy("cpiaucsl", month)

    def highest(self, key: str, start: str, end: str) -> tuple[str, float]:
        s = self._in(key, start, end)
        return f"{s.idxmax():%Y-%m}", float(s.max())

    def highest_day(self, key: str, start: str, end: str) -> tuple[str, float]:
        s = self._in(key, start, end)
        return str(s.idxmax())[:10], float(s.max())

    def turning(self, key: str, start: str, end: str) -> list[tuple[str, float]]:
        """Months that are highest or lowest of the 12 before and the 12 after, the first of equals, high and low in turn."""
        s = self._of(key)
        values = s.to_numpy()
        found: list[tuple[str, float, int]] = []
        for i in range(12, len(values) - 12):
            around, past = values[i - 12 : i + 13], values[i - 12 : i]
            kind = 1 if values[i] == around.max() > past.max() else -1 if values[i] == around.min() < past.min() else 0
            day = s.index[i]
            if not kind or not pd.Timestamp(start) <= day <= pd.Period(end).end_time:
                continue
            point = (f"{day:%Y-%m}", float(values[i]), kind)
            if found and found[-1][2] == kind:
                if kind * point[1] > kind * found[-1][1]:
                    found[-1] = point
            else:
                found.append(point)
        return [(month, value) for month, value, _ in found]

    def find_crossing(self, key: str, level: float, start: str) -> str:
        s = self._of(key)[start:]
        return f"{s[s > level].index[0]:%Y-%m}"

    def months_after(self, key: str, month: str, months: int) -> float:
        """From the last value of a month to the last one so many months later."""
        later = str(pd.Period(month, "M") + months)
        return float((self.at(key, later) / self.at(key, month) - 1) * 100)

    # -- extremes -----------------------------------------------------------------------------------------------------
    def _periods(self, key: str, every: str, start: str, end: str) -> dict[str, float]:
        labels = sorted({day.strftime(FINE[every]) for day in self._in(key, start, end).index})
        first = self._of(key).index[0].strftime(FINE[every])
        return {label: self.calendar(key, label) for label in labels if label > first}

    def best(self, key: str, every: str, start: str, end: str) -> tuple[str, float]:
        found = self._periods(key, every, start, end)
        return max(found.items(), key=lambda item: item[1])

    def worst(self, key: str, every: str, start: str, end: str) -> tuple[str, float]:
        found = self._periods(key, every, start, end)
        return min(found.items(), key=lambda item: item[1])

    def _weekdays(self, key: str, start: str, end: str) -> dict[str, float]:
        daily = self._daily(key, start, end) * 100
        return {
            name: float(daily[pd.DatetimeIndex(daily.index).day_of_week == i].mean()) for i, name in enumerate(WEEKDAYS)
        }

    def best_weekday(self, key: str, start: str, end: str) -> tuple[str, float]:
        return max(self._weekdays(key, start, end).items(), key=lambda item: item[1])

    def worst_weekday(self, key: str, start: str, end: str) -> tuple[str, float]:
        return min(self._weekdays(key, start, end).items(), key=lambda item: item[1])

    def top_days(self, key: str, count: int, start: str, end: str) -> list[tuple[str, float]]:
        s = self._in(key, start, end).sort_values(ascending=False)[:count]
        return [(str(day)[:10], float(value)) for day, value in s.items()]

    # -- currencies, events, rankings, strategy -----------------------------------------------------------------------
    def cross(self, wanted: str, given: str, day: str) -> float:
        """Units of one currency for one of another."""
        return float(self._euro(wanted)[day] / self._euro(given)[day])

    def _euro(self, currency: str) -> pd.Series:
        dollar = self._of("eur:USD")
        return dollar * 0 + 1.0 if currency == "EUR" else self._of(f"eur:{currency}")

    def _in_currency(self, key: str, currency: str) -> pd.Series:
        rate = (self._euro(currency) / self._euro("USD")).dropna()
        prices = self._of(key)
        return prices * rate.reindex(prices.index.union(rate.index)).ffill().reindex(prices.index)

    def convert(self, key: str, currency: str, day: str) -> float:
        return float(self._in_currency(key, currency)[day])

    def ret_in(self, key: str, currency: str, start: str, end: str) -> float:
        s = self._in_currency(key, currency)[start:end]
        return float((s.iloc[-1] / s.iloc[0] - 1) * 100)

    def event(self, key: str, day: str, days: int) -> float:
        """Return over so many trading days up to the close of a day (negative), or from it on."""
        s = self._of(key)
        at = int(s.index.searchsorted(pd.Timestamp(day)))
        first, last = (at + days, at) if days < 0 else (at, at + days)
        return float((s.iloc[last] / s.iloc[first] - 1) * 100)

    def rank(self, measure: str, keys: list[str], start: str, end: str = "") -> list[str]:
        """Return keys best first: the highest return, Sharpe ratio or CAGR, the smallest drawdown."""
        if measure == "return" and not end:
            return sorted(keys, key=lambda key: -self.calendar(key, start))
        function = getattr(self, measure)
        return sorted(keys, key=lambda key: -function(key, start, end or start))

    def lowest(self, measure: str, keys: list[str], start: str, end: str) -> str:
        return min(keys, key=lambda key: getattr(self, measure)(key, start, end))

    def label_of(self, key: str) -> list[str]:
        return NAMES[key]

    def label_en(self, key: str) -> str:
        return NAMES[key][0]

    def weekday_zh(self, name: str) -> list[str]:
        sign = "一二三四五"[WEEKDAYS.index(name)]
        return [f"星期{sign}", f"周{sign}"]

    def sweep(self, keys: list[str], start: str, end: str, fee: float = FEE) -> dict[str, Any]:
        """The best pair of windows (fast 2 to 10, slow from fast + 3 to 40 by 3), equal weights, traded a day later."""
        prices = pd.concat([self._in(key, start, end) for key in keys], axis=1).dropna().to_numpy()
        n, width = prices.shape
        returns = np.vstack([np.zeros(width), prices[1:] / prices[:-1] - 1])
        found = {}
        for fast in range(2, 11):
            for slow in range(fast + 3, 41, 3):
                held = np.zeros_like(prices)
                for day in range(slow, n):
                    held[day] = prices[day - fast : day].mean(axis=0) > prices[day - slow : day].mean(axis=0)
                turns = np.abs(np.diff(held, axis=0, prepend=np.zeros((1, width))))
                found[fast, slow] = float(np.prod(1 + (held * returns - turns * fee).mean(axis=1)) - 1) * 100
        pair = max(found, key=lambda item: found[item])
        hold = float(np.prod(1 + returns.mean(axis=1)) - 1) * 100
        return {"pair": pair, "return": found[pair], "hold": hold, "tried": len(found)}
