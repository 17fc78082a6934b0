"""The shipped set of 33 questions: its shape, and every number of its references computed anew from the bundled data."""

from __future__ import annotations

import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.domain.text.language import language_of
from fathom.operations.evaluation.items import Item, choose_items, find_set, load_items
from fathom.operations.evaluation.page import render_scores
from fathom.operations.evaluation.references import ReferenceData, check_items
from fathom.operations.evaluation.scoring import Answer, format_lines, score_answer, summarise_scores

ITEMS = load_items()
INVENTED: dict[str, Any] = {
    "id": "event-99", "kind": "event", "language": "en", "question": "How much was it?",
    "reference": "It fell 33.9 % by 2020-03-23, of the S&P 500.", "names": ["S&P 500"],
    "sources": [{"table": "SP500", "column": "close_adj", "from": "2020-02-19", "to": "2020-03-23"}],
    "figures": [
        {"written": "33.9", "unit": "%", "sql": "select -gain('SP500', '2020-02-19', '2020-03-23')"},
        {"written": "2020-03-23", "unit": "date", "sql": "select day_lowest('SP500', 'close_adj', '2020-01-01', '2020-12-31')"},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, tables_dir: Path, corpus_dir: Path) -> Path:
    """A home with the bundled data, as ``fathom data`` builds it."""
    made = tmp_path_factory.mktemp("home")
    (made / "data").mkdir()
    (made / "data" / "tables").symlink_to(tables_dir.resolve())
    (made / "data" / "corpus").symlink_to(corpus_dir.resolve())
    return made


def item(**changes: object) -> Item:
    return Item.model_validate({**INVENTED, **changes})


def problems_of(one: Item, home: Path) -> list[str]:
    data = ReferenceData(home)
    try:
        return [problem.text for problem in check_items([one], data)]
    finally:
        data.close()


def test_the_set_has_33_items_eleven_of_each_kind_in_both_languages() -> None:
    assert len(ITEMS) == 33
    assert Counter(one.kind for one in ITEMS) == {"event": 11, "financial": 11, "industry": 11}
    by_kind = Counter((one.kind, one.language) for one in ITEMS)
    assert all(by_kind[kind, language] >= 5 for kind in ("event", "financial", "industry") for language in ("en", "zh"))
    for one in ITEMS:
        assert language_of(one.question) == language_of(one.reference) == one.language, one.id
        # An analyst's answer, condensed: neither a number nor a report.
        assert 4 <= sum(figure.is_scored for figure in one.figures) <= 30, one.id
        assert 100 <= len(one.reference) <= 1_200, one.id


def test_each_number_of_each_reference_is_what_the_bundled_data_give(home: Path) -> None:
    data = ReferenceData(home)
    try:
        assert check_items(ITEMS, data) == []
    finally:
        data.close()


def test_a_reference_earns_every_figure_of_its_own_and_no_other_item_does() -> None:
    for one in ITEMS:
        assert score_answer(one, Answer(one.id, one.reference)).lacks == ()
        assert score_answer(one, Answer(one.id, one.question)).share == 0.0, one.id


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"reference": "It fell 33.8 % by 2020-03-23."}, ["nothing computes 33.8 of the reference", "33.9 is not in the reference"]),
        ({"reference": "It fell 33.9 % by 2020-03-23, or 12.5 % a week."}, ["nothing computes 12.5 of the reference"]),
        ({"reference": "It fell 33.9 % by 2020-03-24."}, ["the date 2020-03-23 is not in the reference"]),
        ({"names": []}, ["nothing computes 500 of the reference"]),
        (
            {"figures": [{**INVENTED["figures"][0], "sql": "select -gain('SP500', '2020-02-20', '2020-03-23')"}, INVENTED["figures"][1]]},
            ["the reference says 33.9 %, and the data say 33.7"],
        ),
        (
            {"sources": [{"table": "SP500", "column": "close_adj", "from": "2030-01-01", "to": "2030-12-31"}]},
            ["SP500 has no close_adj from 2030-01-01 to 2030-12-31"],
        ),
        ({"sources": [{"document": "nowhere", "page": 1}]}, ["no document 'nowhere'"]),
        (
            {"figures": [{"written": "33.9", "document": "note-episode-covid-crash", "quote": "fell by about 33.9%"}, INVENTED["figures"][1]]},
            ["the reference says 33.9 , and the data say no such words"],
        ),
    ],
)  # fmt: skip
def test_the_check_names_what_does_not_hold(changes: dict[str, object], said: list[str], home: Path) -> None:
    found = problems_of(item(**changes), home)
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True)), found


