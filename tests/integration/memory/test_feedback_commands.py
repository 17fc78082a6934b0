"""``fathom feedback`` over gRPC: the real memory service, and consent by the planner's own records of runs."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.cli.feedback import app
from fathom.cli.records import feedback
from fathom.clients import Clients, connect
from fathom.core.call import Call, calling
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.services.memory.config import Config
from fathom.services.memory.server import build
from fathom.services.planner.runs.consent import get_consent, set_consent
from fathom.trainers.data.reviews.candidates import read_candidates
from fathom.transport.rpc.service import Service
from tests.unit.planner.house import House, finish

GIVEN, REFUSED = trajectory.CONSENT_GIVEN, trajectory.CONSENT_REFUSED
ANN = replace(Call.new(), principal="user:ann")
GATEWAY = "http://desk.example:8080/"


@dataclass
class Consents:
    """The planner's answers about consent, from real records of runs."""

    house: House = field(default_factory=lambda: House(finish("It is so.")))

    async def GetConsent(self, request: planner.GetConsentRequest, call: Call) -> planner.GetConsentResponse:
        return await get_consent(self.house.record, request, call)

    async def state(self, run_id: str, consent: trajectory.Consent) -> None:
        """Record what the user who asked a run says of it."""
        with calling(ANN):
            await set_consent(self.house.record, planner.SetConsentRequest(run_id=run_id, consent=consent), ANN)


@dataclass(frozen=True)
class Desk:
    """Two services of a stack, and what calls them: clients, and commands that read their addresses from a file."""

    home: Path
    clients: Clients
    consents: Consents

    async def judge(
        self, run_id: str, *, helpful: bool = False, edited: str = "", comment: str = "", tag: str = ""
    ) -> None:
        tags = [tag] if tag else []
        request = memory.RecordFeedbackRequest(
            run_id=run_id, helpful=helpful, tags=tags, comment=comment, edited_answer=edited
        )
        await self.clients.memory.record_feedback(request)

    async def answer(self, run_id: str, question: str, answer: str, rewritten: str = "") -> None:
        """Let a run of Ann's be asked, and its answer be a turn of her conversation."""
        with calling(ANN):
            await self.consents.house.ask(run_id)
        turn = memory.Turn(question=question, rewritten_question=rewritten, answer=answer, run_id=run_id)
        await self.clients.memory.append_turn(
            memory.AppendTurnRequest(request_id=f"turn-{run_id}", conversation_id="c", turn=turn)
        )

    async def command(self, *words: str, status: int = 0) -> str:
        """Run a command as a program of its own would, and return what it prints."""
        done = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--home", str(self.home)])
        assert done.exit_code == status, f"{done.output}{done.exception or ''}"
        return done.output


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    runtime, consents, addresses = Runtime(log_level="error", grace_s=0.5), Consents(), dict[str, str]()
    async with AsyncExitStack() as stack:
        deps = await stack.enter_async_context(dependencies("memory", runtime))
        services = (build(Config(path=tmp_path / "memory.sqlite3"), deps), Service("planner", consents))
        for service in services:
            hosted = await stack.enter_async_context(hosting(service, deps, runtime))
            await hosted.warm
            addresses[service.name] = hosted.url
        clients = connect(addresses)
        stack.push_async_callback(clients.close)
        content = {"services": addresses, "gateway": "http://127.0.0.1:1", "nats": "", "store": ""}
        (tmp_path / "endpoints.json").write_text(json.dumps(content))
        yield Desk(tmp_path, clients, consents)


def read_rows(path: Path) -> dict[str, dict[str, object]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row.pop("run_id"): row for row in rows}


