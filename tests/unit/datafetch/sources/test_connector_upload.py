"""A user's tables: what is broken is reported by its row, the rest loads."""

from __future__ import annotations

import io
import time
import zipfile
from datetime import date, datetime
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import CorruptData, InvalidField, PayloadTooLarge
from fathom.services.datafetch.sources.base import EmptySchema
from fathom.services.datafetch.sources.upload import UploadLimits, filter_published, read_upload


def csv(text: str, name: str = "t.csv", **limits: Any) -> Any:
    return read_upload(text.encode(), name, limits=UploadLimits(**limits))


def test_a_broken_row_is_reported_with_its_number_and_the_rest_loads() -> None:
    found = csv(
        "code,name,profit\n600519,Moutai,1\n000001,Ping An\n600036,CMB,3,extra\n601318,Insurance,4,,\n\n600030,CITIC,5\n"
    )
    assert found.table.to_pydict() == {
        "code": ["600519", "601318", "600030"],
        "name": ["Moutai", "Insurance", "CITIC"],
        "profit": [1, 4, 5],
    }
    # Rows are counted as an editor shows them, header first. Trailing empty fields, as of 601318, are no extra ones.
    assert [(issue.row, issue.reason) for issue in found.issues] == [
        (3, "has 2 fields, not 3"),
        (4, "has 4 fields, not 3"),
    ]


def test_types_units_and_words_for_nothing() -> None:
    found = csv(
        "代码,日期,day,营业收入,margin,n,note,empty\n"
        '000001,2025/7/27,20250727,"1,234.5",12.5%,7,x,\n'
        "600519,20250207,20250207,(3.5),--,,N/A,\n"
        "600036,2025-02-07,20250208,-,7%,9,z,—\n"
    )
    columns = found.table.to_pydict()
    assert columns["代码"] == ["000001", "600519", "600036"]
    assert columns["日期"] == [date(2025, 7, 27), date(2025, 2, 7), date(2025, 2, 7)]
    assert columns["day"] == [date(2025, 7, 27), date(2025, 2, 7), date(2025, 2, 8)]
    # Parentheses are an accountant's minus, and a hyphen alone is a word for nothing.
    assert columns["营业收入"] == [1234.5, -3.5, None]
    assert columns["margin"] == [12.5, None, 7.0]
    assert columns["n"] == [7, None, 9]
    assert columns["note"] == ["x", None, "z"]
    assert columns["empty"] == [None] * 3
    assert found.units == {"margin": "%"}
    assert found.table.schema.field("n").type == pa.int64()


def test_a_few_odd_cells_are_reported_and_many_make_a_column_text() -> None:
    # One odd cell of a hundred is a slip in a column of numbers; one of three says that the column is text.
    rows = [f"{number},{number}.5" for number in range(100)]
    rows[41] = "41.25,oops"
    found = csv("a,b\n" + "\n".join(rows))
    assert found.table.column("a").to_pylist()[40:43] == [40.0, 41.25, 42.0], (
        "one fraction makes all numbers, none is lost"
    )
    assert found.table.column("b").to_pylist()[41] is None
    assert [(issue.row, issue.column, issue.reason) for issue in found.issues] == [(43, "b", "'oops' is no number")]
    mixed = csv("a\n1\n2\nthree\n")
    assert mixed.table.column("a").to_pylist() == ["1", "2", "three"]
    # Whoever misses the numbers learns which cell stands in their way.
    assert [(issue.row, issue.column) for issue in mixed.issues] == [(4, "a")]
    assert "so that the column stays text" in mixed.issues[0].reason
    assert csv("a\none\ntwo\n3\n").issues == ()