def test_a_query_that_fails_and_missing_data_are_errors_that_say_where(home: Path, tmp_path: Path) -> None:
    broken = item(figures=[{"written": "33.9", "sql": "select nothing from nowhere"}])
    with pytest.raises(CorruptData, match="nowhere"):
        problems_of(broken, home)
    with pytest.raises(NotFound, match=r"observations\.parquet; `fathom data` builds it"):
        ReferenceData(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "event-01"}, "'event-01' stands twice"),
        ({"kind": "industry"}, "of another kind or language"),
        ({"attachments": ["none.csv"]}, "none.csv is not in"),
        ({"figures": []}, "figures"),
        ({"figures": [{"written": "3"}]}, "either computed by sql or quoted"),
        ({"sources": [{"table": "US"}]}, "a table's column over a period, or a document's page"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(change: dict[str, object], said: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(find_set(), tmp_path / "set"))
    path = folder / "event.en.yaml"
    rows = [*yaml.safe_load(path.read_text(encoding="utf-8")), {**INVENTED, **change}]
    path.write_text(yaml.safe_dump(rows, allow_unicode=True), encoding="utf-8")
    with pytest.raises(CorruptData, match=said):
        load_items(folder)


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("It fell by 33.9 %.", True),
        ("It fell by -33.92%.", True),
        ("It lost about 34 percent.", True),
        ("A loss of 33.7 %.", False),
        ("A loss of 33.94 points of the index, or 0.339.", True),
        ("It fell until 2020-03-23.", False),
        ("", False),
    ],
)
def test_an_answer_states_a_figure_in_any_usual_form(text: str, is_right: bool) -> None:
    score = score_answer(item(), Answer("event-99", text))
    assert (score.wanted, score.share) == (1, float(is_right))
    assert score.lacks == (() if is_right else ("33.9 %",))


def test_units_of_tables_and_words_for_scales_are_the_same_amount() -> None:
    jobs = item(figures=[{"written": "16,983", "unit": "thousand", "sql": "select 16983"}])
    for text in ("16,983 thousand jobs", "16.98 million jobs", "1698万人", "16983"):
        assert score_answer(jobs, Answer("", text)).lacks == (), text
    assert score_answer(jobs, Answer("", "17.2 million jobs")).lacks


def test_means_count_items_alike_and_have_intervals_over_items() -> None:
    scores = [score_answer(one, Answer(one.id, one.reference if one.kind == "event" else "", 1, one.language == "en")) for one in ITEMS]  # fmt: skip
    lines = {line.name: line for line in summarise_scores(scores)}
    assert (lines["event"].share, lines["financial"].share) == (1.0, 0.0)
    assert lines["all"].share == pytest.approx(1 / 3)
    assert lines["all"].low < 1 / 3 < lines["all"].high
    assert (lines["all"].items, lines["all"].finished, lines["all"].unsupported) == (33, 17, 33)
    assert len(format_lines(list(lines.values())).splitlines()) == 7


def test_the_report_shows_each_item_and_escapes_what_a_model_wrote() -> None:
    scores = [score_answer(one, Answer(one.id, "<script>alert(1)</script>")) for one in ITEMS]
    page = render_scores("rules", summarise_scores(scores), scores)
    tags = list[str]()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.append(tag)

    Reader().feed(page)
    assert tags.count("svg") == 2
    assert tags.count("h3") == 33
    assert "script" not in tags
    assert "http" not in page


def test_items_are_chosen_by_id_kind_or_language() -> None:
    assert len(choose_items(ITEMS, [])) == 33
    assert [one.id for one in choose_items(ITEMS, ["event-02"])] == ["event-02"]
    assert len(choose_items(ITEMS, ["industry"])) == 11
    with pytest.raises(InvalidField, match="'fr' is no id, kind or language"):
        choose_items(ITEMS, ["fr"])


def test_the_command_checks_the_references_and_names_missing_options(home: Path) -> None:
    done = CliRunner().invoke(app, ["eval", "set33", "--check", "--home", str(home)])
    assert done.exit_code == 0, done.output
    assert "33 items, 375 figures computed or quoted anew, 0 problems" in done.output
    refused = CliRunner().invoke(app, ["eval", "set33", "--planner", "grpc://127.0.0.1:1"])
    assert isinstance(refused.exception, InvalidField)
    assert refused.exception.field == "gateway"
