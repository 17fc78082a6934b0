"""Models behind endpoints that speak OpenAI's chat completions."""
