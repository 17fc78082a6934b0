"""``fathom identity``: what it makes opens doors."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.core.errors import PermissionDenied, Unauthenticated
from fathom.core.identity import (
    ANY_SERVICE,
    OPERATOR,
    USER,
    VARIABLE,
    Tokens,
    environment_credentials,
    environment_principal,
    environment_tenant,
    make_keys,
)
from fathom.services.gateway.config import Config
from fathom.services.gateway.users import Users


def test_keys_sign_tokens_and_are_never_written_over(tmp_path: Path) -> None:
    runner, folder = CliRunner(), tmp_path / "identity"
    assert runner.invoke(app, ["identity", "keys", str(folder)]).exit_code == 0
    signing = folder / "signing.pem"
    assert stat.S_IMODE(signing.stat().st_mode) == 0o600
    before = signing.read_bytes()
    assert runner.invoke(app, ["identity", "keys", str(folder)]).exit_code != 0
    assert signing.read_bytes() == before
    command = ["identity", "token", "trainer", "--tenant", "fund-7", "--operator"]
    made = runner.invoke(app, command, env={VARIABLE: str(signing)})
    tokens = Tokens.open(str(folder / "public.pem"))
    assert tokens is not None
    principal = tokens.verify(made.output.strip(), "policy")
    assert (principal.name, principal.tenant, principal.role) == ("trainer", "fund-7", OPERATOR)


async def test_an_api_key_is_added_by_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "keys.jsonl"
    made = CliRunner().invoke(app, ["identity", "api-key", "research", "fund-7", "--file", str(file)])
    key = made.output.strip()
    assert key not in file.read_text()
    assert json.loads(file.read_text())["tenant"] == "fund-7"
    user = await Users.open(Config(api_keys_file=str(file))).identify(key)
    assert (user.name, user.tenant) == ("key:research", "fund-7")


def test_a_program_calls_for_its_tokens_tenant_or_with_the_services_keys_for_any(tmp_path: Path) -> None:
    private, public = make_keys()
    (tmp_path / "signing.pem").write_text(private)
    tokens = Tokens(public)
    own = {"FATHOM_TOKEN": Tokens(private).sign("ann", ANY_SERVICE, role=USER, tenant="fund-7")}
    assert environment_tenant(own) == environment_tenant(own, "fund-7") == "fund-7"
    with pytest.raises(PermissionDenied, match="tenant 'fund-7', not of 'fund-8'"):
        environment_tenant(own, "fund-8")
    with pytest.raises(Unauthenticated, match="FATHOM_TOKEN"):
        environment_tenant({"FATHOM_TOKEN": "no token"})

    keys = {VARIABLE: str(tmp_path / "signing.pem")}
    assert (environment_tenant(keys), environment_tenant(keys, "fund-8")) == ("default", "fund-8")
    credentials = environment_credentials(keys, "fund-8")
    assert credentials is not None
    shown = tokens.verify(credentials.token("planner"), "planner")
    assert shown.tenant == "fund-8"
    # As whom services see it, so that what it means by "mine" is the same everywhere.
    assert (environment_principal(own), environment_principal(keys), environment_principal({})) == (
        "ann",
        shown.name,
        "",
    )
