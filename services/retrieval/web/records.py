"""Records of the known search engines: which class speaks with each, and how far that was tried.

The engines are a distribution of their own (``engines/pyproject.toml``), since none has met its vendor yet; the records
are here, so that an installation without them can say what there is.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

import yaml

from fathom.core.config import ConfigError
from fathom.services.retrieval.web.base import WebSearch
from fathom.services.retrieval.web.config import WebConfig

PACKAGE = "fathom.services.retrieval.web.engines"
FILE = Path(__file__).with_name("records.yaml")


@dataclass(frozen=True)
class EngineRecord:
    """A known search engine; ``setting`` is the field of ``retrieval.web`` that turns it on."""

    name: str
    title: str
    kind: str
    setting: str
    last_tried: date | None
    """Day of the last exchange with the vendor itself; None for never."""

    def describe(self) -> str:
        """Return in one line how far the engine was tried."""
        return f"{self.title}: last tried {self.last_tried or 'never'}; tested with served answers only"

    def is_configured(self, config: WebConfig) -> bool:
        """Return whether its address or its key is given."""
        given = str(getattr(config, self.setting))
        return bool(os.environ.get(given, "").strip() if self.setting.endswith("_key_env") else given)

    def load(self) -> Callable[[WebConfig], WebSearch]:
        """Import and return the engine's class; raise ``EnginesMissing`` where the engines are not installed."""
        if not has_engines():
            raise EnginesMissing(self)
        made: Callable[[WebConfig], WebSearch] = getattr(importlib.import_module(PACKAGE), self.kind)
        return made


class EnginesMissing(ConfigError):
    """A search engine is turned on in an installation without the engines."""

    def __init__(self, record: EngineRecord) -> None:
        field = f"retrieval.web.{record.setting}"
        super().__init__(
            f"{field} turns {record.name} on, and the distribution fathom-web-engines is not installed: "
            "pip install services/retrieval/web/engines of Fathom's sources",
            metadata={"field": field, "engine": record.name},
        )


# The file belongs to the package and does not change while a process runs.
@cache
def load_records() -> Mapping[str, EngineRecord]:
    """Return the records by the names of the engines, in the order in which they are asked."""
    rows = yaml.safe_load(FILE.read_text(encoding="utf-8"))["engines"]
    return {name: EngineRecord(name, **row) for name, row in rows.items()}


def has_engines() -> bool:
    """Return whether the engines are installed, without importing one."""
    return importlib.util.find_spec(PACKAGE) is not None