async def test_judgements_are_listed_with_question_and_a_link_to_the_run(desk: Desk) -> None:
    await desk.answer("r1", "And in 2020?", "It fell.", rewritten="How did Apple do in 2020?")
    await desk.judge("r1", tag="wrong number", comment="it\nrose", edited="It rose.")
    await desk.judge("gone", helpful=True)
    first, question, link, liked, gone, other = (
        line.strip() for line in (await desk.command("list", "--gateway", GATEWAY)).splitlines()
    )
    assert first.split("  ")[1:] == ["-", "wrong number", "edited", "it rose"]
    assert (question, link) == ("How did Apple do in 2020?", "http://desk.example:8080/#c=c&run=r1")
    assert liked.endswith("  +")
    assert (gone, other) == ("(turn is gone)", "http://desk.example:8080/?child=1#run=gone")
    assert "http://127.0.0.1:1/#c=c&run=r1" in await desk.command("list", "--edited"), "the stack's own gateway"
    assert "r1" not in await desk.command("list", "--helpful")
    assert (await desk.command("list", "--tag", "unclear")).strip() == "no judgement fits"
    assert (await desk.command("list", "--limit", "1")).count("run=") == 1


async def test_all_pages_of_judgements_are_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback, "PAGE", 2)
    for number in range(5):
        await desk.judge(f"r{number}")
    assert (await desk.command("list")).count("run=") == 5


async def test_only_runs_of_users_who_consented_become_pairs(desk: Desk, tmp_path: Path) -> None:
    for run, consent in (("edited", GIVEN), ("liked", GIVEN), ("refused", REFUSED), ("silent", None)):
        await desk.answer(run, f"What of {run}?", "By chance.")
        if consent is not None:
            await desk.consents.state(run, consent)
        await desk.judge(
            run, helpful=run == "liked", edited="" if run == "liked" else "By rates.", tag="t", comment="so"
        )
    # Its turn is there and its run is not: nobody can say whose it was.
    await desk.clients.memory.append_turn(memory.AppendTurnRequest(
        request_id="x", conversation_id="c", turn=memory.Turn(question="Whose?", answer="Ours.", run_id="nobodys")
    ))  # fmt: skip
    await desk.judge("nobodys")
    await desk.judge("forgotten")
    target = tmp_path / "pairs.jsonl"
    said = await desk.command("export", str(target))
    assert "1 pairs" in said
    assert "1 answers with a thumb" in said
    assert "3 left out: its user has not consented" in said
    assert "1 left out: the turn is gone" in said
    about = {"tags": ["t"], "comment": "so"}
    assert read_rows(target) == {
        "edited": {"prompt": "What of edited?", "chosen": "By rates.", "rejected": "By chance.", **about},
        "liked": {"prompt": "What of liked?", "completion": "By chance.", "label": True, **about},
    }
    left_out = Counter[str]()
    assert [item.run_id for item in read_candidates(target, left_out)] == ["edited"], "as a review's queue"
    # A consent that was taken back counts at the next export, which then has nothing to write over the file.
    for run in ("edited", "liked"):
        await desk.consents.state(run, REFUSED)
    target.unlink()
    said = await desk.command("export", str(target), status=1)
    assert "nothing to export" in said
    assert "5 left out: its user has not consented" in said
    assert not target.exists()


async def test_the_last_judgement_of_a_run_decides_also_behind_a_filter(desk: Desk, tmp_path: Path) -> None:
    for run in ("changed", "bad"):
        await desk.answer(run, "Why?", "By chance.", rewritten="Why did it fall?")
        await desk.consents.state(run, GIVEN)
        await desk.judge(run, tag="wrong")
    await desk.judge("changed", helpful=True, edited="By chance.")
    target = tmp_path / "pairs.jsonl"
    for words in (["--unhelpful"], ["--tag", "wrong"]):
        await desk.command("export", str(target), *words)
        assert list(read_rows(target)) == ["bad"], "who has changed his mind has not called the answer bad"
    await desk.command("export", str(target))
    changed = read_rows(target)["changed"]
    # An edit that changes nothing proposes nothing.
    assert (changed["prompt"], changed["completion"], changed["label"]) == ("Why did it fall?", "By chance.", True)
