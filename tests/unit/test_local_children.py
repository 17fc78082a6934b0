"""Services of the local stack that are processes of their own read the same settings file as those that are not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

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
