"""Chat completions as OpenAI's clients speak them: over the agent, and over the models themselves."""
