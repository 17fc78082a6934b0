"""Test what models say of themselves to who chooses one."""

from __future__ import annotations

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.services.policy.config import Config
from fathom.services.policy.terms import add_terms

REMOTE = {
    "engine": "openai",
    "model": "deepseek-chat",
    "base_url": "https://models.example/v1",
    "api_key_env": "DESK_KEY",
}


def describe(name: str, **remote: object) -> pb.Model:
    models = {"rules": {"engine": "rules"}, "remote": {**REMOTE, **remote}}
    roles = {"writer": "remote", "judge": "remote"}
    return add_terms(pb.Model(name=name), Config.model_validate({"models": models, "roles": roles}))


def test_a_remote_model_names_family_price_and_roles() -> None:
    found = describe("remote", prices={"prompt": 0.5, "completion": 2})
    assert (found.family, list(found.roles)) == ("deepseek", ["judge", "writer"])
    assert (found.prices.prompt, found.prices.completion) == (0.5, 2)
    assert not found.prices.HasField("cached_prompt")
    assert describe("remote", family="unknown").family == "unknown"


def test_a_local_model_has_neither_family_nor_price_nor_key() -> None:
    found = describe("rules")
    assert (found.family, found.HasField("prices"), found.credential) == ("", False, common.CREDENTIAL_UNSPECIFIED)
    assert list(found.roles) == ["coder", "planner"]


def test_a_model_that_a_trainer_made_has_no_terms() -> None:
    assert describe("trained") == pb.Model(name="trained")


def test_a_key_is_said_to_be_there_or_not_and_never_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DESK_KEY", raising=False)
    assert describe("remote").credential == common.CREDENTIAL_MISSING
    monkeypatch.setenv("DESK_KEY", "sk-very-secret")
    found = describe("remote")
    assert found.credential == common.CREDENTIAL_SET
    assert b"secret" not in found.SerializeToString()
    assert describe("remote", header_envs={"x-team": "NO_SUCH_VARIABLE"}).credential == common.CREDENTIAL_MISSING
    assert describe("remote", api_key_env="").credential == common.CREDENTIAL_UNSPECIFIED
