"""``fathom data``: the bundled tables and documents, built from packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fathom.errors import DependencyFailed

BUNDLES = {"tables": "services.datafetch.bundle", "corpus": "services.retrieval.bundle"}


def build_data(home: Path) -> None:
    """Builds what is missing; each bundle says what it does. Raises ``DependencyFailed`` naming the bundle."""
    for folder, module in BUNDLES.items():
        target = home.resolve() / "data" / folder
        if subprocess.run([sys.executable, "-m", module, "--target", str(target)]).returncode:
            raise DependencyFailed(folder, f"could not be built; run python -m {module} --target {target}")