def test_quotes_delimiters_lines_and_names() -> None:
    found = csv('a;b;a;\n"x;y";"two\nlines";3;4\n5" pipe;no end;6;7\n"never closed;8;9;10\nlast;row;11;12\n')
    assert found.table.column_names == ["a", "b", "a_2", "column_4"] or found.table.column_names == ["a", "b", "a_2"]
    found = csv('a;b;c\n"x;y";"two\nlines";3\n"never closed;8;9\nlast;row;11\n')
    assert found.table.to_pydict() == {"a": ["x;y", "last"], "b": ["two\nlines", "row"], "c": [3, 11]}
    assert [(issue.row, issue.reason) for issue in found.issues] == [(4, "has a quotation mark that is not closed")]
    # U+2028 ends a line for str.splitlines, and not for whoever wrote the file.
    tabs = csv("a\tb\r\n1\tx\u2028y\r\n", "t.tsv")
    assert tabs.table.to_pydict() == {"a": [1], "b": ["x\u2028y"]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_encodings(encoding: str) -> None:
    found = read_upload("名称,值\n贵州茅台,1\n".encode(encoding), "t.csv")
    assert found.table.to_pydict() == {"名称": ["贵州茅台"], "值": [1]}


def test_limits_and_what_is_no_table() -> None:
    with pytest.raises(InvalidField, match="name"):
        read_upload(b"", "t.xls")
    with pytest.raises(PayloadTooLarge):
        csv("a\n1\n", file_bytes=2)
    with pytest.raises(EmptySchema):
        csv("\n \n")
    with pytest.raises(CorruptData):
        read_upload(b"a,b\n\x00\x01,2\n", "t.csv")
    with pytest.raises(InvalidField, match="columns"):
        csv("a,b,c\n", columns=2)
    found = csv("a\n1\n2\n3\n", rows=2)
    assert found.table.num_rows == 2
    assert found.issues[0].row == 4
    assert csv("a\n1\n" + "x" * 50 + "\n3\n", cell_chars=20).issues[0].row == 3
    assert csv("a,b\n").table.num_rows == 0


@given(
    st.lists(
        st.text(
            alphabet=st.characters(blacklist_characters='\r\n"\x00', blacklist_categories=["Cs"]), max_size=12
        ).filter(lambda text: "," not in text),
        min_size=0,
        max_size=20,
    )
)
def test_no_good_row_is_lost_among_others(noise: list[str]) -> None:
    lines = ["key,value", *[f'{line},"' for line in noise], "kept,1"]
    found = csv("\n".join(lines))
    assert found.table.column("key").to_pylist()[-1] == "kept"


def test_many_quotes_that_never_close_take_no_long_time() -> None:
    started = time.process_time()
    found = csv("a,b\n" + '"x,1\ny,2\n' * 20_000)
    assert found.table.num_rows == 20_000
    assert time.process_time() - started < 20


def workbook(rows: list[list[Any]], title: str = "Data") -> bytes:
    book = openpyxl.Workbook()
    page = book.active
    assert page is not None
    page.title = title
    for row in rows:
        page.append(row)
    book.create_sheet("Second").append(["only"])
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def test_workbooks() -> None:
    data = workbook(
        [
            [],
            ["code", "day", "value"],
            ["600519", datetime(2024, 1, 2), 1.5],
            ["000001", datetime(2024, 1, 3), "#DIV/0!"],
            [None, None, None],
            ["300750"],
        ]
    )
    found = read_upload(data, "t.xlsx")
    assert found.table.to_pydict() == {
        "code": ["600519", "000001", "300750"],
        "day": [date(2024, 1, 2), date(2024, 1, 3), None],
        "value": [1.5, None, None],
    }
    assert [(issue.row, "#DIV/0!" in issue.reason) for issue in found.issues] == [(4, True)]
    assert found.worksheets == ("Data", "Second")
    assert read_upload(data, "t.xlsx", "Second").table.column_names == ["only"]
    with pytest.raises(InvalidField, match="Second"):
        read_upload(data, "t.xlsx", "Third")
    for broken in (b"", b"PK\x03\x04 no zip", data[: len(data) // 2]):
        with pytest.raises(CorruptData):
            read_upload(broken, "t.xlsx")


def test_a_workbook_that_would_unpack_to_too_much() -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as book:
        # Some kilobytes on the disk, five times the limit in memory.
        book.writestr("xl/worksheets/sheet1.xml", b"0" * 5_000_000)
    with pytest.raises(CorruptData, match="unpacks to"):
        read_upload(sink.getvalue(), "t.xlsx", limits=UploadLimits(unpacked_bytes=1_000_000))


def test_parquet_keeps_its_types_and_loses_only_broken_groups() -> None:
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"a": [f"text {n} " + "x" * 50 for n in range(6)]}),
        sink,
        row_group_size=2,
        compression="gzip",
        use_dictionary=False,
    )
    data = bytearray(sink.getvalue())
    assert read_upload(bytes(data), "t.parquet").table.num_rows == 6
    at = pq.ParquetFile(io.BytesIO(bytes(data))).metadata.row_group(1).column(0).data_page_offset + 60
    # Groups have two rows each: damage to the second one costs rows 3 and 4, and no others.
    data[at : at + 20] = b"\x00" * 20
    found = read_upload(bytes(data), "t.parquet")
    assert found.table.num_rows == 4
    assert [(issue.row, issue.reason[:11]) for issue in found.issues] == [(3, "rows 3 to 4")]
    with pytest.raises(CorruptData, match="limits"):
        read_upload(bytes(data), "t.parquet", limits=UploadLimits(rows=3))
    with pytest.raises(CorruptData):
        read_upload(b"PAR1", "t.parquet")


def test_single_precision_is_read_as_the_decimals_it_was_written_from() -> None:
    sink = io.BytesIO()
    values = [3.4, None, float("inf"), 1e-30, -25.7]
    pq.write_table(pa.table({"name": ["a"] * 5, "rate": pa.array(values, pa.float32())}), sink)
    assert read_upload(sink.getvalue(), "t.parquet").table.column("rate").to_pylist() == values


def test_rows_known_until_a_day() -> None:
    found = csv("published,value\n2024-03-01,1\n2024-06-01,2\n")
    assert filter_published(found, "published", date(2024, 5, 1)).table.column("value").to_pylist() == [1]
    with pytest.raises(InvalidField, match="published_column"):
        filter_published(found, "value", date(2024, 5, 1))
