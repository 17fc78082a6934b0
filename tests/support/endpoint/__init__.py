"""Fake endpoint of OpenAI's chat completions on loopback, as strict as the real one of a model family, with a script.

::

    from tests.support.endpoint import Call, Reply, fake_endpoint

    script = [
        Reply(reasoning="Prices first.", calls=(Call("data", {"query": "Apple"}),)),
        Reply(text="Apple rose [1].", finish="length"),     # cut by the limit of new tokens
        Reply(status=429, headers={"Retry-After": "0.05"}),  # refuses once
        lambda body: Reply(text=str(len(body["messages"]))),  # depends on the request
        Reply(text="Done."),                                  # the last one is repeated for ever
    ]
    async with fake_endpoint("deepseek", script) as far:
        settings = {"models": {"far": far.settings()}, "default_model": "far"}  # of the policy service
        ...
        assert "reasoning_content" in far.requests[1].body["messages"][2]
        assert far.refusals == []  # what the family's rules refused

``FAMILIES`` names the families: which requests they refuse and with which words, how they write thoughts, tool calls
and usage. ``Reply`` also scripts what goes wrong: broken streams, silence, HTML, filtered and empty replies.
"""

from tests.support.endpoint.families import FAMILIES, Family
from tests.support.endpoint.replies import Call, Reply
from tests.support.endpoint.server import FakeEndpoint, fake_endpoint

__all__ = ["FAMILIES", "Call", "FakeEndpoint", "Family", "Reply", "fake_endpoint"]
