"""Ask the agent with OpenAI's own client: ``python examples/openai_client.py [QUESTION] [BASE_URL]``.

Needs ``pip install openai`` and a stack (``make run``); FATHOM_TOKEN is sent as the key, where the
gateway asks for one.
"""

from __future__ import annotations

import os
import sys

import openai

question = sys.argv[1] if len(sys.argv) > 1 else "What was the unemployment rate in 2020?"
base_url = sys.argv[2] if len(sys.argv) > 2 else "http://localhost:8080/v1"
client = openai.OpenAI(base_url=base_url, api_key=os.environ.get("FATHOM_TOKEN", "none"))

stream = client.chat.completions.create(
    model="fathom",
    messages=[{"role": "user", "content": question}],
    stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    if chunk.usage is not None:
        print(f"\n\nrun {chunk.id}: {chunk.usage.total_tokens:,} tokens")
    for choice in chunk.choices:
        # What the agent does comes first, then its answer, which has been checked by then.
        print(getattr(choice.delta, "reasoning_content", None) or choice.delta.content or "", end="", flush=True)
        for note in (choice.delta.model_extra or {}).get("annotations", ()):
            print(f"\n  {note['url_citation']['title']}: {note['url_citation']['url']}", end="")
