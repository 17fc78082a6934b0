"""Table of known model families: how their endpoints differ from OpenAI's chat completions of GPT-4's time.

A model that is in no entry is treated as ``UNKNOWN``, and what its endpoint refuses is learned (``learning``). Settings
of a model override every field here (``profile``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Schema = Literal["schema", "json", "prompt"]
"""Schema output by ``json_schema``; by ``json_object`` with the schema in the prompt; by the prompt alone."""


@dataclass(frozen=True)
class Family:
    """Differences of one family. An empty pattern fits everything; patterns are searched in lower case."""

    name: str
    models: str = ""
    """Pattern of the model's name."""
    hosts: str = ""
    """Pattern of the base URL."""
    omit: frozenset[str] = frozenset()
    """Fields of a request that are never sent."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """Fields that have another name here."""
    add: Mapping[str, Any] = field(default_factory=dict)
    """Fields added to each request."""
    # Thoughts count as new tokens: with 4,096 a thinking model may end before its first word.
    max_tokens: int = 8_192
    """Default limit of new tokens."""
    greedy: bool = False
    """Send temperature 0 where the request leaves the temperature at 0; thinking models get worse by it."""
    schema: Schema = "schema"
    nine_character_ids: bool = False
    """Ids of calls must be nine letters and digits."""
    message_default: Mapping[str, Any] = field(default_factory=dict)
    """Fields of assistant messages with calls that have none of their own: written by another model, or not kept."""
    call_default: Mapping[str, Any] = field(default_factory=dict)
    """The same for the first call of such a message."""
    keeps_tags: bool = False
    """Thoughts in tags are sent back within the content, as they came."""
    sources: tuple[str, ...] = ()

    def fits(self, model: str, base_url: str) -> bool:
        return bool(re.search(self.models, model.lower()) and re.search(self.hosts, base_url.lower()))


SAMPLING = frozenset({"temperature", "top_p", "top_k"})
EFFORT = "reasoning_effort"
"""Field for how much a model thinks, of OpenAI, Gemini, DeepSeek, Ollama and gateways; others know none or another."""
THINKING = 32_768
"""Default limit of new tokens of models that think first."""
# Of an assistant message whose thought is not known: endpoints that want one take a space, but nothing empty.
BLANK_THOUGHT = MappingProxyType({"reasoning_content": " "})
# Google documents this value for calls that another model wrote.
FOREIGN_SIGNATURE = MappingProxyType(
    {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
)

# The first entry that fits counts: gateways that translate by themselves, then vendors, then names of models, which
# also fit behind a proxy that passes requests on.
FAMILIES: tuple[Family, ...] = (
    Family(
        "openrouter",
        hosts=r"openrouter\.ai",
        max_tokens=THINKING,
        sources=("openrouter.ai/docs: reasoning_details are to be passed back unmodified",),
    ),
    Family(
        "ollama",
        hosts=r":11434|ollama\.com",
        omit=frozenset({"top_k", "parallel_tool_calls"}),
        sources=("docs.ollama.com/api/openai-compatibility: list of supported request fields",),
    ),
    # Local servers cannot be told by their address: settings name them.
    Family(
        "vllm",
        models=r"^(?!)",
        sources=("docs.vllm.ai: extra parameters such as top_k and chat_template_kwargs in the body",),
    ),
    Family(
        "sglang",
        models=r"^(?!)",
        sources=("docs.sglang.ai: chat_template_kwargs and separate_reasoning in the body",),
    ),
    Family(
        "llama.cpp",
        models=r"^(?!)",
        sources=("github.com/ggml-org/llama.cpp tools/server/README.md: response_format, reasoning_format",),
    ),
    Family(
        "openai-reasoning",
        models=r"(^|/)(gpt-([5-9]|\d\d)|o\d)",
        omit=SAMPLING | {"stop"},
        rename={"max_tokens": "max_completion_tokens"},
        max_tokens=THINKING,
        sources=(
            "github.com/microsoft/clarity-agent/issues/59: max_tokens is refused, max_completion_tokens wanted",
            "github.com/johny-b/llmcomp/issues/69: only the default temperature is supported",
            "github.com/EleutherAI/lm-evaluation-harness/pull/3247: neither temperature nor stop",
        ),
    ),
    Family(
        "openai-chat",
        models=r"(^|/)(gpt-(3|4)|chatgpt)",
        omit=frozenset({"top_k", EFFORT}),
        max_tokens=4_096,
        greedy=True,
        sources=("platform.openai.com/docs/api-reference/chat: no top_k; GPT-4 Turbo gives 4,096 tokens at most",),
    ),
    Family(
        "deepseek",
        models=r"deepseek-(v[4-9]|chat|reasoner|flash|pro)",
        omit=frozenset({"top_k"}),
        max_tokens=THINKING,
        schema="json",
        message_default=BLANK_THOUGHT,
        sources=(
            "api-docs.deepseek.com/guides/thinking_mode: reasoning_content comes back with each call",
            "github.com/mnfst/modelparams.dev/issues/29: 400 without it",
            "github.com/omnimind-ai/OmniBot/issues/283: the same behind a gateway",
            "github.com/ardeyouxipianyi/workbuddy2api-intl/pull/36: a thought that was not kept is a space, not empty",
            "api-docs.deepseek.com/guides/json_mode: json_object with the word JSON in the prompt, no json_schema",
        ),
    ),
    Family(
        "kimi",
        models=r"kimi|moonshot",
        omit=SAMPLING | {EFFORT},
        max_tokens=THINKING,
        message_default=BLANK_THOUGHT,
        sources=(
            "github.com/iOfficeAI/gemini-cli-pro/pull/30: temperature 1 and top_p 0.95 only",
            "github.com/JohnnyZ93/oai-compatible-copilot/issues/140: 400 for a call without reasoning_content",
        ),
    ),
    Family(
        "gemini",
        models=r"gemini",
        omit=frozenset({"top_k", "seed"}),
        max_tokens=THINKING,
        call_default=FOREIGN_SIGNATURE,
        sources=(
            "ai.google.dev/gemini-api/docs/thought-signatures: signatures come back as received; the value for others",
            "github.com/securo-finance/securo/issues/884: 400 by the compatible endpoint without them",
        ),
    ),
    Family(
        "claude",
        models=r"claude",
        omit=SAMPLING | {"seed", EFFORT},
        max_tokens=THINKING,
        schema="prompt",
        sources=(
            "platform.claude.com/docs/en/api/openai-sdk: seed and response_format are ignored",
            "github.com/mnfst/modelparams.dev/pull/238: temperature, top_p and top_k are refused from Opus 4.7 on",
        ),
    ),
    Family(
        "mistral",
        models=r"mistral|magistral|ministral|codestral|devstral|mixtral|pixtral",
        omit=frozenset({"top_k", EFFORT}),
        rename={"seed": "random_seed"},
        nine_character_ids=True,
        sources=(
            "github.com/editor-code-assistant/eca/issues/231: 422 for max_completion_tokens and other unknown fields",
            "github.com/jackmpcollins/magentic/issues/276: ids of nine letters and digits",
            "docs.mistral.ai/capabilities/reasoning: thoughts are parts of the content",
        ),
    ),
    Family(
        "glm",
        models=r"(^|/)glm-",
        hosts=r"z\.ai|bigmodel\.cn",
        omit=frozenset({"top_k", "seed", "stream_options", "parallel_tool_calls"}),
        max_tokens=THINKING,
        schema="json",
        sources=(
            "docs.z.ai/guides/capabilities/thinking-mode: thoughts are returned together with the tools' results",
            "java.agentscope.io/v2/en/integration/model/glm: no stream_options, max_tokens only, tool_choice auto",
        ),
    ),
    Family(
        "minimax",
        models=r"minimax",
        omit=frozenset({"top_k", "seed", EFFORT, "parallel_tool_calls", "tool_choice"}),
        rename={"max_tokens": "max_completion_tokens"},
        add={"reasoning_split": True},
        max_tokens=THINKING,
        schema="prompt",
        keeps_tags=True,
        sources=(
            "platform.minimax.io/docs/api-reference/text-openai-api: reasoning_split; <think> is kept in the history",
            "java.agentscope.io/v2/en/integration/model/minimax: no seed, tool_choice, response_format",
        ),
    ),
    Family(
        "qwen-hosted",
        models=r"qwen|qwq",
        hosts=r"dashscope|aliyuncs",
        omit=frozenset({EFFORT}),
        max_tokens=THINKING,
        schema="json",
        sources=("alibabacloud.com/help/en/model-studio: enable_thinking is a field of the body; json_object",),
    ),
    Family(
        "thinking-open-weights",
        models=r"qwen3|qwq|deepseek-r1|gpt-oss|glm-",
        max_tokens=THINKING,
        sources=("huggingface.co/Qwen/Qwen3-8B: no greedy decoding while thinking; no thoughts of earlier turns",),
    ),
)
UNKNOWN = Family("unknown")


def find_family(model: str, base_url: str) -> Family:
    """Return the first family that fits a model's name and its endpoint's URL; ``UNKNOWN`` if none does."""
    return next((family for family in FAMILIES if family.fits(model, base_url)), UNKNOWN)


def get_family(name: str) -> Family | None:
    """Return the family of this name; None for an unknown one."""
    return next((family for family in (*FAMILIES, UNKNOWN) if family.name == name), None)
