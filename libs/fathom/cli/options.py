"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

HOME = Path(".fathom")
Home = Annotated[Path, typer.Option(help="Folder with the local stack's state.", envvar="FATHOM_LOCAL_HOME")]
Release = Annotated[str, typer.Option(help="Release of the chart in the cluster.")]
Namespace = Annotated[str, typer.Option(help="Namespace of the release; by default the kubeconfig's.")]
Context = Annotated[str, typer.Option(help="Context of the kubeconfig; by default the current one.")]
Kubeconfig = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(help="Kubeconfig file; by default KUBECONFIG, then ~/.kube/config."),
]
