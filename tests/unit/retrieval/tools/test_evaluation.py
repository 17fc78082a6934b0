"""Figures by hand, the weight that no reported query helped to choose, files of one's own."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.core import errors
from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.documents.model import parse_document
from fathom.services.retrieval.tools.datasets import format_table, join_turns, load_named, load_own
from fathom.services.retrieval.tools.evaluation import Query, cross_fit, evaluate, is_first_half, make_row

QUERIES = [Query("a", "", {"x": 1}), Query("b", "", {"x": 1, "y": 1}), Query("c", "", {"z": 1})]


def test_figures_are_those_computed_by_hand() -> None:
    run = {"a": {"y": 3.0, "x": 2.0}, "b": {"x": 3.0, "z": 2.0, "y": 1.0}}
    row = make_row("words", QUERIES, run)
    figures = row.figures
    both = 1 + 1 / math.log2(3)
    expected = (1 / math.log2(3) + (1 + 0.5) / both + 0) / 3
    assert figures["nDCG@10"] == pytest.approx(expected, abs=1e-6)
    assert figures["RR@10"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert figures["R@1"] == pytest.approx((0 + 1 / 2 + 0) / 3)
    assert figures["R@5"] == pytest.approx((1 + 1 + 0) / 3)
    # Three queries of 0.63, 0.92 and 0: drawn again, their mean lies anywhere between the least and the best one.
    assert row.interval == pytest.approx((0.0, (1 + 0.5) / both), abs=1e-6)


def test_each_half_is_reported_with_the_weight_of_the_other() -> None:
    queries = [Query(f"q{n}", "", {"x": 1}) for n in range(40)]
    right, wrong = {"x": 2.0, "y": 1.0}, {"y": 2.0, "x": 1.0}
    runs = {
        0.2: {q.id: right if is_first_half(q.id) else wrong for q in queries},
        0.8: {q.id: wrong if is_first_half(q.id) else right for q in queries},
    }
    row, _ = cross_fit(queries, runs)
    assert row.alpha == (0.2, 0.8)
    assert row.figures["R@1"] == 0.0, "each half would choose its own weight and gets the other's"
    same = {0.4: runs[0.2], 0.5: runs[0.2]}
    assert cross_fit(queries, same)[1] == 0.5, "among equals the middle"


def test_an_evaluation_of_words(tmp_path: Path) -> None:
    documents = [parse_document({"id": word, "text": f"about {word}"}) for word in ("gold", "tin", "zinc")]
    queries = [Query("1", "gold", {"gold": 1}), Query("2", "tin gold", {"zinc": 1}), Query("3", "x", {"none": 1})]
    result = evaluate(documents, queries, Recipe(), Config(), tmp_path)
    assert (result.documents, result.queries, result.alpha) == (3, 2, None)
    assert result.get_figure("bm25", "R@1") == 0.5
    with pytest.raises(errors.InvalidField, match="queries"):
        evaluate(documents, queries[2:], Recipe(), Config(), tmp_path)


def write_rows(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_ones_own_files(tmp_path: Path) -> None:
    corpus = write_rows(tmp_path / "c.jsonl", {"_id": "1", "text": "gold"}, {"id": "2", "contents": '"Tin"\ntin'})
    qrels = write_rows(
        tmp_path / "q.jsonl", {"_id": "a", "text": "gold", "gold": ["1"]}, {"id": 7, "text": "tin", "gold": {"2": 2}}
    )
    documents, queries = load_own(corpus, qrels)
    assert [document.id for document in documents] == ["1", "2"]
    assert queries == [Query("a", "gold", {"1": 1}), Query("7", "tin", {"2": 2})]
    with pytest.raises(errors.CorruptData, match=r"q\.jsonl:2"):
        load_own(corpus, write_rows(tmp_path / "q.jsonl", {"id": "a", "text": "x", "gold": []}, "{"))
    with pytest.raises(errors.NotFound):
        load_own(corpus, tmp_path / "nowhere")
    with pytest.raises(errors.NotFound) as unknown:
        load_named("cmrc", tmp_path)
    assert "cmrc2018" in unknown.value.nearest


def test_the_command_prints_figures_or_says_what_is_wrong(tmp_path: Path) -> None:
    corpus = write_rows(tmp_path / "c.jsonl", {"id": "1", "text": "gold"}, {"id": "2", "text": "tin"})
    qrels = write_rows(tmp_path / "q.jsonl", {"id": "a", "text": "gold", "gold": ["1"]})
    command = ["eval", "retrieval", "--corpus", str(corpus)]
    done = CliRunner().invoke(app, [*command, "--qrels", str(qrels), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["nDCG@10"] == 1.0
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, [*command, "--qrels", str(qrels), "--page", str(page)])
    assert "bm25          100.0" in done.stdout
    assert "100.0 to 100.0" in done.stdout
    text = page.read_text(encoding="utf-8")
    assert "<h2>own</h2><svg" in text
    assert html.escape(done.stdout.split("own: ")[1].strip()) in text
    assert isinstance(CliRunner().invoke(app, command).exception, errors.InvalidField)


def test_turns_and_tables() -> None:
    turns = [("user", "one"), ("agent", "x"), ("user", "two"), ("agent", "y"), ("user", "three")]
    row = {"history": [{"speaker": who, "text": text} for who, text in turns], "text": "four"}
    assert join_turns(row) == "two three four"
    table = [["", "", "Years"], ["", "2019", "2018"], ["Sales", "1", "2"], ["Note", "", ""]]
    assert list(format_table(table)) == ["2019 Years 2018", "Sales", "Sales: 1 | 2", "Note"]
