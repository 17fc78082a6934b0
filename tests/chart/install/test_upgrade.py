"""An upgrade from 0.1.0: what Kubernetes holds fixed is what it was then, and volumes keep their claims."""

from __future__ import annotations

from typing import Any

import yaml

from tests.chart.rendering import CHART, ROOT, Document, render

GOLDEN = ROOT / "tests" / "golden" / "chart_upgrade" / "0.1.0.yaml"
"""The fields below of the chart of 0.1.0 (the commit before f3b90df5), with its ci/minimal-values.yaml as release demo."""
FIXED = {
    "Deployment": ("selector",),
    "StatefulSet": ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"),
}
"""Fields that an API server refuses to change (apps/v1)."""


def fixed_fields(documents: tuple[Document, ...]) -> dict[str, dict[str, Any]]:
    """Return the immutable fields of every workload that sets them, by kind and name."""
    found = {}
    for document in documents:
        if document["kind"] in FIXED:
            spec = {field: document["spec"].get(field) for field in FIXED[document["kind"]]}
            found[f"{document['kind']}/{document['metadata']['name']}"] = spec
        elif document["kind"] == "Service":
            # Headless or not is as fixed as an address that was given out.
            found[f"Service/{document['metadata']['name']}"] = {"clusterIP": document["spec"].get("clusterIP")}
    return found


def test_an_upgrade_from_the_first_version_changes_nothing_that_is_fixed() -> None:
    before = yaml.safe_load(GOLDEN.read_text())
    after = fixed_fields(render("helm4", CHART / "ci" / "minimal-values.yaml"))
    assert len(before) >= 20
    # What goes is deleted by the upgrade; what changes is refused by the API server in the middle of it.
    assert {name: after.get(name) for name in before} == before, "see UPGRADING.md, What is fixed"
