"""The stages' commands on the real stack: the documented chain, each of them killed half-way, and on Ray Data."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fathom.clients import Clients
from fathom.domain.chat.messages import Message, Role
from fathom.services.local import Endpoints
from fathom.services.policy.backends.rules.authoring import write_reply
from fathom.services.policy.reference.stages import answer_stage
from fathom.trainers.data.stages.record import Record, read_rows
from fathom.trainers.data.stages.rewriting import CASES, DISTANCES
from tests.integration.stack.scripted_model import ScriptedModel
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]
Stack = tuple[Endpoints, Clients]
Door = tuple[ScriptedModel, str]
ROOT = Path(__file__).resolve().parents[4]
DOCUMENTED = re.compile(r"<!-- (\w+) offline: begin -->\n```\n(.*?)```\n", re.DOTALL)
QUESTIONS = (
    "What was the US unemployment rate in 2020?",
    "How profitable is Apple?",
    "How profitable is Coca-Cola?",
)
ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
BOTH = "--writer scripted --judge scripted"
# Each stage with the words of one source, whose requests are held, and the number of its rows.
STAGES = (
    ("rewrite", f"examples/stages/conversations.jsonl {BOTH}", "失业率", 20),
    ("episodes", "questions.txt --model scripted", "Coca-Cola", 3),
    ("plan", f"episodes.jsonl {BOTH}", "Coca-Cola", 3),
    # From this similarity on the model judges every passage.
    ("reflect", f"episodes.jsonl {BOTH} --threshold=-1", "Coca-Cola", 2),
    ("answer", f"episodes.jsonl {BOTH} --least 1 --most 20000", "Coca-Cola", 3),
    ("repair", "answer.jsonl --mender scripted", "Coca-Cola", 3),
    ("evolve", "questions.txt --writer scripted", "Coca-Cola", 12),
)


def write_as_reference(body: Mapping[str, Any]) -> tuple[dict[str, Any], str, int]:
    """Reply as the reference policy does, behind the door of an endpoint."""
    messages = [Message(ROLES[one["role"]], str(one["content"])) for one in body["messages"]]
    schema = json.dumps(body.get("response_format", {}).get("json_schema", {}).get("schema", {}))
    return {"content": write_reply(schema, messages) or answer_stage(messages) or ""}, "stop", 1_000


@pytest.fixture
def folder(stack: Stack, tmp_path: Path) -> Path:
    """A folder as a newcomer's, with the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "questions.txt").write_text("".join(f"{question}\n" for question in QUESTIONS), encoding="utf-8")
    return tmp_path


async def start(lines: str, folder: Path, stack: Stack) -> Process:
    """Start lines of shell beside the stack."""
    # The store of a local stack lies in its home, which commands find it by.
    home = Path(stack[0].store.removeprefix("file://")).parent
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {**os.environ, "PATH": path, "FATHOM_LOCAL_HOME": str(home)}
    # As the shell itself (exec) where it is one line, so that a signal reaches the command.
    return await asyncio.create_subprocess_exec(
        "bash", "-ec", lines, cwd=folder, env=environ, stdout=PIPE, stderr=asyncio.subprocess.STDOUT
    )


async def finish(process: Process) -> str:
    """Return what was printed; the status has to be 0."""
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


def read_lines(path: Path) -> list[str]:
    """Return the whole lines that a file has so far."""
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def read_documented(name: str) -> str:
    """Return the commands of a block of the guide."""
    blocks: list[tuple[str, str]] = DOCUMENTED.findall((ROOT / "docs" / "training.md").read_text(encoding="utf-8"))
    return dict(blocks)[name]


async def test_the_documented_queries_grow_from_the_shipped_seeds_offline(stack: Stack, folder: Path) -> None:
    said = await finish(await start(read_documented("queries"), folder, stack))
    found = [json.loads(line) for line in read_lines(folder / "new.jsonl")]
    assert len({row["intent"] for row in found}) == len(found) >= 150, said
    sample = Counter(json.loads(line)["difficulty"] for line in read_lines(folder / "sample.jsonl"))
    assert sample == {"easy": 60, "medium": 30, "hard": 10}, said


async def test_the_documented_chain_makes_training_data_offline(stack: Stack, folder: Path) -> None:
    said = await finish(await start(read_documented("stages"), folder, stack))
    for stage in ("rewrite", "plan", "reflect", "answer", "repair", "evolve"):
        records = read_rows(folder / f"{stage}.jsonl", Record)
        assert any(record.status == "accepted" for record in records), (stage, said)
        assert all(record.source and record.id for record in records)
    rows = [json.loads(line) for line in read_lines(folder / "train.jsonl")]
    assert rows, said
    assert all(sum(row["loss_mask"]) > 0 for row in rows)
    # Each case at each distance, in both languages: no rewriting contradicts another one.
    rewritings = [json.loads(line)["provenance"]["tags"] for line in read_lines(folder / "rewrite.sft.jsonl")]
    assert Counter((tags["case"], tags["distance"]) for tags in rewritings) == {
        (case, distance): 2 for case in CASES for distance in DISTANCES
    }
    assert "rewrite" in {row["provenance"]["stage"] for row in rows}
    pairs = [json.loads(line) for line in read_lines(folder / "plan.dpo.jsonl")]
    assert pairs
    assert all(pair["chosen"] != pair["rejected"] for pair in pairs)


async def test_a_stage_that_is_killed_goes_on_without_loss_or_repetition(
    stack: Stack, scripted_door: Door, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = scripted_door[0]
    monkeypatch.setattr(model, "answer", write_as_reference)
    for stage, arguments, held, count in STAGES:
        target = folder / f"{stage}.jsonl"
        line = f"exec fathom data stage {stage} {arguments} --target {target.name}"
        monkeypatch.setattr(model, "held", held)
        monkeypatch.setattr(model, "waiting", 0)
        model.may_begin.clear()
        killed = await start(line, folder, stack)
        # Half-way for certain: one source waits for the model, and rows of others are there.
        await eventually(lambda: (model.waiting and read_lines(target)) or killed.returncode is not None, within_s=240)  # noqa: B023
        killed.send_signal(signal.SIGKILL)
        out, _ = await killed.communicate()
        assert killed.returncode == -signal.SIGKILL, (stage, out.decode())
        before = read_lines(target)
        assert 0 < len(before) < count, stage
        model.may_begin.set()
        await finish(await start(line, folder, stack))
        after = read_lines(target)
        assert after[: len(before)] == before, stage
        ids = Counter(json.loads(row)["id"] for row in after)
        assert len(ids) == count, (stage, ids)
        assert set(ids.values()) == {1}, stage


async def test_ray_data_makes_the_rows_that_one_process_makes(stack: Stack, folder: Path) -> None:
    (folder / "many.txt").write_text(
        "".join(f"What was the return of Apple in {year}?\n" for year in range(1991, 2023)), encoding="utf-8"
    )
    line = "fathom data stage evolve many.txt --writer rules"
    await finish(await start(f"{line} --target here.jsonl", folder, stack))
    await finish(await start(f"{line} --target there.jsonl --ray-above 16 --workers 2", folder, stack))
    here, there = (
        {json.loads(row)["id"]: json.loads(row) for row in read_lines(folder / f"{name}.jsonl")}
        for name in ("here", "there")
    )
    assert len(here) == len(read_lines(folder / "there.jsonl")) == 32 * 4
    assert here == there
