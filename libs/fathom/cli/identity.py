"""``fathom identity``: keys for services, tokens for programs, API keys for users of the gateway."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fathom.core.errors import InvalidField
from fathom.core.identity import ANY_SERVICE, OPERATOR, USER, VARIABLE, Tokens, make_keys

DAY_S = 86_400.0
app = typer.Typer(help="Keys of services, tokens of programs.", no_args_is_help=True)


@app.command()
def keys(out: Annotated[Path, typer.Argument(help="Folder for signing.pem and public.pem.")]) -> None:
    """Make the keys of an installation: signing.pem for services, public.pem for the sandbox."""
    private, public = make_keys()
    out.mkdir(parents=True, exist_ok=True)
    for name, text in (("signing.pem", private), ("public.pem", public)):
        path = out / name
        # Never over another key, which would shut everybody out; and from its first byte readable by nobody else.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        typer.echo(path)


@app.command()
def token(
    name: Annotated[str, typer.Argument(help="Who it is for, as the audit log says it.")],
    tenant: Annotated[str, typer.Option(help="Its tenant.")] = "default",
    operator: Annotated[bool, typer.Option("--operator", help="It may change what all tenants share.")] = False,
    days: Annotated[float, typer.Option(help="Days for which it is valid.", min=0.001, max=90)] = 1.0,
    file: Annotated[str, typer.Option(envvar=VARIABLE, help="File with the signing key.")] = "",
) -> None:
    """Print a token for a program that calls services, to be set as FATHOM_TOKEN."""
    tokens = Tokens.open(file)
    if tokens is None:
        raise InvalidField("file", "names no file with the signing key")
    role = OPERATOR if operator else USER
    typer.echo(tokens.sign(name, ANY_SERVICE, role=role, tenant=tenant, lifetime_s=days * DAY_S))
