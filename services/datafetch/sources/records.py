"""Records of the known vendors: which connector speaks with each, and how far that was tried.

The connectors are a distribution of their own (``connectors/pyproject.toml``), since none has met its vendor yet; the
records are here, so that an installation without them can say what there is.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

import yaml

from fathom.core.config import ConfigError
from fathom.services.datafetch.sources.base import Connector
from fathom.services.datafetch.sources.config import ConnectorsConfig

PACKAGE = "fathom.services.datafetch.sources.connectors"
FILE = Path(__file__).parent / "records.yaml"


@dataclass(frozen=True)
class VendorRecord:
    """A known vendor; ``client`` is the library whose exchange with the vendor's documented answers was recorded."""

    name: str
    title: str
    connector: str
    """Module and class in the package of connectors: "fred:Fred"."""
    client: str
    last_tried: date | None
    """Day of the last exchange with the vendor itself; None for never."""
    recorded: date

    def describe(self) -> str:
        """Return in one line how far the connector was tried."""
        met = f"last tried {self.last_tried}" if self.last_tried else "never tried against the vendor"
        return f"{self.title}: {met}; tested with what {self.client} exchanged on {self.recorded}"

    def load(self) -> Callable[[ConnectorsConfig], Connector]:
        """Import and return the connector's class; raise ``ConnectorsMissing`` where they are not installed."""
        if not has_connectors():
            raise ConnectorsMissing(self.name)
        # Only now: a vendor's library takes seconds to import, and most installations enable none.
        module, _, name = self.connector.partition(":")
        made: Callable[[ConnectorsConfig], Connector] = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)
        return made


class ConnectorsMissing(ConfigError):
    """A vendor is enabled in an installation without the connectors."""

    def __init__(self, vendor: str) -> None:
        super().__init__(
            f"datafetch.connectors.enabled names {vendor}, and the distribution fathom-connectors is not installed: "
            "pip install services/datafetch/sources/connectors of Fathom's sources",
            metadata={"field": "datafetch.connectors.enabled", "vendor": vendor},
        )


# The file belongs to the package and does not change while a process runs.
@cache
def load_records() -> Mapping[str, VendorRecord]:
    """Return the records by the names under which vendors are enabled."""
    rows = yaml.safe_load(FILE.read_text(encoding="utf-8"))["vendors"]
    return {name: VendorRecord(name, **row) for name, row in rows.items()}


def has_connectors() -> bool:
    """Return whether the connectors are installed, without importing one."""
    return importlib.util.find_spec(PACKAGE) is not None
