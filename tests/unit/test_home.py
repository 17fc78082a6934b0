"""The folder of a local stack: one stack at a time, older layouts taken over, newer ones refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from fathom.core.errors import Conflict, CorruptData, FailedPrecondition, InvalidField
from fathom.services.home import LAYOUT, claim_layout, hold_home
from fathom.services.local import LocalSettings, LocalStack
from fathom.transport.sockets import PortInUse, reserved_port

SPAWN = multiprocessing.get_context("spawn")


def hold(home: Path, held: Event) -> None:
    with hold_home(home):
        held.set()
        signal.pause()


def test_a_home_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    # What only lacks rights would be written by root: a file in the place of the folder stops anybody.
    (tmp_path / "file").touch()
    (tmp_path / "home" / "lock").mkdir(parents=True)
    for home in (tmp_path / "file", tmp_path / "file" / "home", tmp_path / "home"):
        with pytest.raises(InvalidField, match=r"cannot be written .* choose another --home"), hold_home(home):
            pass


def test_a_home_is_held_by_one_process_and_free_as_soon_as_that_one_is_killed(tmp_path: Path) -> None:
    held = SPAWN.Event()
    holder = SPAWN.Process(target=hold, args=(tmp_path, held))
    holder.start()
    try:
        assert held.wait(60)
        with pytest.raises(Conflict, match=rf"process {holder.pid}\b"), hold_home(tmp_path):
            pass
    finally:
        holder.kill()
        holder.join()
    with hold_home(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_one_process_holds_a_home_once(tmp_path: Path) -> None:
    with hold_home(tmp_path), pytest.raises(Conflict, match=f"process {os.getpid()}"), hold_home(tmp_path):
        pass


def test_a_home_without_a_version_is_taken_over_and_marked(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    claim_layout(tmp_path)
    assert json.loads((tmp_path / "version").read_text())["layout"] == LAYOUT
    claim_layout(tmp_path)


def test_a_home_of_a_newer_version_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    newer = json.dumps({"layout": LAYOUT + 1, "fathom": "9.1.0"})
    (tmp_path / "version").write_text(newer)
    with pytest.raises(FailedPrecondition, match=r"written by fathom 9\.1\.0 .*choose another --home"):
        claim_layout(tmp_path)
    assert (tmp_path / "version").read_text() == newer


def test_a_version_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("{")
    with pytest.raises(CorruptData, match="version"):
        claim_layout(tmp_path)


async def test_a_newer_home_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "version").write_text(json.dumps({"layout": LAYOUT + 1, "fathom": "9.1.0"}))
    with pytest.raises(FailedPrecondition):
        async with LocalStack(LocalSettings(home=tmp_path, gateway_port=0)).running():
            pass
    assert sorted(os.listdir(tmp_path)) == ["lock", "version"]


async def test_a_taken_port_is_told_with_its_holder_and_the_remedy_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(PortInUse) as taken:
            async with LocalStack(LocalSettings(home=tmp_path, gateway_port=port)).running():
                pass
    assert f"gateway cannot listen on 127.0.0.1:{port}" in taken.value.message
    assert f"process {os.getpid()}" in taken.value.message
    assert "--port 0" in taken.value.message
    assert os.listdir(tmp_path / "nats") == []


def test_a_fixed_port_is_reserved_beside_connections_that_are_ending() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            listener.accept()[0].close()  # the server's end closes first: its port waits
    with reserved_port(port=port) as reserved:
        assert reserved == port
