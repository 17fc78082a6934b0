"""Chart tests need Helm: ``make test`` fetches it into .fathom/tools (deploy/helm.py)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate.utils
import pytest

from tests.chart.rendering import CI_VALUES, HELMS, TOOLS, Document, render


@pytest.fixture(autouse=True)
def helm_is_there() -> None:
    missing = [helm for helm in HELMS if not (TOOLS / helm).exists()]
    assert not missing, f"{missing} not in {TOOLS}: run python deploy/helm.py"


@pytest.fixture(autouse=True, scope="session")
def schemas_are_read_once() -> Iterator[None]:
    """kubernetes-validate reads megabytes of definitions for each document, and they never change."""
    with pytest.MonkeyPatch.context() as patch:
        cached = functools.cache(kubernetes_validate.utils.schema_contents)
        patch.setattr(kubernetes_validate.utils, "schema_contents", cached)
        yield


@pytest.fixture(params=CI_VALUES, ids=lambda path: path.stem.removesuffix("-values"))
def values(request: pytest.FixtureRequest) -> Path:
    chosen: Path = request.param
    return chosen


@pytest.fixture
def documents(values: Path) -> tuple[Document, ...]:
    """The chart as Helm 4 renders it with one of the example values."""
    return render("helm4", values)
