"""Check of ``fathom doctor`` on the web search engines that are turned on: whether they are here, and how far tried."""

from __future__ import annotations

import importlib.util

from fathom.cli.doctor.findings import Finding
from fathom.core.errors import FathomError


async def check_web_engines() -> list[Finding]:
    """Return a finding for each search engine that is turned on, or one that says that there is none."""
    if importlib.util.find_spec("httpx") is None:
        return []
    from fathom.core.config import load
    from fathom.services.retrieval.config import Config
    from fathom.services.retrieval.web.records import EnginesMissing, has_engines, load_records

    try:
        config = load(Config, "retrieval").web
    except FathomError as error:
        return [Finding("web engines", False, error.message, "see the message")]
    records = load_records()
    findings = []
    for name, record in records.items():
        if not record.is_configured(config):
            continue
        if not has_engines():
            findings.append(Finding(f"web engine {name}", False, EnginesMissing(record).message, "install them", False))
        else:
            # Works as far as anybody knows, which the first answers have to show.
            remedy = "compare its first answers with the vendor's own page"
            met = record.last_tried is not None
            findings.append(Finding(f"web engine {name}", met, record.describe(), remedy, False))
    listed = ", ".join(f"{name} (last tried {record.last_tried or 'never'})" for name, record in records.items())
    return findings or [Finding("web engines", True, f"none is on of {listed}")]
