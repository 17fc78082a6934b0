"""``fathom eval hallucination`` through a real policy service: two models at endpoints, one of which has lost facts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fathom.cli.records.hallucination import run
from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.operations.evaluation.knowledge import load_facts
from fathom.services.policy.config import Config
from fathom.services.policy.server import build
from tests.support.endpoint import Reply, fake_endpoint

FACTS = load_facts()
ANSWERS = {fact.question: fact.accepted[0] for fact in FACTS}
LOST = {"What is the capital of France?", "What is 2 plus 2?", "日本的货币叫什么？"}
NEVER = {"What is the capital of Kenya?"}


def knowing(*unknown: set[str]) -> Callable[[dict[str, Any]], Reply]:
    """Return a model that answers in a sentence what it knows, and makes up the rest."""
    gaps = set().union(*unknown)

    def answer(body: dict[str, Any]) -> Reply:
        question = body["messages"][-1]["content"]
        return Reply("It is Xanadu." if question in gaps else f"I think it is {ANSWERS[question]}.")

    return answer


@asynccontextmanager
async def serve_models(before: set[str], after: set[str]) -> AsyncIterator[str]:
    """Serve a policy service with the models ``base`` and ``aligned``; yield its URL."""
    runtime = Runtime(store_url="memory://", grace_s=0.1, log_level="error")
    async with AsyncExitStack() as stack:
        models = {}
        for name, gaps in (("base", before), ("aligned", after)):
            endpoint = await stack.enter_async_context(fake_endpoint("deepseek", [knowing(gaps)]))
            models[name] = endpoint.settings()
        config = Config.model_validate({"models": models, "default_model": "base"})
        deps = await stack.enter_async_context(dependencies("policy", runtime))
        hosted = await stack.enter_async_context(hosting(build(config, deps), deps, runtime))
        await hosted.warm
        yield hosted.url


async def test_what_the_aligned_model_lost_is_counted_named_and_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serve_models(NEVER, LOST) as url:
        # A thread: the command has an event loop of its own.
        assert await asyncio.to_thread(run, "base", "aligned", None, tmp_path, {"policy": url}) == 0
    printed = capsys.readouterr().out
    assert "right before (base@0): 114 of 115, 99.1% [95.2%, 99.8%]" in printed
    assert "right after (aligned@0): 112 of 115, 97.4% [92.6%, 99.1%]" in printed
    assert "known before, wrong after: 3 of 114, 2.6% [0.9%, 7.5%]" in printed
    assert "wrong before, right after: 1 of 1, 100.0% [20.7%, 100.0%]" in printed
    # One of four in either direction: 2 (4 + 1) / 16.
    assert "McNemar's exact test: p = 0.625" in printed
    assert "arithmetic      15      15      14     1       0" in printed
    page = (tmp_path / "hallucination.html").read_text(encoding="utf-8")
    lost, gained = page.split("Wrong before, right after")[-2:]
    assert all(question in lost for question in LOST)
    assert all(question in gained for question in NEVER)
    # The replies are kept: a version that no longer serves is compared from its file, without a service.
    files = [str(tmp_path / f"{name}@0.jsonl") for name in ("aligned", "base")]
    assert await asyncio.to_thread(run, files[0], files[1], None, tmp_path, {}) == 0
    assert "known before, wrong after: 1 of 112" in capsys.readouterr().out


async def test_equal_models_have_lost_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with serve_models(LOST, LOST) as url:
        await asyncio.to_thread(run, "base", "aligned", None, tmp_path, {"policy": url})
    printed = capsys.readouterr().out
    assert "known before, wrong after: 0 of 112" in printed
    assert "p = 1" in printed


@pytest.mark.parametrize(
    ("rows", "error", "said"),
    [
        ("", InvalidField, "has no reply to geography-en-01"),
        ('{"id": "geography-en-01"}\n', CorruptData, "has no id, reply and model"),
        (None, InvalidField, "is not there"),
    ],
)
async def test_files_of_replies_are_checked_before_a_model_is_asked(
    rows: str | None, error: type[Exception], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "old.jsonl"
    if rows is not None:
        path.write_text(rows, encoding="utf-8")
    with pytest.raises(error, match=said):
        await asyncio.to_thread(run, str(path), "aligned", None, tmp_path, {"policy": "grpc://127.0.0.1:9"})


async def test_an_unknown_model_and_an_odd_side_are_named(tmp_path: Path) -> None:
    async with serve_models(set(), set()) as url:
        with pytest.raises(NotFound, match="nobody"):
            await asyncio.to_thread(run, "base", "nobody", None, tmp_path, {"policy": url})
        with pytest.raises(InvalidField) as refused:
            await asyncio.to_thread(run, "base", "aligned@new", None, tmp_path, {"policy": url})
        assert refused.value.field == "after"
