"""Command of the gateway: API keys of its users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def make_api_key(
    name: Annotated[str, typer.Argument(help="Who it is for, as the audit log says it.")],
    tenant: Annotated[str, typer.Argument(help="Whose runs, tables and conversations it opens.")],
    file: Annotated[Path, typer.Option(help="The gateway's api_keys_file; its hash is added there.")],
    expires: Annotated[str, typer.Option(help="Date on which it ends, e.g. 2027-12-31; never when empty.")] = "",
) -> None:
    """Make an API key for the gateway and print it; it is shown this once."""
    from fathom.services.gateway.users import make_key

    key, line = make_key(name, tenant, expires)
    with file.open("a", encoding="utf-8") as keys:
        keys.write(f"{line}\n")
    typer.echo(key)
