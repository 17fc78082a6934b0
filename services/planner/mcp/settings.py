"""Settings of external MCP servers and their allowed tools."""

from __future__ import annotations

import os

from pydantic import Field, model_validator

from fathom.config import Settings


class McpServer(Settings):
    """One external server; only tools named here are available."""

    name: str = Field(pattern=r"^[a-z][a-z0-9]{0,23}$")
    """Prefix of its tools' names: tool ``quote`` of server ``acme`` is ``acme_quote``."""
    url: str = Field("", pattern=r"^(https?://.+)?$")
    """Endpoint of a server that speaks streamable HTTP."""
    command: tuple[str, ...] = ()
    """Program and arguments of a server that speaks on its standard streams."""
    tools: tuple[str, ...] = Field(min_length=1)
    """The tools to mount, by their own names."""
    reads: bool = False
    """True when its tools are read-only, so that their calls may run concurrently."""
    timeout_s: float = Field(30.0, gt=0, le=600)
    """Longest call in seconds."""
    token_env: str = ""
    """Environment variable with the bearer token for ``url``."""

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> McpServer:
        if bool(self.url) == bool(self.command):
            raise ValueError(f"server {self.name!r} needs either a url or a command")
        if self.token_env and not self.url:
            raise ValueError(f"server {self.name!r} has a token but no url")
        return self

    def headers(self) -> dict[str, str]:
        token = os.environ.get(self.token_env, "") if self.token_env else ""
        return {"authorization": f"Bearer {token}"} if token else {}
