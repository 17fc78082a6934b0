"""Services of the local stack that are processes of their own read the same settings file as those that are not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fathom.core.errors import DependencyFailed
from fathom.services import local


@pytest.mark.parametrize(("config", "more"), [(None, ()), (Path("/etc/fathom.yaml"), ("--config", "/etc/fathom.yaml"))])
async def test_a_child_is_told_the_settings_file(
    config: Path | None, more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[Any, ...]] = []

    class Ended(Exception):
        pass

    async def spawn(*arguments: Any, **_: Any) -> asyncio.subprocess.Process:
        told.append(arguments)
        raise Ended

    monkeypatch.setattr(asyncio, "create_subprocess_exec", spawn)
    with pytest.raises(Ended):
        await local.Child("policy", {}, tmp_path / "policy.log", config).start()
    assert told[0][1:] == ("-m", "fathom.services.policy", *more)


async def test_a_service_that_answers_its_probe_wrongly_fails_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer_wrongly(name: str, url: str) -> None:
        raise DependencyFailed(name, "unknown service ready")

    monkeypatch.setattr(local, "wait_until_serving", answer_wrongly)
    stack = local.LocalStack(local.LocalSettings(home=tmp_path))
    with pytest.raises(DependencyFailed, match="reward: unknown service ready"):
        await stack._until_ready({"reward": "grpc://127.0.0.1:1"}, "http://127.0.0.1:2")
