"""Models as policy lists them, in every state that the page shows."""

from __future__ import annotations

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.call import Call


async def list_many_models(double: object, request: policy.ListModelsRequest, call: Call) -> policy.ListModelsResponse:
    """Answer in the place of ``ReplayPolicy.ListModels``: a local model, a remote one with prices, a broken one."""
    rules = policy.Model(name="rules", engine="rules", state=policy.MODEL_STATE_READY, window_tokens=131_072)
    rules.roles.extend(["coder", "planner"])
    remote = policy.Model(name="desk-large", engine="openai", state=policy.MODEL_STATE_READY, window_tokens=65_536)
    remote.family, remote.credential = "deepseek", common.CREDENTIAL_SET
    remote.prices.CopyFrom(policy.TokenPrices(prompt=0.5, cached_prompt=0.05, completion=2.2))
    remote.roles.extend(["judge", "writer"])
    broken = policy.Model(name="house-7b", engine="transformers", state=policy.MODEL_STATE_FAILED, window_tokens=8_192)
    broken.detail = "model 'house-7b' cannot be loaded: the folder has no tokenizer"
    keyless = policy.Model(name="other", engine="openai", state=policy.MODEL_STATE_READY, window_tokens=32_768)
    keyless.family, keyless.credential = "unknown", common.CREDENTIAL_MISSING
    return policy.ListModelsResponse(models=[rules, remote, broken, keyless])
