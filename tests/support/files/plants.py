"""Spreadsheets and a web page as offices have them: merged headers, formulas without values, other countries' numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import openpyxl

from tests.support.files.newcomer import Asked, list_months
from tests.support.files.office import save

# The citation of a value names the cells of its series.
QUESTIONS = (
    Asked("What was the 2025 revenue of the Porto plant?", "14.20", "plants.xlsx E5"),
    Asked("What was total revenue of all plants in 2024?", "39.90", "plants.xlsx C7"),
    Asked("What was the total Umsatz in 2025?", "15,196.00", "umsatz.csv B2:B13"),
    Asked("In which month of 2025 was Umsatz highest?", "2025-10-31", "umsatz.csv B11"),
    Asked("What was the lowest net cash flow in 2025?", "-45.20 (2025-05-31)", "cash.csv B6"),
    Asked("What is the total rent of the leases that are open and end in 2027?", "2,000", "leases.csv C2:C3"),
    Asked("How much is the Pro plan?", "Pro | 49", "pricing.html"),
)
PLANTS = (("Porto", 310, 12.5, 342, 14.2), ("Vigo", 405, 16.1, 431, 17.8), ("Braga", 288, 11.3, 279, 10.9))
TURNOVER = (
    "1.111,50", "1.204,25", "1.150,00", "1.298,75", "1.187,50", "1.321,00",
    "1.099,90", "1.276,40", "1.345,60", "1.502,30", "1.288,80", "1.410,00",
)  # fmt: skip
CASH = ("21.3", "(8.4)", "12.4", "30.1", "(45.2)", "17.5", "9.9", "(3.1)", "22.6", "41.0", "5.5", "13.8")
LEASES = b"Tenant,Ends,Rent,Status\nHarbour Books,2027-06-30,1200,open\nQuill,2027-09-30,800,open\nMoor,2027-12-31,5,closed\n"
PLANS = (("Plan", "Price per month"), ("Starter", "19"), ("Pro", "49"), ("Enterprise", "on request"))


def write_folder(folder: Path) -> Path:
    """Write the files into a folder and return it."""
    rows = "".join(f"<tr><td>{name}</td><td>{price}</td></tr>" for name, price in PLANS)
    page = f"<html><head><title>Pricing</title></head><body><h1>Plans</h1><table>{rows}</table></body></html>"
    files = {
        "plants.xlsx": write_plants(),
        "umsatz.csv": write_turnover(),
        "cash.csv": write_cash(),
        "leases.csv": LEASES,
    }
    for name, data in (files | {"pricing.html": page.encode()}).items():
        (folder / name).write_bytes(data)
    return folder


def write_plants() -> bytes:
    """Return a workbook with a title, a header over two rows, and a column of formulas that nobody has computed."""
    book = openpyxl.Workbook()
    page = book.active
    header = ["Plant", 2024, None, 2025, None, "Change"], [None, "Output", "Revenue", "Output", "Revenue", None]
    for cells in (["Plants of Solvento"], [], *header):
        page.append(cells)
    for row, cells in enumerate(PLANTS, start=5):
        page.append([*cells, f"=E{row}-C{row}"])
    for merged in ("A1:F1", "A3:A4", "B3:C3", "D3:E3", "F3:F4"):
        page.merge_cells(merged)
    return save(book)


def write_turnover() -> bytes:
    """Return a table in Windows-1252 with decimal commas, days as 31.01.2025 and a currency in its header."""
    rows = [f"{day:%d.%m.%Y};{value};klein" for day, value in zip(list_months(2025), TURNOVER, strict=True)]
    return "\r\n".join(["Monat;Umsatz (€);Größe", *rows]).encode("cp1252")


def write_cash() -> bytes:
    """Return a table with negative amounts in brackets."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["month", "net cash flow"])
    writer.writerows(zip((day.isoformat() for day in list_months(2025)), CASH, strict=True))
    return text.getvalue().encode()
