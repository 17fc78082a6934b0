"""``fathom doctor --model``: the checks of a real endpoint, here against fake ones of several families."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.services.policy.doctor import check_model
from tests.support.endpoint import Call, Family, Reply, fake_endpoint
from tests.support.endpoint.families import openai_error
from tests.support.endpoint.replies import Wire


def answer(body: dict[str, Any]) -> Reply:
    """Answer as a competent model does."""
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 0
    # The doctor asks for few tokens to see whether a reply that is cut off says so.
    if limit and limit <= 16:
        return Reply(text="one, two, three", finish="length")
    last = body["messages"][-1]
    if "response_format" in body or "JSON schema" in last["content"]:
        return Reply(text='{"capital": "Paris"}')
    if last["role"] == "tool" or "tools" not in body:
        return Reply(reasoning="I know it.", text="It is Paris, or 187.5.")
    names = ["Apple", "Microsoft"] if "Microsoft" in last["content"] else ["Apple"]
    return Reply(reasoning="I look.", calls=tuple(Call("look_up", {"name": name}) for name in names))


@pytest.mark.parametrize("family", ["gpt-5", "gpt-4", "deepseek", "gemini", "claude", "mistral", "minimax", "kimi"])
async def test_a_competent_model_of_a_known_family_passes_everything(family: str) -> None:
    async with fake_endpoint(family, [answer]) as far:
        findings = await check_model(far.family.model, far.url)
    assert [(one.subject, one.detail) for one in findings if not one.good] == []
    assert len(findings) == 9


async def test_what_a_model_lacks_is_named_with_its_remedy() -> None:
    def weak(body: dict[str, Any]) -> Reply:
        return Reply(text="I cannot call tools, and I count: " + "one, " * 50, usage={})

    async with fake_endpoint("bare", [weak]) as far:
        findings = await check_model("unheard-of-1", far.url)
    wrong = {one.subject: one for one in findings if not one.good}
    assert set(wrong) == {"tool call", "parallel calls", "round trip", "truncation", "schema output", "usage"}
    assert {subject for subject, one in wrong.items() if one.needed} == {"tool call", "round trip", "truncation"}
    assert "max_completion_tokens" in wrong["truncation"].remedy


async def test_fields_that_were_learned_are_shown_as_settings() -> None:
    strict = Family("our-gpt", (), Wire(thoughts="hidden"))

    def refuse(body: dict[str, Any]) -> Reply:
        if "max_tokens" in body:
            said = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
            return Reply(status=400, body=json.dumps(openai_error(said, "max_tokens")))
        return answer(body)

    async with fake_endpoint(strict, [refuse]) as far:
        findings = await check_model("our-gpt", far.url)
    assert "max_tokens of requests renamed to max_completion_tokens" in findings[-1].detail
    assert all(one.good for one in findings[:-1])


async def test_a_wrong_address_ends_the_examination_with_its_cause() -> None:
    async with fake_endpoint(
        "bare", [Reply(status=404, body="<html>Nothing here</html>", content_type="text/html")]
    ) as far:
        findings = await check_model("x", far.url)
    assert "Nothing here" in findings[0].detail
    assert "base_url" in findings[0].detail
    assert not findings[0].good
    assert len(findings) == 2


async def test_a_model_of_the_settings_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_endpoint("deepseek", [answer]) as far:
        monkeypatch.setenv("FATHOM_POLICY_MODELS", json.dumps({"far": far.settings(), "rules": {"engine": "rules"}}))
        assert all(one.good for one in await check_model("far"))
        (missing,) = await check_model("rules")
    assert "nearest: far" in missing.detail


@pytest.mark.parametrize(("family", "status"), [("gpt-5", 0), ("deepseek", 0), ("bare", 1)])
async def test_the_command_says_by_its_status_whether_the_model_will_do(family: str, status: int) -> None:
    script = [Reply(text="No.")] if status else [answer]
    async with fake_endpoint(family, script) as far:
        arguments = ["doctor", "--model", far.family.model, "--base-url", far.url]
        done = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert done.exit_code == status, done.output
    assert "round trip" in done.output
