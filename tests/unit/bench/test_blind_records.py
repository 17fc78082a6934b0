"""A blind set has one first run, and a set that was learnt or mended for is burnt, and said to be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from fathom.domain.text.overlap import Leak, Text, find_leaks
from fathom.services.planner.classification.examples import FILES, load_examples
from tests.bench.planner import first_runs
from tests.golden.blind.records import FirstRunExists, Record, list_sets, load_records, record_first_run

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "services" / "datafetch" / "programs" / "examples"
HELD_OUT = ROOT / "tests" / "golden" / "router" / "held_out.jsonl"


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            yield f"{path.name}:{number}", json.loads(line)


def join_texts(row: dict[str, object]) -> str:
    """The words of a row that a person wrote: a claim, or a question with those before it."""
    turns = [turn["question"] if isinstance(turn, dict) else str(turn) for turn in row.get("turns") or ()]  # type: ignore[attr-defined]
    return " ".join([*turns, str(row.get("true") or row.get("follow_up") or row["question"])])


def read_texts(*paths: Path) -> Iterator[Text]:
    return (Text(name, join_texts(row)) for path in paths for name, row in read_rows(path))


def read_training() -> Iterator[Text]:
    yield from read_texts(*sorted(PROGRAMS.glob("*.jsonl")))
    for head in (head for heads in FILES.values() for head in heads):
        yield from (Text(f"examples of {head}", example.text) for example in load_examples(head))


def show(leaks: Iterable[Leak]) -> str:
    return "\n".join(f"{leak.held.name} {leak.held.text!r} is in {leak.training.name}" for leak in leaks)


@pytest.fixture(scope="module")
def leaks() -> dict[str, list[Leak]]:
    """All leaks of training examples into sets of the evaluation, by set."""
    sets = {**list_sets(), "held_out": HELD_OUT}
    found: dict[str, list[Leak]] = {name: [] for name in sets}
    for leak in find_leaks(read_training(), read_texts(*sets.values())):
        found[leak.held.name.partition(".")[0]].append(leak)
    return found


def test_no_set_that_counts_as_blind_stands_in_training_data(leaks: dict[str, list[Leak]]) -> None:
    burnt = {name for name, record in load_records().items() if record.burnt}
    for name, own in leaks.items():
        assert name in burnt or not own, show(own)


def test_sets_that_were_learnt_are_found_by_the_same_check(leaks: dict[str, list[Leak]]) -> None:
    """Otherwise the check above could not fail: most of what is declared as learnt must be found."""
    learnt = {
        name.partition("-")[0] for name in (str(row["id"]) for _, row in read_rows(PROGRAMS / "blind_sets.jsonl"))
    }
    assert len(learnt) > 10
    # Questions of fewer than five words are passed over, hence not all of the sixty.
    for letter in learnt:
        assert load_records()[f"set_{letter}"].burnt
        assert len(leaks[f"set_{letter}"]) > 50


def test_records_are_of_sets_that_are_there() -> None:
    assert set(load_records()) <= set(list_sets())


def test_a_first_run_is_recorded_once_for_each_model(tmp_path: Path) -> None:
    file = tmp_path / "records.yaml"
    record_first_run("set_x", "rules", {"right": "3"}, file, commit="abc1234")
    record_first_run("set_x", "endpoint", {"right": "5"}, file, commit="abc1234")
    with pytest.raises(FirstRunExists, match=r"not a first run, which was on .* right 3"):
        record_first_run("set_x", "rules", {"right": "9"}, file, commit="fff0000")
    assert load_records(file)["set_x"].first_runs["rules"].figures == {"right": "3"}


def test_a_benchmark_names_a_first_run_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Its real record is that of a burnt set; in a file of its own it is any other set.
    file, path = tmp_path / "records.yaml", list_sets()["set_a"]
    assert first_runs.announce(path, "rules", file)
    assert capsys.readouterr().out == "set_a: first run\n"
    first_runs.record(path, "rules", {"right": "3"}, file)
    capsys.readouterr()
    assert not first_runs.announce(path, "rules", file)
    assert "not a first run" in capsys.readouterr().out
    # A file of somebody's own is no set of the suite, whatever its name.
    (tmp_path / "set_a.jsonl").touch()
    assert not first_runs.announce(tmp_path / "set_a.jsonl", "endpoint", file)
    assert not capsys.readouterr().out


def test_a_burnt_set_has_no_first_run_with_any_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "records.yaml"
    file.write_text("set_b: {burnt: code was mended for it}\n", encoding="utf-8")
    assert not first_runs.announce(list_sets()["set_b"], "rules", file)
    assert "The set is burnt: code was mended for it." in capsys.readouterr().out
    with pytest.raises(FirstRunExists):
        record_first_run("set_b", "rules", {"right": "3"}, file, commit="abc1234")


@pytest.mark.parametrize("row", [{}, {"first_runs": {"rules": {"day": "2026-11-23", "figures": {"right": "1"}}}}])
def test_a_record_says_something_and_where_it_is_from(row: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Record.model_validate(row)
