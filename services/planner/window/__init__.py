"""The context window: what of an episode the model is shown."""
