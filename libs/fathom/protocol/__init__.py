"""What is said between a policy and those who drive it: messages, tool calls, tags, weights. No transport."""
