"""Test where conversations are: a file, or the address of a server, given as a setting or in a mounted file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from fathom.cli.backup import app
from fathom.core.config import ConfigError
from fathom.services.memory.config import Config

URL = "postgresql://memory:secret@host/fathom"


def test_a_file_is_used_unless_a_server_is_given(tmp_path: Path) -> None:
    assert Config(path=tmp_path).find_place() == tmp_path
    given = Config(database_url=SecretStr(URL))
    assert given.find_place() == URL
    assert "secret" not in repr(given)
    (tmp_path / "url").write_text(f"{URL}\n")
    assert Config(database_url_file=tmp_path / "url").find_place() == URL


def test_an_address_given_twice_or_not_readable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Config(database_url_file=tmp_path / "none").find_place()
    (tmp_path / "url").write_text(URL)
    with pytest.raises(ConfigError, match="is given, too"):
        Config(database_url=SecretStr(URL), database_url_file=tmp_path / "url").find_place()


@pytest.mark.parametrize("variable", ["FATHOM_MEMORY_DATABASE_URL", "FATHOM_MEMORY_DATABASE_URL_FILE"])
@pytest.mark.parametrize("command", ["create", "restore"])
def test_a_backup_of_the_file_is_refused_where_conversations_are_on_a_server(
    tmp_path: Path, command: str, variable: str
) -> None:
    arguments = [command, "--at", f"file://{tmp_path}/backups", "--memory", str(tmp_path / "memory.sqlite3")]
    done = CliRunner().invoke(app, arguments, env={variable: URL})
    assert isinstance(done.exception, ConfigError)
    assert f"{variable} is set" in str(done.exception)
    assert "secret" not in str(done.exception)
    assert not (tmp_path / "backups").exists()
