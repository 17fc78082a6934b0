"""Check of ``fathom doctor`` on the vendors that are enabled: whether their connectors are here, and how far tried."""

from __future__ import annotations

import importlib.util

from fathom.cli.doctor.findings import Finding
from fathom.core.errors import FathomError


async def check_vendors() -> list[Finding]:
    """Return a finding for each enabled vendor, or one that says that there is none."""
    if importlib.util.find_spec("duckdb") is None:
        return []
    from fathom.core.config import load
    from fathom.services.datafetch.config import Config
    from fathom.services.datafetch.sources.records import ConnectorsMissing, has_connectors, load_records

    try:
        enabled = load(Config, "datafetch").connectors.enabled
    except FathomError as error:
        return [Finding("vendors", False, error.message, "see the message")]
    records = load_records()
    findings = [] if enabled else [Finding("vendors", True, f"none of {len(records)} is enabled: fathom data sources")]
    for name in enabled:
        record = records.get(name)
        if record is None:
            findings.append(Finding(f"vendor {name}", False, "is unknown", f"enable some of {', '.join(records)}"))
        elif not has_connectors():
            findings.append(Finding(f"vendor {name}", False, ConnectorsMissing(name).message, "install them"))
        else:
            # Works as far as anybody knows, which the first answers have to show.
            remedy = "compare its first answers with the vendor's own page"
            findings.append(Finding(f"vendor {name}", record.last_tried is not None, record.describe(), remedy, False))
    return findings
