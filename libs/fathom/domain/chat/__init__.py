"""Data exchanged between a policy and its callers: messages, tool calls, tags, weights. No transport."""
