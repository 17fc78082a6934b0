"""Files that are replaced as a whole: a reader never meets half of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.domain.replacing import replace_whole, write_lines, write_whole


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    target.write_text("old")

    with replace_whole(target) as part:
        part.write_text("ne")
        assert target.read_text() == "old"
        part.write_text("new")

    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    target.write_text("old")

    def write_half() -> None:
        with replace_whole(target) as part:
            part.write_text("half")
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        write_half()

    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_of_two_writers_at_once_the_last_one_wins_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "report.html"

    with replace_whole(target) as first:
        first.write_text("first")
        write_whole(target, b"second")
        assert target.read_bytes() == b"second"

    assert target.read_text() == "first"


def test_missing_folders_are_made(tmp_path: Path) -> None:
    write_whole(tmp_path / "a" / "b", b"x")

    assert (tmp_path / "a" / "b").read_bytes() == b"x"


def test_lines_are_counted(tmp_path: Path) -> None:
    assert write_lines(tmp_path / "rows.jsonl", ("一", "b")) == 2
    assert (tmp_path / "rows.jsonl").read_text(encoding="utf-8") == "一\nb\n"
