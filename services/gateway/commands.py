"""Commands of the gateway: API keys of its users, and answers as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer


def make_api_key(
    name: Annotated[str, typer.Argument(help="Who it is for, as the audit log says it.")],
    tenant: Annotated[str, typer.Argument(help="Whose runs, tables and conversations it opens.")],
    file: Annotated[Path, typer.Option(help="The gateway's api_keys_file; its hash is added there.")],
    expires: Annotated[str, typer.Option(help="Date on which it ends, e.g. 2027-12-31; never when empty.")] = "",
    scope: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="What it may do beyond a user: review (decide), review-items (add items), sources (see their set-up);"
            " repeatable."
        ),
    ] = None,
) -> None:
    """Make an API key for the gateway and print it; it is shown this once."""
    from fathom.services.gateway.users import make_key

    key, line = make_key(name, tenant, expires, scope or ())
    with file.open("a", encoding="utf-8") as keys:
        keys.write(f"{line}\n")
    typer.echo(key)


def export_run(
    run_id: Annotated[str, typer.Argument(help="Run id.")],
    target: Annotated[Path, typer.Argument(help="File to write; its end is the format: .pdf, .docx, .xlsx, …")],
    language: Annotated[str, typer.Option(help="Language of the report's own words: en or zh.")] = "en",
    gateway: Annotated[str, typer.Option(help="URL of the gateway.", envvar="FATHOM_URL")] = "http://127.0.0.1:8080",
    token: Annotated[str, typer.Option(help="Token or API key, where it asks for one.", envvar="FATHOM_TOKEN")] = "",
) -> None:
    """Write the answer of a run as a file: Markdown, HTML, PDF, DOCX, PPTX, XLSX, notebook or JSON trace."""
    from fathom.services.gateway.reports.fetching import fetch_export

    target.write_bytes(fetch_export(gateway, token, run_id, target.suffix.removeprefix("."), language))
    typer.echo(str(target))
