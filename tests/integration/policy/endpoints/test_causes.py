"""Test that what an endpoint does wrong has its true cause, the setting that mends it, and nothing of the key."""

from __future__ import annotations

import pytest

from fathom.core.errors import (
    ContextTooLong,
    DependencyFailed,
    FathomError,
    Overloaded,
    UpstreamRefused,
)
from tests.integration.policy.endpoints.asking import ANSWER, model
from tests.support.endpoint import Reply
from tests.support.endpoint.families import Body, Family, Refusal, Sent, openai_error

PAGE = "<!DOCTYPE html><html><head><title>Corporate proxy</title></head><body>Sign in, please</body></html>"
KEY = "sk-proj-Abc123Def456Ghi789"


@pytest.mark.parametrize("status", [200, 403, 404])
async def test_a_page_in_place_of_a_reply_names_the_address(status: int) -> None:
    async with model("bare", Reply(status=status, body=PAGE, content_type="text/html")) as far:
        with pytest.raises(UpstreamRefused, match=r"Corporate proxy.*models\.m\.base_url"):
            await far.ask()


async def test_a_page_of_a_proxy_whose_endpoint_is_down_passes() -> None:
    # A proxy answers for an endpoint that is down: by its status it passes, whatever the page says.
    async with model("bare", Reply(status=502, body=PAGE, content_type="text/html")) as far:
        with pytest.raises(DependencyFailed, match="HTML page"):
            await far.ask()


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
@pytest.mark.parametrize(
    "said",
    [
        # Endpoints repeat a refused key in full, masked, or by its last characters.
        f"Incorrect API key provided: {KEY}. You can find your key in your account.",
        "Incorrect API key provided: sk-proj-****i789.",
        f"header Authorization: Bearer {KEY} was refused",
        "the key that ends in Ghi789 is not active",
        "key Abc123Def456Ghi789 unknown",
    ],
)
async def test_no_part_of_the_key_is_told(status: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_KEY", KEY)
    async with model("bare", Reply(status=status, message=said), api_key_env="FAR_KEY") as far:
        with pytest.raises(FathomError) as raised:
            await far.ask()
    told = f"{raised.value.message} {dict(raised.value.metadata)}"
    # Five characters in a row are found in no message by chance, and four of them are what masked keys still show.
    assert not any(KEY[start : start + 5] in told for start in range(len(KEY) - 4))
    assert "i789" not in told


async def test_a_refused_key_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_KEY", KEY)
    async with model("bare", Reply(status=401, message="no"), api_key_env="FAR_KEY") as far:
        with pytest.raises(UpstreamRefused, match=r"models\.m\.api_key_env \(FAR_KEY\)"):
            await far.ask()


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        ("This model's maximum context length is 131072 tokens. However, you requested 131134 tokens "
         "(122942 in the messages, 8192 in the completion).", 131_072),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        # Two numbers and no words that say which one is the limit: it stays unknown rather than being guessed.
        ("prompt is too long: 210000 tokens > 200000 maximum", 0),
    ],
)  # fmt: skip
async def test_a_conversation_that_is_too_long_is_an_error_of_its_own(said: str, limit: int) -> None:
    async with model("bare", Reply(status=400, message=said)) as far:
        with pytest.raises(ContextTooLong) as raised:
            await far.ask()
    assert raised.value.limit_tokens == limit
    assert not raised.value.transient


async def test_a_completion_that_leaves_no_room_for_the_prompt_is_asked_for_without_a_limit() -> None:
    def too_large(body: Body, sent: Sent) -> Refusal | None:
        said = "'max_tokens' is too large: 8192. This model's maximum context length is 8192 tokens."
        # Larger than the room that the prompt leaves: without the field the endpoint samples up to its own limit.
        return Refusal(400, openai_error(said)) if "max_tokens" in body else None

    async with model(Family("small", (too_large,)), ANSWER) as far:
        answered = await far.ask()
    assert answered.completion.text == "Apple rose."
    # Nothing is wrong with the field as such: the next prompt may leave room for it.
    assert far.backend.learned.corrections == []


async def test_a_rate_limit_passes_and_a_spent_quota_does_not() -> None:
    # Both come with 429; only the code says that no pause will help.
    quota = '{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}'
    async with model("bare", Reply(status=429, headers={"Retry-After": "3"}), Reply(status=429, body=quota)) as far:
        with pytest.raises(Overloaded) as raised:
            await far.ask()
        assert raised.value.retry_after_s == 3.0
        with pytest.raises(UpstreamRefused, match="quota"):
            await far.ask()


async def test_an_error_inside_a_stream_is_the_endpoints() -> None:
    inside = 'data: {"error": {"message": "out of memory"}}\n\n'
    async with model("bare", Reply(body=inside, content_type="text/event-stream")) as far:
        with pytest.raises(DependencyFailed, match="out of memory"):
            await far.ask()
