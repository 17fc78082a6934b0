"""A newcomer's folder: ten documents and three spreadsheets of an invented firm, by real writers, with ten questions."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import openpyxl

from tests.support.files.office import save, write_docx, write_mail, write_pdf, write_pptx

FILLER = "The committee reviewed the minutes of its last meeting and had no remarks on them. "


@dataclass(frozen=True)
class Asked:
    """A question, what its answer says, and what its citation names: file with page, or file and column."""

    question: str
    answer: str
    source: str
    column: str = ""


QUESTIONS = (
    Asked("What is the hurdle rate for new plants?", "11.5 percent", "capital policy.pdf p. 3"),
    Asked("What is the monthly rent of the Oslo warehouse?", "42,700 kroner", "lease Oslo.pdf p. 2"),
    Asked("How long is the notice period for engineers?", "three months", "handbook.docx"),
    Asked("Who approves travel over 5,000 euros?", "the finance director", "travel/policy.docx"),
    Asked("What is the launch budget of Heron in Poland?", "2.6 million", "launch.pptx p. 2"),
    Asked("Why was the Gdansk shipment delayed?", "customs strike", "mail/shipment.eml"),
    Asked("What did the auditors find about inventory counts?", "two of nine", "audit.html"),
    Asked("仓库租赁合同的押金是多少？", "三个月租金", "合同.txt"),
    Asked("What was the highest Units in 2025?", "1,312", "sales.xlsx", "Units"),
    Asked("What was the average Headcount in 2025?", "84.5", "staff.csv", "Headcount"),
)  # fmt: skip


def write_folder(folder: Path) -> Path:
    """Write the folder and return it."""
    documents = {
        "capital policy.pdf": write_pdf(
            [FILLER * 9, FILLER * 9, FILLER * 3 + "The hurdle rate for new plants is 11.5 percent. " + FILLER * 3],
            "Capital policy",
        ),
        "lease Oslo.pdf": write_pdf(
            ["Lease of a warehouse in Oslo between Heron AS and Fjord Eiendom AS.",
             "The monthly rent of the Oslo warehouse is 42,700 kroner, indexed each January."],
        ),
        "handbook.docx": write_docx(
            ["# Leave", "Staff have 27 days of leave a year.", "# Notice",
             "The notice period for engineers is three months, for all others one month."],
            title="Staff handbook",
        ),
        "travel/policy.docx": write_docx(
            ["Travel is booked by the office.", "Travel over 5,000 euros is approved by the finance director."],
            [["City", "Hotel cap"], ["Rome", "180"], ["Oslo", "240"]],
        ),
        "launch.pptx": write_pptx(
            [("Heron in Poland", "Why now", ""),
             ("Budget", "The launch budget of Heron in Poland is 2.6 million zloty.", "Ask legal first.")],
        ),
        "mail/shipment.eml": write_mail(
            "Gdansk shipment",
            "Dear all,\n\nthe Gdansk shipment was delayed by nine days because of a customs strike in Hamburg.\n\nAna",
            "Mon, 02 Nov 2026 09:00:00 +0100",
        ),
        "audit.html": (
            b"<html><head><title>Audit findings</title></head><body><main><h1>Audit findings</h1>"
            b"<p>The auditors found that two of nine inventory counts were not signed by a second person.</p>"
            b"<p>Management will train the staff of the warehouses until March.</p></main></body></html>"
        ),
        "合同.txt": "仓库租赁合同的押金为三个月租金，合同期满后三十天内退还。".encode("gbk"),
        "notes.md": b"# Notes\n\nHeron sells filters to breweries. The name comes from the bird.\n",
        "readme.txt": "Café Müller is a customer since 2019 – pays late.".encode("cp1252"),
    }  # fmt: skip
    tables = {"sales.xlsx": write_sales(), "staff.csv": write_staff(), "prices.xlsx": write_prices()}
    for name, data in (documents | tables).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def list_months(year: int) -> list[date]:
    """Return the last days of a year's months."""
    firsts = [date(year + month // 12, month % 12 + 1, 1) for month in range(1, 13)]
    return [first - timedelta(days=1) for first in firsts]


def write_sales() -> bytes:
    """Return a workbook of monthly units and revenue; the most units were 1,312."""
    book = openpyxl.Workbook()
    page = book.active
    page.append(["Date", "Units", "Revenue"])
    for number, day in enumerate(list_months(2025)):
        units = 1_312 if number == 7 else 1_000 + 20 * number
        page.append([day, units, units * 12.5])
    return save(book)


def write_staff() -> bytes:
    """Return a table of the monthly headcount, whose mean is 84.5."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["Date", "Headcount"])
    writer.writerows([day.isoformat(), 79 + number] for number, day in enumerate(list_months(2025)))
    return text.getvalue().encode()


def write_prices() -> bytes:
    """Return a workbook as a European office has it: numbers as text, with points between thousands."""
    book = openpyxl.Workbook()
    page = book.active
    page.append(["Tag", "Preis"])
    for number, day in enumerate(list_months(2025)):
        page.append([day.strftime("%d.%m.%Y"), f"1.{200 + number},50"])
    return save(book)
