"""Test what a training leaves for its report, in its folder and in the store, while it trains and after a kill."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.domain.training_report.about import LINES, METRICS
from fathom.domain.training_report.reader import TrainingReader
from fathom.trainers.batch_ops import batch_metrics, group_metrics
from fathom.trainers.commands import report
from fathom.trainers.commands.report_file import MAX_TRAININGS, write_reports
from fathom.trainers.monitor.progress import MOST_SHARE, Pace
from fathom.trainers.monitor.report import read_folder, write_report
from fathom.trainers.monitor.samples import choose_rows, describe_row, split_text
from fathom.trainers.monitor.store_mirror import EVERY_S, StoreMirror, find_other, restore_folder
from fathom.trainers.objectives.mismatch import FIRST_PASS
from fathom.transport.store import ObjectStore, open_store
from tests.support.training.reports import TOKENIZER, Writer, make_batch


def start_now(work: Any) -> Future[None]:
    """Run an upload to its end, as if the other thread were done at once."""
    done: Future[None] = Future()
    done.set_result(asyncio.run(work))
    return done


def data_of(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.split('id="report-data">')[1].split("</script>")[0])
    return found


def test_the_page_stands_alone_and_has_what_the_folder_has(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run <1>", total=9)
    writer.progress.set_notes(["2 epochs are > 1"])
    writer.write(*range(1, 10))
    writer.end("failed", "step 9: entropy is 0")
    page = write_report(tmp_path / "run <1>", "GRPO <tiny>").read_text()
    markup = page.split("<style>")[0]
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", markup), "nothing is fetched"
    assert "GRPO &lt;tiny&gt;" in markup
    assert not re.search(r"^(import|export) ", page.split('<script type="module">')[1], re.MULTILINE)
    [run] = data_of(page)["trainings"]
    assert (run["about"]["name"], run["about"]["state"], run["about"]["step"]) == ("run <1>", "failed", 9)
    assert run["about"]["notes"] == ["2 epochs are > 1"]
    assert run["about"]["settings"]["trainer.seed"] == 7
    assert run["samples"] == list(range(1, 10))
    assert {"critic/score/mean", "reward/style", "mismatch/kl_k3", "own/metric"} <= set(run["curves"]["series"])


def test_a_reader_never_meets_half_a_page(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.write(1)
    before = write_report(tmp_path / "run", "run")
    held = before.open("rb")
    writer.write(2)
    write_report(tmp_path / "run", "run")
    # The file that was open is still the old one, whole; the new one has taken its name.
    assert data_of(held.read().decode())["trainings"][0]["about"]["step"] == 1
    assert data_of(before.read_text())["trainings"][0]["about"]["step"] == 2
    held.close()
    writer.end()
    with pytest.raises(CorruptData, match=METRICS):
        read_folder(tmp_path)


def test_page_and_samples_take_a_bounded_share_of_the_time() -> None:
    now, done = [0.0], []
    pace = Pace(every_s=1.0, clock=lambda: now[0])

    def work() -> None:
        done.append(now[0])
        now[0] += 3.0

    while now[0] < 1_000.0:
        pace.run(work)
        now[0] += 1.0
    assert 3.0 * len(done) <= 1_000.0 * MOST_SHARE * 1.2
    pace.run(work, force=True)
    assert done[-1] >= 1_000.0


def test_rows_are_those_that_tell_something() -> None:
    batch = make_batch(1)
    gaps = batch.tensor("old_log_probs").clone()
    gaps[1, 0] += 9.0
    found = choose_rows(batch.with_tensors(old_log_probs=gaps), 4)
    assert found[3] == ["highest reward"]
    assert found[0] == ["lowest reward"]
    assert "largest difference" in found[1]
    assert list(choose_rows(batch, 2)) == [3, 0]
    assert len(choose_rows(batch, 16)) == 4


def test_a_row_has_the_numbers_of_each_token_under_its_mask() -> None:
    batch = make_batch(1)
    row = describe_row(batch, 0, ["lowest reward"], TOKENIZER)
    response = row["response"]
    # Padding is left out on either side: one token before the prompt, two after the response.
    assert (row["prompt_tokens"], row["response_tokens"], row["trained_tokens"]) == (5, 10, 8)
    assert response["mask"] == [1, 1, 1, 1, 0, 0, 1, 1, 1, 1]
    assert response["ids"] == batch.tensor("responses")[0][:10].tolist()
    assert response["text"] == [TOKENIZER.decode([token]) for token in response["ids"]]
    assert response["rollout"] == pytest.approx(batch.tensor("rollout_log_probs")[0][:10].tolist(), rel=1e-3)
    assert response["learner"] == pytest.approx(batch.tensor("old_log_probs")[0][:10].tolist(), rel=1e-3)
    assert response["advantage"][:5] == [-1.5, -1.5, -1.5, -1.5, 0.0]
    assert (row["uid"], row["components"], row["version_min"]) == ("question-0", {"style": 0.0}, 0)


def test_differences_that_were_not_measured_are_not_shown_as_none() -> None:
    batch = make_batch(1).with_meta(**{FIRST_PASS: True})
    row = describe_row(batch, 0, [], TOKENIZER)
    assert row["response"]["learner"] is None
    assert all("largest difference" not in why for why in choose_rows(batch, 4).values())


def test_a_character_of_several_tokens_is_shown_once_and_whole() -> None:
    class Bytes:
        """One token per byte."""

        def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
            return bytes(ids).decode("utf-8", "replace")

        def batch_decode(self, rows: list[list[int]], skip_special_tokens: bool = False) -> list[str]:
            return [self.decode(row) for row in rows]

    assert split_text(list("涨 5".encode()), Bytes()) == ["涨", "", "", " ", "5"]
    # Bytes that are no character stay what they are.
    assert split_text([0xFF, 0x41], Bytes()) == ["\ufffd", "A"]


def test_groups_of_one_reward_are_counted() -> None:
    batch = make_batch(1)
    scores = torch.zeros(4, 12)
    scores[:, 0] = torch.tensor([0.1, 0.1, 0.0, 1.0])
    found = group_metrics(batch.with_tensors(token_level_scores=scores))
    assert found == {"group/reward_std": pytest.approx(0.25), "group/flat": 0.5}


def test_metrics_say_between_which_values_most_rows_are() -> None:
    # Eleven rows whose scores are 0 to 1 by tenths, so that each percentile is a row's.
    batch = make_batch(1, rows=11)
    scores = torch.zeros(11, 12)
    scores[:, 0] = torch.arange(11) / 10
    found = batch_metrics(batch.with_tensors(token_level_scores=scores))
    score = {name: found[f"critic/score/{name}"] for name in ("min", "p10", "median", "p90", "max")}
    assert score == pytest.approx({"min": 0.0, "p10": 0.1, "median": 0.5, "p90": 0.9, "max": 1.0})
    # Of a reward component too, whose mean has no further name.
    style = [found[name] for name in ("reward/style/p10", "reward/style/median", "reward/style/p90")]
    assert style == pytest.approx([1 / 11, 5 / 11, 9 / 11])
    assert {"response_length/p90", "critic/advantages/median"} <= set(found)


@pytest.fixture
def store() -> ObjectStore:
    return open_store("memory://")


def test_the_store_has_the_curves_while_the_training_runs(tmp_path: Path, store: ObjectStore) -> None:
    now = [0.0]
    writer, reader = Writer(tmp_path / "run", total=1_000), TrainingReader(store)
    writer.mirror(StoreMirror(store, start_now, tmp_path / "run", lambda: now[0]))

    def last() -> int:
        async def read() -> int:
            return (await reader.read_curves(await reader.describe("run"))).last

        return asyncio.run(read())

    writer.write(1)
    assert last() == 1
    writer.write(2, 3)
    assert last() == 1, "uploads are EVERY_S apart"
    now[0] += EVERY_S
    writer.write(*range(4, 2 * LINES + 12))
    assert last() == 4
    now[0] += EVERY_S
    writer.write(2 * LINES + 12)
    assert last() == 2 * LINES + 12
    writer.write(2 * LINES + 13)
    writer.end()
    about = asyncio.run(reader.describe("run"))
    assert (about.state, last()) == ("finished", 2 * LINES + 13), "the end is uploaded at once"
    assert asyncio.run(reader.sampled_steps("run")) == sorted(read_folder(tmp_path / "run").samples)


def test_a_sample_that_is_dropped_stays_for_the_page_that_was_told_of_it(tmp_path: Path, store: ObjectStore) -> None:
    now = [0.0]
    writer, reader = Writer(tmp_path / "run", total=1_000), TrainingReader(store)
    writer.mirror(StoreMirror(store, start_now, tmp_path / "run", lambda: now[0]))
    listed = []
    for step in (63, 64, 66):
        writer.write(step)
        now[0] += EVERY_S
        listed.append(asyncio.run(reader.sampled_steps("run")))
    writer.end()
    assert listed == [[63], [63, 64], [64, 66]]


def test_curves_go_on_on_another_disk_and_begin_anew_where_they_are_not_wanted(
    tmp_path: Path, store: ObjectStore
) -> None:
    first = Writer(tmp_path / "a" / "run", total=1_000)
    first.mirror(StoreMirror(store, start_now, tmp_path / "a" / "run"))
    first.write(*range(1, LINES + 6))
    first.end("stopped")
    asyncio.run(restore_folder(store, tmp_path / "b" / "run"))
    assert (tmp_path / "b" / "run" / METRICS).read_bytes() == (tmp_path / "a" / "run" / METRICS).read_bytes()
    assert read_folder(tmp_path / "b" / "run").samples == read_folder(tmp_path / "a" / "run").samples
    second = Writer(tmp_path / "b" / "run", total=1_000)
    second.mirror(StoreMirror(store, start_now, tmp_path / "b" / "run"))
    # From the checkpoint of step LINES.
    second.write(LINES + 1, LINES + 2)
    second.end()
    reader = TrainingReader(store)
    about = asyncio.run(reader.describe("run"))
    assert list(asyncio.run(reader.read_curves(about)).series["actor/entropy"].steps) == list(range(1, LINES + 3))
    # A folder of the same name without these curves: what is in the store beyond its own goes.
    third = Writer(tmp_path / "c" / "run", total=1_000)
    third.mirror(StoreMirror(store, start_now, tmp_path / "c" / "run"))
    third.write(1)
    third.end()
    assert asyncio.run(store.keys("training/run/")) == [
        "training/run/metrics/000000.jsonl", "training/run/samples/00000001.json",
    ]  # fmt: skip


def test_another_training_of_the_name_is_known_by_its_id(tmp_path: Path, store: ObjectStore) -> None:
    first = Writer(tmp_path / "a" / "run")
    first.mirror(StoreMirror(store, start_now, tmp_path / "a" / "run"))
    first.write(1)
    first.end()
    # The same folder again, and a copy on another disk, are the same training; a fresh folder is not.
    asyncio.run(restore_folder(store, tmp_path / "b" / "run"))
    for folder, other in (("a", False), ("b", False), ("c", True)):
        again = Writer(tmp_path / folder / "run")
        again.end()
        assert asyncio.run(find_other(store, again.progress.about)) == other
    assert not asyncio.run(find_other(open_store("memory://"), first.progress.about))


def test_a_store_that_is_away_does_not_end_a_training(tmp_path: Path) -> None:
    # A file where the store wants its folder: every upload fails.
    (tmp_path / "file").write_text("no folder")
    away = open_store((tmp_path / "file" / "store").as_uri())
    writer = Writer(tmp_path / "run")
    writer.mirror(StoreMirror(away, start_now, tmp_path / "run"))
    writer.write(1, 2)
    writer.end()
    assert read_folder(tmp_path / "run").about.state == "finished"


def test_the_command_compares_trainings_of_store_and_folders(tmp_path: Path) -> None:
    url = (tmp_path / "store").as_uri()
    for name, seed in (("one", 1), ("two", 2)):
        writer = Writer(tmp_path / name, seed=seed, settings={"trainer.seed": seed})
        if name == "one":
            writer.mirror(StoreMirror(open_store(url), start_now, tmp_path / name))
        writer.write(1, 2, 3)
        writer.end()
    target = tmp_path / "report.html"
    found = asyncio.run(write_reports(["one", str(tmp_path / "two")], url, target, follow=True))
    assert found == ["one", "two"]
    runs = data_of(target.read_text())["trainings"]
    assert [run["about"]["settings"]["trainer.seed"] for run in runs] == [1, 2]
    assert all(run["samples"] == [1, 2, 3] for run in runs)
    assert asyncio.run(write_reports([], url, target, follow=False)) == ["one"]
    with pytest.raises(NotFound, match="training"):
        asyncio.run(write_reports(["three"], url, target, follow=False))
    empty = (tmp_path / "empty").as_uri()
    with pytest.raises(NotFound, match=f"in the store '{empty}'"):
        asyncio.run(write_reports([], empty, target, follow=False))
    with pytest.raises(InvalidField, match=str(MAX_TRAININGS)):
        asyncio.run(write_reports(["one"] * (MAX_TRAININGS + 1), url, target, follow=False))


def test_without_a_store_the_command_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match=str(tmp_path)):
        report(home=tmp_path)


def test_the_keys_of_a_store_are_not_in_the_error() -> None:
    with pytest.raises(NotFound, match=r"'memory://place/bucket'"):
        asyncio.run(write_reports([], "memory://KEY:SECRET@place/bucket?secure=false", Path("none"), follow=False))


def test_a_description_is_read_as_it_was_written(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.progress.set_notes(["ä"])
    writer.write(1)
    writer.end("stopped", "by hand")
    assert read_folder(tmp_path / "run").about == writer.progress.about
    assert replace(writer.progress.about, settings={}).without_settings()["state"] == "stopped"
