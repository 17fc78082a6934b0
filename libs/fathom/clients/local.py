"""Endpoints of the local stack, from the file it writes at start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fathom.core.errors import CorruptData, NotReady


@dataclass(frozen=True)
class LocalEndpoints:
    """The contents of ``endpoints.json``."""

    services: Mapping[str, str]
    gateway: str
    nats: str
    store: str
    metrics: Mapping[str, str] = field(default_factory=dict)
    """URL of ``/metrics`` by service; empty for a stack that did not write them down."""

    @property
    def runtime(self) -> dict[str, object]:
        """Return the settings by which a process finds the stack (section ``runtime``)."""
        return {"bus_url": self.nats, "store_url": self.store, "endpoints": dict(self.services)}


def read_endpoints(home: Path) -> LocalEndpoints:
    """Read the endpoints; raise ``NotReady`` when no stack is running, ``CorruptData`` when the file is malformed."""
    path = home / "endpoints.json"
    try:
        content = json.loads(path.read_text())
        return LocalEndpoints(
            content["services"], content["gateway"], content["nats"], content["store"], content.get("metrics", {})
        )
    # The stack writes the file when it is up and removes it at its end: no file means no stack.
    except FileNotFoundError as error:
        raise NotReady(f"no stack is up ({path} is not there): start one with 'fathom up'") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(str(path), f"{error}; stop the stack and delete it") from error
