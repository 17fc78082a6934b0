"""The policy service's part of ``fathom doctor --model``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fathom.cli.doctor.findings import Finding


async def check_model(name: str, base_url: str = "", key_env: str = "") -> list[Finding]:
    """Run the checks against a model of policy's settings, or of the endpoint at ``base_url``; raise no error."""
    # Imported here: entry points are loaded whenever ``fathom`` starts.
    from fathom.services.policy.endpoint_checks import examine_endpoint

    return await examine_endpoint(name, base_url, key_env)
